"""A proxy before a model's server that spoils replies on the wire: cut off, of a wrong length, slow, or reset."""

import asyncio
import re
import socket
import struct
import threading
from collections import deque
from typing import Literal, Self

Spoil = Literal["half", "long", "reset", "drip", "garbage"]
"""Half of a reply; one that is shorter than its length says; a reset; a reply in drops; bytes that are no HTTP."""
SPOILS: tuple[Spoil, ...] = ("half", "long", "reset", "drip", "garbage")
LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
DROPS = 8
"""Parts of a reply that comes in drops."""
RESETS = struct.pack("ii", 1, 0)
"""SO_LINGER, so that closing a socket resets its connection."""


class Proxy:
    """Passes requests on to a port; `spoils` are used up, one per reply."""

    def __init__(self, port: int) -> None:
        self.spoils: deque[Spoil] = deque()
        self.spoiled = 0
        self._to = port
        self._talks = set[asyncio.Task[None]]()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)
        self._stopped = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._socket.close()

    async def _serve(self) -> None:
        async with await asyncio.start_server(self._talk, sock=self._socket):
            while not self._stopped.is_set():  # noqa: ASYNC110 - another thread sets it
                await asyncio.sleep(0.05)
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks)
        await asyncio.sleep(0)  # in which their connections are closed

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.current_task()
        assert talk
        self._talks.add(talk)
        try:
            while await self._pass_on(await _read_message(reader), writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):  # one end was killed, or this one ends
            pass
        finally:
            writer.close()
            self._talks.discard(talk)

    async def _pass_on(self, request: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer a request; returns whether the connection goes on."""
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            to_writer.write(request)
            reply = await _read_message(to_reader)
        finally:
            to_writer.close()
        if not self.spoils:
            writer.write(reply)
            await writer.drain()
            return True
        spoil = self.spoils.popleft()
        self.spoiled += spoil != "drip"
        await _spoil(reply, spoil, writer)
        return spoil == "drip"


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    """A request or reply that says its length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = LENGTH.search(head)
    return head + await reader.readexactly(int(length[1]) if length else 0)


async def _spoil(reply: bytes, spoil: Spoil, writer: asyncio.StreamWriter) -> None:
    match spoil:
        case "half":
            writer.write(reply[: len(reply) // 2])
        case "long":
            writer.write(LENGTH.sub(b"content-length: 99999", reply, count=1))
        case "garbage":
            writer.write(b"\x00\xff no HTTP \r\n\r\n")
        case "reset":
            end: socket.socket = writer.get_extra_info("socket")
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
        case "drip":
            for start in range(0, len(reply), len(reply) // DROPS + 1):
                writer.write(reply[start : start + len(reply) // DROPS + 1])
                await writer.drain()
                await asyncio.sleep(0.02)
    await writer.drain()

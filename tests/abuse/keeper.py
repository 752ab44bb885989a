"""A process that keeps a secret and notes who reaches it; run with the secret, its mark and a folder as arguments.

The secret stands in its arguments, environment and memory, and it tells it to everybody who connects. For each line on
standard input it writes what it has noted since the last one, as a JSON list; at the end of standard input it ends.
"""

import ctypes
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

TRACER, ANYBODY = 0x59616D61, -1  # of prctl(2): everybody of this user may look into it


def tell(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def open_sockets(folder: str, mark: str) -> tuple[dict[str, Any], list[socket.socket]]:
    tcp, datagrams = socket.create_server(("127.0.0.1", 0)), socket.socket(type=socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    named, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    named.bind(f"{folder}/socket")
    abstract.bind(f"\0{mark}")
    os.chmod(f"{folder}/socket", 0o777)
    for one in (named, abstract):
        one.listen()
    for one in (found := [datagrams, tcp, named, abstract]):
        one.setblocking(False)
    places = {"port": tcp.getsockname()[1], "datagrams": datagrams.getsockname()[1]}
    return {**places, "process": os.getpid(), "abstract": mark, "socket": f"{folder}/socket"}, found


def greet(one: socket.socket, words: bytes) -> list[str]:
    """Answer all who wait at a socket; return a note for each."""
    noted: list[str] = []
    with suppress(BlockingIOError):
        while one.type == socket.SOCK_DGRAM and one.recv(999):
            noted.append("datagram")
        while True:
            other, _ = one.accept()
            noted.append("connection")
            with suppress(OSError), other:
                other.sendall(words)
    return noted


def main() -> None:
    secret, mark, folder = sys.argv[1:]
    memory = f"HTTP/1.0 200 OK\r\n\r\n{mark} {secret}".encode()
    noted: list[str] = []

    def note_signal(number: int, frame: FrameType | None) -> None:
        noted.append(f"signal {number}")

    for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCONT):
        signal.signal(number, note_signal)
    ctypes.CDLL(None).prctl(TRACER, ANYBODY)
    places, sockets = open_sockets(folder, mark)
    tell(places)
    while True:
        select.select([*sockets, sys.stdin], [], [])
        for one in sockets:
            noted += greet(one, memory)
        if select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                return
            tell(noted)
            noted.clear()


if __name__ == "__main__":
    main()

"""A canned provider in a process of its own: it answers every request with the same completion, and counts them.

    python server.py    prints its port, and ends with its input

Requests below `/slow` are answered after 100 ms. Only the standard library is used, and nothing is parsed.
"""

import asyncio
import contextlib
import json
import sys

TEXT = "The older tower is the first one, by forty years; the builders' accounts name both. " * 4
COMPLETION = {
    "id": "chatcmpl-bench",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o-mini",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": TEXT, "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 120,
        "completion_tokens": 80,
        "total_tokens": 200,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    },
    "service_tier": "default",
    "system_fingerprint": "fp_bench",
}
"""The fields that a hosted provider sends."""
DELAY = 0.1
"""Seconds of a slow answer."""


def main() -> None:
    """Serve until the input ends."""
    asyncio.run(_serve())


async def _serve() -> None:
    counted = [0]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b" /count " in head:
                    writer.write(_make_response(str(counted[0]).encode()))
                    continue
                await reader.readexactly(_find_length(head))
                counted[0] += 1
                if head.startswith(b"POST /slow"):
                    await asyncio.sleep(DELAY)
                writer.write(completion)

    completion = _make_response(json.dumps(COMPLETION).encode())
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


def _make_response(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def _find_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


if __name__ == "__main__":
    main()

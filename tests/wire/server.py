"""A local server that speaks OpenAI's chat completions, counts requests and fails on demand.

In tests it runs in a thread (`WireServer`); for tests that kill processes it runs on its own:
`python -m tests.wire.server --model offline --port-file PORT --log LOG`.
"""

import argparse
import asyncio
import json
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import uvicorn
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.utils import convert_to_messages
from langchain_openai.chat_models import _client_utils
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Body = dict[str, Any]
Answer = Callable[[Body], Awaitable[AIMessage]]
PIECE = 12
"""Characters per streamed chunk."""


@dataclass(frozen=True)
class Fault:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "injected fault"
    hang: float = 0.0
    silent: float = 0.0
    content: str | None = None
    finish: str = "stop"
    cut_body: bool = False
    body: bytes | None = None
    changes: dict[str, Any] = field(default_factory=dict)


def rate_limited(after: float) -> Fault:
    return Fault(status=429, headers={"Retry-After": str(after)}, message="slow down")


def broken() -> Fault:
    return Fault(status=500)


def refused(message: str = "Incorrect API key provided") -> Fault:
    return Fault(status=401, message=message)


def hanging(seconds: float) -> Fault:
    return Fault(hang=seconds)


def silent(seconds: float) -> Fault:
    """Headers, and nothing after them for some seconds."""
    return Fault(silent=seconds)


def saying(content: str, finish: str = "stop") -> Fault:
    """A reply of this text, such as "" or JSON that was cut off."""
    return Fault(content=content, finish=finish)


def cut_off() -> Fault:
    return Fault(cut_body=True)


def raw(body: bytes, status: int = 200, **headers: str) -> Fault:
    """A body that is sent byte by byte, with headers whose names have `_` for `-`."""
    return Fault(status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def lying(message: dict[str, Any] | None = None, **changes: Any) -> Fault:
    """A reply with other fields than an honest one: those of its message, and those beside it, such as `usage`."""
    return Fault(changes={"message": message or {}, **changes})


@dataclass(frozen=True)
class Asked:
    """A request as it came in, and when, by `time.monotonic`."""

    body: Body
    at: float
    authorization: str
    accepts: str = ""


def text(content: str) -> Answer:
    async def answer(_: Body) -> AIMessage:
        return AIMessage(content)

    return answer


def by_kind(say: Callable[[str, Body], Body | str]) -> Answer:
    """Answers by the kind of reply that a request asks for, which is "" for plain text."""

    async def answer(body: Body) -> AIMessage:
        said = say(asked_kind(body), body)
        return AIMessage(said if isinstance(said, str) else json.dumps(said))

    return answer


def asked_kind(body: Body) -> str:
    """The kind of reply that a request asks for; "" for plain text."""
    return str((body.get("response_format") or {}).get("json_schema", {}).get("name", ""))


def served(model: BaseChatModel) -> Answer:
    """Answers of a LangChain model that takes OpenAI's options, such as the offline model."""
    passed = ("tools", "tool_choice", "response_format", "seed", "temperature", "stop")

    async def answer(body: Body) -> AIMessage:
        options = {name: body[name] for name in passed if body.get(name) is not None}
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        if limit:
            options["max_tokens"] = limit
        return await model.ainvoke(convert_to_messages(body["messages"]), **options)

    return answer


class LocalServer:
    def __init__(self, routes: Sequence[Route], port: int = 0) -> None:
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            Starlette(routes=routes), log_level="critical", lifespan="off", ws="none", timeout_graceful_shutdown=0
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self._socket.close()


def forget_shared_clients() -> None:
    """Make LangChain forget the clients that it shares by address: a closed one must not meet a later server's port."""
    _client_utils._cached_sync_httpx_client.cache_clear()
    _client_utils._cached_async_httpx_client.cache_clear()


class WireServer(LocalServer):
    """The server; `faults` are used up one per request, `always` stays, `picky` chooses by request."""

    def __init__(self, answer: Answer, *, delay: float = 0.0, log: Path | None = None, port: int = 0) -> None:
        paths = ("/v1/chat/completions", "/openai/deployments/{model}/chat/completions")  # the second is Azure's
        super().__init__([Route(path, self._complete, methods=["POST"]) for path in paths], port)
        self.answer = answer
        self.delay = delay
        self.faults: deque[Fault] = deque()
        self.always: Fault | None = None
        self.picky: Callable[[Body], Fault | None] = lambda body: None
        self.asked: list[Asked] = []
        self.active = self.most_active = self.cancelled = self.replied = 0
        self._log = log

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        told = [request.headers.get(name, "") for name in ("authorization", "accept-encoding")]
        self.asked.append(Asked(body, time.monotonic(), *told))
        number = len(self.asked)
        self._write("asked", number)
        fault = self.picky(body) or (self.faults.popleft() if self.faults else self.always) or Fault()
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            await self._wait(request, fault.hang + self.delay)
            response = await self._respond(body, fault)
        finally:
            self.active -= 1
        self.replied += 1
        self._write("replied", number)
        return response

    async def _wait(self, request: Request, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if await request.is_disconnected():
                self.cancelled += 1
                return
            await asyncio.sleep(min(0.02, until - time.monotonic()) if until > time.monotonic() else 0)

    async def _respond(self, body: Body, fault: Fault) -> Response:
        if fault.silent:
            return StreamingResponse(_wait_silently(fault.silent), media_type="text/event-stream")
        if fault.body is not None:
            return Response(fault.body, fault.status, fault.headers, media_type="application/json")
        if fault.status != 200:
            told = {"error": {"message": fault.message, "type": "injected", "code": None}}
            return JSONResponse(told, fault.status, fault.headers)
        message = AIMessage(fault.content) if fault.content is not None else await self.answer(body)
        whole = _completion(body, message, fault.finish)
        if fault.changes:
            changed = {**whole, **fault.changes}
            whole["choices"][0]["message"] |= changed.pop("message")
            return Response(json.dumps(changed), media_type="application/json")
        if fault.cut_body:
            return Response(json.dumps(whole)[:60], media_type="application/json")
        if body.get("stream"):
            return StreamingResponse(_chunks(body, whole), media_type="text/event-stream")
        return JSONResponse(whole)

    def _write(self, event: str, number: int) -> None:
        if self._log:
            with self._log.open("a") as file:
                file.write(json.dumps({"event": event, "number": number, "at": time.time()}) + "\n")


def _completion(body: Body, message: AIMessage, finish: str) -> Body:
    calls = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
        }
        for call in message.tool_calls
    ]
    counted = message.usage_metadata
    sent = counted["input_tokens"] if counted else len(json.dumps(body["messages"])) // 4
    received = counted["output_tokens"] if counted else len(str(message.text)) // 4 + 1
    said: Body = {"role": "assistant", "content": str(message.text) or None}
    finish = message.response_metadata.get("finish_reason") or finish
    return {
        "id": "chatcmpl-local",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{
            "index": 0,
            "message": {**said, "tool_calls": calls} if calls else said,
            "finish_reason": "tool_calls" if calls else finish,
        }],
        "usage": {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received},
    }  # fmt: skip


async def _chunks(body: Body, whole: Body) -> AsyncIterator[str]:
    head = {**whole, "object": "chat.completion.chunk"}
    choice = whole["choices"][0]
    content = choice["message"]["content"] or ""
    deltas: list[Body] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": content[i : i + PIECE]} for i in range(0, len(content), PIECE)]
    deltas += [{"tool_calls": [{**call, "index": i}]} for i, call in enumerate(choice["message"].get("tool_calls", ()))]
    for delta in deltas:
        yield _event({**head, "usage": None, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield _event({**head, "usage": None, "choices": [last]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event({**head, "choices": []})
    yield "data: [DONE]\n\n"


async def _wait_silently(seconds: float) -> AsyncIterator[str]:
    await asyncio.sleep(seconds)
    yield ""


def _event(chunk: Body) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="offline", help="offline, or text:WORDS for a fixed reply")
    parser.add_argument("--port-file", type=Path, required=True, help="gets the port once it is open")
    parser.add_argument("--log", type=Path, help="gets a JSON line per request and per reply")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each reply")
    given = parser.parse_args()
    server = WireServer(_named(given.model), delay=given.delay, log=given.log)
    given.port_file.write_text(str(server.port))
    server.run()


def _named(name: str) -> Answer:
    if name.startswith("text:"):
        return text(name.removeprefix("text:"))
    from selfwire.models.providers import make_chat_model

    return served(make_chat_model(name))


if __name__ == "__main__":
    main()

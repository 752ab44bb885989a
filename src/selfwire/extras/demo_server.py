"""`python -m selfwire.extras.demo_server`: an OpenAI-compatible server on this machine, without a model behind it.

It knows some words of the messages to the desks of docs/first-hour.md; anything else is answered by the offline model.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import typer
from langchain_core.messages import AIMessage
from langchain_core.messages.utils import convert_to_messages

from selfwire.models.providers import make_chat_model

Body = Mapping[str, Any]

ASKED = "Which desk, billing, tech or sales?"
DESKS = {"billing": ("charged", "invoice", "refund", "card"), "tech": ("crash", "error", "empty", "white")}
"""Words by desk; the server knows none of the desk for sales."""
PASSED = ("tools", "tool_choice", "response_format", "seed", "temperature", "stop")
PATH = "/v1/chat/completions"


def answer(body: Body) -> AIMessage:
    """Answer a request: a known message by its desk, anything else as the offline model does."""
    asked = "\n".join(str(message["content"]) for message in body["messages"])
    _, known, message = asked.rpartition(ASKED)
    if known and not body.get("response_format"):
        for desk, words in DESKS.items():
            if any(word in message for word in words):
                return AIMessage(f"Answer: {desk}")
    options = {name: body[name] for name in PASSED if body.get(name) is not None}
    if most := body.get("max_completion_tokens") or body.get("max_tokens"):
        options["max_tokens"] = most
    found = make_chat_model("offline").invoke(convert_to_messages(body["messages"]), **options)
    assert isinstance(found, AIMessage)
    return found


def make_completion(body: Body, message: AIMessage) -> dict[str, Any]:
    """Write an answer as OpenAI's servers do."""
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
    said = {"role": "assistant", "content": str(message.text) or None, **({"tool_calls": calls} if calls else {})}
    return {
        "id": "chatcmpl-demo",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": sent + received},
    }


def stream(whole: dict[str, Any]) -> Iterator[str]:
    """Write a completion as the events of a stream."""
    choice, head = whole["choices"][0], {**whole, "object": "chat.completion.chunk", "usage": None}
    calls = [{**call, "index": index} for index, call in enumerate(choice["message"].get("tool_calls", ()))]
    delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
    for part, why in ((delta, None), ({}, choice["finish_reason"])):
        yield json.dumps({**head, "choices": [{"index": 0, "delta": part, "finish_reason": why}]})
    yield json.dumps({**head, "choices": [], "usage": whole["usage"]})
    yield "[DONE]"


class DemoHandler(BaseHTTPRequestHandler):
    """Answers chat completions."""

    def do_POST(self) -> None:
        """Answer a request."""
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path != PATH:
            self._send(404, "application/json", json.dumps({"error": {"message": f"only {PATH} is served"}}))
            return
        body = json.loads(sent)
        whole = make_completion(body, self.answer(body))
        if body.get("stream"):
            self._send(200, "text/event-stream", "".join(f"data: {event}\n\n" for event in stream(whole)))
        else:
            self._send(200, "application/json", json.dumps(whole))

    def answer(self, body: Body) -> AIMessage:
        """Answer what a request asks; a server of other replies overrides it."""
        return answer(body)

    def _send(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing for each request."""


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), DemoHandler)
    typer.echo(f"http://127.0.0.1:{server.server_port}/v1 answers until Ctrl-C; any model name and any key will do")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()

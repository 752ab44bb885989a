"""Exported files in this process, beside the teams that they were made of, over HTTP."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI

from selfwire.core.plugins import import_user_file
from selfwire.core.team import Team
from selfwire.models.sync import run_sync
from selfwire.store.library import open_library
from tests.commands import call
from tests.wire.server import Body, WireServer, asked_kind

Calls = Callable[[Body], list[tuple[str, dict[str, Any]]]]


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def keep(messages: list[Body]) -> list[list[Any]]:
    """The texts of a request, and the tool calls in it, which are what must be equal."""
    return [
        [one["role"], one.get("content") or "", [call["function"] for call in one.get("tool_calls") or ()]]
        for one in messages
    ]


def answering(calls: Calls = lambda body: [], **objects: Callable[[Body], Body]) -> Any:
    """Replies that depend on the request alone: a text of its digest, an object by its name, or tool calls once."""

    async def answer(body: Body) -> AIMessage:
        kind, print_of = asked_kind(body), digest(keep(body["messages"]))
        if kind:
            made = objects[kind](body) if kind in objects else {"instruction": f"Do {print_of}."}
            return AIMessage(json.dumps(made))
        if body.get("tools") and body["messages"][-1]["role"] != "tool" and (wanted := calls(body)):
            called = [{"name": name, "args": given, "id": f"c{n}"} for n, (name, given) in enumerate(wanted)]
            return AIMessage("", tool_calls=called)
        return AIMessage(f"Said {print_of}.")

    return answer


def take(server: WireServer, *, without: tuple[str, ...] = ()) -> list[Any]:
    """Take the requests since the last time, sorted, as parallel ones arrive in any order.

    Second requests for an object are left out.
    """
    asked = [keep(one.body["messages"]) for one in server.asked if asked_kind(one.body) not in without]
    server.asked.clear()
    kept = [messages for messages in asked if "Reply with one JSON object" not in messages[-1][1]]
    return sorted(kept, key=json.dumps)


def load(file: Path) -> ModuleType:
    return import_user_file(file)


def ask(file: Path, server: WireServer, question: str) -> str:
    """Put a question to the graph that a file builds."""
    model = ChatOpenAI(model="local", base_url=server.url, api_key="none", temperature=1.0)
    answer: str = load(file).build(model).invoke({"question": question})["answer"]
    return answer


def save(home: Path, team: Team, name: str = "mine") -> None:
    with open_library(home) as library:
        run_sync(library.save(name, team, run="r", step=0))


def export(home: Path, file: Path, *more: str) -> Path:
    told = call(home, "export", "mine", str(file), *more).output
    assert f"python {file}" in told
    return file


def run(home: Path, server: WireServer, question: str, *more: str) -> str:
    """Put a question to the saved team by the command line."""
    asked = ("run", "mine", question, "--model", "openai:local", "--base-url", server.url, "--embedder", "hashing")
    answer: str = json.loads(call(home, *asked, "--json", *more).stdout)["answer"]
    return answer

"""Processes that answer one question through a compatible server and its checkpoints, and are killed on the way."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.runtime.models import make_chat_model
from selfwire.runtime.sync import run_sync
from tests.forks import Process, start_module
from tests.kills import ended
from tests.wire.server import Fault, WireServer, hanging, served

THREAD: Any = {"configurable": {"thread_id": "1"}}


def speaks(body: dict[str, Any], *beginnings: str) -> bool:
    """Whether a request's system message begins so."""
    return str(body["messages"][0]["content"]).startswith(beginnings)


def answered(graph: Any, file: str) -> Any:
    """The final state of a graph that goes on where the file of checkpoints ends; for the process that is killed."""
    saver = sqlite_saver(Path(file))
    compiled = graph.compile(checkpointer=saver)

    async def run() -> Any:
        begun = (await compiled.aget_state(THREAD)).next
        return await compiled.ainvoke(None if begun else {"question": "What am I?"}, THREAD, durability="sync")

    result = run_sync(run())
    saver.conn.close()
    return result


def local(url: str) -> Any:
    """The model behind a test's server."""
    return make_chat_model("openai:local", base_url=url, api_key="none")


class Hanging:
    """Lets an agent wait in its n-th turn until the process is killed."""

    def __init__(self, beginning: str, turn: int) -> None:
        self.beginning, self.left = beginning, turn
        self.hung = False

    def __call__(self, body: dict[str, Any]) -> Fault | None:
        if self.hung or not speaks(body, self.beginning):
            return None
        self.left -= 1
        self.hung = self.left == 0
        return hanging(60) if self.hung else None


class Killed(NamedTuple):
    """What two runs printed, one left alone and one killed and resumed, and what they asked."""

    whole: str
    resumed: str
    requests: int
    asked: int


def killed(module: str, beginning: str, turn: int, folder: Path) -> Killed:
    """Kill -9 a process while an agent answers, and let another go on.

    Args:
        module: run as `python -m module URL FILE`.
        beginning: of the agent's system message.
        turn: in which of its turns, from 1.
        folder: for checkpoints.
    """

    def started(server: WireServer, name: str, *, fresh: bool = False) -> Process:
        return start_module(module, server.url, folder / name, fresh=fresh)

    with WireServer(served(make_chat_model("offline"))) as server:
        whole, _ = ended(started(server, "whole.sqlite"))
        requests = len(server.asked)
        hangs = Hanging(beginning, turn)
        server.picky = hangs
        process = started(server, "killed.sqlite")
        while not hangs.hung:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.kill()
        process.communicate()
        resumed, _ = ended(started(server, "killed.sqlite", fresh=True))
        return Killed(whole, resumed, requests, len(server.asked) - requests)

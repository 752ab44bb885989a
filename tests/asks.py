"""A process that answers one question and can be killed: `python -m tests.asks METHOD URL FILE`.

It goes on where the file of checkpoints ends.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.extras.contestants.aflow.method import Aflow
from selfwire.extras.contestants.gepa.method import Gepa
from selfwire.graphs import dytopo, evomas, hera, hiva, tacomas
from selfwire.graphs.build import make_build
from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.models.providers import make_chat_model
from selfwire.models.sync import run_sync
from selfwire.tools.calculator import CalculatorTool
from tests.processes import kill_when, start
from tests.request_parts import read_instructions
from tests.wire.server import Fault, WireServer, hanging

THREAD: Any = {"configurable": {"thread_id": "1"}}
PLAN = EvomasConfig(adapter="fixed", plan=(("io", "multi_generate"), ("web_search",), ("ensemble",)), stages=3)
GRAPHS: dict[str, Callable[[Any], Any]] = {
    "hiva": lambda model: hiva.build(model, embedder="hashing"),
    "hera": lambda model: hera.build(model, embedder="hashing"),
    "tacomas": lambda model: tacomas.build(model, config=TacomasConfig(rounds=4)),
    "dytopo": lambda model: dytopo.build(model, initial="math", embedder="hashing"),
    "evomas": lambda model: evomas.build(model, config=PLAN, tools=[CalculatorTool()], embedder="hashing"),
    "gepa": make_build(Gepa),
    "aflow": make_build(Aflow),
}


def local(url: str) -> Any:
    """The model behind a test's server."""
    return make_chat_model("openai:local", base_url=url, api_key="none")


def speaks(body: dict[str, Any], *beginnings: str) -> bool:
    """Whether a request's instructions begin so."""
    system, user, *_ = (str(message["content"]) for message in body["messages"])
    return read_instructions(system, user).startswith(beginnings)


def answer(method: str, url: str, file: str | Path) -> str:
    """Ask, or go on; returns the answer and what it took."""
    saver = sqlite_saver(Path(file))
    graph = GRAPHS[method](local(url)).compile(checkpointer=saver)

    async def run() -> Any:
        begun = (await graph.aget_state(THREAD)).values
        return await graph.ainvoke(None if begun else {"question": "What am I?"}, THREAD, durability="sync")

    result = run_sync(run())
    saver.conn.close()
    rounds = result.get("rounds") or result.get("stages") or ()
    return json.dumps([result["answer"], len(rounds), result["usage"]["calls"]])


def main() -> None:
    sys.stdout.write(answer(*sys.argv[1:]))


class Hanging:
    """Lets an agent wait in its n-th turn until its process is killed.

    Args:
        beginning: of the agent's instructions.
        turn: in which of its turns, from 1.
    """

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
    """What two runs told, one left alone and one killed and resumed, and the requests of both."""

    whole: str
    resumed: str
    requests: int
    asked: int


def killed(method: str, hangs: Hanging, folder: Path, server: WireServer) -> Killed:
    """Kill -9 a process while an agent waits for its answer, and go on in another one, where sets have another order.

    Args:
        method: that answers.
        hangs: which agent waits.
        folder: for checkpoints.
        server: that the agents ask.
    """

    whole = answer(method, server.url, folder / "whole.sqlite")
    requests = len(server.asked)
    server.picky = hangs
    file = folder / "killed.sqlite"
    kill_when(start("tests.asks:main", method, server.url, str(file)), lambda: hangs.hung)
    resumed = answer(method, server.url, file)
    return Killed(whole, resumed, requests, len(server.asked) - requests)


if __name__ == "__main__":
    main()

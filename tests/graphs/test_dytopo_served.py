"""DyTopo through the real client against a local provider: failing workers, kill -9, many workers at once."""

import asyncio
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from selfwire.core.agent import Agent
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.initial_team import make_team
from selfwire.graphs import dytopo
from selfwire.graphs.dytopo import Report
from selfwire.models.providers import make_chat_model
from tests.asks import answer
from tests.graphs.rounds import MATH, SpokenChat, said_by
from tests.graphs.scripted import FORMS
from tests.processes import kill_when, start
from tests.wire.server import Body, Fault, WireServer

WHO = SpokenChat().who


def speaker(body: Body) -> str:
    asked = "\n".join(message["content"] for message in body["messages"])
    return next(name for beginning, name in WHO.items() if beginning in asked)


class Provider:
    """Speaks by script; a member's round is how often it was answered before. `stuck` never gets its answer."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        self.stuck: tuple[str, int] | None = None

    async def __call__(self, body: Body) -> AIMessage:
        name = speaker(body)
        while self.stuck == (name, self.answered[name]):  # noqa: ASYNC110 - another thread frees it
            await asyncio.sleep(0.01)
        line = said_by(MATH, name, self.answered[name])
        self.answered[name] += 1
        return AIMessage(json.dumps(line))


def asked(server: WireServer) -> Counter[str]:
    return Counter(speaker(request.body) for request in server.asked)


def served(server: WireServer, **options: Any) -> Any:
    model = make_chat_model("openai:local", base_url=server.url, api_key="none")
    return dytopo.build(model, embedder="hashing", **options)


def test_a_provider_is_asked_for_strict_objects(wire_server: WireServer) -> None:
    wire_server.answer = Provider()
    result = served(wire_server, initial="math").compile().invoke({"question": "What is 3 + 4?"})
    assert result["answer"] == "7"
    assert asked(wire_server) == {"ProblemParser": 3, "Solver": 3, "Verifier": 3, "Manager": 3}
    forms = [request.body["response_format"]["json_schema"] for request in wire_server.asked]
    assert all(form["strict"] for form in forms)
    speakers = [speaker(request.body) for request in wire_server.asked]
    solver = next(form["schema"] for form, name in zip(forms, speakers, strict=True) if name == "Solver")
    assert sorted(solver["required"]) == ["answer", "key", "private", "public", "query"]


def test_a_worker_that_keeps_failing_is_left_out_and_named(wire_server: WireServer) -> None:
    wire_server.answer = Provider()
    wire_server.picky = lambda body: Fault(status=400) if speaker(body) == "ProblemParser" else None
    result = served(wire_server, initial="math").compile().invoke({"question": "What is 3 + 4?"})
    report = Report.of(result)
    assert report.answer == "7"
    assert all([*done.failed] == ["ProblemParser"] for done in report.rounds)
    assert "ProblemParser failed, and the round went on without it" in report.text
    assert "injected fault" in report.rounds[0].failed["ProblemParser"]


def kept(path: Path) -> int:
    if not path.exists():
        return 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        if not database.execute("SELECT name FROM sqlite_master WHERE name = 'writes'").fetchall():
            return 0
        return int(database.execute("SELECT count(*) FROM writes WHERE channel = '_said'").fetchone()[0])


@pytest.mark.slow
def test_killed_in_round_three_it_goes_on_and_asks_nobody_twice_who_was_done(
    tmp_path: Path, wire_server: WireServer
) -> None:
    wire_server.answer = provider = Provider()
    provider.stuck = ("Verifier", 2)
    path = tmp_path / "threads.sqlite"
    inputs = 3  # the input of each round's graph is a write of that channel too
    kill_when(
        start("tests.asks:main", "dytopo", wire_server.url, str(path)),
        lambda: kept(path) >= 8 + inputs and asked(wire_server)["Verifier"] >= 3,
    )
    provider.stuck = None
    assert json.loads(answer("dytopo", wire_server.url, path))[:2] == ["7", 3]
    assert asked(wire_server) == {"ProblemParser": 3, "Solver": 3, "Verifier": 4, "Manager": 3}


class Meeting:
    """Answers nobody before everybody has asked."""

    def __init__(self, size: int) -> None:
        self.size, self.here = size, 0
        self.everybody = asyncio.Event()

    async def __call__(self, body: Body) -> AIMessage:
        self.here += 1
        if self.here == self.size:
            self.everybody.set()
        await self.everybody.wait()
        return AIMessage(json.dumps({"public": "here", "query": "", "key": "", "private": "", "answer": "here"}))


@FORMS
async def test_workers_of_a_round_ask_at_the_same_moment(form: str, wire_server: WireServer) -> None:
    wire_server.answer = Meeting(24)
    agents = [Agent(id=f"w{at}", prompt="You work.") for at in range(24)]
    crowd = make_team(agents, Domain(name="own", answerers=tuple(agent.id for agent in agents)), manager="Lead.")
    machine = served(wire_server, initial=crowd, config=DytopoConfig(rounds=1, manager=False)).compile()
    given = {"question": "Who is here?"}
    result = await asyncio.to_thread(machine.invoke, given) if form == "sync" else await machine.ainvoke(given)
    assert result["answer"] == "here"
    assert wire_server.most_active == 24

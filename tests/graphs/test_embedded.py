"""A team inside a method's graph: drawn, streamed, resumed."""

import asyncio
from collections.abc import Sequence
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from selfwire.core.agent import Agent
from selfwire.core.errors import BudgetError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Message, Step
from selfwire.graphs.machine import DETACHED
from selfwire.graphs.team import CompiledTeam, TeamContext, compile_team, make_team_node, run_team
from tests.graphs.teams import Echo, team_run, topology

DIAMOND = topology("s>a s>b a>z b>z")
CHAIN = topology("s>a a>z")


class Outer(TypedDict):
    answer: str


def method(drawn: Topology, run: TeamContext, wanted: Topology | None = None, **settings: Any) -> Any:
    team = compile_team(drawn)

    async def forward(state: Outer, held: CompiledTeam) -> Outer:
        assert held is team
        return {"answer": (await run_team(wanted or drawn, run)).answer or ""}

    graph = StateGraph(Outer)
    graph.add_node("forward", make_team_node(team, forward))
    graph.add_edge(START, "forward")
    return graph.compile(**settings)


def inner(chunks: Sequence[tuple[Any, dict[str, Any]]]) -> list[str]:
    return sorted(node for path, update in chunks if path for node in update)


def test_the_team_is_drawn_inside_its_node() -> None:
    drawn = method(DIAMOND, team_run(DIAMOND)).get_graph(xray=True)
    assert {"forward:s", "forward:a", "forward:b", "forward:z"} <= set(drawn.nodes)
    assert ("forward:s", "forward:a") in {(edge.source, edge.target) for edge in drawn.edges}


async def test_inner_steps_are_streamed_in_both_forms() -> None:
    outer, streamed = method(DIAMOND, team_run(DIAMOND)), {"subgraphs": True, "stream_mode": "updates"}
    for chunks in (
        list(outer.stream({"answer": ""}, **streamed)),
        [chunk async for chunk in outer.astream({"answer": ""}, **streamed)],
    ):
        assert inner(chunks) == ["a", "b", "s", "z"]
        assert chunks[-1] == ((), {"forward": {"answer": "z(a(s()) b(s()))"}})


def test_a_team_that_changed_since_it_was_drawn_runs_as_it_is_now() -> None:
    outer = method(DIAMOND, team_run(DIAMOND), wanted=CHAIN)
    chunks = list(outer.stream({"answer": ""}, subgraphs=True, stream_mode="updates"))
    assert inner(chunks) == ["a", "s", "z"]


def test_a_wide_level_runs_at_once_in_the_sync_form() -> None:
    names = [f"w{i}" for i in range(24)]
    wide = topology(" ".join(f"s>{name} {name}>z" for name in names))
    act = Echo(meeting=names)
    method(wide, team_run(wide, act)).invoke({"answer": ""})
    assert act.peak == 24


class Broke(Echo):
    async def __call__(self, agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        if agent.id == "z" and "broke" not in self.order:
            self.order.append("broke")
            raise BudgetError("budget exhausted")
        return await super().__call__(agent, question, inbox, scope=scope)


@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
async def test_a_stopped_team_resumes_without_acting_twice(form: str) -> None:
    act = Broke()
    outer = method(DIAMOND, team_run(DIAMOND, act), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}

    async def go(start: Outer | None) -> Any:
        return outer.invoke(start, config) if form == "invoke" else await outer.ainvoke(start, config)

    with pytest.raises(BudgetError):
        await go({"answer": ""})
    assert (await go(None))["answer"] == "z(a(s()) b(s()))"
    assert act.order == ["s", "a", "b", "broke", "z"]


class Asked(TypedDict):
    answers: list[str]


async def test_a_detached_team_leaves_no_checkpoints_in_the_graph_around_it() -> None:
    pair = topology("s>a", entry="s", sink="a")

    async def node(state: Asked) -> Asked:
        runs = [run_team(pair, team_run(pair), config=DETACHED) for _ in range(3)]
        return {"answers": [done.answer or "" for done in await asyncio.gather(*runs)]}

    saver = InMemorySaver()
    outer = StateGraph(Asked).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
    await outer.ainvoke({"answers": []}, {"configurable": {"thread_id": "t"}}, durability="sync")
    assert {found.config["configurable"]["checkpoint_ns"] for found in saver.list(None)} == {""}

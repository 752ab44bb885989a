"""The graph of a team is run only where somebody watches, and nothing else may differ."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, TypedDict

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.graph import START, StateGraph

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.protocols import RouterInput
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Routing, Step
from selfwire.graphs.team import get_pending_messages, run_team
from selfwire.runtime.tracing import InheritedConfig
from tests.graphs.teams import Echo, team_run, topology

LONE = topology("", entry="s", sink="s")
MAIL = (Message(source="s", target="s", text="from the round before"),)


class Heard(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.names: list[str] = []

    async def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self.names.append(kwargs["name"])


class Places(Echo):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[RunnableConfig] = []

    async def __call__(self, agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        self.found.append(ensure_config())
        return await super().__call__(agent, question, inbox, scope=scope)


@pytest.mark.parametrize("failing", [(), ("s",)])
async def test_who_watches_changes_nothing_but_what_is_heard(failing: tuple[str, ...]) -> None:
    heard, act = Heard(), Echo(failing=failing)
    alone = await run_team(LONE, team_run(LONE, act), carried=MAIL)
    watched = await run_team(LONE, team_run(LONE, act), carried=MAIL, config={"callbacks": [heard]})
    assert alone == watched
    assert alone.steps[0].inbox == MAIL
    assert get_pending_messages(LONE, alone, MAIL) == get_pending_messages(LONE, watched, MAIL)
    assert heard.names == ["team", "s"]


async def test_what_an_agent_says_of_its_place_and_its_mail_is_the_teams_to_say() -> None:
    async def act(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        return Step(node="of", agent="another", visit=7, inbox=MAIL, sent=MAIL, output="said")

    alone = await run_team(LONE, team_run(LONE, act))
    watched = await run_team(LONE, team_run(LONE, act), config={"callbacks": [Heard()]})
    assert alone.steps == watched.steps == (Step(node="s", agent="s", output="said"),)


async def test_a_model_is_called_with_the_same_place_either_way() -> None:
    quiet, loud = Places(), Places()
    with InheritedConfig({"tags": ["outside"], "metadata": {"around": 1}}):
        await run_team(LONE, team_run(LONE, quiet))
        await run_team(LONE, team_run(LONE, loud), config={"callbacks": [Heard()]})
    assert sorted(quiet.found[0]["tags"]) == sorted(loud.found[0]["tags"])
    assert {"outside", "agent:s"} <= set(quiet.found[0]["tags"])
    langgraphs = {name for name in loud.found[0]["metadata"] if name.startswith(("langgraph_", "checkpoint_", "lc_"))}
    wanted = {name: said for name, said in loud.found[0]["metadata"].items() if name not in langgraphs}
    assert quiet.found[0]["metadata"] == wanted
    assert wanted["selfwire_agent"] == "s"


class State(TypedDict):
    answer: str


async def test_inside_a_graph_its_steps_are_streamed() -> None:
    async def node(state: State) -> State:
        return {"answer": (await run_team(LONE, team_run(LONE))).answer or ""}

    graph = StateGraph(State)
    graph.add_node("inner", node)
    graph.add_edge(START, "inner")
    outer = graph.compile()
    chunks = [chunk async for chunk in outer.astream({"answer": ""}, subgraphs=True, stream_mode="updates")]
    assert [list(update) for place, update in chunks if place] == [["s"]]


def _choose_some(node: str, successors: Sequence[str], known: RouterInput) -> Routing:
    """Chooses by what it is given, so that a difference in that shows."""
    chance = random.Random(f"{node} {known.output} {known.selected} {sorted(known.outputs.items())}")
    return Routing(chosen=tuple(one for one in successors if chance.random() < 0.7) or (successors[0],))


@pytest.mark.parametrize("seed", range(40))
async def test_levels_give_the_trajectory_of_the_graph(seed: int) -> None:
    chance = random.Random(seed)
    names = ["s", *(f"n{number}" for number in range(chance.randrange(1, 7))), "z"]
    pairs = [(one, other) for one in names[:-1] for other in names[1:] if one != other]
    if seed % 2:  # without cycles, so that the sink is deferred
        pairs = [(one, other) for one, other in pairs if names.index(one) < names.index(other)]
    edges = {("s", names[1]), (names[1], "z"), *chance.sample(pairs, min(len(pairs), len(names) + 3))}
    team = topology(" ".join(f"{one}>{other}" for one, other in sorted(edges)))
    failing = chance.sample(names, seed % 3)
    mail = (Message(source="z", target=chance.choice(names), text="late"),)
    alone = await run_team(team, team_run(team, Echo(failing=failing), _choose_some), carried=mail)
    given: RunnableConfig = {"callbacks": [Heard()]}
    watched = await run_team(team, team_run(team, Echo(failing=failing), _choose_some), carried=mail, config=given)
    assert alone == watched
    assert get_pending_messages(team, alone, mail) == get_pending_messages(team, watched, mail)


@pytest.mark.parametrize("given", [None, {"callbacks": [Heard()]}])
async def test_a_turn_that_fails_for_good_ends_the_others_of_its_level(given: RunnableConfig | None) -> None:
    team, ended = topology("s>a s>b a>z b>z"), []

    async def act(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        if agent.id == "a":
            await asyncio.sleep(0)
            raise ConfigError("no such tool")
        if agent.id == "b":
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(agent.id)
        return Step(node=scope.node, agent=agent.id, output="said")

    with pytest.raises(ConfigError, match="no such tool"):
        await run_team(team, team_run(team, act), config=given)
    assert ended == ["b"]


async def test_a_limit_of_nodes_at_once_holds_without_a_watcher() -> None:
    team, act = topology("s>a s>b s>c a>z b>z c>z"), Echo({"a": 0.01, "b": 0.01, "c": 0.01})
    await run_team(team, team_run(team, act), config={"max_concurrency": 1})
    assert act.peak == 1

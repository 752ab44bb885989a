"""What is frozen of a graph of the user's own never changes, whatever is proposed; what is not frozen still does."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph

from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import find_dead_nodes
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.hiva.schemas import ProgramEdit
from selfwire.graphs.insertions import (
    BESIDE,
    INSERTED,
    TAKEN_OUT,
    Insertion,
    find_removals,
    find_specialists,
    list_insertions,
    list_removals,
    list_specialists,
)
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import EvolveResult
from selfwire.graphs.own_graph import AGENT, OwnGraph, _set_value, _take_out, find_changed
from selfwire.graphs.pruning import list_parts, remove_agent
from tests.evolvers.test_frozen import refuse_change
from tests.graphs.test_evolution import context, evolved
from tests.samples import sample

APP = '''
from dataclasses import dataclass
from typing import Literal, TypedDict

from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime


class Model(FakeListChatModel):
    def bind_tools(self, tools, **given):
        return self.bind(tools=[{"type": "function", "function": {"name": one.name, "description": one.description}}
                                for one in tools])


model = Model(responses=["The desk is tech."])


@dataclass
class Manner:
    tone: Literal["kind", "short"] = "kind"


class Desk(TypedDict):
    question: str
    wish: str
    draft: str
    answer: str


@tool
def find_order(number: str) -> str:
    """Finds an order by its number."""
    return number


def read(state: Desk) -> dict:
    return {"wish": model.bind_tools([find_order]).invoke(f"Say what this customer wants: {state['question']}").text}


def polish(state: Desk) -> dict:
    return {"wish": model.invoke(f"Shorten what the customer wants: {state['wish']}").text}


def decide(state: Desk, runtime: Runtime[Manner]) -> dict:
    tone = runtime.context.tone if runtime.context else "kind"
    return {"draft": model.invoke(f"You sort messages of a shop in a {tone} tone. {state['wish']}").text}


def check(state: Desk) -> dict:
    return {"answer": model.invoke(f"Mend the spelling of this answer: {state['draft']}").text}


builder = StateGraph(Desk, context_schema=Manner)
for node in (read, polish, decide, check):
    builder.add_node(node)
builder.add_edge(START, "read")
builder.add_edge("read", "polish")
builder.add_edge("polish", "decide")
builder.add_edge("decide", "check")
builder.add_edge("check", END)
graph = builder.compile()
'''
WORDS = ("Be brief.", "Name one desk.", "Write no greeting.", "Say why.")
PARTS = ("edges", "prompts", "tools", "models")


class Rogue(OwnGraph):
    """A graph of the user's own for which all kinds of changes are proposed at random, frozen or not."""

    rng = random.Random(0)
    done: Trajectory

    async def answer(self, team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
        return self.done.replace(question=question, workflow=team.fingerprint, answer="right")

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
        free: Any = replace(ctx, frozen=())
        places, settings = self._find_places(team, runs), self._list_settings(team, free)
        removals, _ = self._find_removals(team, runs, free)
        beside, _ = find_specialists(self.graph, self._make_unrouted(team), runs, places.values())
        texts = [name for name, text in self.texts.items() if not text.setting and name in team.agents_by_id]
        rewirings: list[Rewiring] = [
            Rewiring(RewritePrompt(name, f"{self.rng.choice(WORDS)} {self.texts[name].shown}"), why="w", by=name)
            for name in self.rng.sample(texts, self.rng.randint(0, min(2, len(texts))))
        ]
        memory = dict[str, Any]()
        kind = self.rng.choice(["set", "insert", "beside", "take out"])
        chosen = ProgramEdit(name=f"agent {self.rng.randrange(9)}", description=self.rng.choice(WORDS), merge="Join.")
        if kind == "set" and settings:
            text, now = self.rng.choice([*settings.values()])
            value = "short" if now == "kind" else "kind"
            rewirings.append(_set_value(text, chosen.model_copy(update={"value": value})))
        elif kind == "take out" and removals:
            removal = self.rng.choice([*removals.values()])
            rewirings = [made for made in rewirings if made.by not in removal.agents]
            rewirings.append(_take_out(team, removal, "w"))
            memory[TAKEN_OUT] = [*list_removals(team), *([removal] if removal.after else [])]
        elif kind == "beside" and beside:
            name = self.rng.choice([*beside])
            place = places[name.removeprefix("beside ")]
            made, merge, specialist = self._insert_beside(team, chosen, place, beside[name])
            rewirings.append(made)
            memory[INSERTED] = [*list_insertions(team), merge]
            memory[BESIDE] = [*list_specialists(team), specialist]
        elif kind == "insert" and places:
            made, inserted = self._insert(team, chosen, places[self.rng.choice([*places])])
            rewirings.append(made)
            memory[INSERTED] = [*list_insertions(team), inserted]
        plain = {name: [edit.model_dump(mode="json") for edit in edits] for name, edits in memory.items()}
        return EvolveResult.of(team, rewirings, memory=plain)

    def list_edges(self, team: Team) -> set[tuple[str, str]]:
        variant = self._make_variant(team)
        assert isinstance(variant, CompiledStateGraph)
        return {*variant.builder.edges}


def test_an_agent_before_all_prompts_is_drawn_first_until_it_is_taken_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("begun_app.py").write_text(APP, encoding="utf-8")
    method = OwnGraph("begun_app.py:graph", {})
    team, place = method.seed(), Insertion(agent="new", after=START, before=("read",), field="question")
    rewiring, inserted = method._insert(team, ProgramEdit(name="asker", description="You ask."), place)
    grown = team.apply(rewiring).with_memory(**{INSERTED: [inserted.model_dump(mode="json")]})
    assert [*list_parts(grown)] == [inserted.agent]  # so that a pruning may take it out
    for known in (team, grown):
        assert (
            "the first of the program"
            in find_removals(method.graph, None, method._list_own_texts(known), known)[1]["polish"]
        )
    assert (inserted.agent, team.topology.entry) == (grown.topology.entry, *grown.topology.successors[inserted.agent])
    assert find_dead_nodes(grown.topology) == find_dead_nodes(team.topology)
    assert grown.apply(remove_agent(grown, inserted.agent)).topology == team.topology


@pytest.mark.sweep
@pytest.mark.parametrize("gate", ["off", "mean"])
@pytest.mark.parametrize("chunk", sample(range(6)))
async def test_no_version_of_an_adopted_graph_differs_in_what_is_frozen(
    chunk: int, gate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("frozen_app.py").write_text(APP, encoding="utf-8")  # noqa: ASYNC240
    method, outcomes = Rogue("frozen_app.py:graph", {}), Counter[str]()
    method.rng = random.Random(f"{chunk}{gate}")
    seed = method.seed()
    made = context(method, gate=gate)  # type: ignore[arg-type]
    method.done = await OwnGraph.answer(method, seed, Question(id="1", input="Where is my order?"), made.ctx)
    assert method.done.error is None, method.done.error
    agents = [f"agent:{agent.id}" for agent in seed.agents if agent.id != AGENT]
    for number in range(5):
        frozen = tuple(method.rng.sample([*PARTS, *agents], method.rng.randint(1, 3)))
        made = context(method, gate=gate, iterations=8, freeze=frozen)  # type: ignore[arg-type]
        await evolved(replace(made, seed_team=seed, run=f"r{number}"))
        for version in (await made.library.history("w")).versions:
            team = await made.library.load(version.ref)
            refuse_change(seed, team, frozen)
            changed, kept = find_changed(team, method.texts), {agent.id for agent in team.agents}
            assert not {f"agent:{name}" for name in changed} & {*frozen}
            assert {part[6:] for part in frozen if part.startswith("agent:")} <= kept
            if "edges" in frozen:
                assert method.list_edges(team) == method.list_edges(seed)
            if "prompts" in frozen:
                assert not changed
            outcomes["changed"] += bool(changed)
            outcomes["rewired"] += method.list_edges(team) != method.list_edges(seed)
    assert outcomes["changed"] > 2, outcomes  # or nothing at all would pass the checks above
    assert outcomes["rewired"] > 2, outcomes

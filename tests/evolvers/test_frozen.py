"""What is frozen never changes, whatever is proposed; what is not frozen still does."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from selfwire.core.agent import Agent
from selfwire.core.edits import (
    AddAgent,
    AddEdge,
    AddNode,
    AddTool,
    Edit,
    Grant,
    RemoveAgent,
    RemoveEdge,
    RemoveNode,
    RemoveTool,
    Revoke,
    Rewiring,
    RewritePrompt,
)
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import method_names
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.frozen import check_frozen, describe_frozen, drop_frozen
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import EvolveResult, Method, find_method
from tests.core.generators import make_tool, random_rewiring, seed_team
from tests.graphs.test_evolution import Scripted, context, evolved
from tests.samples import sample

PARTS = ("edges", "prompts", "tools", "models", "agent:a", "agent:z", "agent:b")
CHUNKS, BATCHES = 8, 200


def grown(rng: random.Random) -> Team:
    """A team with some random edits that may run."""
    while True:
        team, _ = seed_team().apply_legal(random_rewiring(rng, seed_team()) for _ in range(4))
        for _ in range(8):
            team, _ = team.apply_legal([random_rewiring(rng, team)])
        if not team.topology.problems():
            return team


def look_at(team: Team, part: str, names: set[str]) -> Any:
    """A part, written down anew; of prompts, tools and models those of agents with these names."""
    plain = team.model_dump(mode="json")
    agents = {agent.pop("id"): agent for agent in plain["agents"]}
    nodes = [(node["id"], node["agent"]) for node in plain["topology"]["nodes"]]
    if part.startswith("agent:"):
        return agents.get(part[6:]), [node for node in nodes if node[1] == part[6:]]
    if part == "edges":
        return [plain["topology"][name] for name in ("edges", "entry", "sink")]
    if part == "prompts":
        return {name: [agents[name][field] for field in ("prompt", "role", "memory")] for name in names}
    if part == "models":
        return {name: agents[name].get("model", "") for name in names}
    return {name: agents[name]["tools"] for name in names}, plain["tools"]


def refuse_change(before: Team, after: Team, frozen: Sequence[str]) -> None:
    both = {*before.agents_by_id} & {*after.agents_by_id}
    for part in frozen:
        assert look_at(before, part, both) == look_at(after, part, both), part


@pytest.mark.sweep
@pytest.mark.parametrize("chunk", sample(range(CHUNKS)))
def test_no_frozen_part_changes_in_thousands_of_random_edits(chunk: int) -> None:
    rng, outcomes = random.Random(chunk), Counter[str]()
    teams = [grown(rng) for _ in range(10)]
    for number in range(BATCHES):
        team = teams[number % len(teams)]
        frozen = rng.sample(PARTS, rng.randint(1, 3))
        proposed = [random_rewiring(rng, team) for _ in range(rng.randint(1, 5))]
        kept, refused = drop_frozen(team, proposed, frozen, team)
        after, illegal = team.apply_legal(kept)
        assert not illegal
        refuse_change(team, after, frozen)
        assert set(after.topology.problems()) <= set(team.topology.problems())
        edits = Counter(str(edit) for rewiring in proposed for edit in rewiring.edits)
        taken = Counter(str(e) for rewiring in (*kept, *(r.rewiring for r in refused)) for e in rewiring.edits)
        assert edits == taken  # each edit is kept or refused, once
        assert all(refusal.reason for refusal in refused)
        free, _ = team.apply_legal(proposed)
        outcomes["proposals"] += len(proposed)
        outcomes["kept"] += len(kept)
        outcomes["would have changed it"] += any(
            look_at(team, part, {*team.agents_by_id} & {*free.agents_by_id})
            != look_at(free, part, {*team.agents_by_id} & {*free.agents_by_id})
            for part in frozen
        )
    assert outcomes["proposals"] > 2 * BATCHES
    assert outcomes["kept"] > BATCHES / 4, outcomes  # or nothing at all would pass the check above
    assert outcomes["would have changed it"] > BATCHES / 5, outcomes


class Rogue(Method[Any]):
    """Base class of methods that propose random edits; it stands before the method among the bases."""

    rng = random.Random(0)

    async def answer(self, team: Team, question: Any, ctx: Ctx[Any]) -> Trajectory:
        return Trajectory(question=question, workflow=team.fingerprint, answer="right")

    async def explore(self, team: Team, question: Any, ctx: Ctx[Any]) -> Sequence[Trajectory]:
        return [await self.answer(team, question, ctx)]

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
        found = EvolveResult.of(team, [random_rewiring(self.rng, team) for _ in range(6)])
        if self.rng.random() < 0.2:  # a team that its rewirings do not explain
            other = found.workflow.agents_by_id
            agents = [agent.replace(prompt="Obey.", tools=(), model="dear") for agent in other.values()]
            return found.replace(workflow=found.workflow.replace(agents=agents))
        return found

    async def fit(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> Team:
        return team

    def keep_memory(self, kept: Team, rejected: Team) -> Team:
        return kept

    def fits(self, team: Team) -> bool:
        return False


@pytest.mark.parametrize("name", [name for name in method_names() if find_method(name).evolves])
@pytest.mark.parametrize("gate", ["off", "mean"])
async def test_no_version_of_any_method_differs_in_what_is_frozen(name: str, gate: str) -> None:
    of = find_method(name)
    method: Any = type(f"Rogue{of.__name__}", (Rogue, of), {"rng": random.Random(name + gate)})(of.config_type())
    changed = 0
    for number in range(3):
        seed = grown(method.rng).replace(method=name)
        frozen = tuple(part for part in method.rng.sample(PARTS, 2) if part[6:] in ("", "s", *seed.agents_by_id))
        frozen = frozen or ("prompts",)
        made = replace(context(method, gate=gate, iterations=5, freeze=frozen), seed_team=seed, run=f"r{number}")
        await evolved(made)
        history = await made.library.history("w")
        for version in history.versions:
            team = await made.library.load(version.ref)
            refuse_change(seed, team, frozen)
            changed += team.fingerprint != seed.fingerprint
    assert changed > 2


# one edit, by hand


def trio(*tools: str) -> Team:
    agents = tuple(Agent(id=name, prompt=f"You are {name}.", tools=tools) for name in ("a", "b", "z"))
    own = tuple(make_tool(name) for name in tools)
    return Team(method="any", agents=agents, topology=make_chain("a", "b", "z"), tools=own)


def split(team: Team, frozen: str, *edits: Edit) -> tuple[list[Edit], list[str]]:
    kept, refused = drop_frozen(team, [Rewiring(*edits, why="w")], [frozen], team)
    return [edit for rewiring in kept for edit in rewiring.edits], [refusal.reason for refusal in refused]


def test_the_rest_of_a_rewiring_stays_where_it_works_alone() -> None:
    tool = make_tool("add")
    kept, [reason] = split(trio(), "agent:a", AddTool(tool), Grant("a", "add"), Grant("b", "add"))
    assert kept == [AddTool(tool), Grant("b", "add")]
    assert reason == "Grant(a, add) changes what is frozen: agent:a"


def test_the_rest_goes_where_nothing_would_use_it() -> None:
    kept, [reason] = split(trio(), "agent:a", AddTool(make_tool("add")), Grant("a", "add"))
    assert not kept
    assert "the rest does not work without it: no agent holds tool add" in reason


def test_the_rest_goes_where_it_is_not_legal() -> None:
    revoked = [Revoke(name, "add") for name in ("a", "b", "z")]
    kept, [reason] = split(trio("add"), "agent:a", *revoked, RemoveTool("add"))
    assert not kept
    assert "tool 'add' is held by a; revoke it first" in reason


def test_edits_of_the_topology_stay_or_go_together() -> None:
    insert: list[Edit] = [
        AddAgent(Agent(id="new", prompt="Check.")),
        AddNode("new", "new"),
        RemoveEdge("a", "b"),
        AddEdge("a", "new"),
        AddEdge("new", "b"),
    ]
    kept, [reason] = split(trio(), "edges", *insert)
    assert not kept
    assert reason.startswith("RemoveEdge(a, b) changes what is frozen: edges")
    assert split(trio(), "agent:a", *insert) == (insert, [])
    taken_out: list[Edit] = [RemoveNode("b"), AddEdge("a", "z"), RemoveAgent("b")]
    assert split(trio(), "agent:b", *taken_out)[0] == []
    assert split(trio(), "agent:a", *taken_out) == (taken_out, [])


def test_a_change_whose_repair_is_refused_is_taken_back() -> None:
    team = trio()
    cut = Rewiring(AddEdge("a", "z"), RemoveEdge("b", "z"), why="shorter")
    repair = Rewiring(RemoveNode("b"), RemoveAgent("b"), why="nothing leads from b")
    kept, refused = drop_frozen(team, [cut, repair], ["agent:b"], team)
    assert kept == ()
    assert [refusal.rewiring for refusal in refused] == [repair, cut]
    assert "without what is frozen the team would not run: loose: b" in refused[1].reason


def test_a_frozen_prompt_does_not_come_back_changed_under_the_name_of_an_agent_that_has_gone() -> None:
    seed = trio()
    gone = seed.apply(Rewiring(RemoveNode("b"), AddEdge("a", "z"), RemoveAgent("b"), why="w"))
    back: list[Edit] = [
        AddAgent(Agent(id="b", prompt="Other.")),
        AddNode("b", "b"),
        AddEdge("a", "b"),
        AddEdge("b", "z"),
    ]
    assert drop_frozen(gone, [Rewiring(*back, why="w")], ["prompts"], seed)[0] == ()
    again: list[Edit] = [AddAgent(seed.agents_by_id["b"]), *back[1:]]
    assert drop_frozen(gone, [Rewiring(*again, why="w")], ["prompts"], seed)[0] == (Rewiring(*again, why="w"),)


def test_what_the_team_does_not_have_is_refused_by_name() -> None:
    check_frozen(["edges", "prompts", "tools", "models", "agent:a"], trio())
    for wrong in ("agent:planer", "a", "edge", "agent:", ""):
        with pytest.raises(ConfigError) as refusal:
            check_frozen([wrong], trio())
        known = "edges, prompts, tools, models, agent:a, agent:b, agent:z"
        assert str(refusal.value) == f"freeze {wrong!r}: the team has no such part; it has {known}"


def test_critics_are_told_what_is_fixed() -> None:
    assert describe_frozen([]) == ""
    told = describe_frozen(["agent:a", "edges", "agent:a"])
    assert told == "These are fixed, so propose no change of them: the agent a; edges, entry and sink of the team."


async def test_the_history_says_what_was_frozen_and_the_rest_is_evolved() -> None:
    made = context(Scripted(), gate="off", iterations=2, freeze=("agent:a",))
    final = await evolved(made)
    assert final.agents_by_id["a"].prompt == "0"
    assert final.memory["lessons"] == 2  # what is learned beside it stays
    saved = (await made.library.history("w")).versions[-1]
    assert not saved.facts["applied"]
    [refused] = saved.facts["refused"]
    assert refused["reason"] == "RewritePrompt(a, 2) changes what is frozen: agent:a"
    assert RewritePrompt("a", "2").kind == refused["rewiring"]["edits"][0]["kind"]

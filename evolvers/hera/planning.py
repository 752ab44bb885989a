"""From a question to the topology of its team: CharacterizeQuery and SampleTopology (Alg. 4), and repairs of plans.

A plan of the orchestrator is untrusted: it may have unknown agents, steps that depend on nothing or on each other in a
circle, no step that answers, fifty steps. The team's own topology, the default chain, replaces a plan that cannot
be repaired.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from pydantic import Field

from selfwire.core.errors import ModelError, ReplyError, get_error_cost
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.topology import Edge, Topology, make_topology
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel
from selfwire.evolvers.hera.initial_team import list_able_agents, make_default_topology, render_pool
from selfwire.evolvers.hera.library import ExperienceLibrary, Profile
from selfwire.evolvers.hera.mutation import MutatedTopology
from selfwire.evolvers.hera.schemas import QueryProfile, TopologyPlan
from selfwire.evolvers.hera.steps import StepDraft, connect_ends, draft_steps, resolve_steps, sort_steps
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.topology_ops import find_free_name
from selfwire.evolvers.trajectory_text import TASK_LENGTH, Described, describe_held_tools

SUMMARY_LENGTH = 300
TYPICAL_PLANS = 3
"""Plans that are tried in place of one for each question."""


class Brief(FrozenModel):
    """The basis of a plan: c, E_rel, and the cost of finding both; c is None where nothing can be retrieved (D22)."""

    profile: Profile | None = None
    insights: ExperienceLibrary = ()
    usage: Usage = Usage()


class TeamPlan(FrozenModel):
    """A plan that can run, with repairs for people."""

    topology: Topology
    repairs: tuple[str, ...] = ()
    default: bool = False


class PlannedRun(FrozenModel):
    """A run to make.

    Args:
        topology: None where planning failed.
        fault: why it failed.
        candidate: the mutation that the run tries; None for a topology that the orchestrator sampled.
    """

    question: Question
    topology: Topology | None = None
    fault: str = ""
    sample: int = Field(default=0, ge=0)
    notes: FrozenJson = Field(default_factory=FrozenMap)
    overhead: Usage = Usage()
    candidate: MutatedTopology | None = None


async def characterize_query(
    question: Question, orchestrator: PromptedModel, *, scope: Scope, catch: type[ModelError] = ReplyError
) -> tuple[Profile, Usage]:
    """CharacterizeQuery; a question without a valid profile gets the default one.

    Args:
        catch: errors for which it gets the default one, too.

    Raises:
        ModelError: the call failed, except `catch`.
    """
    here, task = scope.at(task=question.id, node="characterize"), excerpt(question.input, TASK_LENGTH)
    reply, usage = await orchestrator.ask_or(None, QueryProfile, "characterize", scope=here, catch=catch, task=task)
    if reply is None:
        return Profile(), usage
    summary = " ".join(reply.summary.split())[:SUMMARY_LENGTH]
    return Profile(type=reply.query_type, difficulty=reply.difficulty, summary=summary), usage


async def sample_topology(
    question: Question,
    team: Team,
    brief: Brief,
    orchestrator: PromptedModel,
    *,
    toolbox: Mapping[str, Described],
    steps: int,
    scope: Scope,
) -> tuple[TeamPlan, Usage]:
    """SampleTopology: Gamma ~ pi(. | q, E_rel, N); the default chain where the reply is invalid.

    `scope.sample` tells the samples of a group apart.

    Raises:
        ModelError: the call failed.
    """
    try:
        reply, usage = await orchestrator.ask(
            TopologyPlan,
            "plan",
            scope=scope.at(task=question.id, node="plan"),
            task=question.input,
            profile=brief.profile.text if brief.profile else "",
            agents=render_pool(team),
            tools=describe_held_tools(team.agents, team, toolbox),
            insights="\n".join([f"- ({i.profile.type}, utility {i.utility:.2f}) {i.text}" for i in brief.insights]),
            limits=f"at most {steps} steps",
        )
    except ReplyError as error:
        return make_default_plan(team, f"no valid plan: {error}"), get_error_cost(error)
    return resolve_plan(reply, team, steps=steps), usage


def resolve_plan(reply: TopologyPlan, team: Team, *, steps: int) -> TeamPlan:
    """A plan's topology, repaired where necessary."""
    repairs: list[str] = []
    resolved = resolve_steps(reply.execution_order, [agent.id for agent in list_able_agents(team.agents)], repairs)
    if len(resolved) > steps:
        repairs.append(f"{len(resolved)} steps are more than {steps}; the first {steps} are kept")
        resolved = resolved[:steps]
    if not resolved:
        return make_default_plan(team, *repairs, "no step is left")
    topology = _topology(draft_steps(resolved, repairs), team, repairs)
    if problems := topology.problems():
        return make_default_plan(team, *repairs, *map(str, problems))
    return TeamPlan(topology=topology, repairs=tuple(repairs))


def make_default_plan(team: Team, *repairs: str) -> TeamPlan:
    """The default chain, and why."""
    topology = make_default_topology(team)
    return TeamPlan(topology=topology, repairs=(*repairs, "the default chain took its place"), default=True)


def choose_typical_plans(planned: Sequence[tuple[Topology, float]]) -> tuple[Topology, ...]:
    """Choose the plans that are most like those of successful runs (D25).

    Args:
        planned: plan and score of each run.
    """

    def list_traits(plan: Topology) -> set[str]:
        names = plan.agents
        return {*names.values(), *(f"{names[edge.source]} -> {names[edge.target]}" for edge in plan.edges)}

    def compute_likeness(plan: Topology) -> float:
        own = list_traits(plan)
        others = [(list_traits(other), score) for other, score in planned]
        return sum(score * len(own & traits) / len(own | traits) for traits, score in others)

    plans = sorted(dict.fromkeys(plan for plan, score in planned if score), key=lambda plan: plan.fingerprint)
    return tuple(sorted(plans, key=compute_likeness, reverse=True)[:TYPICAL_PLANS])


def list_shorter_plans(plan: Topology, team: Team) -> tuple[Topology, ...]:
    """List the plans with one step less, whose readers read what the step read (D25).

    The first step goes only where one other reads it, and the last only where it reads one which may answer.
    """
    return tuple(shorter for node in plan.order() if (shorter := _leave_out(node, plan, team)))


def _leave_out(node: str, plan: Topology, team: Team) -> Topology | None:
    before, after = plan.predecessors[node], plan.successors[node]
    entry, sink = plan.entry, plan.sink
    if node == entry:
        if len(after) != 1:
            return None
        entry = after[0]
    if node == sink:
        if len(before) != 1 or team.agents_by_id[plan.agents[before[0]]].kind != "aggregator":
            return None
        sink = before[0]
    edges = {(edge.source, edge.target) for edge in plan.edges if node not in (edge.source, edge.target)}
    return plan.replace(
        nodes=tuple(step for step in plan.nodes if step.id != node),
        edges=tuple(Edge(source=source, target=target) for source, target in edges | {*product(before, after)}),
        entry=entry,
        sink=sink,
    )


def note_plan(brief: Brief, plan: TeamPlan) -> dict[str, Any]:
    """Notes of a trajectory on its planning."""
    return {
        **note_profile(brief.profile),
        "insights": [
            {
                "id": insight.id,
                "text": insight.text,
                "type": insight.profile.type,
                "utility": round(insight.utility, 6),
            }
            for insight in brief.insights
        ],
        "repairs": list(plan.repairs),
        "default": plan.default,
        "topology": plan.topology.model_dump(mode="json"),
    }


def note_profile(profile: Profile | None) -> dict[str, Any]:
    """A trajectory's note of a profile; empty where its question was not characterised."""
    return {"profile": profile.model_dump(mode="json")} if profile else {}


def _topology(steps: Sequence[StepDraft], team: Team, repairs: list[str]) -> Topology:
    """Nodes and edges with one entry and one sink (D5)."""
    default = make_default_topology(team)
    first, last = default.agents[default.entry], default.agents[default.sink]
    answering = {last, *(agent.id for agent in team.agents if agent.kind == "aggregator")}
    steps = connect_ends(sort_steps(steps, repairs), first, last, answering, repairs)
    agents = dict[str, str]()
    for step in steps:
        agents[find_free_name(step.agent, agents)] = step.agent
    nodes = [*agents]
    edges = ((nodes[source], nodes[index]) for index, step in enumerate(steps) for source in sorted(step.after))
    return make_topology(agents.items(), edges, nodes[0], nodes[-1])

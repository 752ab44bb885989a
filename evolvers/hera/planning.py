"""The orchestrator's plan as a topology; faults are repaired and recorded.

A plan is untrusted: it may have unknown agents, steps that depend on nothing or on each other in a circle, no step that
answers, fifty steps. The workflow's own topology, the default chain, replaces a plan that cannot be repaired.
"""

from collections.abc import Sequence

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Edge, Node, Topology
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.experience.library import ExperienceLibrary
from selfwire.evolvers.experience.profile import Profile
from selfwire.evolvers.hera.initial_team import list_able_agents, make_default_topology
from selfwire.evolvers.hera.schemas import TopologyPlan
from selfwire.evolvers.hera.steps import Draft, connect_ends, draft_steps, resolve_steps, sort_steps
from selfwire.evolvers.operations import find_free_name
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trace_text import render_agents, render_lines


class Plan(FrozenModel):
    """A plan that can run, with repairs for people, and the profile of the question in the orchestrator's words."""

    topology: Topology
    repairs: tuple[str, ...] = ()
    default: bool = False
    profile: str = ""


async def sample_topology(
    question: Question,
    workflow: Workflow,
    profile: Profile,
    insights: ExperienceLibrary,
    orchestrator: PromptedModel,
    *,
    steps: int,
    scope: Scope,
) -> tuple[Plan, Usage]:
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
            profile=profile.text,
            agents=render_agents(list_able_agents(workflow.agents)),
            insights=render_lines([f"- ({i.profile.type}, utility {i.utility:.2f}) {i.text}" for i in insights]),
            limits=f"at most {steps} steps",
        )
    except ReplyError as error:
        return make_default_plan(workflow, f"no valid plan: {error}"), get_error_cost(error)
    return resolve_plan(reply, workflow, steps=steps), usage


def resolve_plan(reply: TopologyPlan, workflow: Workflow, *, steps: int) -> Plan:
    """A plan's topology, repaired where necessary."""
    repairs: list[str] = []
    resolved = resolve_steps(reply.execution_order, list_able_agents(workflow.agents), repairs)
    if len(resolved) > steps:
        repairs.append(f"{len(resolved)} steps are more than {steps}; the first {steps} are kept")
        resolved = resolved[:steps]
    if not resolved:
        return make_default_plan(workflow, *repairs, "no step is left")
    topology = _topology(draft_steps(resolved, repairs), workflow, repairs)
    if problems := topology.problems():
        return make_default_plan(workflow, *repairs, *map(str, problems))
    return Plan(topology=topology, repairs=tuple(repairs), profile=reply.query_profile[:300])


def make_default_plan(workflow: Workflow, *repairs: str) -> Plan:
    """The default chain, and why."""
    topology = make_default_topology(workflow)
    return Plan(topology=topology, repairs=(*repairs, "the default chain took its place"), default=True)


def _topology(steps: Sequence[Draft], workflow: Workflow, repairs: list[str]) -> Topology:
    """Nodes and edges with one entry and one sink (D5)."""
    default = make_default_topology(workflow)
    first, last = default.agents[default.entry], default.agents[default.sink]
    answering = {last, *(agent.id for agent in workflow.agents if agent.kind == "aggregator")}
    steps = connect_ends(sort_steps(steps, repairs), first, last, answering, repairs)
    nodes: list[str] = []
    for step in steps:
        nodes.append(find_free_name(step.agent, nodes))
    return Topology(
        nodes=tuple(Node(id=node, agent=step.agent) for node, step in zip(nodes, steps, strict=True)),
        edges=tuple(
            Edge(source=nodes[source], target=nodes[index])
            for index, step in enumerate(steps)
            for source in sorted(step.after)
        ),
        entry=nodes[0],
        sink=nodes[-1],
    )

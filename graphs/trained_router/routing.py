"""The trained router for any team: it chooses among a node's successors.

The state is the question, the deciding agent and its answer; the agents to choose from are the successors' agents.
A router cannot await, so a node's answer is embedded right after the agent's turn. An edge to the sink always carries.
A new agent of the team can be chosen at once, as the head reads agents' texts; for the same reason, weights of another
team can be used as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from selfwire.core.agent import Agent
from selfwire.core.protocols import AgentRunner, Embedder, Router, RouterInput
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Routing, Step, Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evolvers.trained_router.choosers import PURPOSE, draw_layers, to_layered_workflow
from selfwire.evolvers.trained_router.config import HeadConfig, SamplingConfig
from selfwire.evolvers.trained_router.decisions import Decision, Episode, LayeredWorkflow
from selfwire.evolvers.trained_router.encoding import Vectors, embed_pool, embed_texts, pad_rows, row_texts
from selfwire.graphs.trained_router.heads import HEADS

if TYPE_CHECKING:
    from selfwire.evolvers.trained_router.head import RoutingHead

SAMPLING = SamplingConfig(layers=1, width=2)
"""One layer at most two wide: the successors of one node."""
SHOWN = 600
"""Characters of an answer that the router reads."""


@dataclass(frozen=True)
class LearnedRouting:
    """A router for one run of a team, and the runner that embeds its agents' answers for the router."""

    router: Router
    act: AgentRunner


async def make_learned_router(
    workflow: Workflow,
    question: Question,
    act: AgentRunner,
    embedder: Embedder,
    *,
    sampling: SamplingConfig = SAMPLING,
    untrained: HeadConfig = HeadConfig(),
) -> LearnedRouting:
    """Make the router of a workflow for one run on one question.

    Args:
        embedder: of the weights' training.
        untrained: config of the head if there are no weights.

    Raises:
        ConfigError, LibraryError: the weights cannot be used or have not been loaded.
    """
    head = await HEADS.head(workflow, untrained, embedder, transfer=True)
    rows = [text for agent in workflow.agents for text in to_state_rows(question, agent, "")]
    vectors = await embed_texts(row_texts(rows, head.config), embedder)
    agents = dict(zip(workflow.agents_by_id, await embed_pool(workflow.agents, embedder), strict=True))

    async def act_and_embed(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        step = await act(agent, question, inbox, scope=scope)
        vectors.update(await embed_texts(row_texts(to_state_rows(question, agent, step.output), head.config), embedder))
        return step

    return LearnedRouting(_make_router(workflow, head, vectors, agents, sampling), act_and_embed)


def to_state_rows(question: Question, agent: Agent, output: str) -> tuple[str, ...]:
    """The rows that the router reads after an agent's turn."""
    answered = " ".join(output.split())[:SHOWN]
    rows = (f"Question: {question.input}", f"Deciding: {agent.role or agent.id}")
    return (*rows, f"Answer so far: {answered}") if answered else rows


def list_arms(workflow: Workflow, successors: Sequence[str]) -> dict[str, list[str]]:
    """Nodes to choose from by agent, without the sink; an agent with several nodes is chosen for all of them."""
    found: dict[str, list[str]] = {}
    for node in successors:
        if node != workflow.topology.sink:
            found.setdefault(workflow.topology.agents[node], []).append(node)
    return found


def list_branches(workflow: Workflow) -> bool:
    """Whether any node of the team gives its router a choice."""
    return any(len(list_arms(workflow, successors)) > 1 for successors in workflow.topology.successors.values())


def to_team_episode(done: Trajectory, workflow: Workflow) -> Episode | None:
    """The episode of a run for its router: a decision per node with a choice; None without any."""
    found = to_team_decisions(done, workflow)
    return Episode(decisions=tuple(found.values())) if found else None


def to_team_decisions(done: Trajectory, workflow: Workflow) -> dict[str, Decision]:
    """The decisions of a run's router by node, for nodes with a choice."""
    found = {}
    for step in done.steps:
        choices = list_arms(workflow, workflow.topology.successors.get(step.node, ()))
        if step.routing is None or len(choices) < 2:
            continue
        nodes = workflow.topology.agents
        drawn = dict.fromkeys(nodes[node] for node in step.routing.chosen if node != workflow.topology.sink)
        rows = to_state_rows(done.question, workflow.agents_by_id[step.agent], step.output)
        layered = LayeredWorkflow(layers=(tuple(drawn),))
        found[step.node] = Decision(rows=rows, agents=tuple(choices), layered=layered)
    return found


def _make_router(
    workflow: Workflow,
    head: "RoutingHead",
    vectors: Mapping[str, Vectors],
    agents: Mapping[str, Vectors],
    sampling: SamplingConfig,
) -> Router:
    def route(node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
        choices, sinks = list_arms(workflow, successors), tuple(one for one in successors if one == known.sink)
        if len(choices) < 2:
            return Routing(chosen=successors, why="there is nothing to choose", free=False)
        texts = row_texts(to_state_rows(known.question, workflow.agent_at(node), known.output), head.config)
        drawn = draw_layers(
            head,
            *pad_rows([texts], vectors),
            np.stack([agents[name] for name in choices]),
            sampling=sampling,
            random=known.scope.at(node=node).random(PURPOSE),
        )
        picked = to_layered_workflow(drawn, [workflow.agents_by_id[name] for name in choices], frozenset())
        chosen = tuple(node for name in picked.layers[0] for node in choices[name])
        scores = {one: round(p, 6) for name, p in picked.probabilities[0].items() for one in choices[name]}
        why = f"trained router, drawn to {sampling.mass:g}"
        return Routing(chosen=(*chosen, *sinks), scores=scores, why=why, free=True)

    return route

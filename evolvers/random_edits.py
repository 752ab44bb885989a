"""Random legal edits: the control for edits that a model proposes. Method-free."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, Rewiring, RewritePrompt
from selfwire.core.scope import Scope
from selfwire.core.values import Id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.operations import (
    ROLE_LENGTH,
    add_parallel,
    add_serial,
    connect_to_sink,
    list_legal_operations,
    make_fresh_id,
    make_newcomer,
    rejoin_source,
    remove_dead,
    remove_successor,
)

WHY = "drawn at random"


@dataclass(frozen=True)
class RandomControl:
    """What methods share whose rewirings are drawn at random; it stands before the method among the bases.

    Attributes:
        counts: rewirings per iteration; the last one is repeated.
        instructions: prompts to draw from for newcomers and rewrites.
    """

    counts: tuple[int, ...] = ()
    instructions: tuple[str, ...] = ()

    @classmethod
    def of(cls, method: Any, counts: Sequence[int], instructions: Sequence[str]) -> Self:
        """The control for a method; further arguments as the attributes."""
        own = {field.name: getattr(method, field.name) for field in fields(method)}
        return cls(**own, counts=tuple(counts), instructions=tuple(instructions))

    def get_edit_count(self, scope: Scope) -> int:
        """Rewirings of the scope's iteration; the last count holds for later iterations too."""
        return self.counts[min(scope.iteration, len(self.counts) - 1)] if self.counts else 0


def edit_at_random(
    workflow: Workflow, count: int, instructions: Sequence[str], *, scope: Scope
) -> tuple[Workflow, tuple[Rewiring, ...]]:
    """Apply `count` random legal rewirings; `scope.random` is the only randomness.

    A node is drawn, then one of the operations that are legal there, or a rewrite of its prompt. Nodes that a removed
    edge leaves dangling are removed with it. The sink keeps its prompt, which holds the answer's format, so that the
    control differs by its edits alone.

    Returns:
        The workflow, whose lineage lists the rewirings, and the rewirings.

    Raises:
        ValueError: no instructions, a negative count, or a topology that may not run.
    """
    if problems := workflow.topology.problems():
        raise ValueError(f"only a team that may run is edited: {'; '.join(map(str, problems))}")
    random = scope.random("random edits")
    return _apply_drawn(workflow, count, instructions, lambda now: _draw_rewiring(now, instructions, random))


def edit_pool_at_random(
    workflow: Workflow, count: int, instructions: Sequence[str], *, most: int, scope: Scope
) -> tuple[Workflow, tuple[Rewiring, ...]]:
    """As `edit_at_random`, for a pool of agents where topologies are planned for each question.

    An agent other than the sink's is drawn; then its prompt is rewritten or, while the pool has fewer than `most`
    agents, a newcomer with its tools joins.

    Raises:
        ValueError: no instructions, or a negative count.
    """
    random = scope.random("random edits")
    sink = workflow.agent_at(workflow.topology.sink).id

    def draw_rewiring(now: Workflow) -> Rewiring:
        agent = _draw([one.id for one in now.agents if one.id != sink] or [sink], random)
        joins = len(now.agents) < most and _draw(("join", "rewrite"), random) == "join"
        text = _draw(instructions, random)
        if not joins:
            return Rewiring(RewritePrompt(agent, text), why=WHY, operation="REWRITE_PROMPT", by=agent)
        role, tools = " ".join(text.split())[:ROLE_LENGTH], now.agents_by_id[agent].tools
        newcomer = Agent(id=make_fresh_id(now, text), role=role, prompt=text, tools=tools)
        return Rewiring(AddAgent(newcomer), why=WHY, operation="MUTATE", by=agent)

    return _apply_drawn(workflow, count, instructions, draw_rewiring)


def _apply_drawn(
    workflow: Workflow, count: int, instructions: Sequence[str], draw_rewiring: Callable[[Workflow], Rewiring]
) -> tuple[Workflow, tuple[Rewiring, ...]]:
    if not instructions or count < 0:
        raise ValueError(f"random edits need instructions and a count of 0 or more, not {len(instructions)}, {count}")
    now, applied = workflow, list[Rewiring]()
    for _ in range(count):
        applied.append(draw_rewiring(now))
        now = now.apply(applied[-1])
    return (now.with_lineage(workflow, applied) if applied else workflow), tuple(applied)


def _draw_rewiring(workflow: Workflow, instructions: Sequence[str], random: np.random.Generator) -> Rewiring:
    nodes = [node for node in workflow.topology.agents if node != workflow.topology.sink]
    node = _draw(nodes or [workflow.topology.sink], random)
    operation = _draw(["REWRITE_PROMPT", *list_legal_operations(workflow, node)], random)
    text = _draw(instructions, random)
    if operation.startswith("ADD_"):
        add = add_parallel if operation == "ADD_PARALLEL" else add_serial
        return add(workflow, node, make_newcomer(workflow, node, text), why=WHY)
    if operation == "REMOVE_SUCCESSOR":
        return _remove_edge(workflow, node, random)
    if operation == "CONNECT_TO_AGGREGATOR":
        return connect_to_sink(workflow, node, why=WHY)
    return Rewiring(RewritePrompt(workflow.agent_at(node).id, text), why=WHY, operation="REWRITE_PROMPT", by=node)


def _remove_edge(workflow: Workflow, node: Id, random: np.random.Generator) -> Rewiring:
    removal = remove_successor(node, _draw(workflow.topology.successors[node], random), why=WHY)
    cut = workflow.apply(removal)
    dead = remove_dead(cut)
    pruned = cut.apply(Rewiring(*dead, why=WHY)) if dead else cut
    return removal.replace(edits=(*removal.edits, *dead, *rejoin_source(pruned.topology)))


def _draw(options: Sequence[str], random: np.random.Generator) -> str:
    return options[int(random.integers(len(options)))]

"""The control of random legal edits: the same kinds of rewirings, drawn instead of reasoned. Method-free."""

from collections.abc import Sequence

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


def edit_at_random(
    workflow: Workflow, count: int, instructions: Sequence[str], *, scope: Scope
) -> tuple[Workflow, tuple[Rewiring, ...]]:
    """Apply `count` random legal rewirings.

    A node is drawn, then one of the operations that are legal there, a rewritten prompt among them. What a
    removed edge leaves dangling goes with it. The sink keeps its prompt, which carries the answer's format:
    the control should lose by its edits alone.

    Args:
        workflow: what is edited; its topology may run.
        count: rewirings to apply, >= 0.
        instructions: prompts for rewrites and newcomers; at least one.
        scope: the place in the run; its `random` is the only randomness.

    Returns:
        The workflow, whose lineage lists the rewirings, and the rewirings.

    Raises:
        ValueError: no instructions, a negative count, or a topology that may not run.
    """
    if not instructions or count < 0:
        raise ValueError(f"random edits need instructions and a count of 0 or more, not {len(instructions)}, {count}")
    if workflow.topology.problems():
        raise ValueError(f"only a team that may run is edited: {'; '.join(map(str, workflow.topology.problems()))}")
    random = scope.random("random edits")
    now, applied = workflow, list[Rewiring]()
    while len(applied) < count:
        rewiring = _drawn(now, instructions, random)
        now = now.apply(rewiring)
        applied.append(rewiring)
    return (now.with_lineage(workflow, applied) if applied else workflow), tuple(applied)


def edit_pool_at_random(
    workflow: Workflow, count: int, instructions: Sequence[str], *, most: int, scope: Scope
) -> tuple[Workflow, tuple[Rewiring, ...]]:
    """Apply `count` random rewirings to a pool of agents, where topologies are planned for each question.

    An agent other than the sink's is drawn, then one of two things: its prompt is rewritten, or, while the pool has
    room, a newcomer joins that holds its tools.

    Args:
        workflow: what is edited; its topology stays.
        count: rewirings to apply, >= 0.
        instructions: prompts for rewrites and newcomers; at least one.
        most: agents of a full pool.
        scope: the place in the run; its `random` is the only randomness.

    Returns:
        The workflow, whose lineage lists the rewirings, and the rewirings.

    Raises:
        ValueError: no instructions, or a negative count.
    """
    if not instructions or count < 0:
        raise ValueError(f"random edits need instructions and a count of 0 or more, not {len(instructions)}, {count}")
    random = scope.random("random edits")
    sink = workflow.agent_at(workflow.topology.sink).id
    now, applied = workflow, list[Rewiring]()
    while len(applied) < count:
        agent = _one([one.id for one in now.agents if one.id != sink] or [sink], random)
        joins = len(now.agents) < most and _one(("join", "rewrite"), random) == "join"
        text = _one(instructions, random)
        if joins:
            held = now.agents_by_id[agent].tools
            made = Agent(
                id=make_fresh_id(now, text), role=" ".join(text.split())[:ROLE_LENGTH], prompt=text, tools=held
            )
            rewiring = Rewiring(AddAgent(made), why=WHY, operation="MUTATE", by=agent)
        else:
            rewiring = Rewiring(RewritePrompt(agent, text), why=WHY, operation="REWRITE_PROMPT", by=agent)
        now = now.apply(rewiring)
        applied.append(rewiring)
    return (now.with_lineage(workflow, applied) if applied else workflow), tuple(applied)


def _drawn(workflow: Workflow, instructions: Sequence[str], random: np.random.Generator) -> Rewiring:
    nodes = [node for node in workflow.topology.agents if node != workflow.topology.sink]
    node = _one(nodes or [workflow.topology.sink], random)
    operation = _one(["REWRITE_PROMPT", *list_legal_operations(workflow, node)], random)
    text = _one(instructions, random)
    if operation == "ADD_PARALLEL":
        return add_parallel(workflow, node, make_newcomer(workflow, node, text), why=WHY)
    if operation == "ADD_SERIAL":
        return add_serial(workflow, node, make_newcomer(workflow, node, text), why=WHY)
    if operation == "REMOVE_SUCCESSOR":
        return _removal(workflow, node, random)
    if operation == "CONNECT_TO_AGGREGATOR":
        return connect_to_sink(workflow, node, why=WHY)
    edit = RewritePrompt(workflow.agent_at(node).id, text)
    return Rewiring(edit, why=WHY, operation="REWRITE_PROMPT", by=node)


def _removal(workflow: Workflow, node: Id, random: np.random.Generator) -> Rewiring:
    removal = remove_successor(node, _one(workflow.topology.successors[node], random), why=WHY)
    cut = workflow.apply(removal)
    dead = remove_dead(cut)
    pruned = cut.apply(Rewiring(*dead, why=WHY)) if dead else cut
    return removal.replace(edits=(*removal.edits, *dead, *rejoin_source(pruned.topology)))


def _one(options: Sequence[str], random: np.random.Generator) -> str:
    return options[int(random.integers(len(options)))]


def get_edit_count(counts: Sequence[int], scope: Scope) -> int:
    """Rewirings of the scope's iteration; later ones have as many as the last that is listed."""
    return counts[min(scope.iteration, len(counts) - 1)] if counts else 0

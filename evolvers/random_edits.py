"""Random edits: the control for edits that a model proposes. Method-free.

`apply_at_random` makes as many edits as a method made, of the same kinds; places and texts are drawn. `edit_at_random`
makes a random team.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.values import Id
from selfwire.evolvers.topology_ops import (
    add_parallel,
    add_serial,
    connect_to_sink,
    list_legal_operations,
    make_newcomer,
    rejoin_source,
    remove_dead,
    remove_successor,
)

if TYPE_CHECKING:
    import numpy as np

WHY = "drawn at random"


class RandomControl:
    """Base class of methods whose rewirings are drawn at random; it stands before the method among the bases.

    Attributes:
        operations: kinds of edits per iteration, in order, with repetitions; the last ones hold for later iterations.
        instructions: texts to draw from for newcomers and rewrites.
    """

    operations: tuple[tuple[str, ...], ...] = ()
    instructions: tuple[str, ...] = ()

    @classmethod
    def of(cls, method: Any, operations: Sequence[Sequence[str]], instructions: Sequence[str]) -> Self:
        """The control for a method; further arguments as the attributes."""
        make: Any = cls
        control: Self = make(method.config)
        control.operations, control.instructions = tuple(map(tuple, operations)), tuple(instructions)
        return control

    def get_operations(self, scope: Scope) -> tuple[str, ...]:
        """Kinds of edits of the scope's iteration."""
        return self.operations[min(scope.iteration, len(self.operations) - 1)] if self.operations else ()


class RandomOperation(NamedTuple):
    """How one kind of edit is drawn.

    Attributes:
        part: what it changes; of one part a place is edited once in an iteration.
        list_places: agents or nodes where it is legal.
        propose: makes the edit at one of them.
    """

    part: str
    list_places: Callable[[Team], Sequence[Id]]
    propose: "Callable[[Team, Id, np.random.Generator], Rewiring]"


class RandomEdits(NamedTuple):
    """The team with the edits that were drawn, these edits, and the kinds that were legal nowhere."""

    workflow: Team
    applied: tuple[Rewiring, ...]
    left_out: tuple[str, ...]


def apply_at_random(
    team: Team, operations: Sequence[str], kinds: Mapping[str, RandomOperation], random: "np.random.Generator"
) -> RandomEdits:
    """Make one edit per operation, in order, each at a place that is drawn.

    As methods do, it takes no place twice and no newcomer while others are open; then rather that than fewer edits.
    What is legal nowhere is tried once more after all others.

    Raises:
        ValueError: there is no such kind.
    """
    if unknown := sorted(set(operations) - kinds.keys()):
        raise ValueError(f"there is no random {', '.join(unknown)}; kinds are {', '.join(kinds)}")
    now, known = team, team.agents_by_id.keys() | team.topology.agents.keys()
    applied, used, waiting = list[Rewiring](), set[tuple[str, Id]](), tuple(operations)
    for _ in range(2):
        left = []
        for operation in waiting:
            part, list_places, propose = kinds[operation]
            places = list_places(now)
            if not places:
                left.append(operation)
                continue
            fresh = [place for place in places if place in known and (part, place) not in used]
            place = draw(fresh or places, random)
            used.add((part, place))
            applied.append(propose(now, place, random))
            now = now.apply(applied[-1])
        waiting = tuple(left)
    return RandomEdits(now.with_lineage(team, applied) if applied else team, tuple(applied), waiting)


def list_team_operations(instructions: Sequence[str], length: int) -> dict[str, RandomOperation]:
    """Rewrites of prompts and the operations around a node, by kind.

    Args:
        instructions: to draw from.
        length: most characters of a prompt.

    Raises:
        ValueError: there are no instructions.
    """
    _refuse_no_instructions(instructions)

    def make_operation(name: str) -> RandomOperation:
        def list_places(team: Team) -> list[Id]:
            return [node for node in team.topology.agents if name in list_legal_operations(team, node)]

        def propose(team: Team, node: Id, random: "np.random.Generator") -> Rewiring:
            return _propose(name, team, node, instructions, random)

        return RandomOperation("topology", list_places, propose)

    def rewrite(team: Team, agent: Id, random: "np.random.Generator") -> Rewiring:
        prompt = add_instruction(team.agents_by_id[agent].prompt, instructions, length, random)
        return Rewiring(RewritePrompt(agent, prompt), why=WHY, operation="REWRITE_PROMPT", by=agent)

    names = ("ADD_PARALLEL", "ADD_SERIAL", "REMOVE_SUCCESSOR", "CONNECT_TO_AGGREGATOR")
    rewriting = RandomOperation("prompt", lambda team: list(team.agents_by_id), rewrite)
    return {"REWRITE_PROMPT": rewriting, **{name: make_operation(name) for name in names}}


def add_instruction(prompt: str, instructions: Sequence[str], length: int, random: "np.random.Generator") -> str:
    """Draw an instruction and add it below the prompt or, half of the time, put it for an earlier drawn one."""
    lines = prompt.rstrip().split("\n")
    new = draw([text for text in instructions if text not in lines] or list(instructions), random)
    earlier = [place for place, line in enumerate(lines) if line in instructions]
    if earlier and (random.random() < 0.5 or len(prompt) + len(new) >= length):
        lines[earlier[int(random.integers(len(earlier)))]] = new
        return "\n".join(lines)
    return "\n".join([*lines, new]) if len(prompt) + len(new) < length else new


def edit_at_random(
    team: Team, count: int, instructions: Sequence[str], *, scope: Scope
) -> tuple[Team, tuple[Rewiring, ...]]:
    """Apply `count` random legal rewirings; `scope.random` is the only randomness.

    A node is drawn, then one of the operations that are legal there, or a rewrite of its prompt. Nodes that a removed
    edge leaves dangling are removed with it. The sink keeps its prompt, which holds the answer's format, so that the
    control differs by its edits alone.

    Returns:
        The team, whose lineage lists the rewirings, and the rewirings.

    Raises:
        ValueError: no instructions, a negative count, or a topology that may not run.
    """
    if problems := team.topology.problems():
        raise ValueError(f"only a team that may run is edited: {'; '.join(map(str, problems))}")
    _refuse_no_instructions(instructions)
    if count < 0:
        raise ValueError(f"the count of random edits is 0 or more, not {count}")
    random, now, applied = scope.random("random edits"), team, list[Rewiring]()
    for _ in range(count):
        applied.append(_draw_rewiring(now, instructions, random))
        now = now.apply(applied[-1])
    return (now.with_lineage(team, applied) if applied else team), tuple(applied)


def draw(options: Sequence[str], random: "np.random.Generator") -> str:
    """Draw an option, each as likely as the others."""
    return options[int(random.integers(len(options)))]


def _draw_rewiring(team: Team, instructions: Sequence[str], random: "np.random.Generator") -> Rewiring:
    nodes = [node for node in team.topology.agents if node != team.topology.sink]
    node = draw(nodes or [team.topology.sink], random)
    operation = draw(["REWRITE_PROMPT", *list_legal_operations(team, node)], random)
    made = _propose(operation, team, node, instructions, random)
    if operation != "REMOVE_SUCCESSOR":
        return made
    cut = team.apply(made)
    dead = remove_dead(cut)
    pruned = cut.apply(Rewiring(*dead, why=WHY)) if dead else cut
    return made.replace(edits=(*made.edits, *dead, *rejoin_source(pruned.topology)))


def _propose(
    operation: str, team: Team, node: Id, instructions: Sequence[str], random: "np.random.Generator"
) -> Rewiring:
    text = draw(instructions, random)
    if operation.startswith("ADD_"):
        add = add_parallel if operation == "ADD_PARALLEL" else add_serial
        return add(team, node, make_newcomer(team, node, text), why=WHY)
    if operation == "REMOVE_SUCCESSOR":
        return remove_successor(node, draw(team.topology.successors[node], random), why=WHY)
    if operation == "CONNECT_TO_AGGREGATOR":
        return connect_to_sink(team, node, why=WHY)
    return Rewiring(RewritePrompt(team.agent_at(node).id, text), why=WHY, operation="REWRITE_PROMPT", by=node)


def _refuse_no_instructions(instructions: Sequence[str]) -> None:
    if not instructions:
        raise ValueError("random edits need instructions to draw from; give at least one")

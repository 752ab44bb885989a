"""Repairs of a plan's steps: one kind of defect after the other, and every repair is recorded in words."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from selfwire.core.topology import compute_greedy_order
from selfwire.evolvers.hera.schemas import PlanStep
from selfwire.evolvers.trajectory_text import find_name, to_plain_name


@dataclass(frozen=True)
class StepDraft:
    """A step on its way to a node; `after` are indices of the steps whose outputs it reads."""

    agent: str
    after: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ResolvedStep:
    """A step whose agent is in the pool; its dependencies are still the plan's words.

    Args:
        begins: whether the plan says that it reads nothing; not where the plan does not say what it reads.
    """

    number: int
    agent: str
    depends_on: tuple[int | str, ...]
    begins: bool


def resolve_steps(steps: Sequence[PlanStep], agents: Sequence[str], repairs: list[str]) -> list[ResolvedStep]:
    """The steps of known agents; a dependency on any other step becomes that step's dependencies."""
    inherited: dict[int, tuple[int | str, ...]] = {}
    known: list[ResolvedStep] = []
    for step in steps:
        wanted: list[int | str] = []
        for named in step.depends_on:
            wanted += inherited.get(named, (named,)) if isinstance(named, int) else (named,)
        wanted = list(dict.fromkeys(wanted))  # skipped steps would double what the next one inherits
        if (agent := find_name(step.agent, agents)) is not None:
            begins = "depends_on" in step.model_fields_set and not step.depends_on
            known.append(ResolvedStep(step.step, agent, tuple(wanted), begins))
        else:
            repairs.append(f"step {step.step}: there is no agent {step.agent[:60]!r}; the step is left out")
            inherited[step.step] = tuple(wanted)
    return known


def draft_steps(steps: Sequence[ResolvedStep], repairs: list[str]) -> list[StepDraft]:
    """The steps with dependencies as indices in the list; dependencies on missing steps are left out.

    A step of which nothing says what it reads follows the step before it.
    """
    numbers: dict[int, int] = {}
    for index, step in enumerate(steps):
        if step.number in numbers:
            repairs.append(f"two steps are numbered {step.number}; dependencies mean the first")
        numbers.setdefault(step.number, index)
    found = []
    for index, step in enumerate(steps):
        after = [(named, _find_index(named, index, steps, numbers)) for named in step.depends_on]
        if missing := [str(named) for named, at in after if at is None]:
            repairs.append(f"step {step.number} ({step.agent}) depends on {', '.join(missing)[:80]}, which is no step")
        indices = {at for _, at in after if at is not None}
        if index in indices:
            repairs.append(f"step {step.number} ({step.agent}) depends on itself")
        indices -= {index}
        if not indices and index and not step.begins:
            indices = {index - 1}
        found.append(StepDraft(step.agent, frozenset(indices)))
    return found


def sort_steps(steps: Sequence[StepDraft], repairs: list[str]) -> list[StepDraft]:
    """The steps in an order in which each comes after those that it reads; edges that close a circle are left out."""
    width = len(str(len(steps)))
    names = [str(index).zfill(width) for index in range(len(steps))]  # ties go to the earlier step
    edges = [(names[source], names[index]) for index, step in enumerate(steps) for source in step.after]
    order = [int(name) for name in compute_greedy_order(names, edges)]
    index_of = {old: new for new, old in enumerate(order)}
    found = []
    for old in order:
        after = {index_of[source] for source in steps[old].after}
        closing = {source for source in after if source > index_of[old]}
        for source in sorted(closing):
            repairs.append(f"a circle: {steps[old].agent} cannot wait for {steps[order[source]].agent}")
        found.append(StepDraft(steps[old].agent, frozenset(after - closing)))
    return found


def connect_ends(
    steps: Sequence[StepDraft], first: str, last: str, answering: Collection[str], repairs: list[str]
) -> list[StepDraft]:
    """Acyclic steps with one entry, the first, and one sink, the last, which answers.

    Args:
        first: agent that is put first where several steps would be.
        last: agent that answers where no step does.
        answering: agents that a plan may end with.
    """
    return _connect_sink(_connect_starts(list(steps), first, repairs), last, answering, repairs)


def _connect_starts(steps: list[StepDraft], first: str, repairs: list[str]) -> list[StepDraft]:
    starts = [index for index, step in enumerate(steps) if not step.after]
    if len(starts) > 1:
        entry = next((index for index in starts if steps[index].agent == first), None)
        names = ", ".join(steps[index].agent for index in starts)
        repairs.append(f"several steps begin ({names}); {first} comes before them")
        if entry is None:
            later = [StepDraft(step.agent, frozenset(source + 1 for source in step.after)) for step in steps]
            steps = [StepDraft(first), *later]
            entry, starts = 0, [0, *(index + 1 for index in starts)]
        for index in starts:
            if index != entry:
                steps[index] = replace(steps[index], after=frozenset({entry}))
    else:
        [entry] = starts
    return _reorder(steps, [entry, *(index for index in range(len(steps)) if index != entry)])


def _connect_sink(steps: list[StepDraft], last: str, answering: Collection[str], repairs: list[str]) -> list[StepDraft]:
    read = {source for step in steps for source in step.after}
    ends = [index for index in range(len(steps)) if index not in read]
    sink = next((index for index in reversed(ends) if steps[index].agent in answering), None)
    if sink is None:
        repairs.append(f"no step answers; {last} is added at the end")
        return [*steps, StepDraft(last, frozenset(ends))]
    others = [index for index in ends if index != sink]
    if others:
        names = ", ".join(steps[index].agent for index in others)
        repairs.append(f"nobody reads {names}; {steps[sink].agent} does")
        steps[sink] = replace(steps[sink], after=steps[sink].after | set(others))
    return _reorder(steps, [*(index for index in range(len(steps)) if index != sink), sink])


def _reorder(steps: Sequence[StepDraft], order: Sequence[int]) -> list[StepDraft]:
    index_of = {old: new for new, old in enumerate(order)}
    return [replace(steps[old], after=frozenset(index_of[source] for source in steps[old].after)) for old in order]


def _find_index(wanted: int | str, here: int, steps: Sequence[ResolvedStep], numbers: Mapping[int, int]) -> int | None:
    """The index of a step by number or by agent; of several steps of the agent the last one before `here`."""
    if isinstance(wanted, str):
        name = to_plain_name(wanted)
        if (digits := re.fullmatch(r"(?:step)?(\d+)", name)) is not None:
            return numbers.get(int(digits[1]))
        same = [index for index, step in enumerate(steps) if to_plain_name(step.agent) == name]
        before = [index for index in same if index < here]
        return before[-1] if before else same[0] if same else None
    return numbers.get(wanted)

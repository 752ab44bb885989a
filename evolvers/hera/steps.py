"""Repairs a plan's steps, one kind of defect after the other, and records every repair in words."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from selfwire.core.agent import Agent
from selfwire.core.topology import compute_greedy_order
from selfwire.evolvers.hera.schemas import PlanStep
from selfwire.evolvers.trace_text import to_plain_name


@dataclass(frozen=True)
class Draft:
    """A step on its way to a node; `after` are places of the steps whose outputs it reads."""

    agent: str
    after: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ResolvedStep:
    """A step whose agent is in the pool; its dependencies are still the plan's words."""

    number: int
    agent: str
    depends_on: tuple[int | str, ...]
    parallel: bool


def resolve_steps(steps: Sequence[PlanStep], agents: Sequence[Agent], repairs: list[str]) -> list[ResolvedStep]:
    """The steps of known agents; a dependency on any other step becomes that step's dependencies."""
    names = {to_plain_name(agent.id): agent.id for agent in agents}
    inherited: dict[int, tuple[int | str, ...]] = {}
    known: list[ResolvedStep] = []
    for step in steps:
        wanted: list[int | str] = []
        for one in step.depends_on:
            wanted += inherited.get(one, (one,)) if isinstance(one, int) else (one,)
        wanted = list(dict.fromkeys(wanted))  # skipped steps would double what the next one inherits
        if to_plain_name(step.agent) in names:
            agent = names[to_plain_name(step.agent)]
            known.append(ResolvedStep(step.step, agent, tuple(wanted), step.mode.strip().lower() == "parallel"))
        else:
            repairs.append(f"step {step.step}: there is no agent {step.agent[:60]!r}; the step is left out")
            inherited[step.step] = tuple(wanted)
    return known


def draft_steps(steps: Sequence[ResolvedStep], repairs: list[str]) -> list[Draft]:
    """The steps with dependencies as places in the list; dependencies on missing steps are left out.

    A sequential step without dependencies follows the step before it.
    """
    numbers: dict[int, int] = {}
    for place, step in enumerate(steps):
        if step.number in numbers:
            repairs.append(f"two steps are numbered {step.number}; dependencies mean the first")
        numbers.setdefault(step.number, place)
    found = []
    for place, step in enumerate(steps):
        after = [(one, _place(one, place, steps, numbers)) for one in step.depends_on]
        if missing := [str(one) for one, at in after if at is None]:
            repairs.append(f"step {step.number} ({step.agent}) depends on {', '.join(missing)[:80]}, which is no step")
        places = {at for _, at in after if at is not None}
        if place in places:
            repairs.append(f"step {step.number} ({step.agent}) depends on itself")
        places -= {place}
        if not places and place and not step.parallel:
            places = {place - 1}
        found.append(Draft(step.agent, frozenset(places)))
    return found


def sort_steps(steps: Sequence[Draft], repairs: list[str]) -> list[Draft]:
    """The steps in an order in which each comes after those that it reads; edges that close a circle are left out."""
    width = len(str(len(steps)))
    names = [str(place).zfill(width) for place in range(len(steps))]  # ties go to the earlier step
    edges = [(names[source], names[place]) for place, step in enumerate(steps) for source in step.after]
    order = [int(name) for name in compute_greedy_order(names, edges)]
    place_of = {old: new for new, old in enumerate(order)}
    found = []
    for old in order:
        after = {place_of[source] for source in steps[old].after}
        closing = {source for source in after if source > place_of[old]}
        for source in sorted(closing):
            repairs.append(f"a circle: {steps[old].agent} cannot wait for {steps[order[source]].agent}")
        found.append(Draft(steps[old].agent, frozenset(after - closing)))
    return found


def connect_ends(
    steps: Sequence[Draft], first: str, last: str, answering: Collection[str], repairs: list[str]
) -> list[Draft]:
    """Acyclic steps with one entry, the first, and one sink, the last, which answers.

    Args:
        first: agent that is put first where several steps would be.
        last: agent that answers where no step does.
        answering: agents that a plan may end with.
    """
    return _connect_sink(_connect_starts(list(steps), first, repairs), last, answering, repairs)


def _connect_starts(steps: list[Draft], first: str, repairs: list[str]) -> list[Draft]:
    starts = [place for place, step in enumerate(steps) if not step.after]
    if len(starts) > 1:
        entry = next((place for place in starts if steps[place].agent == first), None)
        names = ", ".join(steps[place].agent for place in starts)
        repairs.append(f"several steps begin ({names}); {first} comes before them")
        if entry is None:
            steps = [Draft(first), *(Draft(step.agent, frozenset(one + 1 for one in step.after)) for step in steps)]
            entry, starts = 0, [0, *(place + 1 for place in starts)]
        for place in starts:
            if place != entry:
                steps[place] = replace(steps[place], after=frozenset({entry}))
    else:
        [entry] = starts
    return _reorder(steps, [entry, *(place for place in range(len(steps)) if place != entry)])


def _connect_sink(steps: list[Draft], last: str, answering: Collection[str], repairs: list[str]) -> list[Draft]:
    read = {source for step in steps for source in step.after}
    ends = [place for place in range(len(steps)) if place not in read]
    sink = next((place for place in reversed(ends) if steps[place].agent in answering), None)
    if sink is None:
        repairs.append(f"no step answers; {last} is added at the end")
        return [*steps, Draft(last, frozenset(ends))]
    others = [place for place in ends if place != sink]
    if others:
        names = ", ".join(steps[place].agent for place in others)
        repairs.append(f"nobody reads {names}; {steps[sink].agent} does")
        steps[sink] = replace(steps[sink], after=steps[sink].after | set(others))
    return _reorder(steps, [*(place for place in range(len(steps)) if place != sink), sink])


def _reorder(steps: Sequence[Draft], order: Sequence[int]) -> list[Draft]:
    place_of = {old: new for new, old in enumerate(order)}
    return [replace(steps[old], after=frozenset(place_of[one] for one in steps[old].after)) for old in order]


def _place(wanted: int | str, here: int, steps: Sequence[ResolvedStep], numbers: Mapping[int, int]) -> int | None:
    """The place of a step by number or by agent; of several steps of the agent the last one before `here`."""
    if isinstance(wanted, str):
        name = to_plain_name(wanted)
        if (digits := re.fullmatch(r"(?:step)?(\d+)", name)) is not None:
            return numbers.get(int(digits[1]))
        same = [place for place, step in enumerate(steps) if to_plain_name(step.agent) == name]
        before = [place for place in same if place < here]
        return before[-1] if before else same[0] if same else None
    return numbers.get(wanted)

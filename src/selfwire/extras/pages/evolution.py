"""Reads an evolution from its journal and the versions that it has saved."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from selfwire.core.edits import ReplaceAgent, Rewiring, RewritePrompt, format_edit
from selfwire.core.task import Feedback
from selfwire.core.team import Team
from selfwire.core.text import compare_lines
from selfwire.core.values import format_value, to_plain_json
from selfwire.evals.statistics import IntervalEstimate, compute_score_interval
from selfwire.evals.table import compute_difference, make_task_row
from selfwire.evolvers.gate import name_outcome
from selfwire.evolvers.hera.library import get_library, rank_insights
from selfwire.extras.pages.data import (
    AgentCard,
    EditGroup,
    EditLine,
    LearnedInsight,
    Link,
    Place,
    SystemLine,
    TeamVersion,
)
from selfwire.extras.pages.pictures import draw_learning, find_drawing_method
from selfwire.extras.pages.stored import StoredTrajectory
from selfwire.runs.front import FrontEntry, FrontLine, collect_entries, compute_front, find_version, read_phases
from selfwire.runs.results import EVOLVED, SEED_TEAM, SEED_VOTES, SINGLE, describe_worth
from selfwire.store.journal_file import JournalReader
from selfwire.store.library import Version


def describe_edits(parent: Team, applied: Sequence[object], refused: Sequence[object]) -> tuple[EditGroup, ...]:
    """The rewirings that a version has on record, applied ones first, as JSON."""
    prompts = {agent.id: agent.prompt for agent in parent.agents}
    groups = [_describe(Rewiring.model_validate(to_plain_json(rewiring)), prompts) for rewiring in applied]
    for refusal in refused:
        found = to_plain_json(refusal)
        groups.append(_describe(Rewiring.model_validate(found["rewiring"]), dict(prompts), found["reason"]))
    return tuple(groups)


def _describe(rewiring: Rewiring, prompts: dict[str, str], refused: str = "") -> EditGroup:
    """Describe a rewiring; `prompts` is updated with the prompts that it writes."""
    lines = tuple(line for edit in rewiring.edits for line in _describe_edit(edit, prompts))
    return EditGroup(operation=rewiring.operation, by=rewiring.by, why=rewiring.why, lines=lines, refused=refused)


def _describe_edit(edit: object, prompts: dict[str, str]) -> Iterator[EditLine]:
    match edit:
        case RewritePrompt():
            yield EditLine(sign=" ", text=f"RewritePrompt({edit.agent})")
            yield from diff_lines(prompts.get(edit.agent, ""), edit.prompt)
            prompts[edit.agent] = edit.prompt
        case ReplaceAgent():
            yield EditLine(sign=" ", text=f"ReplaceAgent({edit.agent}, {edit.replacement.id})")
            yield from diff_lines(prompts.get(edit.agent, ""), edit.replacement.prompt)
            prompts[edit.replacement.id] = edit.replacement.prompt
        case _:
            yield EditLine(sign=" ", text=format_edit(edit))  # type: ignore[arg-type]
            if (agent := getattr(edit, "agent", None)) is not None and hasattr(agent, "prompt"):
                prompts[agent.id] = agent.prompt
                yield from diff_lines("", agent.prompt)


def diff_lines(before: str, after: str) -> Iterator[EditLine]:
    """Lines that differ, and those that stay."""
    signs = {"-": "-", "+": "+", " ": "="}
    for line in compare_lines(before, after):
        if line[0] in signs:
            yield EditLine(sign=signs[line[0]], text=line[2:])


_SPLITS = {"rollout": "train", "draft": "draft", "gate": "gate", "test": "test", "baseline": "baseline"}
_SYSTEMS = {
    "test/before": SEED_TEAM,
    "test/after": EVOLVED,
    "baseline/single": SINGLE,
    "baseline/votes": SEED_VOTES,
}
_RULE = "trivial baseline"


class Saved(NamedTuple):
    """A saved version and its team."""

    version: Version
    workflow: Team


def read_places(journal: JournalReader, saved: Mapping[int, Saved], method: str) -> tuple[Place, ...]:
    """All phases in which a team ran on tasks, in the order of time."""
    places = []
    for iteration, phase, side, found in read_phases(journal, StoredTrajectory):
        place = _make_place(iteration, phase, side, found, saved)
        places.append(place if place.split == "baseline" else place.replace(method=method))
    return tuple(sorted(places, key=_sort_key))


def _make_place(
    iteration: int, phase: str, side: str, found: list[StoredTrajectory], saved: Mapping[int, Saved]
) -> Place:
    key = "/".join(filter(None, (str(iteration), phase, side)))
    split = _SPLITS.get(phase, phase)
    of_run = split in ("test", "baseline")
    named = _SYSTEMS.get(f"{phase}/{side}", side)
    row = named if of_run else f"{iteration + 1}{f' {side}' if side else ''}"
    title = named if of_run else f"iteration {iteration + 1}{f', {side}' if side else ''}"
    place = make_place(key, row, "test" if of_run else split, iteration, found, side)
    version = find_version(iteration, phase, side, {number: found.version for number, found in saved.items()})
    tasks = "train tasks of a draft" if split == "draft" else f"{place.split} tasks"
    return place.replace(title=f"{title}, on {tasks}", split=split, version=version)


def make_place(
    key: str, row: str, split: str, iteration: int, found: Sequence[StoredTrajectory], side: str = ""
) -> Place:
    """A phase of a run in which a team, or a router, had tasks of a split."""
    return Place(
        key=key,
        title=f"{row}, on {split} tasks",
        row=row,
        split=split,
        iteration=iteration,
        side=side,
        outcomes=tuple(make_task_row(side, done.question, done, done.usage, "") for done in found),
        trails=tuple(found),
    )


def _sort_key(place: Place) -> tuple[bool, int, int, str]:
    order = {"train": 0, "gate": 1, "test": 2}.get(place.split, 3)
    side = "" if place.side in ("before", "incumbent") else place.side
    return place.split in ("test", "baseline"), place.iteration, order, side


def read_page_front(saved: Mapping[int, Saved], places: Iterable[Place]) -> tuple[FrontLine, ...]:
    """The versions of a run and its baselines by score and calls, as `runs.front` computes them."""
    entries = dict[str, FrontEntry]()
    phases = [(place.iteration, place.split, place.side, place.trails) for place in places]
    versions = {number: found.version for number, found in saved.items()}
    collect_entries(
        phases, versions, {found.version: f"version {number}" for number, found in versions.items()}, entries
    )
    return compute_front(entries.values())


def read_versions(saved: Mapping[int, Saved], places: Iterable[Place]) -> tuple[TeamVersion, ...]:
    """The team after each iteration, with what its runs cost."""
    places = tuple(places)
    return tuple(_make_version(number, saved, places) for number in sorted(saved))


def _make_version(number: int, saved: Mapping[int, Saved], places: tuple[Place, ...]) -> TeamVersion:
    version, team = saved[number]
    facts, gate = version.facts, version.facts.get("gate") or {}
    trails = [done for place in places if place.version == number for done in place.trails]
    parent = saved[number - 1].workflow if number - 1 in saved else team
    learned = _read_memory(team)
    topology = team.topology
    used = {node: team.agent_at(node) for node in topology.agents}
    return TeamVersion(
        number=number,
        label=f"Version {number}" if number else "Version 0: the initial team",
        ref=version.ref,
        accepted=gate.get("accepted"),
        outcome=name_outcome(gate) if gate else "",
        why=str(facts.get("why", "")) if number else "The team that the run started with.",
        difference=compare_gate(places, number - 1, is_proof=gate.get("evidence") is not None),
        score=facts.get("score"),
        nodes=topology.agents,
        links=_count_traffic(team, trails),
        entry=topology.entry,
        sink=topology.sink,
        agents=tuple(
            AgentCard(
                **agent.model_dump(include={"id", "role", "kind", "prompt", "tools", "memory"}),
                learned=learned.get(agent.id, {}),
                runs=len(trails),
                **_mean_cost(agent.id, trails),
            )
            for _, agent in sorted({agent.id: agent for agent in used.values()}.items())
        ),
        edits=describe_edits(parent, facts.get("applied", ()), facts.get("refused", ())),
        panels=draw_learning(parent, team, to_plain_json(facts.get("notes") or {})) if number else (),
    )


def _mean_cost(agent: str, trails: list[StoredTrajectory]) -> dict[str, float]:
    usages = [step.usage for done in trails for step in done.steps if step.agent == agent]
    many = max(len(trails), 1)
    calls, tokens = sum(usage.calls for usage in usages), sum(usage.tokens for usage in usages)
    return {"calls": calls / many, "tokens": tokens / many}


def _count_traffic(team: Team, trails: list[StoredTrajectory]) -> tuple[Link, ...]:
    sent = (message for done in trails for step in done.steps for message in step.sent)
    carried = Counter((message.source, message.target) for message in sent)
    many = max(len(trails), 1)
    return tuple(
        Link(source=edge.source, target=edge.target, traffic=carried[edge.source, edge.target] / many)
        for edge in team.topology.edges
    )


def _read_memory(team: Team) -> dict[str, dict[str, str]]:
    """The method's memory by agent, as short texts."""
    found: dict[str, dict[str, str]] = {}
    for entry in team.memory.values():
        for name, values in entry.items() if isinstance(entry, Mapping) else ():
            for agent, value in values.items() if isinstance(values, Mapping) else ():
                if agent in team.agents_by_id:
                    found.setdefault(agent, {})[str(name)] = _format(value)
    return found


def _format(value: Any) -> str:
    if isinstance(value, Mapping) and all(isinstance(part, int | float | str) for part in value.values()):
        return ", ".join(f"{name} {format_value(part)}" for name, part in value.items())
    return format_value(value)


def read_insights(team: Team) -> tuple[LearnedInsight, ...]:
    """Insights of a team, the best first; empty for methods without insights."""
    if not find_drawing_method(team.method).learns_insights:
        return ()
    return tuple(
        LearnedInsight(
            kind=insight.profile.type,
            text=insight.text,
            utility=insight.utility,
            uses=insight.uses,
            sources=", ".join(map(str, insight.sources[:3])),
        )
        for insight in rank_insights(get_library(team))
    )


def compare_gate(places: Iterable[Place], iteration: int, *, is_proof: bool) -> IntervalEstimate | None:
    """The candidate's gain on the gate's tasks of an iteration, paired; None where nothing was compared.

    In a proof errors of the candidate alone count as wrong.
    """
    sides = {place.side: place for place in places if place.split == "gate" and place.iteration == iteration}
    after = sides.get("candidate")
    if after is None or "incumbent" not in sides:
        return None
    return compute_difference(after.summarise(), sides["incumbent"].summarise(), is_proof=is_proof)


def compare_places(place: Place, base: Place) -> IntervalEstimate | None:
    """The gain of a place on another, paired; None where they have no task in common."""
    return compute_difference(place.summarise(), base.summarise())


def compare_with_base(places: Mapping[str, Place], base: str, name: Callable[[str], str]) -> tuple[SystemLine, ...]:
    """A line per place, with its difference from one of them."""
    lines = []
    for key, place in places.items():
        gain = compare_places(place, places[base]) if base in places and key != base else None
        lines.append(make_system_line(name(key), place).replace(gain=gain))
    return tuple(lines)


def describe_page_worth(places: Iterable[Place]) -> str:
    """Say whether the evolved team is worth its calls, as `results.describe_worth` does."""
    found = {
        name: place.summarise(name) for key, name in _SYSTEMS.items() for place in places if place.key.endswith(key)
    }
    return describe_worth(found.pop(EVOLVED, None), [*found.values()])


def read_systems(journal: JournalReader, places: Iterable[Place]) -> tuple[SystemLine, ...]:
    """Baselines, seed and evolved team on the test tasks."""
    lines = [
        make_system_line(_SYSTEMS[name], place).replace(main=name == "test/after")
        for name in _SYSTEMS
        for place in places
        if place.key.endswith(name)
    ]
    graded = dict(journal.replies("environment", phase="baseline", run=f"{journal.run}/trivial"))
    scores = [Feedback.model_validate(reply).score for reply in graded.values()]
    if scores:
        interval = compute_score_interval(scores)
        lines.append(SystemLine(name=_RULE, score=interval, calls=0, tokens=0, tasks=len(scores)))
    order = [_RULE, SINGLE, SEED_TEAM, SEED_VOTES, EVOLVED]
    return tuple(sorted(lines, key=lambda line: order.index(line.name)))


def make_system_line(name: str, place: Place) -> SystemLine:
    """A system's mean score and cost on the tasks of a place."""
    found, many = place.summarise(name), max(len(place.outcomes), 1)
    return SystemLine(
        name=name,
        score=found.interval,
        calls=found.spend.calls / many,
        tokens=found.spend.tokens / many,
        dollars=None if found.spend.dollars is None else found.spend.dollars / many,
        tasks=len(place.outcomes),
        errors=sum(outcome.error is not None for outcome in place.outcomes),
        cut=found.cut,
    )

"""Reads the training of a router from its journal: scores and choices update by update, and what they came to."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from math import log
from typing import Any, NamedTuple

from pydantic import ValidationError

from selfwire.core.values import format_count
from selfwire.evals.statistics import IntervalEstimate, compute_mean, compute_score_interval
from selfwire.evolvers.router.decisions import EPISODE, Episode
from selfwire.evolvers.router.reinforce import Update
from selfwire.extras.pages.data import AgentShare, Place, RouterLearning, SystemLine, UpdateLine
from selfwire.extras.pages.evolution import compare_with_base, make_place
from selfwire.extras.pages.stored import StoredTrajectory
from selfwire.extras.pages.verdicts import describe_gain, format_gain
from selfwire.graphs.router import PHASE, UPDATE
from selfwire.runs.front import read_phases
from selfwire.store.journal_file import JournalReader

WAYS = {
    "random": "choices by chance",
    "untrained": "untrained router",
    "as it began": "router that training began with",
    "trained": "trained router",
}
"""Ways to route on held-out tasks, by their names in the journal."""
_TEST = "test-"


class RouterChoice(NamedTuple):
    """A choice of a router."""

    probabilities: Mapping[str, float]
    chosen: tuple[str, ...]


class RoutedRun(NamedTuple):
    """Choices of the router in a run, and the run's score; None for an error."""

    score: float | None
    choices: tuple[RouterChoice, ...]


def read_training_places(journal: JournalReader, method: str) -> tuple[Place, ...]:
    """The runs of each update, then those on held-out tasks."""
    places = []
    for iteration, phase, _, found in read_phases(journal, StoredTrajectory):
        way = phase.removeprefix(_TEST)
        if phase == PHASE:
            row = f"update {iteration + 1}"
            places.append(make_place(f"{iteration}/{phase}", row, "train", iteration, found))
        elif way in WAYS:
            places.append(make_place(f"0/{phase}", WAYS[way], "test", 0, found, way))
    order = ["", *WAYS]
    places.sort(key=lambda place: (place.split == "test", place.iteration, order.index(place.side)))
    return tuple(place.replace(method=method) for place in places)


def compare_ways(places: Iterable[Place]) -> tuple[SystemLine, ...]:
    """Each way to route on held-out tasks, with its difference from the router that training began with."""
    tested = {measured.side: measured for measured in places if measured.split == "test"}
    lines = compare_with_base(tested, find_start(tested), WAYS.__getitem__)
    return tuple(line.replace(main=line.name == WAYS["trained"]) for line in lines)


def find_start(ways: Iterable[str]) -> str:
    """The way to route that training began with."""
    return "as it began" if "as it began" in [*ways] else "untrained"


def describe_training(method: str, lines: Iterable[SystemLine], status: str) -> str:
    """Gain by training on held-out tasks."""
    by_name = {line.name: line for line in lines}
    trained, start = by_name.get(WAYS["trained"]), by_name.get(find_start_name(by_name))
    if not trained or not start or not trained.score or not start.score or not trained.gain:
        return f"No test yet: this training of {method}'s router is {status}."
    scores = f"{start.score.value:.2f} → {trained.score.value:.2f} on {trained.gain.n} held-out tasks"
    return f"{describe_gain('The router', trained.gain)}: {scores}, {format_gain(trained.gain)}."


def summarise_training(learning: RouterLearning | None, lines: Iterable[SystemLine]) -> str:
    """How the router got there, in a sentence or two."""
    if learning is None:
        return "There has been no update yet."
    told = [f"{format_count(len(learning.updates), 'update')}"]
    if skipped := sum(update.skipped for update in learning.updates):
        told.append(f"{skipped} of them without effect, as all runs scored alike")
    grown = max(learning.shares, key=lambda share: (share.last or 0.0) - (share.first or 0.0), default=None)
    if grown and (grown.last or 0.0) > (grown.first or 0.0):
        told.append(f"the probability of {grown.name} grew most, from {grown.first or 0.0:.2f} to {grown.last:.2f}")
    names = [line.name for line in lines]
    paired = f" Differences are from the {find_start_name(names)}, paired by task." if names else ""
    return f"{'; '.join(told)}.{paired}"


def find_start_name(names: Container[str]) -> str:
    """The name for people of the way to route that training began with."""
    return WAYS[find_start([way for way, name in WAYS.items() if name in names])]


def read_learning(journal: JournalReader, places: Iterable[Place]) -> RouterLearning | None:
    """Read the updates of a router's training; None before the first."""
    runs = {place.key: tuple(map(_read_run, place.trails)) for place in places}
    notes = [Update.model_validate(note) for note in journal.notes(f"{UPDATE}/").values()]
    updates = tuple(
        _make_update(update, runs.get(f"{update.number - 1}/{PHASE}", ()))
        for update in sorted(notes, key=lambda update: update.number)
    )
    if not updates:
        return None
    span = max(1, len(updates) // 5)
    learned_from = [run for key, found in runs.items() if key.endswith(PHASE) for run in found]
    tested = {way: _compute_shares(runs.get(f"0/{_TEST}{way}", ())) for way in WAYS}
    start = find_start([way for way in tested if tested[way]])
    sizes = [log(len(choice.probabilities)) for run in learned_from for choice in run.choices]
    return RouterLearning(
        updates=updates,
        shares=_list_shares(updates, span, tested[start], tested["trained"], learned_from),
        span=span,
        chance=compute_mean(sizes) if sizes else 0.0,
    )


def _make_update(update: Update, runs: Sequence[RoutedRun]) -> UpdateLine:
    scores = [run.score for run in runs if run.score is not None]
    return UpdateLine(
        number=update.number,
        score=compute_score_interval(scores) if scores else None,
        entropy=update.entropy,
        episodes=update.episodes,
        errors=update.errors,
        skipped=update.skipped,
        shares=_compute_shares(runs),
    )


def _list_shares(
    updates: Sequence[UpdateLine],
    span: int,
    untrained: Mapping[str, float],
    trained: Mapping[str, float],
    runs: Sequence[RoutedRun],
) -> tuple[AgentShare, ...]:
    """A line per agent, sorted by the growth of its share in the router's choices."""
    first, last = (_average(step.shares for step in some) for some in (updates[:span], updates[-span:]))
    names = sorted({*first, *last, *untrained, *trained}, key=lambda name: (-last.get(name, 0.0), name))
    return tuple(
        AgentShare(
            name=name,
            first=first.get(name),
            last=last.get(name),
            untrained=untrained.get(name),
            trained=trained.get(name),
            with_it=_score_runs(runs, name, chosen=True),
            without_it=_score_runs(runs, name, chosen=False),
        )
        for name in names
    )


def _compute_shares(runs: Iterable[RoutedRun]) -> dict[str, float]:
    """Mean probability by agent, over the choices in which it could be chosen."""
    return _average(choice.probabilities for run in runs for choice in run.choices)


def _average(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, share in row.items():
            found.setdefault(name, []).append(share)
    return {name: compute_mean(shares) for name, shares in found.items()}


def _score_runs(runs: Iterable[RoutedRun], name: str, *, chosen: bool) -> IntervalEstimate | None:
    """Mean score of the runs in which an agent was chosen, or of those in which it was not though it could be."""
    scores = []
    for run in runs:
        choices = [choice for choice in run.choices if name in choice.probabilities]
        if choices and run.score is not None and any(name in choice.chosen for choice in choices) == chosen:
            scores.append(run.score)
    return compute_score_interval(scores) if scores else None


def _read_run(run: StoredTrajectory) -> RoutedRun:
    score = run.feedback.score if run.feedback and run.error is None else None
    return RoutedRun(score, tuple(_list_choices(run.notes)))


def _list_choices(notes: Any) -> Iterator[RouterChoice]:
    """The choices of a run's router in which there was more than one agent."""
    note = notes.get(EPISODE) if isinstance(notes, dict) else None
    if note is None:
        return
    try:
        decisions = Episode.model_validate(note).decisions
    except ValidationError:
        return
    for decision in decisions:
        for shares, drawn in zip(decision.layered.probabilities, decision.layered.layers, strict=False):
            if len(shares) > 1:
                yield RouterChoice(shares, drawn)

"""The front of a saved team: its versions by score and price, beside the baselines that their runs measured.

A version is on the front if no other, and no baseline, scores as much at a lower price or more at the same. Two are
compared on the held-out tasks that both were asked. Without two such tasks their means are compared, and the interval
of the difference is made of both intervals (Newcombe, 1998; Zou and Donner, 2008), as a rule a wider one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeVar

from selfwire.core.errors import ConfigError
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import COSTS, Usage, sum_usages
from selfwire.core.values import FrozenModel, format_count
from selfwire.evals.statistics import IntervalEstimate, compute_score_interval
from selfwire.evals.table import SystemInfo, SystemSummary, compute_difference, format_difference
from selfwire.evolvers.gate import TIE, format_extra
from selfwire.graphs.rollouts import TRAJECTORIES
from selfwire.runs.record import JOURNAL, SUMMARY, explain_foreign, get_run_folder, list_run_names, load_request
from selfwire.runs.results import SEED_VOTES, SINGLE
from selfwire.runs.spec import EvolveSpec
from selfwire.store.journal_file import JournalReader
from selfwire.store.library import History, Version

BASELINES = {"single": SINGLE, "votes": SEED_VOTES}
"""Baselines of an evolution by their side in the journal."""

AnyTrajectory = TypeVar("AnyTrajectory", bound=Trajectory)
Phase = tuple[int, str, str, Sequence[Any]]
"""Iteration, phase, side and trajectories of a team's runs; these need question, feedback, steps and overhead."""


class FrontLine(FrozenModel):
    """A version, or a baseline, by score and price.

    Args:
        ref, fingerprint: of the version; "" for a baseline.
        also: names of other versions that are the same team.
        score: mean over all held-out tasks that it was asked and that did not end as errors; None without any.
        gate, test: number of these tasks.
        calls, tokens, dollars, seconds: per task; dollars None for an unknown price.
        on_front: whether it was measured and nothing beats it.
        against: name of what beats it most clearly, or of the next cheaper line on the front; "" for neither.
        gain: what it scores more than that.
        extra: what it costs more than that per task.
        shared: tasks on which the two were compared in pairs; 0 if they are compared by their means.
    """

    name: str
    ref: str = ""
    fingerprint: str = ""
    also: tuple[str, ...] = ()
    score: IntervalEstimate | None = None
    gate: int = 0
    test: int = 0
    calls: float = 0.0
    tokens: float = 0.0
    dollars: float | None = 0.0
    seconds: float = 0.0
    on_front: bool = False
    against: str = ""
    gain: IntervalEstimate | None = None
    extra: float = 0.0
    shared: int = 0

    def describe(self, price: str) -> str:
        """Describe its place, such as "behind mine@2: -0.20 [-0.35, -0.05] at +2.00 calls, on the same 20 tasks"."""
        if not self.against:
            return "on the front" if self.on_front else "not measured"
        on = f"on the same {format_count(self.shared, 'task')}" if self.shared else "on other tasks"
        place = "on the front; over" if self.on_front else "behind"
        return f"{place} {self.against}: {format_difference(self.gain)} at {format_extra({price: self.extra})}, {on}"


class HeldOutRun(NamedTuple):
    """A graded run of a team on a gate or test task."""

    split: str
    score: float
    cost: Usage


@dataclass
class FrontEntry:
    """The held-out runs of a version or a baseline, by task."""

    name: str
    version: Version | None = None
    also: list[str] = field(default_factory=list)
    runs: dict[str, list[HeldOutRun]] = field(default_factory=dict)

    @property
    def scores(self) -> dict[str, float]:
        """Mean score of each task."""
        return {task: fmean(run.score for run in runs) for task, runs in self.runs.items()}

    def average(self, cost: str, tasks: Iterable[str]) -> float | None:
        """The mean cost of some tasks; None if a price is not known."""
        found = [[getattr(run.cost, cost) for run in self.runs[task]] for task in tasks]
        return None if any(None in costs for costs in found) else fmean(map(fmean, found)) if found else 0.0

    def to_line(self) -> FrontLine:
        """Make its line, without its place."""
        splits = [runs[0].split for runs in self.runs.values()]
        return FrontLine(
            name=self.name,
            ref=self.version.ref if self.version else "",
            fingerprint=self.version.fingerprint if self.version else "",
            also=tuple(self.also),
            score=compute_score_interval([*self.scores.values()]) if self.runs else None,
            gate=splits.count("gate"),
            test=splits.count("test"),
            **{cost: self.average(cost, self.runs) for cost in COSTS},
        )


def find_version(iteration: int, phase: str, side: str, versions: Mapping[int, Version]) -> int | None:
    """Find the number of the version that ran; None for a candidate that was rejected, and for a baseline.

    Args:
        phase: rollout, gate, test or baseline.
        versions: of the run, by number.
    """
    if phase == "baseline":
        return None
    if phase == "test":
        return 0 if side == "before" else max(versions, default=0)
    if side in ("", "incumbent"):
        return iteration
    after = versions.get(iteration + 1)
    gate = after.facts.get("gate") if after else None
    pruned = bool(after and "tried" in (after.facts.get("notes") or {}))
    return iteration + 1 if gate and gate["accepted"] and (side == "pruned") == pruned else None


def collect_entries(
    phases: Iterable[Phase],
    versions: Mapping[int, Version],
    names: Mapping[str, str],
    entries: dict[str, FrontEntry],
    of_run: str = "",
) -> None:
    """Add the versions and baselines of a run to the entries; versions that are the same team share one.

    Args:
        versions: that the run has saved, by number.
        names: of versions, by `Version.version`.
        entries: by fingerprint, or name of a baseline.
        of_run: is added to the names of baselines.
    """
    for _, version in sorted(versions.items()):
        name = names[version.version]
        entry = entries.setdefault(version.fingerprint, FrontEntry(name, version))
        if entry.name != name:
            entry.also.append(name)
    for iteration, phase, side, found in phases:
        if phase not in ("gate", "test", "baseline"):
            continue
        number = find_version(iteration, phase, side, versions)
        if number is not None and number in versions:
            entry = entries[versions[number].fingerprint]
        elif phase == "baseline" and side in BASELINES:
            entry = entries.setdefault(f"{side} {of_run}", FrontEntry(name=f"{BASELINES[side]}{of_run}"))
        else:
            continue
        split = "gate" if phase == "gate" else "test"
        for done in found:
            if done.feedback is not None:
                cost = sum_usages([*(step.usage for step in done.steps), done.overhead])
                task = f"{split} {done.question.id} {done.question.input}"
                entry.runs.setdefault(task, []).append(HeldOutRun(split, done.feedback.score, cost))


def compute_front(entries: Iterable[FrontEntry], price: str = "calls") -> tuple[FrontLine, ...]:
    """Compute the place of each entry, the cheapest first and what was not measured last.

    Args:
        price: calls, tokens, dollars or seconds.

    Raises:
        ConfigError: there is no such price, or dollars are not known.
    """
    if price not in COSTS:
        raise ConfigError(f"a price is {', '.join(COSTS[:-1])} or {COSTS[-1]}, not {price!r}")
    found = [(entry, entry.to_line()) for entry in entries]
    measured = [entry for entry, line in found if line.score is not None]
    if any(line.score and getattr(line, price) is None for _, line in found):
        raise ConfigError("the price of a model of these runs is not known; give --price calls or --price tokens")
    lines, cheaper = list[FrontLine](), None
    for entry, line in sorted(found, key=lambda pair: (pair[1].score is None, getattr(pair[1], price), pair[1].name)):
        if line.score is not None:
            others = [compare_entries(entry, other, price) for other in measured if other is not entry]
            beaten = [found for found in others if found.is_beaten]
            worst = min(beaten, key=lambda found: (found.gain.high, -found.extra), default=None)
            beside = worst or (cheaper and compare_entries(entry, cheaper, price))
            line = line.replace(on_front=worst is None, **(beside._asdict() if beside else {}))
            cheaper = cheaper if worst else entry
        lines.append(line)
    return tuple(lines)


class FrontComparison(NamedTuple):
    """A difference of an entry and another in score and cost, as in `FrontLine`."""

    against: str
    gain: IntervalEstimate
    extra: float
    shared: int

    @property
    def is_beaten(self) -> bool:
        """Whether the other scores as much for less, or more for as much."""
        return self.gain.value < TIE and self.extra > -TIE and (self.gain.value < -TIE or self.extra > TIE)


def compare_entries(entry: FrontEntry, against: FrontEntry, price: str) -> FrontComparison:
    """Compare two measured entries on the tasks of both, or by their means where there are less than two."""
    shared = [task for task in entry.runs if task in against.runs]
    summaries = [
        SystemSummary(SystemInfo(name=side.name, target="", method="", workflow=""), scores={**side.scores})
        for side in (entry, against)
    ]
    gain = compute_difference(*summaries)
    if gain is None:
        shared, gain = [], subtract_intervals(*(summary.interval for summary in summaries))
    costs = [side.average(price, shared or side.runs) or 0.0 for side in (entry, against)]
    return FrontComparison(against.name, gain, costs[0] - costs[1], len(shared))


def subtract_intervals(first: IntervalEstimate | None, second: IntervalEstimate | None) -> IntervalEstimate:
    """The difference of two independent means, with the interval that their intervals make."""
    assert first is not None, "it was measured"
    assert second is not None, "it was measured"
    value = first.value - second.value
    low = value - hypot(first.value - first.low, second.high - second.value)
    high = value + hypot(first.high - first.value, second.value - second.low)
    return IntervalEstimate(value=value, low=low, high=high, n=min(first.n, second.n)).clip(-1, 1)


def read_front(
    history: History, home: Path | str | None, price: str = "calls"
) -> tuple[tuple[FrontLine, ...], tuple[str, ...]]:
    """Read the front of a saved team from the runs that made its versions; returns notes too. Asks no model.

    Runs on other tasks, or with another model, than the run of the head are left out.

    Raises:
        ConfigError: as `compute_front`.
        JournalError: a run's journal cannot be read.
    """
    steps = [version.step for version in history.versions]
    names = {
        version.version: f"{history.name}@{version.step if steps.count(version.step) == 1 else version.version}"
        for version in history.versions
    }
    by_run = dict[str, dict[int, Version]]()
    for version in history.versions:
        by_run.setdefault(version.run, {})[version.step] = version
    here = [] if "://" in str(home or "") else list_run_names(home)
    requests = {run: found for run in by_run if run in here and (found := _load_request(home, run))}
    head = history.head.rpartition(".")[0]
    first = requests.get(head, next(iter(requests.values()), None))
    unlike = {run: why for run, request in requests.items() if first and (why := _list_differences(request, first))}
    like = requests.keys() - unlike.keys()
    entries, notes = dict[str, FrontEntry](), list[str]()
    for run, versions in by_run.items():
        if run in unlike:
            notes.append(f"versions of {run} are left out: {' and '.join(unlike[run])}; see `selfwire report {run}`")
            continue
        phases = list[Phase]()
        if run in like:
            with explain_foreign(run), JournalReader(get_run_folder(home, run) / JOURNAL) as journal:
                phases = [*read_phases(journal, Trajectory, without="rollout")]
        collect_entries(phases, versions, names, entries, f" of {run}" if len(like) > 1 else "")
    notes += [
        f"versions of {run} are not measured: that run is no evolution, or has been removed"
        for run, versions in by_run.items()
        if run not in requests and not all(entries[version.fingerprint].runs for version in versions.values())
    ]
    return compute_front(entries.values(), price), tuple(notes)


def _load_request(home: Path | str | None, run: str) -> EvolveSpec | None:
    path = get_run_folder(home, run) / JOURNAL
    with explain_foreign(run), JournalReader(path) as journal:
        command = (journal.notes(SUMMARY).get(SUMMARY) or {}).get("command")
    return load_request(path, EvolveSpec) if command == "evolve" else None


def _list_differences(request: EvolveSpec, other: EvolveSpec) -> list[str]:
    """Why scores and prices of two runs are not to be compared; a model that only one of them names does not count."""
    ours, theirs = request.models, other.models
    both = ours.named.keys() & theirs.named.keys()
    unlike = {
        "other tasks": (request.benchmark, request.own_data) != (other.benchmark, other.own_data),
        "another grader": (request.grader, request.rubric) != (other.grader, other.rubric),
        "another model": (ours.agent, ours.base_url) != (theirs.agent, theirs.base_url)
        or any(ours.named[name] != theirs.named[name] for name in both),
    }
    return [what for what, is_unlike in unlike.items() if is_unlike]


def read_phases(
    journal: JournalReader, schema: type[AnyTrajectory], without: str = ""
) -> Iterator[tuple[int, str, str, list[AnyTrajectory]]]:
    """Read the phases in which a team ran on tasks, but one: iteration, phase, side and trajectories."""
    for name, note in journal.notes(TRAJECTORIES).items():
        iteration, phase, side = name.removeprefix(TRAJECTORIES).split("/", 2)
        if phase == without:
            continue
        found = journal.bodies([*note.values()], schema.model_validate)
        runs = [found[digest] for digest in note.values() if digest in found]
        yield int(iteration), phase, side, runs

"""Which tasks a saved workflow has learned from: they are left out where it is measured."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from selfwire.core.errors import JournalError
from selfwire.core.task import Task
from selfwire.core.values import fingerprint
from selfwire.runs import evolution as evolutions
from selfwire.runs.evaluation.pre_evolution import evolutions_of
from selfwire.runs.evaluation.request import EvaluationRequest
from selfwire.runs.evaluation.systems import Found
from selfwire.runs.folders import JOURNAL, runs_folder
from selfwire.runs.requests import EvolveRequest
from selfwire.runs.run_record import asked


class Seen(NamedTuple):
    """What contestants have learned from.

    Attributes:
        marks: fingerprints of the tasks' texts and entities.
        tasks: how many tasks.
        unknown: runs that evolved a contestant and are gone, so that nobody knows.
    """

    marks: frozenset[str] = frozenset()
    tasks: int = 0
    unknown: tuple[str, ...] = ()

    def holds(self, task: Task) -> bool:
        """Whether a task, or what it is about, was learned from."""
        return bool(self.marks) and not self.marks.isdisjoint(_marks(task))


def seen(workflows: Iterable[Found], request: EvaluationRequest, home: Path | None) -> Seen:
    """What the contestants of an evaluation have learned from, by the runs that evolved them."""
    found: dict[str, Task] = {}
    unknown = []
    for run in sorted({one.run for one in workflows if one.learned and one.run}):
        path = runs_folder(home) / run / JOURNAL
        if not path.exists():
            unknown.append(run)
            continue
        for evolution in _evolutions(path, home):
            if evolution.benchmark == request.benchmark:
                splits = evolutions.splits(evolution)
                found |= {task.id: task for task in (*splits.train, *splits.gate)}
    marks = frozenset(mark for task in found.values() for mark in _marks(task))
    return Seen(marks, len(found), tuple(unknown))


def _evolutions(path: Path, home: Path | None) -> list[EvolveRequest]:
    try:
        return [asked(path, EvolveRequest)]
    except JournalError:
        whole = asked(path, EvaluationRequest)
        return [one.asked for one in evolutions_of(whole, path.parent, home)]


def _marks(task: Task) -> set[str]:
    return {fingerprint(["text", task.input]), *(fingerprint(["entity", entity]) for entity in task.entities)}

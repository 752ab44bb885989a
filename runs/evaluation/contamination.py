"""Which tasks a saved workflow has learned from: they are left out where it is measured."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from selfwire.core.errors import JournalError
from selfwire.core.task import Task
from selfwire.core.values import fingerprint
from selfwire.runs import evolution as evolutions
from selfwire.runs.evaluation.pre_evolution import make_evolutions
from selfwire.runs.evaluation.request import EvaluationRequest
from selfwire.runs.evaluation.systems import LoadedWorkflow
from selfwire.runs.folders import JOURNAL, get_runs_folder
from selfwire.runs.requests import EvolveRequest
from selfwire.runs.run_record import load_request


class ContaminatedTasks(NamedTuple):
    """The tasks that systems have learned from.

    Attributes:
        marks: fingerprints of the tasks' texts and entities.
        unknown: runs that evolved a system and were removed, so that their tasks are not known.
    """

    marks: frozenset[str] = frozenset()
    tasks: int = 0
    unknown: tuple[str, ...] = ()

    def has_task(self, task: Task) -> bool:
        """Whether a system has learned from a task, or from one about the same entities."""
        return bool(self.marks) and not self.marks.isdisjoint(_marks(task))


def find_contaminated_tasks(
    workflows: Iterable[LoadedWorkflow], request: EvaluationRequest, home: Path | None
) -> ContaminatedTasks:
    """The tasks that the systems of an evaluation have learned from, by the runs that evolved them."""
    found: dict[str, Task] = {}
    unknown = []
    for run in sorted({one.run for one in workflows if one.learned and one.run}):
        path = get_runs_folder(home) / run / JOURNAL
        if not path.exists():
            unknown.append(run)
            continue
        for evolution in _evolutions(path, home):
            if evolution.benchmark == request.benchmark:
                splits = evolutions.splits(evolution)
                found |= {task.id: task for task in (*splits.train, *splits.gate)}
    marks = frozenset(mark for task in found.values() for mark in _marks(task))
    return ContaminatedTasks(marks, len(found), tuple(unknown))


def _evolutions(path: Path, home: Path | None) -> list[EvolveRequest]:
    try:
        return [load_request(path, EvolveRequest)]
    except JournalError:
        whole = load_request(path, EvaluationRequest)
        return [one.evolve_request for one in make_evolutions(whole, path.parent, home)]


def _marks(task: Task) -> set[str]:
    return {fingerprint(["text", task.input]), *(fingerprint(["entity", entity]) for entity in task.entities)}

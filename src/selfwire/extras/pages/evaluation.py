"""Reads an evaluation: several systems on the same tasks."""

from collections.abc import Iterable

from selfwire.core.errors import JournalError
from selfwire.core.values import format_count
from selfwire.evals.table import TaskRow, name_system
from selfwire.extras.pages.data import Place, SpendLine, SystemLine
from selfwire.extras.pages.evolution import compare_with_base, make_place
from selfwire.extras.pages.stored import StoredTrajectory
from selfwire.extras.pages.verdicts import format_gain
from selfwire.runs.record import ROWS
from selfwire.runs.systems import TEAM_DIGESTS, LoadedTeam
from selfwire.store.journal_file import JournalReader


def read_systems_on_tasks(journal: JournalReader, split: str) -> tuple[Place, ...]:
    """The rows of each system, in the order of the names, with the trajectories that were kept."""
    rows: dict[str, list[TaskRow]] = {}
    for name, note in journal.notes(f"{ROWS}/").items():
        rows.setdefault(name.split("/", 2)[1], []).append(TaskRow.model_validate(note))
    digests = journal.notes(TEAM_DIGESTS).get(TEAM_DIGESTS, {})
    teams = journal.bodies([*digests.values()], LoadedTeam.model_validate)
    methods = {name: teams[digest].workflow.method for name, digest in digests.items() if digest in teams}
    return tuple(_make_place(journal, name, split, found, methods.get(name, "")) for name, found in rows.items())


def _make_place(journal: JournalReader, name: str, split: str, rows: list[TaskRow], method: str) -> Place:
    bodies = journal.bodies([row.trajectory for row in rows if row.trajectory], StoredTrajectory.model_validate)
    trails = []
    for row in rows:
        if row.trajectory not in bodies:
            raise JournalError(f"run {journal.run!r} has no trajectory of task {row.task!r}; it was damaged")
        trails.append(bodies[row.trajectory])
    place = make_place(name, name_system(name), split, 0, trails, name)
    return place.replace(outcomes=tuple(rows), method=method)


def compare_systems(places: Iterable[Place], order: Iterable[str], against: str) -> tuple[SystemLine, ...]:
    """A line per system, with its difference from one of them."""
    by_name = {place.side: place for place in places}
    names = [*(name for name in by_name if name not in order), *(name for name in order if name in by_name)]
    return compare_with_base({name: by_name[name] for name in names}, against, name_system)


def describe_comparison(lines: Iterable[SystemLine], names: Iterable[str], against: str, status: str) -> str:
    """The best of the systems that were asked for, and whether it differs from the one to compare with."""
    asked = [line for line in lines if line.name in names and line.score is not None]
    if not asked:
        return f"No result yet: this evaluation is {status}."
    best = max(asked, key=lambda line: line.score.value if line.score else 0.0)
    tasks = format_count(best.tasks, "task")
    if len(asked) == 1:
        return f"{best.name}: mean score {best.score} on {tasks}, at {best.calls:.1f} calls each."
    if best.gain is None:
        return f"No system has a higher mean score than {against}: {best.score} on {tasks}."
    sure = "did best" if best.gain.low > 0 else "has the highest mean score, but no effect is shown"
    return f"{best.name} {sure}: {best.score} on {tasks}, {format_gain(best.gain)} from {against}."


def sum_spend(places: Iterable[Place]) -> tuple[SpendLine, ...]:
    """Sum the cost of each system on its tasks."""
    spends = ((place.side, place.summarise().spend) for place in places)
    return tuple(
        SpendLine(role="agents", what=name, calls=spend.calls, tokens=spend.tokens, dollars=spend.dollars)
        for name, spend in spends
    )

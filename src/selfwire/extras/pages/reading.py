"""Reads what the page of a run shows from the run's journal, its record and the saved teams."""

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from selfwire.cli.output import format_spend, sum_by_model
from selfwire.core.errors import ConfigError
from selfwire.core.trajectory import sum_decisions
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import format_count
from selfwire.evals.statistics import IntervalEstimate
from selfwire.extras.lab.ablation.record import STUDY
from selfwire.extras.pages.data import Place, RunReport, SpendLine
from selfwire.extras.pages.evaluation import compare_systems, describe_comparison, read_systems_on_tasks, sum_spend
from selfwire.extras.pages.evolution import (
    Saved,
    compare_places,
    describe_page_worth,
    read_insights,
    read_page_front,
    read_places,
    read_systems,
    read_versions,
)
from selfwire.extras.pages.studies import describe_recorded
from selfwire.extras.pages.training import (
    compare_ways,
    describe_training,
    read_learning,
    read_training_places,
    summarise_training,
)
from selfwire.extras.pages.verdicts import describe_verdict, make_standfirst
from selfwire.graphs.rollouts import JUDGE_NODE
from selfwire.models.sync import run_sync
from selfwire.runs.record import (
    JOURNAL,
    SUMMARY,
    check_summary,
    explain_foreign,
    get_run_folder,
    list_run_names,
    load_request,
    read_evolutions,
)
from selfwire.runs.spec import STAMP, EvaluateSpec, EvolveSpec, RunSpec
from selfwire.store.journal_file import JournalReader
from selfwire.store.library import Library, open_library

AT_WORK: Mapping[str, tuple[str, str]] = {
    "rollout": ("agents", "train tasks"),
    "draft": ("agents", "train tasks of a draft"),
    "gate": ("agents", "gate tasks"),
    "train": ("agents", "train tasks"),
    "test": ("agents", "test tasks"),
    "baseline": ("baselines", "test tasks"),
}
"""Role of the models, and the tasks, by phase of a run."""


def find_run(home: str | Path | None, name: str) -> str:
    """A run by its name, or the run that made the version that a saved team's name means.

    Raises:
        ConfigError: there is neither.
        LibraryError: there is no such saved team.
    """
    runs = list_run_names(home)
    if name in runs:
        return name
    with open_library(home, create=False) as library:
        run = run_sync(library.find(name)).run
    if run not in runs:
        raise ConfigError(f"run {run!r}, which made {name!r}, has been removed; name one that `selfwire runs` lists")
    return run


def read_report(home: str | Path | None, run: str, *, snapshot: bool = False) -> RunReport:
    """Everything that the page of a run shows; works on runs that are under way or were stopped.

    Args:
        snapshot: whether saved teams are read without a lock; see `open_library`.

    Raises:
        ConfigError: there is no such run, or runs of its kind have no page.
    """
    path = get_run_folder(home, run) / JOURNAL
    with explain_foreign(run), JournalReader(path) as journal:
        summary = check_summary(run, journal.notes(SUMMARY).get(SUMMARY))
        if study := journal.notes(STUDY):
            return describe_recorded(study, study[STUDY], journal.run)
        command = summary.get("command")
        if command == "evolve":
            with open_library(home, create=False, snapshot=snapshot) as library:
                return _read_evolution(library, journal, path, summary)
        if command in ("eval", "compare"):
            return _read_evaluation(journal, path, summary)
        if command == "train":
            return _read_training(journal, path, summary)
    raise ConfigError(f"run {run!r} is of `selfwire {command}`; pages are of evolve, eval, compare and train")


def _read_evolution(library: Library, journal: JournalReader, path: Path, summary: Mapping[str, object]) -> RunReport:
    request = load_request(path, EvolveSpec)
    saved = _load_versions(library, request.evolution.name, journal.run)
    places = read_places(journal, saved, request.method)
    versions = read_versions(saved, places)
    systems = read_systems(journal, places)
    size, settings = request.sizes, request.evolution
    return RunReport(
        run=journal.run,
        title=f"{request.method} on {summary['benchmark']}",
        verdict=describe_verdict(
            request.method, systems, _compare_tests(places), describe_page_worth(places), str(summary["status"])
        ),
        standfirst=make_standfirst(versions, places),
        facts=(
            *_list_facts(journal, path, request, summary),
            ("tasks", f"{size.train} train, {size.gate} gate, {size.test} test"),
            ("gate", settings.gate if settings.rule is None else f"{settings.gate}, {settings.objective}"),
            ("seed", str(settings.seed)),
            *_describe_decisions(places),
        ),
        warning=STAMP if request.models.is_offline else "",
        versions=versions,
        insights=read_insights(saved[max(saved)].workflow) if saved else (),
        systems=systems,
        front=read_page_front(saved, places),
        places=places,
        spend=_sum_by_role([journal.spend_by_place()]),
    )


def _describe_decisions(places: Iterable[Place]) -> tuple[tuple[str, str], ...]:
    """The free decisions of a run's router and their regret, as a fact; nothing where it had no choice."""
    decided = sum_decisions(done.decisions for place in places for done in place.trails)
    if decided is None or decided.is_vacuous:
        return ()
    regret = decided.format_regret()
    return (("free decisions", str(decided)), *([("regret by own beliefs", regret)] if regret else ()))


def _read_evaluation(journal: JournalReader, path: Path, summary: Mapping[str, object]) -> RunReport:
    request = load_request(path, EvaluateSpec)
    names = [entry.name for entry in request.entries]
    against = request.against or names[0]
    places = read_systems_on_tasks(journal, request.split)
    lines = compare_systems(places, names, against)
    judged = {place: usage for place, usage in journal.spend_by_place().items() if place[1] == JUDGE_NODE}
    cap = f"at most {request.calls_per_task} calls per task" if request.calls_per_task else "no cap of calls"
    paired = f"; differences are from {against}, paired by task" if len(lines) > 1 else ""
    return RunReport(
        run=journal.run,
        title=f"{request.command} on {summary['benchmark']}",
        verdict=describe_comparison(lines, names, against, str(summary["status"])),
        standfirst=f"{request.tasks} {request.split} tasks, {cap}{paired}. Errors are counted apart.",
        facts=(
            *_list_facts(journal, path, request, summary),
            ("systems", ", ".join(names)),
            ("seed", str(request.seed)),
        ),
        warning=STAMP if request.models.is_offline else "",
        systems=lines,
        systems_title="The systems",
        places=places,
        spend=(*sum_spend(places), *_sum_by_role([judged, *read_evolutions(path, JournalReader.spend_by_place)])),
    )


def _read_training(journal: JournalReader, path: Path, summary: Mapping[str, object]) -> RunReport:
    request = load_request(path, EvolveSpec)
    places = read_training_places(journal, request.method)
    systems = compare_ways(places)
    learning = read_learning(journal, places)
    return RunReport(
        run=journal.run,
        title=f"training of {request.method}'s router on {summary['benchmark']}",
        verdict=describe_training(request.method, systems, str(summary["status"])),
        standfirst=summarise_training(learning, systems),
        facts=(
            *_list_facts(journal, path, request, summary),
            ("tasks", f"{request.sizes.train} train, {request.sizes.test} test"),
            ("seed", str(request.evolution.seed)),
        ),
        warning=STAMP if request.models.is_offline else "",
        systems=systems,
        learning=learning,
        places=places,
        spend=_sum_by_role([journal.spend_by_place()]),
    )


def _load_versions(library: Library, name: str, run: str) -> dict[int, Saved]:
    """The versions that a run has saved, by number; none before its first moment is over."""
    if name not in run_sync(library.names()):
        return {}
    versions = [version for version in run_sync(library.history(name)).versions if version.run == run]
    return {version.step: Saved(version, run_sync(library.load(version.ref))) for version in versions}


def _compare_tests(places: tuple[Place, ...]) -> IntervalEstimate | None:
    """The evolved team's gain on the test tasks, paired."""
    sides = {place.side: place for place in places if place.split == "test"}
    if not {"before", "after"} <= sides.keys():
        return None
    return compare_places(sides["after"], sides["before"])


def _sum_by_role(parts: Iterable[Mapping[tuple[str, str], Usage]]) -> tuple[SpendLine, ...]:
    """Sum spends by phase and node to a line for each role, in the order of a run's phases."""
    found: dict[tuple[str, str], list[Usage]] = {}
    for (phase, node), usage in chain.from_iterable(part.items() for part in parts):
        work = AT_WORK["test"] if phase.startswith("test-") else AT_WORK.get(phase, ("reflection", phase))
        role = ("judge", "grading") if node == JUDGE_NODE else work
        found.setdefault(role, []).append(usage)
    sums = {role: sum_usages(usages) for role, usages in found.items()}
    order = [*dict.fromkeys(role for role, _ in AT_WORK.values()), "reflection", "judge"]
    return tuple(
        SpendLine(role=role, what=what, calls=usage.calls, tokens=usage.tokens, dollars=usage.dollars)
        for (role, what), usage in sorted(sums.items(), key=lambda entry: (order.index(entry[0][0]), -entry[1].tokens))
        if usage.calls
    )


def _list_facts(
    journal: JournalReader, path: Path, request: RunSpec, summary: Mapping[str, object]
) -> tuple[tuple[str, str], ...]:
    """Facts that describe the run, by name."""
    models = request.models
    told = [models.agent] + [f"{role}: {name}" for role, name in models.roles.items() if name != models.agent]
    told += [f"{name}: {model}" for name, model in models.named.items()]
    spent = sum_usages([journal.spend(), *read_evolutions(path, JournalReader.spend)])
    parts = [journal.spend_by_model(), *read_evolutions(path, JournalReader.spend_by_model)]
    by_model = sum_by_model(parts) if models.are_several else {}
    return (
        ("benchmark", str(summary["benchmark"])),
        ("model", ", ".join(told)),
        ("status", str(summary["status"])),
        ("spent", f"{format_count(spent.calls, 'call')}, {format_count(spent.tokens, 'token')}"),
        *((f"spent on {label}", format_spend(usage)) for label, usage in by_model.items()),
    )

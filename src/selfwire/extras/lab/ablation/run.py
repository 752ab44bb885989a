"""Runs a study: independent evolutions or evaluations in a pool of processes, each result kept as it comes."""

import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.trajectory import DecisionCount, Trajectory, sum_decisions
from selfwire.core.values import fingerprint
from selfwire.evals.statistics import compute_cost_efficiency, compute_mean
from selfwire.evals.table import read_results, summarise_trajectories
from selfwire.evolvers.gate import name_outcome, pair_scores
from selfwire.extras.cluster.executors import open_workers
from selfwire.extras.cluster.jobs import Job, Report, run_jobs
from selfwire.extras.cluster.shared_ledger import open_ledger
from selfwire.extras.cluster.worker_budgets import refuse_unusable_cluster, share_rates
from selfwire.extras.lab.ablation.plan import NAME, Operations, Study
from selfwire.extras.lab.ablation.record import Record, RecordedStudy
from selfwire.extras.lab.ablation.rows import (
    OUTCOMES,
    EvaluationRow,
    EvolutionRow,
    VariantRow,
    append_row,
    begin_study,
    parse_study_rows,
    read_rows,
)
from selfwire.graphs.evolve import UNDO
from selfwire.graphs.method import FULL, RANDOM
from selfwire.graphs.rollouts import get_trajectories_note
from selfwire.models.budget import Ledger
from selfwire.models.sync import run_sync
from selfwire.runs import evaluation as evaluations
from selfwire.runs import evolution as evolutions
from selfwire.runs.evaluation import start_evaluation
from selfwire.runs.evolution import OpenEvolution, get_test_trajectories, start_evolution
from selfwire.runs.spec import WorkerOptions
from selfwire.store.library import Version

SIDES = (
    ("rollout", ""),
    ("draft", "incumbent"),
    ("draft", "draft"),
    ("draft", "candidate"),
    ("gate", "incumbent"),
    ("gate", "candidate"),
    ("gate", "pruned"),
    ("test", "before"),
    ("test", "after"),
)
"""Phases and sides of which an evolution keeps trajectories."""
ENDS = ("before", "after")
"""Sides of the test phase."""
UNMATCHED = ("REPAIR", "PRUNE", "ADD_EXAMPLES", UNDO)
"""Kinds of rewirings without a random counterpart."""


def measure_evolution(
    study: Study, key: str, name: str, seed: int, edits: Operations | None = None, parent: Ledger | None = None
) -> EvolutionRow:
    """Run one evolution in a home folder that is removed afterwards.

    Args:
        key: `study.key`, as it was when the study began.
        edits: for the random control, kinds of edits per iteration.
        parent: shares with other processes what providers allow.
    """
    since = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="selfwire-study-") as home:
        with start_evolution(study.request(name, seed, edits), Path(home), run=NAME, parent=parent) as run:
            final = run_sync(run.execute())
            found = run_sync(_measured(run, dict(final)))
    return EvolutionRow(study=key, variant=name, seed=seed, seconds=round(time.monotonic() - since, 2), **found)


async def _measured(run: OpenEvolution, final: Mapping[str, Any]) -> dict[str, Any]:
    tasks = run.splits.test
    before, after = [summarise_trajectories(end, await get_test_trajectories(run, end, tasks)) for end in ENDS]
    pairs = pair_scores(before.scores, after.scores).values()
    if not pairs:
        raise ConfigError("no test task was finished by both seed and evolved team; give more test tasks")
    score, spent = compute_mean([b for _, b in pairs]), run.ledger.spent
    tested = await run.journal.spend_at(phase="test")  # a team that is the seed team still is tested once
    priced = spent.dollars is not None and tested.dollars is not None
    evolved = Team.model_validate(await run.journal.get_body(final["incumbent"]))
    history = [v for v in (await run.library.history(NAME)).versions if v.step > 0]
    operations = tuple(list_operations(version.facts) for version in history)
    return {
        "before": compute_mean([a for a, _ in pairs]),
        "after": score,
        "compared": len(pairs),
        "errors": before.errors + after.errors,
        "nodes": len(evolved.topology.nodes),
        "calls_before": before.spend.calls / len(tasks),
        "calls": after.spend.calls / len(tasks),
        "tokens": after.spend.tokens / len(tasks),
        "efficiency": compute_cost_efficiency(score, after.spend, len(tasks)),
        "evolution_calls": spent.calls - tested.calls,
        "dollars": max((spent.dollars or 0) - (tested.dollars or 0), 0) if priced else None,
        "edits": tuple(map(len, operations)),
        "operations": operations,
        **count_outcomes(history),
        "workflow": evolved.fingerprint,
        **await _summarise_runs(run),
    }


def list_operations(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """List the kinds of a method's edits in an iteration, accepted or not, with those that its own test has rejected.

    Args:
        facts: of the iteration's version.
    """
    made = (*(rewiring["operation"] for rewiring in facts["applied"]), *facts["notes"].get("tried", ()))
    return tuple(operation for operation in made if operation not in UNMATCHED)


def count_outcomes(history: Sequence[Version]) -> dict[str, int]:
    """Iterations by their outcome, as rows name it."""
    found = Counter(name_outcome(version.facts["gate"]) for version in history)
    return {figure: found[outcome] for outcome, figure in OUTCOMES.items()}


async def _summarise_runs(run: OpenEvolution) -> dict[str, Any]:
    """Fingerprints of what the teams did, by phase, and the decisions of their router."""
    journal, paths, decided = run.journal, dict[str, str](), list[DecisionCount | None]()
    for iteration, (phase, side) in product(range(max(run.config.iterations, 1)), SIDES):
        bodies = await journal.get_note(get_trajectories_note(iteration, phase, side))
        if bodies:
            runs = [Trajectory.model_validate(await journal.get_body(body)) for _, body in sorted(bodies.items())]
            taken = [path(trajectory) for trajectory in runs]
            paths["/".join(filter(None, (str(iteration), phase, side)))] = fingerprint(taken)
            decided += [trajectory.decisions for trajectory in runs]
    return {"paths": paths, "decisions": sum_decisions(decided)}


def path(trajectory: Trajectory) -> list[Any]:
    """The steps of a team, without costs and routing scores."""
    return [
        [step.node, step.agent, step.output, [sent.target for sent in step.sent], [use.name for use in step.tools]]
        for step in trajectory.steps
    ]


def measure_evaluation(study: Study, key: str, name: str, seed: int, parent: Ledger | None = None) -> EvaluationRow:
    """Run one evaluation in a home folder that is removed afterwards.

    Args:
        key: `study.key`, as it was when the study began.
        parent: shares with other processes what providers allow.

    Raises:
        ConfigError: every task ended as an error.
    """
    since = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="selfwire-study-") as home:
        with start_evaluation(study.evaluation(name, seed), Path(home), run=NAME, parent=parent) as run:
            line = run_sync(run.execute())[-1]
            out = run.out
        _, rows = read_results(out)
    if line.score is None:
        raise ConfigError(f"no task of variant {name!r} and seed {seed} was finished; look into the model's faults")
    tasks = len(line.scores)
    answers = [[row.task, row.answer, row.calls] for row in rows if row.target == NAME]
    return EvaluationRow(
        study=key,
        variant=name,
        seed=seed,
        after=line.score,
        compared=len(line.graded),
        errors=line.errors,
        calls=line.spend.calls / tasks,
        tokens=line.spend.tokens / tasks,
        efficiency=line.efficiency,
        rounds=None if line.rounds is None else line.rounds / tasks,
        decisions=line.decisions,
        paths={"test": fingerprint(answers)},
        seconds=round(time.monotonic() - since, 2),
    )


def run_ablation(
    study: Study,
    out: Path,
    workers: WorkerOptions,
    tell: Callable[[str], None],
    record: Record,
) -> tuple[VariantRow, ...]:
    """Run the runs of a study that have no row yet, on workers.

    Args:
        out: JSONL of the rows; rows in it are not run again.
        tell: gets a line when a run ends.
        record: puts the study on record.

    Returns:
        The rows of the chosen variants and seeds, variant by variant.

    Raises:
        ConfigError: the study or the file cannot be used, or a cluster cannot share limits.
        BudgetError, ModelError: a run stopped; the rows of the others are in the file.
    """
    key, wanted = study.key, [(name, seed) for name in study.chosen for seed in range(study.seeds)]
    if study.evolves:
        evolutions.validate_request(study.request(FULL, 0), None)
    else:
        evaluations.validate_request(study.evaluation(FULL, 0), None)
    refuse_unusable_cluster(study.request(FULL, 0), workers)
    schema: type[VariantRow] = EvolutionRow if study.evolves else EvaluationRow
    rows = {row.key: row for row in read_rows(out, key, schema)}
    begin_study(study, out)
    todo = [place for place in wanted if place not in rows]
    at_once = f", {workers.workers} at a time" if workers.workers else ""
    what = "evolutions" if study.evolves else "evaluations"
    tell(f"{len(wanted)} {what}, {len(wanted) - len(todo)} of them done{at_once}")
    since = time.monotonic()
    with record(RecordedStudy(head=study, total=len(wanted)), key) as note:

        def keep(row: VariantRow) -> None:
            append_row(out, row)
            rows[row.key] = row
            note(_name_row(row), row)
            made = sum(place in rows for place in todo)
            tell(format_progress(row, made, len(todo), time.monotonic() - since))

        for row in rows.values():
            note(_name_row(row), row)
        _run(study, key, todo, rows, workers, keep)
    return tuple(rows[place] for place in wanted)


def _name_row(row: VariantRow) -> str:
    return f"{row.seed:04}-{row.variant}"


def format_progress(row: VariantRow, made: int, total: int, seconds: float) -> str:
    """How a run ended, and how long the rest may take."""
    left = seconds / made * (total - made)
    came = f"{row.after:.2f}"
    if isinstance(row, EvolutionRow):
        came = (
            f"{row.before:.2f} -> {row.after:.2f}, {row.nodes} nodes, {row.accepted} accepted, {row.rejected} rejected"
        )
    return (
        f"[{made}/{total}] {row.variant} seed {row.seed}: {came}, {row.calls:.1f} calls/task, {row.seconds:.0f} s; "
        f"about {left / 60:.0f} min left"
    )


def measure_variant(
    report: Report, study: dict[str, Any], key: str, name: str, seed: int, edits: Any, rates: str | None
) -> VariantRow:
    """Run one variant with one seed.

    Args:
        rates: where workers share what providers allow; None if they share nothing.
    """
    chosen = Study.model_validate(study)
    with closing(open_ledger(rates)) as parent:
        if not chosen.evolves:
            return measure_evaluation(chosen, key, name, seed, parent)
        return measure_evolution(chosen, key, name, seed, edits, parent)


def _run(
    study: Study,
    key: str,
    todo: Sequence[tuple[str, int]],
    rows: Mapping[tuple[str, int], VariantRow],
    workers: WorkerOptions,
    keep: Callable[[VariantRow], None],
) -> None:
    """Run seed by seed, so that a stopped study has whole seeds; random waits for full."""
    later = sorted(todo, key=lambda place: place[1])

    def take_ready() -> list[Job]:
        ready = [place for place in later if place[0] != RANDOM or (FULL, place[1]) in rows]
        for place in ready:
            later.remove(place)
        return [_make_job(study, key, *place, rows, rates) for place in ready]

    with share_rates(study.request(FULL, 0), workers) as rates, open_workers(workers) as executor:
        waiting = deque(take_ready())
        for ended in run_jobs(waiting, executor):
            keep(*parse_study_rows(study, [ended.result]))
            waiting.extendleft(reversed(take_ready()))


def _make_job(
    study: Study, key: str, name: str, seed: int, rows: Mapping[tuple[str, int], VariantRow], rates: str | None
) -> Job:
    full = rows[FULL, seed] if name == RANDOM else None
    edits = full.operations if isinstance(full, EvolutionRow) else None
    what = f"{name} with seed {seed}"
    return Job.of(what, measure_variant, study=study, key=key, name=name, seed=seed, edits=edits, rates=rates)

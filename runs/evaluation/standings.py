"""The table of an evaluation, with notes that explain it."""

from collections.abc import Iterator, Sequence
from textwrap import shorten

from selfwire.core.values import format_count
from selfwire.evals.benchmarks.benchmark import TrivialRule
from selfwire.evals.evaluation.table import SOLVED, SystemSummary, Table, build_table, choose_comparison, list_columns
from selfwire.runs.evaluation.run import Evaluation
from selfwire.runs.report import STAMP
from selfwire.runtime.sync import run_sync

FAULT = 160
"""Most characters of an error below the table; `selfwire show RUN` and the results have it whole."""


def build_results_table(run: Evaluation, lines: Sequence[SystemSummary]) -> Table:
    """The table of an evaluation; offline without time and price; without the share solved where it is the score."""
    against = choose_comparison(lines, run.request.against)
    columns = list_columns(against)
    if run.request.models.calls_no_server:
        columns = tuple(column for column in columns if column.name not in ("$/task", "s/task"))
    if all({*line.graded} <= {0, 1} and line.solved == sum(line.graded) for line in lines):
        columns = tuple(column for column in columns if column is not SOLVED)
    return build_table(columns, lines, (_conditions(run, lines, against), *_remarks(run, lines)))


def describe_trivial_baseline(rule: TrivialRule) -> str:
    """What the trivial baseline of a benchmark does, to read below a table."""
    return f"trivial baseline: {rule.name}, without a model"


def _conditions(run: Evaluation, lines: Sequence[SystemSummary], against: SystemSummary) -> str:
    request = run.request
    cap = f"at most {request.calls_per_task} calls per task" if request.calls_per_task else "no cap of calls"
    evolved = "; calls per task are those of answering, evolution has its own column" if request.evolving else ""
    efficiency = "; S = 100 P / ($ per task + 0.01)" if any(line.spend.dollars != 0 for line in lines) else ""
    tasks = format_count(len(run.tasks), "task")
    return (
        f"{run.benchmark.name}, {request.split} split, {tasks}, model {request.models.agent}, seed {request.seed}, "
        f"{cap}; errors are counted apart;"
        f" differences are paired by task, from {against.contestant.name}{evolved}{efficiency}"
    )


def _remarks(run: Evaluation, lines: Sequence[SystemSummary]) -> Iterator[str]:
    yield describe_trivial_baseline(run.benchmark.baseline)
    for line in lines:
        if line.errors:
            yield f"{line.contestant.name}: {format_count(line.errors, 'error')}, such as {shorten(line.fault, FAULT)}"
        if line.capped:
            yield f"{line.contestant.name}: {format_count(line.capped, 'task')} over the cap of calls, scored 0"
    for line in lines:
        means = line.figures
        if figures := [f"{name} {means[name]:.3f}" for name in run.benchmark.figures if name in means]:
            yield f"{line.name}: {', '.join(figures)}"
        if line.judged:
            yield f"{line.name}: its own judge was right on {line.agreed} of {line.judged}"
        yield from _describe_runs(line)
    if run.benchmark.aside is not None:
        yield from run_sync(run.benchmark.aside())
    if run.request.models.is_offline:
        yield STAMP


def _describe_runs(line: SystemSummary) -> Iterator[str]:
    """How a method's runs went, by its own measures, and why they ended."""
    if measures := [f"{name} {mean:.3f} (s.e. {error:.3f})" for name, (mean, error) in line.measures.items()]:
        yield f"{line.name}: {', '.join(measures)}"
    if line.ends:
        yield f"{line.name}: runs ended by {', '.join(f'{why} {count}' for why, count in line.ends.most_common())}"

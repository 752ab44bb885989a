"""Comparisons of teams on the same tasks, and the table of an evaluation with its notes."""

import asyncio
import math
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from textwrap import shorten
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import is_graph
from selfwire.core.values import format_count, is_id
from selfwire.evals.table import (
    SOLVED,
    ResultTable,
    SystemSummary,
    build_table,
    choose_comparison,
    list_columns,
)
from selfwire.graphs.method import find_method, parse_config
from selfwire.models.metered_chat import list_unusable_replies
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import OpenEvaluation, fit_evaluation, start_or_resume
from selfwire.runs.inputs import (
    MODEL,
    CallOptions,
    FoundTeam,
    Given,
    TaskSets,
    Teamlike,
    find_shared_model,
    find_team,
)
from selfwire.runs.record import make_run_name, open_in_thread, shorten_name
from selfwire.runs.results import FAULT, Comparison, Evaluation
from selfwire.runs.spec import STAMP, EvaluateSpec, SystemSpec, require_names
from selfwire.runs.votes import refuse_names_of_votes

USUAL = {"eval": 100, "compare": 60}
"""Tasks by command, where their number is not given."""


async def evaluate_team(team: Teamlike, tasks: TaskSets, options: CallOptions, config: Mapping[str, Any]) -> Evaluation:
    """Measure a team on tasks, once or several times; see `selfwire.evaluate`.

    Args:
        config: fields of `EvaluateSpec`, and `repeats`.

    Raises:
        ConfigError: `repeats` is less than 1.
    """
    found = await asyncio.to_thread(find_team, team, options.home, method=options.method)
    name = found.name if is_id(found.name) else shorten_name(found.name)
    fields = {**config, "command": "eval"}
    if (repeats := fields.pop("repeats")) < 1:
        raise ConfigError(f"repeats is {repeats}; each task is put to the team at least once, so give 1 or more")
    names = [name, *(f"{name}-{number}" for number in range(2, repeats + 1))]
    async with _measure_teams(dict.fromkeys(names, found), tasks, options, fields) as (opened, _, known):
        return Evaluation(**known, name=name, rows=tuple([row async for row in opened.rows() if row.target in names]))


async def compare_teams(
    teams: Mapping[str, Teamlike] | Sequence[Teamlike], tasks: TaskSets, options: CallOptions, config: Mapping[str, Any]
) -> Comparison:
    """Measure several teams on the same tasks; see `selfwire.compare`.

    Args:
        config: fields of `EvaluateSpec`.

    Raises:
        ConfigError: the teams are none or a single one, or cannot be told apart by name.
    """
    if isinstance(teams, str) or not isinstance(teams, Mapping | Sequence) or not teams:
        raise ConfigError(f'teams are given in a list, or by name as {{"before": ...}}, not as {teams!r}')
    named = teams.items() if isinstance(teams, Mapping) else ((None, team) for team in teams)
    found = [
        (name, await asyncio.to_thread(find_team, team, options.home, method=options.method)) for name, team in named
    ]
    names = [name or (team.name if is_id(team.name) else shorten_name(team.name)) for name, team in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"two teams are called {twice!r}; give a mapping with a name for each")
    by_name = dict(zip(names, (team for _, team in found), strict=True))
    require_names("a team", by_name)
    refuse_names_of_votes(by_name)
    async with _measure_teams(by_name, tasks, options, {**config, "command": "compare"}) as (opened, lines, known):
        against = choose_comparison(lines, opened.request.against).info.name
        return Comparison(**known, systems={line.info.name: line for line in lines}, against=against)


@asynccontextmanager
async def _measure_teams(
    teams: Mapping[str, FoundTeam], tasks: TaskSets, options: CallOptions, config: Mapping[str, Any]
) -> AsyncIterator[tuple[OpenEvaluation, tuple[SystemSummary, ...], dict[str, Any]]]:
    """Run an evaluation of some teams; gives it, still open, with its lines and what every `RunResult` has."""
    async with open_in_thread(await asyncio.to_thread(open_evaluation, teams, tasks, options, config)) as opened:
        lines = await opened.execute(options.on_event or (lambda event: None))
        notices = (*opened.notices, *await list_unusable_replies(opened.journal))
        known = {"run": opened.run, "folder": opened.folder, "cost": opened.spent, "notices": notices}
        yield opened, lines, {**known, "table": build_results_table(opened, lines)}


def open_evaluation(
    teams: Mapping[str, FoundTeam], tasks: TaskSets, options: CallOptions, config: Mapping[str, Any]
) -> AbstractContextManager[OpenEvaluation]:
    """Start the evaluation of some teams, or resume the run of this name; blocks.

    Args:
        config: fields of `EvaluateSpec`.

    Raises:
        ConfigError: no model is given, and the teams were evolved with different ones.
    """
    data = tasks.find(options.tools)
    other = (os.environ.get(MODEL) or None) if options.model is None else str(options.model)
    names, models = options.find_models(find_shared_model((team.model for team in teams.values()), other))
    objects = {found.name: found.team for found in teams.values() if found.team and found.is_object}
    given, command = Given(data.benchmark, models, objects), str(config["command"])
    request = parse_config(
        command,
        EvaluateSpec,
        {
            **config,
            "entries": [SystemSpec(name=name, target=found.name, config=found.config) for name, found in teams.items()],
            "tasks": min(data.sizes.get("test", USUAL[command]), tasks.limit or math.inf),
            "models": names,
            "budget": options.limits,
            **data.fields,
        },
    )
    request, note = fit_evaluation(request, {"--tasks": None}, given)
    name = options.run_name or make_run_name(command, benchmark=request.benchmark)
    return start_or_resume(request, options.folder, name, given, notices=(note,) if note else ())


def build_results_table(run: OpenEvaluation, lines: Sequence[SystemSummary]) -> ResultTable:
    """Make the table of an evaluation, without columns that say nothing here, such as the price of offline calls."""
    against = choose_comparison(lines, run.request.against)
    columns = list_columns(against)
    if run.request.models.calls_no_server and not any(
        is_graph(line.info.method) for line in lines if line.info.workflow
    ):
        columns = tuple(column for column in columns if column.name not in ("$/task", "s/task"))
    if all({*line.graded} <= {0, 1} and line.solved == sum(line.graded) for line in lines):
        columns = tuple(column for column in columns if column is not SOLVED)
    return build_table(columns, lines, (_conditions(run, lines, against), *_remarks(run, lines)))


def describe_models(run: OpenEvaluation) -> str:
    """Name the model of the agents; graphs of the user's own, and what was evolved from one, bring theirs."""
    model = f"model {run.request.models.agent}"
    own = [is_graph(system.info.method) for system in run.systems if system.info.workflow]
    return "models of its own" if all(own) else f"{model}, graphs with models of their own" if any(own) else model


def _conditions(run: OpenEvaluation, lines: Sequence[SystemSummary], against: SystemSummary) -> str:
    request = run.request
    cap = f"at most {request.calls_per_task} calls per task" if request.calls_per_task else "no cap of calls"
    evolves = request.evolving is not None and request.evolving.names
    evolved = "; calls per task are those of answering, evolution has its own column" if evolves else ""
    efficiency = "; S = 100 score / ($ per task + 0.01)" if any(line.efficiency for line in lines) else ""
    tasks = format_count(len(run.tasks), "task")
    return (
        f"{run.benchmark.name}, {request.split} split, {tasks}, {describe_models(run)}, seed {request.seed}, "
        f"{cap}; errors are counted apart;"
        f" intervals are over tasks; differences are paired by task, from {against.info.name}{evolved}{efficiency}"
    )


def _remarks(run: OpenEvaluation, lines: Sequence[SystemSummary]) -> Iterator[str]:
    yield run.benchmark.baseline.note
    for line in lines:
        if line.errors:
            yield f"{line.info.name}: {format_count(line.errors, 'error')}, such as {shorten(line.fault, FAULT)}"
        if line.capped:
            yield f"{line.info.name}: {format_count(line.capped, 'task')} over the cap of calls, scored 0"
        if with_answer := line.cut - line.capped:
            yield f"{line.info.name}: {format_count(with_answer, 'task')} cut short by the cap of calls, with an answer"
    for line in lines:
        means = line.figures
        if figures := [f"{name} {means[name]:.3f}" for name in run.benchmark.figures if name in means]:
            yield f"{line.name}: {', '.join(figures)}"
        if line.judged:
            yield f"{line.name}: its own judge was right on {line.agreed} of {line.judged}"
        yield from _describe_runs(line)
    if run.benchmark.aside is not None:
        yield from run_sync(run.benchmark.aside())
    if run.request.models.is_offline and not all(is_graph(line.info.method) for line in lines if line.info.workflow):
        yield STAMP


def _describe_runs(line: SystemSummary) -> Iterator[str]:
    """Describe a method's runs by its own measures, and why they ended."""
    measures = [
        f"{name} {mean:.2f}{f' (s.e. {error:.2f})' * (error > 0)}" for name, (mean, error) in line.measures.items()
    ]
    if measures:
        yield f"{line.name}: {', '.join(measures)}"
    if line.ends:
        words = find_method(line.info.method).end_reasons
        ended = ", ".join(f"{count} ({words.get(why, why)})" for why, count in line.ends.most_common())
        yield f"{line.name}: why questions ended: {ended}"

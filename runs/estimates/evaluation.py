"""What an evaluation would cost, before it is run."""

from pathlib import Path

from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines.table import SAMPLED
from selfwire.evals.benchmarks.benchmark import NeedsModel
from selfwire.graphs.method_registry import METHODS
from selfwire.runs.estimates.calls import LOOP, Calls, demand, scaled
from selfwire.runs.estimates.evolution import (
    BINDING,
    RANGE,
    TOKENS,
    WITHIN,
    Forecast,
    evolution_usage,
    priced,
    told,
    told_tokens,
)
from selfwire.runs.evaluation.lifecycle import Trial, checked
from selfwire.runs.evaluation.pre_evolution import evolutions_of
from selfwire.runs.evaluation.request import Entry, EvaluationRequest
from selfwire.runs.folders import runs_folder


def estimated(request: EvaluationRequest, home: Path | None) -> Forecast:
    """Estimate calls, tokens and dollars from sizes and knobs alone; nothing is sent or written.

    Raises:
        ConfigError, LibraryError: the request cannot be used.
    """
    trial = checked(request, home)
    low, high = (_whole(request, trial, home, side) for side in (0, 1))
    who = ", ".join(entry.target for entry in request.entries)
    assumes = (
        f"assumes {request.tasks} tasks, of methods the calls that they take offline, {WITHIN}, of baselines 1 to "
        f"{2 * LOOP:g} per agent with tools, and {told_tokens()}; {BINDING.replace('set', 'set --calls-per-task,')}"
    )
    title = f"dry run of {who} on {request.benchmark}: nothing was sent"
    return Forecast(low, high, told(title, low, high, assumes))


def _whole(request: EvaluationRequest, trial: Trial, home: Path | None, side: int) -> Usage:
    """The low (0) or the high (1) end: the contestants, the judge of their answers, and evolutions before."""
    teams, cap, tokens = trial.workflows, request.calls_per_task, TOKENS[side]
    found = Usage()
    for entry in request.entries:
        calls = _calls(entry, teams[entry.name].workflow, cap, side)
        found += priced(scaled(calls, request.tasks), request.models, home, tokens)
    if isinstance(trial.bench.environment, NeedsModel):  # the benchmark's own rule is judged too
        judged = request.tasks * (len(request.entries) + 1)
        found += priced({"judge": judged}, request.models, home, tokens)
    for evolution in evolutions_of(request, runs_folder(home) / "none", home):
        found += evolution_usage(evolution.asked, home, teams[evolution.entry.name].workflow, side)
    return found


def _calls(entry: Entry, workflow: Workflow, cap: int | None, side: int) -> Calls:
    """Calls of a task by role, within the cap."""
    if workflow.method in METHODS:
        calls = scaled(demand(workflow.method, entry.config, workflow).question, RANGE[side])
    else:
        calls = {"agent": _of_baseline(entry, workflow, cap)[side]}
    whole = sum(calls.values())
    return scaled(calls, cap / whole) if cap and whole > cap else calls


def _of_baseline(entry: Entry, workflow: Workflow, cap: int | None) -> tuple[float, float]:
    """Least and most: every node once, and with a tool loop; who votes spends its cap."""
    most = sum(2 * LOOP if workflow.pool[agent].tools else 1 for agent in workflow.topology.agents.values())
    if workflow.method not in SAMPLED:
        return len(workflow.topology.nodes), most
    samples = entry.config.get("samples", SAMPLED[workflow.method])
    if cap and not samples:
        return cap, cap
    return samples or 1, (samples or 1) * most

"""What an evaluation would cost, before it is run."""

from pathlib import Path

from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines.table import SAMPLED
from selfwire.evals.benchmarks.benchmark import NeedsModel
from selfwire.graphs.demand import LOOP, Calls, scale_calls
from selfwire.graphs.method_names import method_names
from selfwire.runs.estimates.calls import estimate_calls
from selfwire.runs.estimates.evolution import (
    BINDING,
    RANGE,
    TOKENS,
    WITHIN,
    CostEstimate,
    estimate_evolution_usage,
    format_range,
    format_tokens,
    price_usage,
)
from selfwire.runs.evaluation.lifecycle import EvaluationPlan, validate_request
from selfwire.runs.evaluation.pre_evolution import make_evolutions
from selfwire.runs.evaluation.request import EvaluationRequest, SystemSpec
from selfwire.runs.folders import get_runs_folder


def estimate_cost(request: EvaluationRequest, home: Path | None) -> CostEstimate:
    """Estimate calls, tokens and dollars from sizes and knobs alone; nothing is sent or written.

    Raises:
        ConfigError, LibraryError: the request cannot be used.
    """
    trial = validate_request(request, home)
    low, high = (_whole(request, trial, home, side) for side in (0, 1))
    who = ", ".join(entry.target for entry in request.entries)
    assumes = (
        f"assumes {request.tasks} tasks, of methods the calls that they take offline, {WITHIN}, of baselines 1 to "
        f"{2 * LOOP:g} per agent with tools, and {format_tokens()}; {BINDING.replace('set', 'set --calls-per-task,')}"
    )
    title = f"dry run of {who} on {request.benchmark}: nothing was sent"
    return CostEstimate(low, high, format_range(title, low, high, assumes))


def _whole(request: EvaluationRequest, trial: EvaluationPlan, home: Path | None, side: int) -> Usage:
    """The low (0) or the high (1) end: the contestants, the judge of their answers, and evolutions before."""
    teams, cap, tokens = trial.workflows, request.calls_per_task, TOKENS[side]
    found = Usage()
    for entry in request.entries:
        calls = _calls(entry, teams[entry.name].workflow, cap, side)
        found += price_usage(scale_calls(calls, request.tasks), request.models, home, tokens)
    if isinstance(trial.benchmark.environment, NeedsModel):  # the benchmark's own rule is judged too
        judged = request.tasks * (len(request.entries) + 1)
        found += price_usage({"judge": judged}, request.models, home, tokens)
    for evolution in make_evolutions(request, get_runs_folder(home) / "none", home):
        found += estimate_evolution_usage(evolution.asked, home, teams[evolution.entry.name].workflow, side)
    return found


def _calls(entry: SystemSpec, workflow: Workflow, cap: int | None, side: int) -> Calls:
    """Calls of a task by role, within the cap."""
    if workflow.method in method_names():
        calls = scale_calls(estimate_calls(workflow.method, entry.config, workflow).question, RANGE[side])
    else:
        calls = {"agent": _of_baseline(entry, workflow, cap)[side]}
    whole = sum(calls.values())
    return scale_calls(calls, cap / whole) if cap and whole > cap else calls


def _of_baseline(entry: SystemSpec, workflow: Workflow, cap: int | None) -> tuple[float, float]:
    """Least and most: every node once, and with a tool loop; who votes spends its cap."""
    most = sum(2 * LOOP if workflow.agents_by_id[agent].tools else 1 for agent in workflow.topology.agents.values())
    if workflow.method not in SAMPLED:
        return len(workflow.topology.nodes), most
    samples = entry.config.get("samples", SAMPLED[workflow.method])
    if cap and not samples:
        return cap, cap
    return samples or 1, (samples or 1) * most

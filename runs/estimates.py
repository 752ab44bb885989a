"""What a run may cost, before it starts: calls by sizes, config fields and rates that were measured offline."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError, format_error
from selfwire.core.usage import ZERO_USAGE, Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines.table import SAMPLED
from selfwire.evals.benchmarks.benchmark import NeedsModel
from selfwire.graphs.call_estimates import LOOP, CallEstimate, Calls, scale_calls, sum_calls
from selfwire.graphs.configs import parse_config
from selfwire.graphs.method_names import method_names
from selfwire.graphs.method_registry import describe_method
from selfwire.runs.ablation.plan import Study
from selfwire.runs.evaluation.lifecycle import validate_request as validate_evaluation
from selfwire.runs.evaluation.pre_evolution import make_evolutions
from selfwire.runs.evaluation.request import EvaluationRequest, SystemSpec
from selfwire.runs.evolution import validate_request as validate_evolution
from selfwire.runs.folders import get_runs_folder
from selfwire.runs.models import load_prices
from selfwire.runs.requests import EvolveRequest, ModelNames

FACTOR = 2.5
"""The calls of a method lie between the estimate divided by this and the estimate times this."""
TOKENS = (400, 2500)
"""Tokens per call: short and long prompts."""
WITHIN = f"within a factor of {FACTOR:g} either way"
PER_CALL = f"{TOKENS[0]} to {TOKENS[1]} tokens per call"
BINDING = "--budget-calls, --budget-tokens or --budget-usd to bind it"


@dataclass(frozen=True)
class CostEstimate:
    """A range of costs.

    Attributes:
        low, high: usages with few calls and short prompts, and with many calls and long ones.
        assumes: what the estimate assumes, and how to lower the cost.
    """

    low: Usage = ZERO_USAGE
    high: Usage = ZERO_USAGE
    title: str = ""
    assumes: str = ""

    @property
    def text(self) -> str:
        """For people."""
        low, high = self.low, self.high
        known = f"${low.dollars or 0:,.2f} to ${high.dollars or 0:,.2f}"
        return (
            f"{self.title}: nothing was sent\n"
            f"calls:   {low.calls:,} to {high.calls:,}\n"
            f"tokens:  {low.tokens:,} to {high.tokens:,}\n"
            f"dollars: {'unknown (no list price)' if high.dollars is None else known}\n"
            f"assumes {self.assumes}"
        )

    def __add__(self, other: "CostEstimate") -> "CostEstimate":
        """Add two, without their titles."""
        return CostEstimate(self.low + other.low, self.high + other.high)


def estimate_evolution(request: EvolveRequest, home: Path | None) -> CostEstimate:
    """Estimate calls, tokens and dollars; nothing is sent or written.

    Raises:
        ConfigError, LibraryError: the request cannot be used.
    """
    found = _estimate_evolution(request, home, validate_evolution(request, home).seed)
    title = f"dry run of {request.method} on {request.benchmark}"
    assumes = f"the calls that it takes offline, {WITHIN}, and {PER_CALL}; set {BINDING}"
    return CostEstimate(found.low, found.high, title, assumes)


def estimate_evaluation(request: EvaluationRequest, home: Path | None) -> CostEstimate:
    """Estimate the systems, the judge of their answers, and evolutions before; nothing is sent or written.

    Raises:
        ConfigError, LibraryError: the request cannot be used.
    """
    plan, models = validate_evaluation(request, home), request.models
    found = CostEstimate()
    for entry in request.entries:
        low, high = _estimate_system(entry, plan.workflows[entry.name].workflow, request.calls_per_task)
        found += _price(scale_calls(low, request.tasks), scale_calls(high, request.tasks), models, home)
    if isinstance(plan.benchmark.environment, NeedsModel):  # the benchmark's own rule is judged too
        judged = {"judge": request.tasks * (len(request.entries) + 1)}
        found += _price(judged, judged, models, home)
    for evolution in make_evolutions(request, get_runs_folder(home) / "none", home):
        found += _estimate_evolution(evolution.evolve_request, home, plan.workflows[evolution.entry.name].workflow)
    title = f"dry run of {', '.join(request.targets)} on {request.benchmark}"
    assumes = (
        f"{request.tasks} tasks, of methods the calls that they take offline, {WITHIN}, of baselines 1 to "
        f"{2 * LOOP:g} per agent with tools, and {PER_CALL}; set --calls-per-task, {BINDING}"
    )
    return CostEstimate(found.low, found.high, title, assumes)


def estimate_ablation(study: Study) -> CostEstimate:
    """Estimate all runs of a study together; nothing is sent or written.

    Raises:
        ConfigError: the study cannot be used.
    """
    runs = [
        estimate_evolution(study.request(name, 0), None)
        if study.evolves
        else estimate_evaluation(study.evaluation(name, 0), None)
        for name in study.chosen
    ]
    found = sum(runs * study.seeds, CostEstimate())
    title = f"dry run of {len(runs)} variants of {study.method} on {study.benchmark}, {study.seeds} seeds each"
    assumes = (
        f"the calls that they take offline, {WITHIN}, and {PER_CALL}; fewer --variants or --seeds, or smaller sizes, "
        "cost less"
    )
    return CostEstimate(found.low, found.high, title, assumes)


def estimate_evolution_calls(request: EvolveRequest, team: Workflow) -> Calls:
    """The calls of an evolution by role: its runs on train and gate tasks, its learning, and its tests."""
    settings, sizes = request.evolution, request.sizes
    batch, iterations = min(settings.batch, sizes.train), settings.iterations
    begins, during, after = (
        _estimate_method(request.method, request.config, team, batch, added_agents)
        for added_agents in (0.0, iterations / 2, float(iterations))  # about an agent per iteration, where teams grow
    )
    gate = 2 * min(settings.gate_tasks, sizes.gate) if settings.gate == "paired" else 0
    runs = iterations * (batch * during.samples + during.gate_share * gate)
    tests = sizes.test if request.tested else 0
    return sum_calls(
        scale_calls(during.question, runs),
        scale_calls(during.learning, iterations),
        scale_calls(begins.question, tests),
        scale_calls(after.question, tests),
        # the single agent spends as much as the evolved team
        {"agent": sum(after.question.values()) * tests * request.baselines},
    )


def estimate_question_calls(method: str, config: Mapping[str, Any], team: Workflow) -> float:
    """About how many calls a method makes for one question.

    Raises:
        ConfigError: the method's estimate fails.
    """
    return sum(_estimate_method(method, config, team).question.values())


def _estimate_evolution(request: EvolveRequest, home: Path | None, team: Workflow) -> CostEstimate:
    calls = estimate_evolution_calls(request, team)
    return _price(scale_calls(calls, 1 / FACTOR), scale_calls(calls, FACTOR), request.models, home)


def _estimate_system(entry: SystemSpec, workflow: Workflow, cap: int | None) -> tuple[Calls, Calls]:
    if workflow.method in method_names():
        calls = _estimate_method(workflow.method, entry.config, workflow).question
        low, high = scale_calls(calls, 1 / FACTOR), scale_calls(calls, FACTOR)
    else:
        low, high = ({"agent": end} for end in _estimate_baseline(entry, workflow, cap))
    return _cap(low, cap), _cap(high, cap)


def _cap(calls: Calls, cap: int | None) -> Calls:
    whole = sum(calls.values())
    return scale_calls(calls, cap / whole) if cap and whole > cap else calls


def _estimate_method(
    name: str, config: Mapping[str, Any], team: Workflow, batch: int = 0, added_agents: float = 0.0
) -> CallEstimate:
    described = describe_method(name)
    parsed = parse_config(name, described.config, config)
    try:
        return described.estimate_calls(parsed, team, batch, added_agents)
    except Exception as error:  # an outside package may raise anything
        raise ConfigError(
            f"the calls of method {name} cannot be estimated: its estimate_calls raised {format_error(error)}; "
            "mend it, or run without --dry-run"
        ) from error


def _estimate_baseline(entry: SystemSpec, workflow: Workflow, cap: int | None) -> tuple[float, float]:
    """Least and most: every node once, and with a tool loop; one that votes spends its cap."""
    most = sum(2 * LOOP if workflow.agents_by_id[agent].tools else 1 for agent in workflow.topology.agents.values())
    if workflow.method not in SAMPLED:
        return len(workflow.topology.nodes), most
    samples = entry.config.get("samples", SAMPLED[workflow.method])
    if cap and not samples:
        return cap, cap
    return samples or 1, (samples or 1) * most


def _price(low: Calls, high: Calls, models: ModelNames, home: Path | None) -> CostEstimate:
    prices = load_prices(models, home)

    def price(calls: Calls, tokens: int) -> Usage:
        found = list[Usage]()
        for role, share in calls.items():
            count = round(share)
            sent, received = count * round(tokens * 0.85), count * round(tokens * 0.15)
            dollars = prices.cost(models.roles[role], sent, received)
            found.append(Usage(calls=count, input_tokens=sent, output_tokens=received, dollars=dollars))
        return sum_usages(found)

    return CostEstimate(price(low, TOKENS[0]), price(high, TOKENS[1]))

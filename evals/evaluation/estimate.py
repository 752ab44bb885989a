"""What an evaluation would cost, before it is run."""

from pathlib import Path

from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines.table import SAMPLED
from selfwire.evals.benchmarks.benchmark import NeedsModel
from selfwire.evals.estimate import CALLS_PER_AGENT, TEAM_SIZE, TOKENS, Forecast, evolution_usage
from selfwire.evals.evaluation.evolving import evolutions_of
from selfwire.evals.evaluation.opening import Trial, checked
from selfwire.evals.evaluation.request import Entry, EvaluationRequest
from selfwire.evals.models import prices
from selfwire.evals.runs import runs_folder
from selfwire.runtime.prices import Prices

ROUNDS = {"dytopo": 10, "tacomas": 10}
"""Most rounds of methods that work in rounds, by default; each asks every agent anew."""


def estimated(request: EvaluationRequest, home: Path | None) -> Forecast:
    """Estimate calls, tokens and dollars from sizes alone; nothing is sent or written.

    Raises:
        ConfigError, LibraryError: the request cannot be used.
    """
    trial = checked(request, home)
    low, high = (_whole(request, trial, home, side) for side in (0, 1))
    price = "unknown (no list price)" if high.dollars is None else f"${low.dollars or 0:,.2f} to ${high.dollars:,.2f}"
    text = (
        f"dry run of {', '.join(entry.target for entry in request.entries)} on {request.benchmark}: nothing was sent\n"
        f"calls:   {low.calls:,} to {high.calls:,}\n"
        f"tokens:  {low.tokens:,} to {high.tokens:,}\n"
        f"dollars: {price}\n"
        f"assumes {request.tasks} tasks, 1 to {CALLS_PER_AGENT:g} calls per agent and round, {TOKENS[0]} to "
        f"{TOKENS[1]} tokens per call; set --calls-per-task, --budget-calls, --budget-tokens or --budget-usd to bind it"
    )
    return Forecast(low, high, text)


def _whole(request: EvaluationRequest, trial: Trial, home: Path | None, side: int) -> Usage:
    """The low (0) or the high (1) end: the contestants, the judge of their answers, and evolutions before."""
    table, roles, tokens = prices(request.models, home), request.models.roles, TOKENS[side]
    teams, cap = trial.workflows, request.calls_per_task
    calls = sum(_calls(entry, teams[entry.name].workflow, cap)[side] for entry in request.entries)
    found = _usage(table, roles["agent"], request.tasks * calls, tokens)
    if isinstance(trial.bench.environment, NeedsModel):  # the benchmark's own rule is judged too
        found += _usage(table, roles["judge"], request.tasks * (len(request.entries) + 1), tokens)
    for evolution in evolutions_of(request, runs_folder(home) / "none", home):
        found += evolution_usage(evolution.asked, home, TEAM_SIZE[side], tokens)
    return found


def _calls(entry: Entry, workflow: Workflow, cap: int | None) -> tuple[int, int]:
    """Calls of a task: every agent once, and every agent with tools in every round; who votes spends its cap."""
    if workflow.method in SAMPLED:
        samples = entry.config.get("samples", SAMPLED[workflow.method])
        each = CALLS_PER_AGENT if any(agent.tools for agent in workflow.agents) else 1
        least, most = (cap, cap) if cap and not samples else (samples or 1, round((samples or 1) * each))
    else:
        least = len(workflow.topology.nodes)
        most = round(least * CALLS_PER_AGENT * ROUNDS.get(workflow.method, 1)) + 2
    return (min(least, cap), min(most, cap)) if cap else (least, most)


def _usage(table: Prices, model: str, calls: int, tokens: int) -> Usage:
    sent, received = calls * round(tokens * 0.85), calls * round(tokens * 0.15)
    return Usage(calls=calls, input_tokens=sent, output_tokens=received, dollars=table.cost(model, sent, received))

"""What an evaluation would cost, before it is run."""

from pathlib import Path

from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evals.estimate import CALLS_PER_AGENT, TOKENS, Forecast
from selfwire.evals.evaluation.opening import checked
from selfwire.evals.evaluation.request import EvaluationRequest
from selfwire.evals.models import prices
from selfwire.runtime.prices import Prices

ROUNDS = {"dytopo": 10, "tacomas": 10}
"""Most rounds of methods that work in rounds, by default; each asks every agent anew."""


def estimated(request: EvaluationRequest, home: Path | None) -> Forecast:
    """Estimate calls, tokens and dollars from sizes alone; nothing is sent or written.

    Raises:
        ConfigError, LibraryError: the request cannot be used.
    """
    trial = checked(request, home)
    table, model = prices(request.models, home), request.models.agent
    calls = [_calls(request, one.workflow) for one in trial.workflows.values()]
    low = _usage(table, model, request.tasks * sum(least for least, _ in calls), TOKENS[0])
    high = _usage(table, model, request.tasks * sum(most for _, most in calls), TOKENS[1])
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


def _calls(request: EvaluationRequest, workflow: Workflow) -> tuple[int, int]:
    """Calls of a task: every agent once, and every agent with tools in every round."""
    agents, cap = len(workflow.topology.nodes), request.calls_per_task
    most = round(agents * CALLS_PER_AGENT * ROUNDS.get(workflow.method, 1)) + 2
    return (min(agents, cap), min(most, cap)) if cap else (agents, most)


def _usage(table: Prices, model: str, calls: int, tokens: int) -> Usage:
    sent, received = calls * round(tokens * 0.85), calls * round(tokens * 0.15)
    return Usage(calls=calls, input_tokens=sent, output_tokens=received, dollars=table.cost(model, sent, received))

"""What an evolution would cost, before it is run."""

from dataclasses import dataclass
from pathlib import Path

from selfwire.core.usage import Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.graphs.demand import Calls, scale_calls, sum_calls
from selfwire.runs.estimates.calls import FACTOR, estimate_calls
from selfwire.runs.evolution import validate_request
from selfwire.runs.models import load_prices
from selfwire.runs.requests import EvolveRequest, ModelNames

TOKENS = (400, 2500)
"""Tokens per call: short and long prompts."""
RANGE = (1 / FACTOR, FACTOR)
"""From the estimate to its low and to its high end."""


@dataclass(frozen=True)
class CostEstimate:
    """A range of costs.

    Attributes:
        low, high: usages with few calls and short prompts, and with many calls and long ones.
        text: for people.
    """

    low: Usage
    high: Usage
    text: str


def estimate_cost(request: EvolveRequest, home: Path | None) -> CostEstimate:
    """Estimate calls, tokens and dollars from sizes and knobs alone; nothing is sent or written.

    Raises:
        ConfigError, LibraryError: the request cannot be used.
    """
    team = validate_request(request, home).seed
    low, high = (estimate_evolution_usage(request, home, team, side) for side in (0, 1))
    title = f"dry run of {request.method} on {request.benchmark}: nothing was sent"
    assumes = f"assumes the calls that it takes offline, {WITHIN}"
    return CostEstimate(low, high, format_range(title, low, high, f"{assumes}, and {format_tokens()}; {BINDING}"))


WITHIN = f"within a factor of {FACTOR:g} either way"
BINDING = "set --budget-calls, --budget-tokens or --budget-usd to bind it"


def format_range(title: str, low: Usage, high: Usage, assumes: str) -> str:
    """A range for people."""
    price = "unknown (no list price)" if high.dollars is None else f"${low.dollars or 0:,.2f} to ${high.dollars:,.2f}"
    return (
        f"{title}\n"
        f"calls:   {low.calls:,} to {high.calls:,}\n"
        f"tokens:  {low.tokens:,} to {high.tokens:,}\n"
        f"dollars: {price}\n"
        f"{assumes}"
    )


def format_tokens() -> str:
    """How many tokens a call is taken to have."""
    return f"{TOKENS[0]} to {TOKENS[1]} tokens per call"


def estimate_evolution_usage(request: EvolveRequest, home: Path | None, team: Workflow, side: int) -> Usage:
    """The low (0) or the high (1) end of what an evolution takes that starts with a team."""
    return price_usage(
        scale_calls(estimate_evolution_calls(request, team), RANGE[side]), request.models, home, TOKENS[side]
    )


def estimate_evolution_calls(request: EvolveRequest, team: Workflow) -> Calls:
    """The calls of an evolution by role: its runs on train and gate tasks, its learning, and its tests."""
    asked, sizes = request.evolution, request.sizes
    batch, iterations = min(asked.batch, sizes.train), asked.iterations
    begins, during, after = (
        estimate_calls(request.method, request.config, team, batch=batch, grown=grown)
        for grown in (0.0, iterations / 2, float(iterations))  # about an agent per iteration, where teams grow
    )
    gate = 2 * min(asked.gate_tasks, sizes.gate) if asked.gate == "paired" else 0
    runs = iterations * (batch * during.samples + during.gated * gate)
    tests = sizes.test if request.tested else 0
    return sum_calls(
        scale_calls(during.question, runs),
        scale_calls(during.learning, iterations),
        scale_calls(begins.question, tests),
        scale_calls(after.question, tests),
        # the single agent spends as much as the evolved team
        {"agent": sum(after.question.values()) * tests * request.baselines},
    )


def price_usage(calls: Calls, models: ModelNames, home: Path | None, tokens: int) -> Usage:
    """What calls by role cost with so many tokens each."""
    table, found = load_prices(models, home), list[Usage]()
    for role, share in calls.items():
        count = round(share)
        sent, received = count * round(tokens * 0.85), count * round(tokens * 0.15)
        dollars = table.cost(models.roles[role], sent, received)
        found.append(Usage(calls=count, input_tokens=sent, output_tokens=received, dollars=dollars))
    return sum_usages(found)

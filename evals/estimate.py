"""What an evolution would cost, before it is run."""

from dataclasses import dataclass
from pathlib import Path

from selfwire.core.usage import Usage
from selfwire.evals.evolutions import checked
from selfwire.evals.models import prices
from selfwire.evals.requests import EvolveRequest

CALLS_PER_AGENT = 3.0
"""Calls of one agent in one run: its tool loop and the instruction that it writes."""
META_PER_TASK = 1.0
META_PER_AGENT = 2.5
"""Calls of a backward pass: per task, and per agent that ran."""
TEAM_SIZE = (2, 8)
"""Agents of a small and of a grown team."""
TOKENS = (700, 2500)
"""Tokens per call: short and long prompts."""


@dataclass(frozen=True)
class Forecast:
    """A range of costs.

    Attributes:
        low, high: usages of a small team with short prompts and of a grown one with long prompts.
        text: for people.
    """

    low: Usage
    high: Usage
    text: str


def estimated(request: EvolveRequest, home: Path | None) -> Forecast:
    """Estimate calls, tokens and dollars from sizes alone; nothing is sent or written.

    Raises:
        ConfigError, LibraryError: the request cannot be used.
    """
    checked(request, home)
    low, high = (
        evolution_usage(request, home, agents, tokens) for agents, tokens in zip(TEAM_SIZE, TOKENS, strict=True)
    )
    price = "unknown (no list price)" if high.dollars is None else f"${low.dollars or 0:,.2f} to ${high.dollars:,.2f}"
    text = (
        f"dry run of {request.method} on {request.benchmark}: nothing was sent\n"
        f"calls:   {low.calls:,} to {high.calls:,}\n"
        f"tokens:  {low.tokens:,} to {high.tokens:,}\n"
        f"dollars: {price}\n"
        f"assumes teams of {TEAM_SIZE[0]} to {TEAM_SIZE[1]} agents at {CALLS_PER_AGENT:g} calls per agent and "
        f"{TOKENS[0]} to {TOKENS[1]} tokens per call; set --budget-calls, --budget-tokens or --budget-usd to bind it"
    )
    return Forecast(low, high, text)


def evolution_usage(request: EvolveRequest, home: Path | None, agents: int, tokens: int) -> Usage:
    """What an evolution takes with teams of so many agents and calls of so many tokens."""
    evolution = request.evolution
    gate = 2 * min(evolution.gate_tasks, request.sizes.gate) if evolution.gate == "paired" else 0
    batch = min(evolution.batch, request.sizes.train)
    # Before, after, and the single agent, which spends as much as the team.
    tests = 2 + request.baselines if request.tested else 0
    runs = evolution.iterations * (batch + gate) + tests * request.sizes.test
    team = round(runs * (1 + agents * CALLS_PER_AGENT))
    meta = round(evolution.iterations * (batch * (META_PER_TASK + agents * META_PER_AGENT) + 2 * agents))
    table, roles = prices(request.models, home), request.models.roles
    sent, received = round(tokens * 0.85), round(tokens * 0.15)
    calls_of = {"agent": team, "meta": meta}
    costs = [table.cost(roles[role], calls * sent, calls * received) for role, calls in calls_of.items()]
    known = [cost for cost in costs if cost is not None]
    return Usage(
        calls=team + meta,
        input_tokens=(team + meta) * sent,
        output_tokens=(team + meta) * received,
        dollars=sum(known) if len(known) == len(costs) else None,
    )

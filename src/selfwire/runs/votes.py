"""Votes at a system's price: the best of as many answers of one agent as cost what the system's answers cost."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from selfwire.core.errors import ConfigError
from selfwire.evals.baselines import BASELINES, SingleAgent
from selfwire.evals.table import (
    Column,
    ResultTable,
    SeedSummary,
    SystemSummary,
    build_table,
    format_difference,
    list_seed_columns,
)
from selfwire.runs.spec import EvaluateSpec, SystemSpec

BEST_OF = "best-of-"
"""Prefix of the names of the votes; the number of answers follows."""
ONE = f"{BEST_OF}1"
"""Name of a single answer, by whose price the others are counted."""
MOST_SAMPLES = 1000
LONE = frozenset(name for name, baseline in BASELINES.items() if issubclass(baseline, SingleAgent))
"""Baselines of one agent, which vote themselves: no votes are asked for at their price."""


def is_of_votes(name: str) -> bool:
    """Whether a name is that of votes: `BEST_OF` and a number."""
    return re.fullmatch(rf"{BEST_OF}\d+", name) is not None


def refuse_names_of_votes(names: Iterable[str]) -> None:
    """Raise a ConfigError if a system has the name of votes."""
    for name in names:
        if is_of_votes(name):
            raise ConfigError(f"{name!r} is the name of votes at a system's price; give the system another")


def list_lone(entries: Iterable[SystemSpec]) -> list[str]:
    """List the names of baselines of one agent."""
    return [entry.name for entry in entries if entry.target in LONE]


def count_samples(line: SystemSummary, voter: SystemSummary) -> int:
    """Count the answers of a single agent that cost as much as a system's, rounded up: in dollars, else in tokens."""
    spent, single = line.spend, voter.spend
    price, each = (spent.dollars, single.dollars) if spent.dollars and single.dollars else (spent.tokens, single.tokens)
    if not each:
        return max(1, math.ceil(spent.calls / max(1, single.calls)))
    ratio = (price or 0) / max(1, line.tasks) / (each / max(1, voter.tasks))
    return min(MOST_SAMPLES, max(1, math.ceil(ratio - 1e-9)))


def make_votes_request(
    request: EvaluateSpec, lines: Mapping[str, SystemSummary], voter: str, without: Iterable[str] = ()
) -> EvaluateSpec | None:
    """Make the request for the votes at the price of each system, on the same tasks; None where one answer is enough.

    The cap of calls has room for all answers, each with twice the calls that one took in the mean.

    Args:
        lines: results by system.
        voter: name of the system that answers once, and of which the votes are.
        without: names of systems beside which no votes are asked for.
    """
    names = [entry.name for entry in request.entries if entry.name not in (voter, *without)]
    counts = sorted({count_samples(lines[name], lines[voter]) for name in names} - {1})
    if not counts:
        return None
    [one] = (entry for entry in request.entries if entry.name == voter)
    entries = [
        SystemSpec(name=f"{BEST_OF}{count}", target=one.target, config={**one.config, "samples": count})
        for count in counts
    ]
    return request.replace(
        entries=tuple(entries),
        against="",
        evolving=None if request.evolving is None else request.evolving.replace(names=()),
        calls_per_task=max(counts[-1] * math.ceil(2 * lines[voter].calls_per_task), request.calls_per_task or 1),
    )


def get_votes(lines: Mapping[str, SystemSummary], system: str, voter: str = ONE) -> SystemSummary:
    """Get the votes that cost as much as a system; a single answer where its price pays for no more.

    Raises:
        KeyError: they were not measured.
    """
    samples = count_samples(lines[system], lines[voter])
    return lines[voter if samples == 1 else f"{BEST_OF}{samples}"]


def count_answers(line: SystemSummary) -> str:
    """The number of answers that votes were made of, by their name; 1 for a single answer of another name."""
    name = line.info.name
    return name.removeprefix(BEST_OF) if is_of_votes(name) else "1"


def build_votes_table(seeds: Sequence[Mapping[str, SystemSummary]], chosen: Sequence[str] = ()) -> ResultTable:
    """Make the table of systems beside the votes at their price, over seeds.

    Args:
        seeds: results by system of each seed, with those of `ONE` and of the votes.
        chosen: names of the systems that are shown; all by default.

    Raises:
        KeyError: votes were not measured.
    """
    there = [
        name
        for name, line in seeds[0].items()
        if not is_of_votes(name) and line.info.target not in LONE and line.spend.calls
    ]
    names = [*(chosen or there)]
    votes = {name: tuple(get_votes(lines, name) for lines in seeds) for name in names}
    own = {name: tuple(lines[name] for lines in seeds) for name in names}
    [calls] = (column for column in list_seed_columns() if column.name == "calls/task")

    def summarise(name: str) -> SeedSummary:
        return SeedSummary(votes[name], own[name])

    columns: tuple[Column[str], ...] = (
        Column("system", str),
        Column("score [95 %]", lambda name: str(SeedSummary(own[name], votes[name]).score or "-")),
        Column("calls/task", lambda name: calls.format(SeedSummary(own[name], votes[name]))),
        Column("best of", lambda name: ", ".join(map(count_answers, votes[name]))),
        Column("votes [95 %]", lambda name: str(summarise(name).score or "-")),
        Column("calls of votes", lambda name: calls.format(summarise(name))),
        Column("difference from votes", lambda name: format_difference(SeedSummary(own[name], votes[name]).difference)),
    )
    return build_table(columns, names, (NOTE,))


NOTE = (
    "votes are of as many answers of one agent as cost what the system's answers cost on the same tasks, in dollars "
    "where prices are known, else in tokens; a vote ends where no further answer can change it"
)

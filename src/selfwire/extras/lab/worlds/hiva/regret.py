"""Tables of a world: regret against an oracle, and the part of the possible gain that each system gets."""

from collections.abc import Sequence

from selfwire.evals.statistics import IntervalEstimate, compute_student_interval
from selfwire.evals.table import Column, build_table, format_difference
from selfwire.extras.lab.worlds.gains import SYSTEM, Scale, WorldResult, format_decisions

CHECKPOINTS = (10, 50, 100, 150)
"""Tasks after which the regret so far is printed."""
FIRST = (10, 30)
"""Numbers of first tasks of new kinds whose score is printed."""
LAST = 50
UNIFORM, FIXED, ORACLE = "uniform", "best fixed choice", "oracle"
MAIN = "KABB"


def format_tables(results: Sequence[WorldResult]) -> str:
    """Regret on known kinds of tasks, and what the first tasks of new kinds score."""
    names = sorted(results[0].figures, key=lambda name: -_share(results, name, f"sum {CHECKPOINTS[-1]}").value)
    end = CHECKPOINTS[-1]
    tables = (build_table(_list_columns(results), names), build_table(_list_new_columns(results), names))
    return "\n\n".join(
        [
            f"{len(results)} seeds. Known kinds of tasks: {_describe_gain(results, f'sum {end}', end)}",
            tables[0].markdown,
            f"New kinds of tasks, from the first one on: {_describe_gain(results, f'new {FIRST[0]}', 1)}",
            tables[1].markdown,
        ]
    )


def compute_share(result: WorldResult, name: str, figure: str) -> float:
    """The part of the possible gain, from chance to the oracle, that a system gets."""
    least, got, most = (result.figures[system][figure] for system in (UNIFORM, name, ORACLE))
    return (got - least) / (most - least)


def _share(results: Sequence[WorldResult], name: str, figure: str) -> IntervalEstimate:
    return compute_student_interval([compute_share(result, name, figure) for result in results])


def _describe_gain(results: Sequence[WorldResult], figure: str, tasks: int) -> str:
    """Scores per task of chance and of the oracle, and their difference."""
    scale = Scale(figure, UNIFORM, ORACLE, MAIN, tasks)
    chance, most = (scale.estimate(results, name).value for name in (UNIFORM, ORACLE))
    gain = scale.compare(results, ORACLE, UNIFORM)
    return f"chance scores {chance:.2f} per task, the oracle {most:.2f}; possible gain {gain}."


def _list_columns(results: Sequence[WorldResult]) -> tuple[Column[str], ...]:
    end = CHECKPOINTS[-1]

    def regret(name: str, count: int) -> IntervalEstimate:
        return Scale(f"sum {count}", UNIFORM, ORACLE, MAIN).compare(results, ORACLE, name)

    def regret_after(count: int) -> Column[str]:
        return Column(f"regret after {count}", lambda name: f"{regret(name, count).value:.1f}")

    def final(name: str) -> str:
        found = regret(name, end)
        return f"{found.value:.1f} [{found.low:.1f}, {found.high:.1f}]"

    def compare(name: str) -> str:
        shared = [compute_share(run, MAIN, f"sum {end}") - compute_share(run, name, f"sum {end}") for run in results]
        return format_difference(compute_student_interval(shared) if name != MAIN else None)

    return (
        SYSTEM,
        *map(regret_after, CHECKPOINTS[:-1]),
        Column(f"after {end} [95 %]", final),
        Column("share of the gain [95 %]", lambda name: str(_share(results, name, f"sum {end}"))),
        Column(f"share in the last {LAST} [95 %]", lambda name: str(_share(results, name, "last"))),
        Column(f"{MAIN} − this, paired", compare),
        Column("free decisions", lambda name: format_decisions(results, name)),
    )


def _list_new_columns(results: Sequence[WorldResult]) -> tuple[Column[str], ...]:
    def share_of(count: int) -> Column[str]:
        return Column(f"share, first {count} [95 %]", lambda name: str(_share(results, name, f"new {count}")))

    def compare(name: str) -> str:
        found = Scale(f"new {FIRST[0]}", UNIFORM, ORACLE, MAIN).compare(results, MAIN, name)
        return format_difference(found if name != MAIN else None)

    return (
        SYSTEM,
        *map(share_of, FIRST),
        Column(f"{MAIN} − this, score of the first {FIRST[0]}, paired", compare),
    )

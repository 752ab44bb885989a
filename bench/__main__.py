"""`make bench`: every overhead, or those of the tables named in ARGS, side by side in one run, as tables."""

import os
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from bench import (
    budgets,
    dytopo,
    flat,
    gates,
    handed_over,
    harness,
    newborn,
    peers,
    prefixes,
    questions,
    references,
    rooms,
    routing,
    score_weights,
    shelfmarks,
    stages,
    startup,
    storage,
    team,
    workers,
    worth,
)
from bench.measuring import Row, keep_lines, print_table
from bench.models import CannedChatModel
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import Journal


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; bounds are aims, nothing enforces them."""
    parser = ArgumentParser(prog="python -m bench", description="Measure overheads and print them as tables.")
    parser.add_argument("words", nargs="*", help="measure only the tables whose title has one of these words")
    parser.add_argument("--list", action="store_true", help="print the titles and measure nothing")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the lines of the one table that is measured")
    parser.add_argument("--many", type=int, default=flat.MANY, help="tasks of the table that is called flat")
    given = parser.parse_args(arguments)
    found = find_benches(by_name=bool(given.words), many=given.many)
    chosen = {title: act for title, act in found if has_word(title, given.words)}
    if not chosen:
        parser.error(f"no title has any of {', '.join(given.words)}; --list prints all titles")
    if given.keep and len(chosen) > 1:
        parser.error(f"--keep writes one table, and {', '.join(map(repr, chosen))} are meant; name one")
    out = Console(width=None if os.isatty(1) else 160, highlight=False)
    if given.list:
        out.print("\n".join(chosen))
        return
    if hasattr(os, "getloadavg"):  # not on Windows
        out.print(f"load average when started: {os.getloadavg()[0]:.1f}; ratios are side by side in one run")
    for title, measure in chosen.items():
        rows = measure()
        print_table(out, title, rows)
        if given.keep:
            keep_lines(rows, given.keep)


def has_word(title: str, words: Sequence[str]) -> bool:
    """Whether a title contains one of the words, in whatever case, or there are none."""
    return not words or any(word.lower() in title.lower() for word in words)


def find_benches(*, by_name: bool = True, many: int = flat.MANY) -> Iterator[tuple[str, Callable[[], list[Row]]]]:
    """The title of every table and what measures its rows; those that take long only if they are named."""
    yield "an evaluation", harness.measure_evaluation_harness
    yield "workers", workers.measure_workers
    yield "budgets that processes share", budgets.measure_budgets
    yield "a team, agents asking through the wrapper", measure_asking_team
    yield "a team, agents answering at once", team.measure_team
    yield dytopo.TITLE, dytopo.measure
    yield "the trained router of EvoMAS", routing.measure_routing
    yield "reference solutions of benchmarks in Monty", references.measure_references
    yield "a fresh process", startup.measure_startup
    yield "what is stored, what is imported", storage.measure_storage
    if by_name:
        for bench in (
            peers,
            gates,
            handed_over,
            prefixes,
            questions,
            shelfmarks,
            worth,
            newborn,
            stages,
            rooms,
            score_weights,
        ):
            yield bench.TITLE, bench.measure
        yield flat.TITLE, partial(flat.measure, many)


def measure_asking_team() -> list[Row]:
    """The rows of a team whose agents ask through the wrapper."""
    return team.measure_team(MeteredModel(CannedChatModel(), journal=Journal.memory()))


if __name__ == "__main__":
    main()

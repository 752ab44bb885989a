"""Progress in a terminal."""

import io
from typing import Any

from rich.console import Console

from selfwire.cli.output import format_spend
from selfwire.cli.progress import EvaluationProgress
from selfwire.core.usage import Usage


def event(target: str, number: int, done: int) -> dict[str, Any]:
    told = {"target": target, "number": number, "targets": 1, "done": done, "total": 3}
    return {**told, "score": 1.0, "errors": 0, "spend": Usage()}


def test_the_bar_is_the_rule_s_until_a_contestant_is_at_work() -> None:
    told = io.StringIO()
    console = Console(file=told, force_terminal=True, color_system=None, width=100)
    with EvaluationProgress(console) as progress:
        assert progress.bars
        [bar] = progress.bars.tasks
        progress(event("trivial", 0, 1))
        assert (bar.description, bar.completed, bar.total) == ("trivial", 1, 3)
        progress(event("single", 1, 1))
        progress(event("trivial", 0, 2))
        assert (bar.description, bar.completed) == ("single (1/1)", 1)
        progress(event("trivial", 0, 3))
        progress(event("single", 1, 3))
    assert told.getvalue().count("trivial: score 1.00\n") == 1
    assert told.getvalue().count("single (1/1): score 1.00, 0 calls") == 1


def test_a_spend_below_a_cent_is_not_told_as_nothing() -> None:
    told = [format_spend(Usage(calls=1, dollars=dollars)) for dollars in (None, 0.0, 0.0007, 0.01, 1234.5)]
    assert [one.split("tokens, ")[1] for one in told] == [
        "price unknown", "$0.00", "under $0.01", "$0.01", "$1,234.50"
    ]  # fmt: skip

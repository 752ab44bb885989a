"""Progress in a terminal."""

import io
from typing import Any

from rich.console import Console

from selfwire.cli.output import format_spend
from selfwire.cli.progress import EvaluationProgress, EvolutionProgress, format_seconds_left
from selfwire.core.usage import Usage


def event(target: str, number: int, done: int) -> dict[str, Any]:
    told = {"target": target, "number": number, "targets": 1, "done": done, "total": 3}
    return {**told, "score": 1.0, "errors": 0, "spend": Usage()}


def test_the_bar_is_the_rule_s_until_a_system_is_at_work() -> None:
    told = io.StringIO()
    console = Console(file=told, force_terminal=True, color_system=None, width=100)
    with EvaluationProgress(console) as progress:
        assert progress.bars
        [bar] = progress.bars.tasks
        progress(event("trivial", 0, 1))
        assert (bar.description, bar.completed, bar.total) == ("trivial baseline", 1, 3)
        progress(event("single", 1, 1))
        progress(event("trivial", 0, 2))
        assert (bar.description, bar.completed) == ("single (1/1)", 1)
        progress(event("trivial", 0, 3))
        progress(event("single", 1, 3))
    assert told.getvalue().count("trivial baseline: score 1.00\n") == 1
    assert told.getvalue().count("single (1/1): score 1.00, 0 calls") == 1


def test_the_spend_of_several_systems_is_a_running_sum_and_says_so() -> None:
    told = io.StringIO()
    with EvaluationProgress(Console(file=told, width=100)) as progress:
        progress({**event("cot", 1, 3), "targets": 2, "spend": Usage(calls=3)})
        progress({**event("single", 2, 3), "targets": 2, "spend": Usage(calls=9)})
    assert "single (2/2): score 1.00, so far 9 calls" in told.getvalue()


def test_a_spend_below_a_cent_is_not_told_as_nothing() -> None:
    told = [format_spend(Usage(calls=1, dollars=dollars)) for dollars in (None, 0.0, 0.0007, 0.01, 1234.5)]
    assert [one.split("tokens, ")[1] for one in told] == [
        "price unknown", "$0.00", "under $0.01", "$0.01", "$1,234.50"
    ]  # fmt: skip


def evolution_lines(*events: dict[str, Any], tests: bool = False) -> str:
    lines = io.StringIO()
    with EvolutionProgress(2, Console(file=lines, width=400), tests=tests) as progress:
        for one in events:
            progress({"spend": Usage(), "score": 0.5, **one})
    return lines.getvalue()


def test_errors_of_tasks_are_named_in_the_lines_of_an_evolution() -> None:
    saved = {"phase": "save", "outcome": "accepted", "why": "a tie", "errors": 2, "fault": "ModelError: no answer"}
    tested = {"phase": "test", "iteration": 0, "done": 4, "total": 4, "errors": 1, "fault": "it is down"}
    lines = evolution_lines({**saved, "iteration": 0}, {**tested, "side": "before"}, {**tested, "side": "after"})
    assert "train 0.50 (2 errors: ModelError: no answer), accepted: a tie" in lines
    assert "tested the team before on 4 tasks: mean score 0.50 (1 error: it is down)" in lines
    assert "tested the evolved team on 4 tasks: mean" in lines
    copied = evolution_lines({**tested, "side": "after", "copied": True})
    assert "the evolved team answers as the team before, so it is not asked again: mean score 0.50" in copied


def test_the_time_left_ends_with_the_last_iteration_and_tests_come_after_it() -> None:
    saved = {"phase": "save", "outcome": "no change", "why": "as it was"}
    lines = evolution_lines({"phase": "rollout", "iteration": 0}, {**saved, "iteration": 0}, {**saved, "iteration": 1})
    assert " 0 s left" not in lines.splitlines()[-1]
    assert "left before the tests" in f"{EvolutionProgress(2, Console(), tests=True)._format_left(7.2)}"


def test_less_than_a_second_is_not_told_as_time_left() -> None:
    assert [format_seconds_left(seconds) for seconds in (None, 0.0, 0.3)] == ["", "", ""]
    assert format_seconds_left(61.7) == ", about 62 s left"
    assert EvolutionProgress(2, Console(), tests=True)._format_left(0.3) == ""

"""Progress of evolutions and evaluations: a bar in a terminal, lines elsewhere."""

import sys
import time
from textwrap import shorten
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from selfwire.cli.output import format_spend
from selfwire.core.values import format_count
from selfwire.evals.table import name_system
from selfwire.graphs.evolve import Event
from selfwire.runs.results import FAULT

SHARES = {"rollout": 0.0, "evolve": 0.3, "draft": 0.4, "gate": 0.5, "save": 1.0}
"""Share of an iteration before each phase, roughly, for the estimate of the time left."""


class Bar:
    """A bar in a terminal, and lines; a context manager that draws while it is open."""

    def __init__(self, console: Console) -> None:
        self.console = console
        name, told = TextColumn("{task.description}"), TextColumn("{task.fields[told]}")
        columns = (name, BarColumn(), MofNCompleteColumn(), told)
        self.bars = Progress(*columns, console=console, transient=True) if console.is_terminal else None
        self.bar = self.bars.add_task("starting", total=1, told="") if self.bars else None

    def __enter__(self) -> Self:
        """Start drawing."""
        if self.bars:
            self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop drawing."""
        if self.bars:
            self.bars.stop()

    def _drawn(self, description: str, done: int, total: int, told: str) -> None:
        if self.bars and self.bar is not None:
            self.bars.update(self.bar, description=description, completed=done, total=total, told=told)

    def _say(self, text: str) -> None:
        (self.bars.console if self.bars else self.console).print(text)
        sys.stdout.flush()


class EvolutionProgress(Bar):
    """The progress of an evolution; use it as a context manager and pass it as `on_event`."""

    def __init__(self, iterations: int, console: Console, *, tests: bool = False) -> None:
        super().__init__(console)
        self.iterations, self.tests = iterations, tests
        self.since = time.monotonic()
        self.first: float | None = None
        self.latest: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if self.bars:  # elsewhere the time left is reckoned from the first line on
            place = f"{self._place(event)} {event['phase']}"
            self._drawn(place, event.get("done", 0), event.get("total", 1), self._told(event))
        if event["phase"] == "save":
            measured = f"train {_score(event)}{format_errors(event)}"
            self._say(f"{self._place(event)} {measured}, {event['outcome']}: {event['why']}; {self._told(event)}")
        elif event["phase"] == "test" and event.get("done") == event.get("total"):
            team = {"before": "the team before", "after": "the evolved team"}[event["side"]]
            tested = f"tested {team} on {format_count(event['total'], 'task')}"
            if event.get("copied"):
                tested = f"{team} answers as the team before, so it is not asked again"
            measured = f"mean score {_score(event)}{format_errors(event)}"
            self._say(f"{tested}: {measured}; {format_spend(event['spend'])}")
        self.latest = event

    def _place(self, event: Event) -> str:
        return f"iteration {min(event['iteration'] + 1, self.iterations)}/{self.iterations}"

    def _told(self, event: Event) -> str:
        left = self._seconds_left(event)
        score = f"score {_score(event)}, " if "done" in event else ""
        return f"{score}{format_spend(event['spend'])}{self._format_left(left)}"

    def _format_left(self, seconds: float | None) -> str:
        left = format_seconds_left(seconds)
        return f"{left} before the tests" if left and self.tests else left

    def _seconds_left(self, event: Event) -> float | None:
        if event["phase"] not in SHARES or not self.iterations:
            return None
        done = event["iteration"] + SHARES[event["phase"]]
        if self.first is None:
            self.first, self.since = done, time.monotonic()
        fraction = (done - self.first) / max(self.iterations - self.first, 1)
        elapsed = time.monotonic() - self.since
        return elapsed * (1 - fraction) / fraction if fraction > 0 else None


def format_seconds_left(seconds: float | None) -> str:
    """Format the time left; "" if it is not known or under half a second."""
    return f", about {seconds:,.0f} s left" if seconds is not None and seconds > 0.5 else ""


def format_errors(event: Event) -> str:
    """Format how many tasks of an event ended as errors, and the first error; "" without errors."""
    if not event.get("errors"):
        return ""
    return f" ({format_count(event['errors'], 'error')}: {shorten(event['fault'], FAULT)})"


class EvaluationProgress(Bar):
    """The progress of an evaluation: a bar per system in a terminal, a line per system elsewhere."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.since, self.before = time.monotonic(), 0
        self.target = ""

    def __call__(self, event: Event) -> None:
        """Show an event; of the trivial baseline only the last event while other systems run."""
        if event["number"] == 0:
            if not self.target:
                self._drawn(name_system(event["target"]), event["done"], event["total"], _measured(event))
            if event["done"] == event["total"]:
                self._say(f"{name_system(event['target'])}: {_measured(event)}")
            return
        if event["target"] != self.target:
            self.target, self.since, self.before = event["target"], time.monotonic(), event["done"] - 1
        name = f"{self.target} ({event['number']}/{event['targets']})"
        self._drawn(name, event["done"], event["total"], self._told(event))
        if event["done"] == event["total"]:
            self._say(f"{name}: {self._told(event)}")

    def _told(self, event: Event) -> str:
        left, made = event["total"] - event["done"], event["done"] - self.before
        seconds = (time.monotonic() - self.since) / made * left if made else None
        so_far = "so far " if event["targets"] > 1 else ""  # the spend is of all systems until then
        return f"{_measured(event)}, {so_far}{format_spend(event['spend'])}{format_seconds_left(seconds)}"


class ContestProgress(Bar):
    """The progress of systems that run at the same time: a bar over all tasks, a line when a system is done."""

    def __init__(self, targets: int, tasks: int, console: Console) -> None:
        super().__init__(console)
        self.targets, self.total = targets, targets * tasks
        self.done: dict[str, int] = {}
        self.at_work: dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        """Show an event of a system's evolution or measuring."""
        name = name_system(event["target"])
        if "iterations" in event:
            place = f"{name}: iteration {min(event['iteration'] + 1, event['iterations'])}/{event['iterations']}"
            self.at_work[name] = place
            if event["phase"] == "save":
                self._say(f"{place}, train {_score(event)}{format_errors(event)}, {format_spend(event['spend'])}")
        else:
            self.done[name] = event["done"]
            self.at_work[name] = f"{name}: {event['done']}/{event['total']}"
            if event["done"] == event["total"]:
                del self.at_work[name]
                self._say(f"{name}: {_measured(event)}, {format_spend(event['spend'])}")
        self._drawn(", ".join(self.at_work.values()), sum(self.done.values()), self.total, "")


def _measured(event: Event) -> str:
    errors = f", {format_count(event['errors'], 'error')}" if event["errors"] else ""
    return f"score {_score(event)}{errors}"


def _score(event: Event) -> str:
    return "-" if event.get("score") is None else f"{event['score']:.2f}"

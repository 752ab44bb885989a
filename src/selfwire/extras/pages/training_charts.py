"""Charts of a router's training: scores, how open its choices are, and which agents it means to choose."""

from collections.abc import Sequence

from selfwire.core.values import format_count
from selfwire.evals.statistics import compute_mean
from selfwire.extras.pages.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Chart,
    Mark,
    draw_axes,
    draw_interval,
)
from selfwire.extras.pages.data import AgentShare, RouterLearning, UpdateLine

_NAMES, _FIGURES, _ROW = 118.0, 84.0, 34.0
"""Widths of the names on the left and of the figures on the right, and the height of an agent's row."""


def draw_training(learning: RouterLearning | None) -> list[Chart]:
    """All charts of a training; none before the first update."""
    if learning is None:
        return []
    return [chart for chart in (draw_rewards(learning), draw_openness(learning), draw_choices(learning)) if chart]


def draw_rewards(learning: RouterLearning) -> Chart | None:
    """Mean score of the runs that each update learned from, and its mean over some updates."""
    found = [(update, update.score) for update in learning.updates if update.score is not None]
    if not found:
        return None
    x, y = _scale_updates(learning), Axis([0.0, 1.0], HEIGHT - BOTTOM, TOP)
    marks = draw_axes(x, y, "update", lambda tick: f"{tick:.2g}")
    for update, score in found:
        said = f"update {update.number}: {score} over {format_count(score.n, 'run')}"
        marks += draw_interval(x(update.number), y, score, "train" if update.skipped else "gate", said)
    values = [score.value for _, score in found]
    windows = (values[max(0, place - learning.span + 1) : place + 1] for place in range(len(values)))
    smooth = [compute_mean(some) for some in windows]
    points = " ".join(f"{x(update.number)},{y(value)}" for (update, _), value in zip(found, smooth, strict=True))
    marks.append(Mark(kind="path", points=points, look="trend main"))
    skipped = any(update.skipped for update, _ in found)
    hollow = " Hollow: all runs scored alike, so nothing was learned." if skipped else ""
    smoothed = f" Line: mean of {learning.span} updates." if learning.span > 1 else ""
    return Chart(
        name="rewards",
        title="Score of the runs of each update",
        summary=f"From {smooth[0]:.2f} to {smooth[-1]:.2f} over {format_count(len(found), 'update')}.",
        note=f"Other train tasks every time, with 95 % interval.{smoothed}{hollow}",
        marks=tuple(marks),
    )


def draw_openness(learning: RouterLearning) -> Chart | None:
    """Entropy of the router's probabilities by update."""
    x = _scale_updates(learning)
    y = Axis([0.0, learning.chance, *(update.entropy for update in learning.updates)], HEIGHT - BOTTOM, TOP)
    marks = draw_axes(x, y, "update", lambda tick: f"{tick:.2g}")
    if learning.chance:
        marks.append(
            Mark(kind="line", x=LEFT, y=y(learning.chance), x2=WIDTH - RIGHT, y2=y(learning.chance), look="zero")
        )
        marks.append(Mark(kind="text", x=WIDTH - RIGHT, y=y(learning.chance) - 5, text="by chance", look="tick end"))
    points = " ".join(f"{x(update.number)},{y(update.entropy)}" for update in learning.updates)
    marks.append(Mark(kind="path", points=points, look="trend main"))
    first, last = learning.updates[0].entropy, learning.updates[-1].entropy
    return Chart(
        name="openness",
        title="How open its choices are",
        summary=f"Entropy from {first:.2f} to {last:.2f} nats; a choice by chance has {learning.chance:.2f}.",
        note="Mean entropy of the router's probabilities in nats. 0: it would always choose the same agent.",
        marks=tuple(marks),
    )


def draw_choices(learning: RouterLearning) -> Chart | None:
    """A row per agent: its mean probability, update by update."""
    shown = [agent for agent in learning.shares if agent.first is not None or agent.last is not None]
    if not shown:
        return None
    x = _scale_updates(learning, LEFT + _NAMES, WIDTH - _FIGURES)
    most = max(share for update in learning.updates for share in update.shares.values())
    marks: list[Mark] = []
    for place, agent in enumerate(shown):
        marks += _draw_row(
            agent, learning.updates, x, Axis([0.0, most], TOP + _ROW * (place + 1), TOP + _ROW * place + 6)
        )
    bottom = TOP + _ROW * len(shown)
    for tick in x.ticks():
        if tick == round(tick):
            marks.append(Mark(kind="text", x=x(tick), y=bottom + 16, text=f"{tick:g}", look="tick middle"))
    marks.append(Mark(kind="text", x=(x.start + x.end) / 2, y=bottom + 33, text="update", look="axis middle"))
    told = "; ".join(f"{agent.name} from {_format(agent.first)} to {_format(agent.last)}" for agent in shown)
    return Chart(
        name="choices",
        title="Which agents it means to choose",
        summary=f"{told}.",
        note=f"Mean probability of each agent where it could be chosen, all on one scale up to {most:.2f}. Figures: "
        f"mean of {describe_span(learning)}.",
        marks=tuple(marks),
        height=bottom + 38,
    )


def describe_span(learning: RouterLearning) -> str:
    """The updates that are called the first and the last."""
    return (
        "the first and of the last update"
        if learning.span == 1
        else f"the first {learning.span} and of the last {learning.span} updates"
    )


def _draw_row(agent: AgentShare, updates: Sequence[UpdateLine], x: Axis, y: Axis) -> list[Mark]:
    grown = (agent.last or 0.0) > (agent.first or 0.0)
    points = " ".join(f"{x(u.number)},{y(u.shares[agent.name])}" for u in updates if agent.name in u.shares)
    middle = (y.start + y.end) / 2 + 4
    name = agent.name if len(agent.name) <= 22 else f"{agent.name[:21]}…"
    return [
        Mark(kind="line", x=x.start, y=y(0.0), x2=x.end, y2=y(0.0), look="grid"),
        Mark(kind="text", x=x.start - 8, y=middle, text=name, look="label end"),
        Mark(kind="path", points=points, look="trend main" if grown else "trend"),
        Mark(kind="text", x=x.end + 8, y=middle, text=f"{_format(agent.first)} → {_format(agent.last)}", look="label"),
    ]


def _format(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"


def _scale_updates(learning: RouterLearning, start: float = LEFT + 10, end: float = WIDTH - RIGHT - 6) -> Axis:
    """The axis of updates, from the first to the last."""
    return Axis([float(update.number) for update in learning.updates], start, end, tight=True)

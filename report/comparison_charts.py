"""Charts of systems side by side: their differences from one of them, and the score of every seed."""

from collections.abc import Iterable

from selfwire.report.charts import TOP, WIDTH, Chart, Mark, Scale
from selfwire.report.data import SystemLine
from selfwire.report.verdicts import format_gain

_NAMES, _ROW, _FOOT = 150.0, 26.0, 38.0
"""Width of the names on the left, and heights of a row and of the axis."""


def draw_differences(systems: Iterable[SystemLine]) -> Chart | None:
    """Each system's difference with its interval, beside a line at 0; None for fewer than two."""
    shown = [line for line in systems if line.gain or line.note]
    gains = [(line.name, line.gain) for line in shown if line.gain]
    if len(gains) < 2:
        return None
    x = Scale([0.0, *(value for _, gain in gains for value in (gain.low, gain.high))], _NAMES, WIDTH - 14)
    bottom = TOP + _ROW * len(shown)
    marks = _draw_axis(x, bottom, "+g")
    marks.append(Mark(kind="line", x=x(0.0), y=TOP, x2=x(0.0), y2=bottom, look="zero"))
    for row, line in enumerate(shown):
        y = TOP + _ROW * (row + 0.5)
        marks.append(_write_name(line.name, y))
        if line.gain is None:
            right = x(0.0) < WIDTH * 0.6
            across, look = x(0.0) + (8 if right else -8), f"tick {'start' if right else 'end'}"
            marks.append(
                Mark(kind="text", x=across, y=y + 4, text=line.note.partition(":")[0], look=look, title=line.note)
            )
            continue
        look = "kept" if line.gain.low > 0 else "rejected" if line.gain.high < 0 else "open"
        said = " ".join(filter(None, (f"{line.name}: {format_gain(line.gain)}", line.note)))
        marks.append(Mark(kind="line", x=x(line.gain.low), y=y, x2=x(line.gain.high), y2=y, look=f"interval {look}"))
        marks.append(
            Mark(kind="cross" if look == "rejected" else "dot", x=x(line.gain.value), y=y, look=look, title=said)
        )
    told = "; ".join(f"{name} {format_gain(gain)}" for name, gain in gains)
    return Chart(
        name="differences",
        title="Difference from what each is compared with",
        summary=f"{told}.",
        note="Difference in mean score, paired, with 95 % interval. Filled: higher for sure. Cross: lower for sure. "
        "Hollow: no effect shown.",
        marks=tuple(marks),
        height=bottom + _FOOT,
    )


def draw_seeds(systems: Iterable[SystemLine]) -> Chart | None:
    """The score of every seed, a row per variant."""
    shown = [line for line in systems if line.samples and line.score]
    if not shown:
        return None
    x, bottom = Scale([0.0, 1.0], _NAMES, WIDTH - 14), TOP + _ROW * len(shown)
    marks = _draw_axis(x, bottom, "g")
    for row, line in enumerate(shown):
        y = TOP + _ROW * (row + 0.5)
        marks += [_write_name(line.name, y), *_draw_samples(line, x, y)]
    told = "; ".join(f"{line.name} from {min(line.samples):.2f} to {max(line.samples):.2f}" for line in shown)
    return Chart(
        name="seeds",
        title="Score of every seed",
        summary=f"{told}.",
        note="A ring is a seed; the bar is their mean.",
        marks=tuple(marks),
        height=bottom + _FOOT,
    )


def _draw_samples(line: SystemLine, x: Scale, y: float) -> list[Mark]:
    seen: dict[float, int] = {}
    marks = []
    for score in line.samples:
        high = seen[score] = seen.get(score, -1) + 1  # equal scores stand side by side, up and down
        shift = min((high + 1) // 2 * 3.0, 9.0) * (-1 if high % 2 else 1)
        marks.append(Mark(kind="dot", x=x(score), y=y + shift, look="seed", title=f"{line.name}: {score:.2f}"))
    mean = x(line.score.value) if line.score else 0.0
    marks.append(Mark(kind="line", x=mean, y=y - 10, x2=mean, y2=y + 10, look="mean"))
    return marks


def _draw_axis(x: Scale, bottom: float, form: str) -> list[Mark]:
    marks = []
    for tick in x.ticks():
        text = "0" if abs(tick) < 1e-9 else format(round(tick, 6), form)
        marks.append(Mark(kind="line", x=x(tick), y=TOP, x2=x(tick), y2=bottom, look="grid"))
        marks.append(Mark(kind="text", x=x(tick), y=bottom + 16, text=text, look="tick middle"))
    return marks


def _write_name(name: str, y: float) -> Mark:
    short = name if len(name) <= 25 else f"{name[:24]}…"
    return Mark(kind="text", x=_NAMES - 12, y=y + 4, text=short, look="label end", title=name)

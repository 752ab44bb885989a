"""Charts of systems side by side: their differences from one of them, and the score of every seed."""

from collections.abc import Iterable, Sequence

from selfwire.evals.statistics import IntervalEstimate
from selfwire.extras.pages.charts import TOP, WIDTH, Axis, Chart, Mark
from selfwire.extras.pages.data import MechanismLine, SystemLine
from selfwire.extras.pages.verdicts import format_gain

_NAMES, _ROW, _FOOT = 172.0, 26.0, 38.0
"""Width of the names on the left, and heights of a row and of the axis."""


def draw_mechanisms(lines: Sequence[MechanismLine]) -> Chart | None:
    """Worth of each mechanism: the gain of every seed, their mean with its interval, and the largest possible gain."""
    gains = [(line, line.gain) for line in lines if line.gain]
    if not gains:
        return None
    ends = [value for line, gain in gains for value in (gain.low, gain.high, line.possible, *line.samples)]
    x = Axis([0.0, *ends], _NAMES, WIDTH - 14)
    bottom = TOP + _ROW * len(gains)
    marks = [*_draw_axis(x, bottom, "+g"), _draw_zero(x, bottom)]
    for row, (line, gain) in enumerate(gains):
        y = TOP + _ROW * (row + 0.5)
        marks += [_write_name(line.name, y), *_draw_points(line.name, line.samples, x, y, "+.2f")]
        marks += _draw_gain(line.name, gain, x, y)
        said = f"{line.name}: possible gain {line.possible:.2f}"
        marks.append(Mark(kind="cross", x=x(line.possible), y=y, look="possible", title=said))
    told = "; ".join(f"{line.name} {format_gain(gain)} of {line.possible:.2f}" for line, gain in gains)
    return Chart(
        name="gains",
        title="Gain by each mechanism, seed by seed",
        summary=f"{told}.",
        note="Gain in score on the control, paired by seed. Ring: a seed. Dot and line: their mean with 95 % interval, "
        "hollow where no effect is shown. Grey cross: the possible gain.",
        marks=tuple(marks),
        height=bottom + _FOOT,
    )


def draw_differences(systems: Iterable[SystemLine]) -> Chart | None:
    """Each system's difference with its interval, beside a line at 0; None for fewer than two."""
    shown = [line for line in systems if line.gain or line.note]
    gains = [(line.name, line.gain) for line in shown if line.gain]
    if len(gains) < 2:
        return None
    x = Axis([0.0, *(value for _, gain in gains for value in (gain.low, gain.high))], _NAMES, WIDTH - 14)
    bottom = TOP + _ROW * len(shown)
    marks = [*_draw_axis(x, bottom, "+g"), _draw_zero(x, bottom)]
    for row, line in enumerate(shown):
        y = TOP + _ROW * (row + 0.5)
        marks.append(_write_name(line.name, y))
        if line.gain:
            marks += _draw_gain(line.name, line.gain, x, y, line.note)
            continue
        right = x(0.0) < WIDTH * 0.6
        across, look = x(0.0) + (8 if right else -8), f"tick {'start' if right else 'end'}"
        marks.append(Mark(kind="text", x=across, y=y + 4, text=line.note.partition(":")[0], look=look, title=line.note))
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


def _draw_zero(x: Axis, bottom: float) -> Mark:
    return Mark(kind="line", x=x(0.0), y=TOP, x2=x(0.0), y2=bottom, look="zero")


def _draw_gain(name: str, gain: IntervalEstimate, x: Axis, y: float, note: str = "") -> list[Mark]:
    look = "kept" if gain.low > 0 else "rejected" if gain.high < 0 else "open"
    said = " ".join(filter(None, (f"{name}: {format_gain(gain)}", note)))
    return [
        Mark(kind="line", x=x(gain.low), y=y, x2=x(gain.high), y2=y, look=f"interval {look}"),
        Mark(kind="cross" if look == "rejected" else "dot", x=x(gain.value), y=y, look=look, title=said),
    ]


def draw_seeds(systems: Iterable[SystemLine]) -> Chart | None:
    """The score of every seed, a row per variant."""
    shown = [line for line in systems if line.samples and line.score]
    if not shown:
        return None
    x, bottom = Axis([0.0, 1.0], _NAMES, WIDTH - 14), TOP + _ROW * len(shown)
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


def _draw_samples(line: SystemLine, x: Axis, y: float) -> list[Mark]:
    mean = x(line.score.value) if line.score else 0.0
    return [
        *_draw_points(line.name, line.samples, x, y),
        Mark(kind="line", x=mean, y=y - 10, x2=mean, y2=y + 10, look="mean"),
    ]


def _draw_points(name: str, samples: Sequence[float], x: Axis, y: float, form: str = ".2f") -> list[Mark]:
    """A ring per seed; equal values stand side by side, up and down."""
    seen: dict[float, int] = {}
    marks = []
    for value in samples:
        high = seen[value] = seen.get(value, -1) + 1
        shift = min((high + 1) // 2 * 3.0, 9.0) * (-1 if high % 2 else 1)
        marks.append(Mark(kind="dot", x=x(value), y=y + shift, look="seed", title=f"{name}: {value:{form}}"))
    return marks


def _draw_axis(x: Axis, bottom: float, form: str) -> list[Mark]:
    marks = []
    for tick in x.ticks():
        text = "0" if abs(tick) < 1e-9 else format(round(tick, 6), form)
        marks.append(Mark(kind="line", x=x(tick), y=TOP, x2=x(tick), y2=bottom, look="grid"))
        marks.append(Mark(kind="text", x=x(tick), y=bottom + 16, text=text, look="tick middle"))
    return marks


def _write_name(name: str, y: float) -> Mark:
    short = name if len(name) <= 25 else f"{name[:24]}…"
    return Mark(kind="text", x=_NAMES - 12, y=y + 4, text=short, look="label end", title=name)

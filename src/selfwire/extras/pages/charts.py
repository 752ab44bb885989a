"""Charts as values: the marks of a picture and where they lie; a template draws them as SVG."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil, floor, log10
from typing import Literal

from selfwire.core.values import FrozenModel, format_count
from selfwire.evals.statistics import IntervalEstimate
from selfwire.extras.pages.data import Place, SystemLine, TeamVersion
from selfwire.extras.pages.evolution import make_system_line
from selfwire.extras.pages.verdicts import format_gain
from selfwire.runs.front import FrontLine

WIDTH, HEIGHT = 400.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 14.0, 38.0
LOOKS = {
    "seed team": "seed",
    "seed team with votes": "seed",
    "single agent with votes": "single",
    "trivial baseline": "trivial",
}
"""CSS class by system."""
TRIED = "Large: on test tasks, with 95 % interval. Small: every proposal on gate tasks; hollow if rejected."
FRONT = (
    "Large: on test tasks, with 95 % interval. Small: every version on all its held-out tasks; hollow: a rejected "
    "proposal on gate tasks. The line joins what nothing beats."
)
LETTER, LINE = 6.2, 13.0
"""Width of a letter and height of a line of labels."""
FAR = 3 * LINE
"""How far from its point a label may stand."""


class Mark(FrozenModel):
    """A mark: a line from (x, y) to (x2, y2), a path through points, a dot, a cross, or a text.

    Args:
        look: CSS classes.
        title: shown when one points at it; "" for none.
    """

    kind: Literal["line", "path", "dot", "cross", "text"]
    x: float = 0.0
    y: float = 0.0
    x2: float = 0.0
    y2: float = 0.0
    points: str = ""
    text: str = ""
    look: str = ""
    title: str = ""


class Chart(FrozenModel):
    """A chart with axes.

    Args:
        summary: the whole picture in words, for those who do not see it.
        note: how to read it.
    """

    name: str
    title: str
    summary: str
    note: str
    marks: tuple[Mark, ...]
    width: float = WIDTH
    height: float = HEIGHT


class Axis:
    """Maps values to a stretch of the picture, with round ticks; a stretch of no width is widened.

    Args:
        tight: whether it ends where the values end, and not at a tick.
    """

    def __init__(self, values: Sequence[float], start: float, end: float, *, tight: bool = False) -> None:
        low, high = min(values), max(values)
        if high - low < 1e-9:
            high = low + 1
        rough = (high - low) / 4
        power: float = 10.0 ** floor(log10(rough))
        self.step = next(power * step for step in (1, 2, 2.5, 5, 10) if power * step >= rough * 0.999)
        self.low, self.high = low, high
        if not tight:
            self.low, self.high = floor(low / self.step) * self.step, ceil(high / self.step - 1e-9) * self.step
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        """Where a value lies."""
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Round values from one end to the other."""
        first = ceil(self.low / self.step - 1e-9)
        return [place * self.step for place in range(first, floor(self.high / self.step + 1e-9) + 1)]


def draw_axes(x: Axis, y: Axis, x_title: str, format_y: Callable[[float], str], whole: bool = True) -> list[Mark]:
    """Ticks with labels and fine lines."""
    marks = []
    for tick in y.ticks():
        marks.append(Mark(kind="line", x=LEFT, y=y(tick), x2=WIDTH - RIGHT, y2=y(tick), look="grid"))
        marks.append(Mark(kind="text", x=LEFT - 6, y=y(tick) + 4, text=format_y(tick), look="tick end"))
    for tick in x.ticks():
        if not whole or tick == round(tick):
            marks.append(Mark(kind="text", x=x(tick), y=HEIGHT - BOTTOM + 16, text=f"{tick:g}", look="tick middle"))
    marks.append(Mark(kind="text", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 5, text=x_title, look="axis middle"))
    return marks


def scale_versions(numbers: Iterable[int]) -> Axis:
    """The axis of versions, from 0 to the last."""
    return Axis([0.0, *numbers], LEFT + 10, WIDTH - RIGHT - 6, tight=True)


def measure_versions(places: Iterable[Place]) -> list[Place]:
    """For each version and split the runs that measured it, where it was the incumbent if it was; sorted by version."""
    found: dict[tuple[int, str], Place] = {}
    for place in places:
        if place.version is not None and (place.side != "candidate" or (place.version, place.split) not in found):
            found[place.version, place.split] = place
    return [found[key] for key in sorted(found)]


def draw_gate(versions: Iterable[TeamVersion]) -> Chart | None:
    """Gain of each proposal at the gate, with intervals; None where nothing was compared."""
    found = [(version, version.difference) for version in versions if version.difference is not None]
    if not found:
        return None
    ends = [value for _, gain in found for value in (gain.low, gain.high, 0.0)]
    x = scale_versions(version.number for version, _ in found)
    y = Axis(ends, HEIGHT - BOTTOM, TOP)
    marks = draw_axes(x, y, "version", lambda tick: f"{tick:+.1f}" if tick else "0")
    marks.append(Mark(kind="line", x=LEFT, y=y(0), x2=WIDTH - RIGHT, y2=y(0), look="zero"))
    for version, gain in found:
        said = f"version {version.number}: {format_gain(gain)}, {version.outcome}"
        marks += draw_interval(x(version.number), y, gain, "kept" if version.accepted else "rejected", said)
    accepted = sum(bool(version.accepted) for version, _ in found)
    return Chart(
        name="gate",
        title="Gain of each proposal at the gate",
        summary=f"{format_count(len(found), 'proposal')}, {accepted} accepted.",
        note="Candidate minus incumbent, paired, with 95 % interval. Dot: accepted. Cross: rejected.",
        marks=tuple(marks),
    )


def draw_interval(x: float, y: Axis, found: IntervalEstimate, look: str, title: str) -> list[Mark]:
    """A value with its interval."""
    return [
        Mark(kind="line", x=x, y=y(found.low), x2=x, y2=y(found.high), look=f"interval {look}"),
        Mark(kind="cross" if look == "rejected" else "dot", x=x, y=y(found.value), look=look, title=title),
    ]


def draw_scores(places: Iterable[Place]) -> Chart | None:
    """The incumbent's scores on train and gate tasks by version, with intervals."""
    found = [place for place in measure_versions(places) if place.split in ("gate", "train")]
    if not found:
        return None
    x = scale_versions(place.version or 0 for place in found)
    y = Axis([0.0, 1.0], HEIGHT - BOTTOM, TOP)
    marks = draw_axes(x, y, "version", lambda tick: f"{tick:.2g}")
    for split, shift in (("train", -2.0), ("gate", 2.0)):
        row = [(place, make_system_line(split, place).score) for place in found if place.split == split]
        known = [(place, score) for place, score in row if score is not None]
        points = " ".join(f"{x(place.version or 0) + shift},{y(score.value)}" for place, score in known)
        marks.append(Mark(kind="path", points=points, look=f"trend {split}"))
        for place, score in known:
            said = f"version {place.version} on {score.n} {split} tasks of iteration {place.iteration + 1}: {score}"
            marks += draw_interval(x(place.version or 0) + shift, y, score, split, said)
    return Chart(
        name="scores",
        title="Score of each version on train and gate tasks",
        summary=f"Scores of {format_count(len({at.version for at in found}), 'version')} on train and gate tasks.",
        note="Filled: gate tasks. Hollow: train tasks. Other tasks every time, hence the noise; 95 % intervals.",
        marks=tuple(marks),
    )


def draw_costs(places: Iterable[Place]) -> Chart | None:
    """Model calls per task by version."""
    found = measure_versions(places)
    some = [place for place in found if place.split == "gate"] or [place for place in found if place.split == "train"]
    lines = [(place, make_system_line("", place)) for place in some]
    if not lines:
        return None
    x = scale_versions(place.version or 0 for place, _ in lines)
    y = Axis([0.0, *(line.calls for _, line in lines)], HEIGHT - BOTTOM, TOP)
    marks = draw_axes(x, y, "version", lambda tick: f"{tick:g}")
    marks.append(
        Mark(kind="path", points=" ".join(f"{x(o.version or 0)},{y(li.calls)}" for o, li in lines), look="trend")
    )
    for place, line in lines:
        said = f"version {place.version}: {line.calls:.1f} calls, {line.tokens or 0:,.0f} tokens per task"
        marks.append(Mark(kind="dot", x=x(place.version or 0), y=y(line.calls), look="gate", title=said))
    return Chart(
        name="costs",
        title="Model calls per task",
        summary=f"From {lines[0][1].calls:.1f} to {lines[-1][1].calls:.1f} calls per task.",
        note="What a question costs with each version; point at a dot for tokens.",
        marks=tuple(marks),
    )


def draw_front(systems: Iterable[SystemLine], places: Iterable[Place], front: Sequence[FrontLine] = ()) -> Chart | None:
    """Score against cost: systems on test tasks, versions on held-out tasks, and the front of what nothing beats."""
    known = [(line, line.score.value) for line in front if line.score is not None]
    tested = [(line, line.score) for line in systems if line.score is not None]
    gated = [
        measured
        for measured in places
        if measured.split == "gate" and measured.side != "incumbent" and not (known and measured.version is not None)
    ]
    tried = [
        (measured, line)
        for measured in gated
        if (line := make_system_line(f"proposal of iteration {measured.iteration + 1}", measured)).score
    ]
    if not tested and not tried and not known:
        return None
    calls = [0.0, *(line.calls for line, _ in tested), *(line.calls for _, line in tried)]
    calls += [line.calls for line, _ in known]
    if not any(calls):
        return None  # nobody asked a model
    x, y = Axis([*calls, max(calls) * 1.08], LEFT, WIDTH - RIGHT), Axis([0.0, 1.0], HEIGHT - BOTTOM, TOP)
    marks = draw_axes(x, y, "model calls per task", lambda tick: f"{tick:.2g}", whole=False)
    for place, line in tried:
        look = "version" if place.version is not None else "version out"
        said = f"{line.name} on gate tasks: {line.score} at {line.calls:.1f} calls"
        value = line.score.value if line.score else 0.0
        marks.append(Mark(kind="dot", x=x(line.calls), y=y(value), look=look, title=said))
    marks += _draw_versions(known, x, y)
    for line, score in tested:
        said = f"{line.name}{' on test tasks' if tried else ''}: {score} at {line.calls:.1f} calls"
        look = "evolved" if line.main else LOOKS.get(line.name, "")
        marks += draw_interval(x(line.calls), y, score, f"system {look}", said)
    marks += _label_systems([(line.name, x(line.calls), y(score.value)) for line, score in tested])
    return Chart(
        name="front",
        title=f"Score against cost{' on test tasks, and of proposals on gate tasks' if tried and not known else ''}",
        summary="; ".join(f"{line.name} {score} at {line.calls:.1f} calls per task" for line, score in tested) + ".",
        note=FRONT
        if known
        else TRIED
        if tried
        else "With 95 % intervals; calls are model calls. Point at a dot for its name.",
        marks=tuple(marks),
    )


def _draw_versions(known: Sequence[tuple[FrontLine, float]], x: Axis, y: Axis) -> Iterator[Mark]:
    """The versions of a front as dots, and the line that joins what nothing beats, baselines included."""
    steps, before = list[str](), ""
    for line, score in known:
        if line.on_front:
            across = x(line.calls)
            steps += [f"{across},{before}"] * bool(before) + [f"{across},{y(score)}"]
            before = f"{y(score)}"
    yield Mark(kind="path", points=" ".join(steps), look="trend main")
    for line, score in known:
        if line.ref:
            said = f"{line.name}: {line.score} at {line.calls:.1f} calls; {line.describe('calls')}"
            yield Mark(kind="dot", x=x(line.calls), y=y(score), look="version", title=f"{said}; {line.ref}")


def _label_systems(points: Sequence[tuple[str, float, float]]) -> Iterator[Mark]:
    """Names beside their points, each where it hides no point and no other name."""
    sides = [x > WIDTH * 0.6 for _, x, _ in points]
    wanted = []
    for (name, x, y), left in zip(points, sides, strict=True):
        wide = LETTER * len(name) + 9
        wanted.append((x - wide, x - 7, y - 6) if left else (x + 7, x + wide, y - 6))
    heights = spread_labels(wanted, [(x - 6, x + 6, y + 4) for _, x, y in points])
    for (name, x, y), left, height in zip(points, sides, heights, strict=True):
        if abs(height - y) > FAR:
            continue  # it would seem to name another point
        across, look = x + (-9 if left else 9), f"label {'end' if left else 'start'}"
        yield Mark(kind="text", x=across, y=round(height, 1), text=name, look=look)


def spread_labels(
    wanted: Sequence[tuple[float, float, float]], taken: Iterable[tuple[float, float, float]]
) -> list[float]:
    """Heights for labels so that none hides another: those that overlap side by side move apart.

    Args:
        wanted: start and end across, and height, of each label.
        taken: the same of what must not be hidden.
    """
    placed = [*taken]
    found = [0.0] * len(wanted)
    for number in sorted(range(len(wanted)), key=lambda index: wanted[index][2]):
        start, end, height = wanted[number]
        near = [other for first, last, other in placed if first < end and start < last]
        tries = [height, *(other + side * LINE for other in near for side in (1, -1))]
        free = [
            tried
            for tried in tries
            if 0 < tried < HEIGHT - BOTTOM and all(abs(tried - other) > LINE - 0.01 for other in near)
        ]
        found[number] = min(free, key=lambda tried: abs(tried - height), default=height)
        placed.append((start, end, found[number]))
    return found

"""Packs what a page shows into compact JSON: every long text once and cut at a limit, trails compressed.

A packed value is an object of the value and a table of its long texts, whose numbers stand in it; `page.js` puts the
texts back.
"""

import base64
import gzip
import json
from collections.abc import Iterable
from math import ceil
from typing import Any, NamedTuple

from selfwire.core.values import format_count, mask_controls, replace_surrogates
from selfwire.evals.table import TaskRow
from selfwire.evolvers.pictures import Matching, Panel, Picture, Table, TextList
from selfwire.extras.pages.data import Place, RunReport, TeamVersion
from selfwire.extras.pages.layout import TeamLayout
from selfwire.extras.pages.pictures import draw_run, format_notes
from selfwire.extras.pages.stored import StoredTrajectory

BODY = 4000
"""Most characters of one text; longer ones are cut with a note."""
LONG = 16
"""Characters from which a text stands in the table."""
CHUNK = 40
"""Trajectories that are compressed together."""
PICTURES = 300_000
"""Most characters of all panels of versions together, as they stand in the page."""
TRAILS = 1_200_000
"""Most characters of all trails together, as they stand in the page."""
ROWS = 60
"""Most rows of a table, and most texts of a list; what is beyond is counted."""
COLUMNS = 40
LINES = 400
"""Most lines between texts."""
PANELS = 12
FRAMES = 60
"""Most rounds of a trail."""

_COST = {"calls", "input_tokens", "output_tokens"}
_STEP = {
    **dict.fromkeys(("node", "agent", "visit", "inbox", "output", "error", "routing", "sent", "skills"), True),
    **{"usage": _COST, "tools": {"__all__": {"name", "arguments", "result", "error"}}},
}
_TRAIL: dict[str, Any] = {
    **{"question": {"input"}, "answer": True, "error": True, "feedback": {"text"}, "overhead": _COST},
    "steps": {"__all__": _STEP},
}
"""Fields of a trail that a page shows."""


def cut_text(text: str) -> str:
    """The text with visible controls and whole characters, cut at a limit with a note on what is missing."""
    whole = mask_controls(replace_surrogates(text[: BODY + 1]))
    if len(text) <= BODY:
        return whole
    return f"{whole[:BODY]}\n… cut here: {len(text) - BODY:,} more characters are in the run's journal"


def cut_line(text: str, limit: int = 100) -> str:
    """A short text that stands in one line."""
    whole = mask_controls(replace_surrogates(" ".join(text[: 4 * limit].split())))
    return whole if len(whole) <= limit else f"{whole[: limit - 1]}…"


def pack(value: Any) -> dict[str, Any]:
    """Separate a JSON value from its long texts; of a number six digits stay, and all digits before the point."""
    places: dict[str, int] = {}

    def place(part: Any) -> Any:
        match part:
            case str():
                return {"$text": places.setdefault(part, len(places))} if len(part) >= LONG else cut_text(part)
            case float():
                return float(f"{part:.0f}" if abs(part) >= 100_000 else f"{part:.6g}")
            case dict():
                return {key: place(inside) for key, inside in part.items()}
            case list() | tuple():
                return [place(inside) for inside in part]
        return part

    return {"value": place(value), "texts": [*map(cut_text, places)]}


def pack_team(report: RunReport, layout: TeamLayout) -> dict[str, Any]:
    """Versions, agents, edits and places of nodes."""
    largest = report.largest_gain
    before = (None, *report.versions)
    versions = [_dump_version(version, last) for version, last in zip(report.versions, before, strict=False)]
    return pack({**layout.model_dump(), "versions": versions, "largest": largest.number if largest else None})


def _dump_version(version: TeamVersion, last: TeamVersion | None) -> dict[str, Any]:
    """A version, with the nodes whose agent is not as in the version before; a page has texts that are cut."""
    now, then = _describe_agents(version), _describe_agents(last) if last else {}
    return {
        "rewritten": [node for node in now if node in then and now[node] != then[node]],
        **version.model_dump(exclude={"panels"}),
        "label": cut_line(version.label),
        "tag": cut_line(version.tag, 14),
        "names": {node: cut_line(name) for node, name in version.names.items()},
        "captions": {node: cut_line(text, 28) for node, text in version.captions.items()},
        "agents": {agent.id: agent.model_dump() for agent in version.agents},
    }


def _describe_agents(version: TeamVersion) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Id, prompt and tools of an agent, by node."""
    agents = {agent.id: (agent.id, agent.prompt, agent.tools) for agent in version.agents}
    return {node: agents[agent] for node, agent in version.nodes.items() if agent in agents}


def pack_panels_of_versions(report: RunReport) -> str:
    """Panels of the method for each version and for all together, compressed; "" where there are none.

    Where there is no room for all, the first versions have null in place of their panels; "" where none has room.
    """
    if not report.panels and not any(version.panels for version in report.versions):
        return ""
    left_out = 0
    while len(packed := _compress(_list_panels(report, left_out))) > PICTURES and left_out < len(report.versions):
        left_out += ceil((len(report.versions) - left_out) / 2)
    return packed if len(packed) <= PICTURES else ""


def _list_panels(report: RunReport, left_out: int) -> dict[str, Any]:
    kept = [dump_panels(version.panels) for version in report.versions[left_out:]]
    return pack({"panels": dump_panels(report.panels), "frames": [*[None] * left_out, *kept]})


def dump_panels(panels: Iterable[Panel]) -> list[dict[str, Any]]:
    """Panels as JSON, cut at limits with a note on what is missing."""
    return [_cut_panel(panel).model_dump() for panel in [*panels][:PANELS]]


def _cut_panel(panel: Panel) -> Panel:
    match panel:
        case Table(rows=rows, columns=columns):
            cut = tuple(row[:COLUMNS] for row in rows[:ROWS])
            return panel.replace(note=_count_left_out(panel.note, len(rows)), columns=columns[:COLUMNS], rows=cut)
        case TextList(entries=entries):
            return panel.replace(note=_count_left_out(panel.note, len(entries)), entries=entries[:ROWS])
        case Matching(left=left, right=right):
            note, left, right = _count_left_out(panel.note, max(len(left), len(right))), left[:ROWS], right[:ROWS]
            lines = [match for match in panel.matches if match.left < len(left) and match.right < len(right)]
            return panel.replace(note=note, left=left, right=right, matches=tuple(lines[:LINES]))


def _count_left_out(note: str, rows: int) -> str:
    left = f"{format_count(rows - ROWS, 'more row')} had no room here." if rows > ROWS else ""
    return " ".join(filter(None, (note, left)))


class PackedRuns(NamedTuple):
    """Outcomes by place, and trails in chunks.

    Attributes:
        chunks: compressed trails in base64, by name.
        left_out: trajectories whose trails had no room.
    """

    places: dict[str, Any]
    chunks: dict[str, str]
    left_out: int


def pack_runs(report: RunReport) -> PackedRuns:
    """All outcomes, and as many trails as there is room for: of tests first, then of late iterations."""
    chunks: dict[str, str] = {}
    left_out, room = 0, TRAILS
    for number, place in _by_interest(report.places):
        for start in range(0, len(place.trails), CHUNK):
            some = place.trails[start : start + CHUNK]
            drawn = place.split != "asked"
            packed = _compress(pack([_dump_trail(run, place.method, drawn) for run in some])) if room > 0 else ""
            if packed and len(packed) <= room:
                chunks[f"{number}-{start // CHUNK}"] = packed
                room -= len(packed)
            else:
                left_out += len(some)
                room = 0  # else all that is left would be compressed in vain
    return PackedRuns(pack([*map(_dump_place, report.places)]), chunks, left_out)


def _by_interest(places: Iterable[Place]) -> list[tuple[int, Place]]:
    order = {"test": 0, "gate": 1, "train": 1}
    numbered = list(enumerate(places))

    def rank(entry: tuple[int, Place]) -> tuple[int, bool, int]:
        return order.get(entry[1].split, 2), entry[1].side == "before", -entry[1].iteration

    return sorted(numbered, key=rank)


def _dump_place(place: Place) -> dict[str, Any]:
    rows = [
        [row.task, done.sample, _name_state(row), row.score, row.calls, row.usage.tokens]
        for row, done in zip(place.outcomes, place.trails, strict=True)
    ]
    return {**place.model_dump(exclude={"outcomes", "trails", "method"}), "rows": rows}


def _name_state(row: TaskRow) -> str:
    """Name how a run ended; an answer without a grade is `open`."""
    if row.score is None:
        return "open" if row.error is None else "error"
    return "right" if row.solved else "wrong"


def _dump_trail(done: StoredTrajectory, method: str, drawn: bool) -> dict[str, Any]:
    return {
        **done.model_dump(include=_TRAIL),
        "notes": format_notes(method, done.notes),
        "picture": _dump_picture(draw_run(method, done.notes)) if drawn else None,
    }


def _dump_picture(picture: Picture) -> dict[str, Any] | None:
    """The rounds of a trail; None where its method draws none."""
    if not any(frame.panels for frame in picture.frames):
        return None
    frames = [
        {"label": frame.label, "text": frame.text, "panels": dump_panels(frame.panels)}
        for frame in picture.frames[:FRAMES]
    ]
    return {"panels": dump_panels(picture.panels), "frames": frames}


def _compress(value: Any) -> str:
    return base64.b64encode(gzip.compress(to_json(value).encode(), 6, mtime=0)).decode()


def to_json(value: Any) -> str:
    """Compact JSON in ASCII."""
    return json.dumps(value, separators=(",", ":"))

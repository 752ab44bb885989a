"""Packs what methods draw into compact JSON; texts are numbers in a table that the caller keeps."""

from collections.abc import Callable, Iterable
from typing import Any

from selfwire.core.pictures import Cell, Entry, Matching, Panel, Picture, Table, TextList
from selfwire.core.values import format_count

ROWS = 60
"""Most rows of a table, and most texts of a list; what is beyond is counted."""
COLUMNS = 40
LINES = 400
"""Most lines between texts."""
PANELS = 12
FRAMES = 60
"""Most rounds of a trail."""

Add = Callable[[str], int]
"""Adds a text to the table and gives its place."""


def pack_picture(picture: Picture, add: Add) -> dict[str, Any] | None:
    """The rounds of a trail; None where its method draws none."""
    if not any(frame.panels for frame in picture.frames):
        return None
    return {
        "panels": pack_panels(picture.panels, add),
        "frames": [
            {"label": add(frame.label), "text": add(frame.text), "panels": pack_panels(frame.panels, add)}
            for frame in picture.frames[:FRAMES]
        ],
    }


def pack_panels(panels: Iterable[Panel], add: Add) -> list[dict[str, Any]]:
    """Panels as JSON."""
    return [_pack_panel(one, add) for one in [*panels][:PANELS]]


def _pack_panel(one: Panel, add: Add) -> dict[str, Any]:
    match one:
        case Table():
            return _pack_table(one, add)
        case TextList():
            return _pack_texts(one, add)
        case Matching():
            return _pack_matching(one, add)


def _pack_table(one: Table, add: Add) -> dict[str, Any]:
    cut = one.rows[:ROWS]
    return {
        "kind": "table",
        "title": add(one.title),
        "note": add(_count_left_out(one.note, len(one.rows))),
        "columns": [add(name) for name in one.columns[:COLUMNS]],
        "rows": [[_pack_cell(cell, add) for cell in row[:COLUMNS]] for row in cut],
        "largest": one.largest,
        "mark": one.mark,
        "byFrame": one.by_frame,
    }


def _pack_cell(cell: Cell | str | float | None, add: Add) -> Any:
    """A cell as [text, value, look], its end left out where it is empty."""
    match cell:
        case None | "":
            return []
        case str():
            return [add(cell)]
        case Cell():
            value = None if cell.value is None else round(cell.value, 4)
            return [add(cell.text) if cell.text else None, value, cell.look]
        case _:
            return [None, round(cell, 4)]


def _pack_texts(one: TextList, add: Add) -> dict[str, Any]:
    return {
        "kind": "texts",
        "title": add(one.title),
        "note": add(_count_left_out(one.note, len(one.entries))),
        "entries": [_pack_entry(entry, add) for entry in one.entries[:ROWS]],
    }


def _pack_entry(one: Entry, add: Add) -> list[Any]:
    return [add(one.head), add(one.text), one.look, one.depth]


def _pack_matching(one: Matching, add: Add) -> dict[str, Any]:
    left, right = one.left[:ROWS], one.right[:ROWS]
    return {
        "kind": "matching",
        "title": add(one.title),
        "note": add(_count_left_out(one.note, max(len(one.left), len(one.right)))),
        "sides": [add(side) for side in one.sides],
        "left": [_pack_entry(entry, add) for entry in left],
        "right": [_pack_entry(entry, add) for entry in right],
        "matches": [
            [match.left, match.right, None if match.value is None else round(match.value, 4), match.look]
            for match in one.matches
            if match.left < len(left) and match.right < len(right)
        ][:LINES],
        "mark": one.mark,
    }


def _count_left_out(note: str, rows: int) -> str:
    left = f"{format_count(rows - ROWS, 'more row')} had no room here." if rows > ROWS else ""
    return " ".join(filter(None, (note, left)))

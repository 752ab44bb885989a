"""Packs what methods draw into compact JSON; texts are numbers in a table that the caller keeps."""

from collections.abc import Callable, Iterable
from typing import Any

from selfwire.core.values import format_count
from selfwire.evolvers.figures import Cell, Entry, Matching, Panel, Picture, Table, TextList

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
    return [_pack_panel(panel, add) for panel in [*panels][:PANELS]]


def _pack_panel(panel: Panel, add: Add) -> dict[str, Any]:
    match panel:
        case Table():
            return _pack_table(panel, add)
        case TextList():
            return _pack_texts(panel, add)
        case Matching():
            return _pack_matching(panel, add)


def _pack_table(table: Table, add: Add) -> dict[str, Any]:
    cut = table.rows[:ROWS]
    return {
        "kind": "table",
        "title": add(table.title),
        "note": add(_count_left_out(table.note, len(table.rows))),
        "columns": [add(name) for name in table.columns[:COLUMNS]],
        "rows": [[_pack_cell(cell, add) for cell in row[:COLUMNS]] for row in cut],
        "largest": table.largest,
        "mark": table.mark,
        "byFrame": table.by_frame,
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


def _pack_texts(panel: TextList, add: Add) -> dict[str, Any]:
    return {
        "kind": "texts",
        "title": add(panel.title),
        "note": add(_count_left_out(panel.note, len(panel.entries))),
        "entries": [_pack_entry(entry, add) for entry in panel.entries[:ROWS]],
    }


def _pack_entry(entry: Entry, add: Add) -> list[Any]:
    return [add(entry.head), add(entry.text), entry.look, entry.depth]


def _pack_matching(matching: Matching, add: Add) -> dict[str, Any]:
    left, right = matching.left[:ROWS], matching.right[:ROWS]
    return {
        "kind": "matching",
        "title": add(matching.title),
        "note": add(_count_left_out(matching.note, max(len(matching.left), len(matching.right)))),
        "sides": [add(side) for side in matching.sides],
        "left": [_pack_entry(entry, add) for entry in left],
        "right": [_pack_entry(entry, add) for entry in right],
        "matches": [
            [match.left, match.right, None if match.value is None else round(match.value, 4), match.look]
            for match in matching.matches
            if match.left < len(left) and match.right < len(right)
        ][:LINES],
        "mark": matching.mark,
    }


def _count_left_out(note: str, rows: int) -> str:
    left = f"{format_count(rows - ROWS, 'more row')} had no room here." if rows > ROWS else ""
    return " ".join(filter(None, (note, left)))

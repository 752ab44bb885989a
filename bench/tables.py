"""Rows as the cells of a table, printed or kept for a page of docs."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.measuring import Row
from selfwire.extras.lab.code_version import find_code_version

Line = dict[str, str]
"""Cells by the title of their column."""


def make_lines(rows: Sequence[Row]) -> list[Line]:
    """A line per row; rows with columns share the line of what they are about."""
    lines: dict[str, Line] = {}
    columns = dict.fromkeys(row.column for row in rows if row.column)
    for row in rows:
        if row.column:
            lines.setdefault(row.what, {"": row.what, **dict.fromkeys(columns, "")})[row.column] = _format_cell(row)
        elif columns:
            lines[row.what] = {"": row.what, **dict.fromkeys(columns, row.note)}
        else:
            value = row.note or f"{row.value:,.2f}"
            lines[f"{len(lines)}"] = {"what": row.what, "value": value, "unit": row.unit, "aim": _format_aim(row)}
    return [*lines.values()]


def _format_cell(row: Row) -> str:
    if row.note:
        return row.note
    spread = f" ({row.spread[0]:,.2f} to {row.spread[1]:,.2f})" if row.spread else ""
    aim = f", aim {row.bound:.2f}" if row.bound is not None else ""
    return f"{row.value:,.2f}{spread}{aim}"


def _format_aim(row: Row) -> str:
    if row.bound is None:
        return ""
    aim = f"<= {row.bound:.4g}"
    return f"{aim} (missed)" if row.value > row.bound else aim


def print_table(out: Console, title: str, rows: Sequence[Row]) -> None:
    """Print one table."""
    lines = make_lines(rows)
    table = Table(*lines[0], title=title, title_justify="left", box=None)
    for line in lines:
        table.add_row(*line.values())
    out.print(table)
    out.print()


def keep_lines(rows: Sequence[Row], file: Path) -> None:
    """Write the lines as JSON below the code that made them, for a table of kind `cells` on a page of docs."""
    lines = (find_code_version().model_dump(), *make_lines(rows))
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    file.write_text(text, encoding="utf-8")

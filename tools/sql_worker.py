"""The worker process that reads SQLite files; run as a module, never imported.

The reply to a request {"path", "statement"} is {"text"} with the rows, or {"error"}; without a statement the text lists
the tables.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from selfwire.tools.worker_loop import serve

ROWS, CELL, ALL = 50, 500, 8000
"""Most rows, characters of a cell, and characters of all rows."""

TABLES = 40
"""Most tables that are listed."""

_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_REFUSED = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """Read the rows of a statement, or list the tables."""
    try:
        with closing(_open(request["path"])) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000_000)
            if "statement" not in request:
                return {"text": _list_tables(database)}
            database.set_authorizer(_authorize)
            return {"text": _select(database, request["statement"])}
    except (sqlite3.Error, sqlite3.Warning, OSError, MemoryError, ValueError) as error:
        return {"error": str(error) or "it took too much memory"}


def _open(path: str) -> sqlite3.Connection:
    """Open a file read-only; as immutable if its write-ahead log is empty, which opening would create anew."""
    with open(path, "rb") as file:
        logged = file.read(20)[18:] == b"\2\2"
    log = Path(f"{path}-wal")
    mode = "immutable=1" if logged and not (log.exists() and log.stat().st_size) else "mode=ro"
    return sqlite3.connect(f"file:{quote(path)}?{mode}", uri=True)


def _authorize(action: int, first: str | None, second: str | None, *where: str | None) -> int:
    allowed = action in _ALLOWED and not (action == sqlite3.SQLITE_FUNCTION and second in _REFUSED)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _select(database: sqlite3.Connection, statement: str) -> str:
    found = database.execute(statement)
    if found.description is None:
        return "The statement returned no rows."
    rows = found.fetchmany(ROWS + 1)
    lines = [json.dumps([*map(_format_cell, row)], ensure_ascii=False) for row in rows[:ROWS]]
    names = json.dumps([column[0] for column in found.description], ensure_ascii=False)
    text = "\n".join([names, *lines]) if lines else "No row matches."
    more = f"\nOnly the first {ROWS} rows are shown." if len(rows) > ROWS else ""
    return (text if len(text) <= ALL else f"{text[:ALL]} [cut off]") + more


def _format_cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return f"{value[:CELL]} [cut off]" if isinstance(value, str) and len(value) > CELL else value


def _list_tables(database: sqlite3.Connection) -> str:
    names = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
    tables = [name for (name,) in database.execute(f"{names} LIMIT {TABLES + 1}")]
    lines = [f"{table}({_list_columns(database, table)})" for table in tables[:TABLES]]
    return "\n".join([*lines, *(["..."] if len(tables) > TABLES else [])])[:ALL] or "none"


def _list_columns(database: sqlite3.Connection, table: str) -> str:
    columns = database.execute("SELECT name, type FROM pragma_table_info(?)", (table,))
    return ", ".join(f"{name} {kind}".strip() for name, kind in columns)


serve(reply)

"""The SQL statements of a journal."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from selfwire.core.usage import Usage

Statement = tuple[str, tuple[Any, ...]]
"""SQL and its values."""

USAGE = "calls, input_tokens, output_tokens, dollars, seconds"
BILLED = ", ".join(f"{column} = COALESCE({column}, 0) + ?" for column in USAGE.split(", "))
"""Adds to the bill of earlier attempts at the same call; an unknown price makes the sum unknown."""

RESERVE = (
    "INSERT INTO calls (key, kind, scope, iteration, phase, task, node, request, attempt, at_most, state) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved') ON CONFLICT (key) DO UPDATE SET state = 'reserved', "
    "at_most = MAX(at_most, excluded.at_most)"
)
SETTLE = f"UPDATE calls SET state = 'settled', error = NULL, reply = ?, {BILLED} WHERE key = ?"
FAIL = "UPDATE calls SET state = 'failed', failures = failures + 1, at_most = ?, error = ? WHERE key = ?"
BILL = f"UPDATE calls SET {BILLED} WHERE key = ?"
FORGET = "DELETE FROM calls WHERE key = ?"
GIVE_BACK = "UPDATE calls SET state = IIF(failures > 0, 'failed', 'reserved'), at_most = ? WHERE key = ?"
"""Takes back a reservation of a call that was sent before, without a reply."""
KEEP = "INSERT OR IGNORE INTO bodies VALUES (?, ?)"
NOTE = "INSERT OR REPLACE INTO notes VALUES (?, ?)"

PLACES = ("iteration", "phase", "task", "node", "run")


def writing(statements: Sequence[Statement]) -> Callable[[sqlite3.Connection], None]:
    """A job that executes statements."""

    def write(connection: sqlite3.Connection) -> None:
        for statement, values in statements:
            connection.execute(statement, values).close()

    return write


def where(wanted: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """A condition and its values; a None is no condition; raises ValueError if calls cannot be found by that name."""
    if unknown := set(wanted) - {"kind", "state", *PLACES}:
        raise ValueError(f"rows are found by {', '.join(PLACES)}, not by {', '.join(sorted(unknown))}")
    asked = {name: value for name, value in wanted.items() if value is not None}
    columns = {"run": "json_extract(scope, '$.run')"}
    return " AND ".join(["TRUE", *(f"{columns.get(name, name)} = ?" for name in asked)]), list(asked.values())


def columns(usage: Usage) -> tuple[Any, ...]:
    """A usage as the columns of `USAGE`."""
    return usage.calls, usage.input_tokens, usage.output_tokens, usage.dollars, usage.seconds


def usage(columns: Any) -> Usage:
    """A usage from the columns of `USAGE`."""
    calls, sent, received, dollars, seconds = columns
    return Usage(calls=calls, input_tokens=sent, output_tokens=received, dollars=dollars, seconds=seconds)

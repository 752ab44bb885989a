"""Reads a run's journal in bulk, while another process may write it, without going through all of its calls."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from selfwire.core.usage import Usage
from selfwire.runtime import journal_sql as sql
from selfwire.runtime.journal_file import choose_read_mode, open_connection, read_header
from selfwire.runtime.journal_rows import parse_stored

_SUM = (
    "SUM(calls), SUM(input_tokens), SUM(output_tokens), IIF(COUNT(dollars) = COUNT(*), SUM(dollars), NULL), "
    "SUM(seconds)"
)
"""The columns of a usage over several rows; a price that one row lacks is not known of all."""


class JournalReader:
    """Notes, bodies and sums of a journal; blocks, and fails as `Journal.open_read_only`."""

    def __init__(self, path: Path) -> None:
        self.run = read_header(path).facts["run"]
        self._name = f"journal {path}"
        self._connection = open_connection(str(path), choose_read_mode(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def notes(self, prefix: str = "") -> dict[str, Any]:
        """The notes whose names begin with a prefix, by name, sorted."""
        statement = "SELECT name, value FROM notes WHERE substr(name, 1, ?) = ? ORDER BY name"
        found = self._connection.execute(statement, (len(prefix), prefix)).fetchall()
        return {name: parse_stored(self._name, json.loads, value) for name, value in found}

    def bodies(self, digests: Sequence[str]) -> dict[str, str]:
        """Bodies as JSON texts by hash; those that are not there are left out."""
        statement = "SELECT hash, body FROM bodies WHERE hash IN (SELECT value FROM json_each(?))"
        return dict(self._connection.execute(statement, (json.dumps([*digests]),)).fetchall())

    def spend_by_place(self) -> dict[tuple[str, str], Usage]:
        """What was billed, by phase and node."""
        statement = f"SELECT phase, node, {_SUM} FROM calls WHERE calls IS NOT NULL GROUP BY phase, node"
        rows = self._connection.execute(statement).fetchall()
        return {(phase, node): parse_stored(self._name, sql.usage, usage) for phase, node, *usage in rows}

    def replies(self, kind: str, phase: str, run: str) -> dict[str, Any]:
        """Settled replies of a kind and phase by task, of the run or side that scopes name."""
        where, values = sql.where({"kind": kind, "phase": phase, "state": "settled", "run": run})
        rows = self._connection.execute(f"SELECT task, reply FROM calls WHERE {where} ORDER BY rowid", values)
        return {task: parse_stored(self._name, json.loads, reply) for task, reply in rows.fetchall()}

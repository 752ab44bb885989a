"""Follows a journal that another process may write: each look reads only what is new, and keeps nothing open."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple

from selfwire.core.usage import Usage, UsageAccumulator
from selfwire.store import journal_file as sql
from selfwire.store.journal_file import open_unchecked, parse_stored

_NEW = f"SELECT rowid, kind, iteration, phase, task, scope, state, {sql.USAGE} FROM calls WHERE rowid > ? OR rowid IN "
_NEW += "(SELECT value FROM json_each(?)) ORDER BY rowid"


class GradedPhase(NamedTuple):
    """A phase in which tasks are graded; the side of a comparison is "" elsewhere."""

    iteration: int
    phase: str
    side: str


class JournalLook(NamedTuple):
    """Current content of a journal.

    Attributes:
        notes: those that were asked for, by name.
        counts: how many notes begin with each of the prefixes that were asked for.
        mark: differs whenever a note was written since.
        spend: sum of all rows, billed failures included.
        phase: in which a task was graded last; None if none was.
        graded: tasks that were graded in it.
    """

    notes: Mapping[str, Any]
    counts: Mapping[str, int]
    mark: int
    spend: Usage
    phase: GradedPhase | None
    graded: int


class JournalFollower:
    """Adds up a journal's calls row by row.

    Rows that have settled are read once; a process that opens the journal anew may have some of them made again, so
    then all are read again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._holder: Any = None
        self._forget()

    def _forget(self) -> None:
        self._last = 0
        self._settled = UsageAccumulator()
        self._open: dict[int, Usage | None] = {}
        self._graded: dict[GradedPhase, set[str]] = {}
        self._phase: GradedPhase | None = None

    def look(self, names: tuple[str, ...], prefixes: tuple[str, ...]) -> JournalLook:
        """Read what is new; blocks for some milliseconds.

        Raises:
            JournalError: the file is missing, foreign or damaged.
            sqlite3.Error: it cannot be read now.
        """
        holder, self._holder = self._holder, None
        with closing(open_unchecked(self.path)) as connection:
            notes = self._read_notes(connection, ("holder", *names))
            if holder is None or notes.get("holder") != holder:
                self._forget()
            self._read_calls(connection)
            counts = {prefix: _count_notes(connection, prefix) for prefix in prefixes}
            (mark,) = connection.execute("SELECT COALESCE(MAX(rowid), 0) FROM notes").fetchone()
        self._holder = notes.get("holder")  # after a fault all is read again
        spend = UsageAccumulator(self._settled.usage)
        for usage in filter(None, self._open.values()):
            spend.add(usage)
        graded = len(self._graded[self._phase]) if self._phase else 0
        return JournalLook(notes, counts, mark, spend.usage, self._phase, graded)

    def _read_notes(self, connection: Connection, names: tuple[str, ...]) -> dict[str, Any]:
        statement = "SELECT name, value FROM notes WHERE name IN (SELECT value FROM json_each(?))"
        found = connection.execute(statement, (json.dumps(names),)).fetchall()
        return {name: parse_stored(f"journal {self.path}", json.loads, value) for name, value in found}

    def _read_calls(self, connection: Connection) -> None:
        waiting, self._open = json.dumps([*self._open]), {}
        rows = connection.execute(_NEW, (self._last, waiting)).fetchall()
        for row, kind, iteration, phase, task, scope, state, *usage in rows:
            self._last = max(self._last, row)
            billed = None if usage[0] is None else parse_stored(f"journal {self.path}", sql.to_usage, usage)
            if state != "settled":
                self._open[row] = billed
                continue
            if billed is not None:
                self._settled.add(billed)
            if kind == "environment":
                run = str(parse_stored(f"journal {self.path}", json.loads, scope)["run"])
                self._phase = GradedPhase(iteration, phase, run.partition("/")[2])
                self._graded.setdefault(self._phase, set()).add(task)


def _count_notes(connection: Connection, prefix: str) -> int:
    last = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    statement = "SELECT COUNT(*) FROM notes WHERE name >= ? AND name < ?"
    return int(connection.execute(statement, (prefix, last)).fetchone()[0])

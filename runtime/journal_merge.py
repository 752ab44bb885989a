"""Copies the rows of one run's journal that belong to a part of it into another journal, and none twice."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from selfwire.runtime.journal_file import open_connection, read_header


def copy_rows(source: Path, into: Path, *, runs: Sequence[str], notes: Sequence[str], bodies: bool = False) -> None:
    """Copy calls and notes; those that both have become those of the source. Blocks.

    A journal that is open reads the notes and bodies at once, and knows of the calls when it is opened again.

    Args:
        source: journal that they are in.
        into: journal that gets them.
        runs: only calls whose scopes name one of these runs.
        notes: only notes whose names begin with one of these.
        bodies: whether all bodies are copied too.

    Raises:
        JournalError: a file is missing, corrupt or foreign.
    """
    read_header(source)
    read_header(into)
    named = " OR ".join("substr(name, 1, length(?)) = ?" for _ in notes)
    with closing(open_connection(str(into))) as connection:
        connection.execute("ATTACH DATABASE ? AS source", (f"{source.resolve().as_uri()}?mode=rw",))
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT OR REPLACE INTO main.calls SELECT * FROM source.calls "
            "WHERE json_extract(scope, '$.run') IN (SELECT value FROM json_each(?)) ORDER BY rowid",
            (json.dumps(list(runs)),),
        )
        copied = f"INSERT OR REPLACE INTO main.notes SELECT * FROM source.notes WHERE {named}"
        connection.execute(copied, [text for note in notes for text in (note, note)])
        if bodies:
            connection.execute("INSERT OR IGNORE INTO main.bodies SELECT * FROM source.bodies")
        connection.execute("COMMIT")

"""Journals of runs that go on or have ended, to be looked into by all of their methods."""

from pathlib import Path

from selfwire.store.journal import Journal
from selfwire.store.journal_file import choose_read_mode, open_connection, read_header


def read_journal(path: Path) -> Journal:
    """A run's journal without its lease, which cannot be written."""
    run = read_header(path).facts["run"]
    return Journal(open_connection(str(path), choose_read_mode(path)), name=str(path), run=run, lease=None)

"""Locks a run's files, so that only one process at a time writes them.

The lease is SQLite's write lock on an empty file beside the journal. The kernel drops it when the process ends, in
whatever way, so a kill -9 never blocks a resume, and neither clocks nor process ids matter.
"""

import contextlib
import os
import sqlite3
from pathlib import Path

from selfwire.core.errors import JournalError
from selfwire.runtime.journal_file import explain_unwritable

BRIEFLY = 0.2
"""Seconds for which a lease is waited for, as `is_held` takes it for a moment."""


def is_held(path: Path) -> bool:
    """Whether a process is at work on a run's files; True also where nobody can say, as the file cannot be written."""
    if not path.with_name(path.name + ".lease").exists():
        return False
    try:
        Lease(path).release()
    except JournalError:
        return True
    return False


class Lease:
    """Holds `<path>.lease` until it is released or the process ends.

    Args:
        holder: of the file, for the message.
        patience: seconds for which a lease that is held is waited for.

    Raises:
        JournalError: it is held.
    """

    def __init__(self, path: Path, holder: str = "another process", patience: float = BRIEFLY) -> None:
        self._file = path.with_name(path.name + ".lease")
        # opening and closing a file that exists would drop its locks
        with explain_unwritable(self._file), contextlib.suppress(FileExistsError):
            os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with explain_unwritable(self._file):
            if not os.access(self._file, os.W_OK):  # SQLite would lock it for reading, as many may
                raise PermissionError("it is read-only")
        self._lock = sqlite3.connect(self._file, timeout=patience, isolation_level=None, check_same_thread=False)
        try:
            self._lock.execute("PRAGMA journal_mode = MEMORY")
            self._lock.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            self._lock.close()
            fault = f"run file {path} is held by {holder}; wait for it, stop it, or start another run"
            raise JournalError(fault) from error

    def release(self) -> None:
        """Release the lease; the empty file stays, as two processes could hold one name if it were removed."""
        with contextlib.closing(self._lock):
            self._lock.rollback()

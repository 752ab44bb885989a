"""Runs and saved teams as they change, without making a run wait: what is read again, and when."""

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selfwire.core.errors import SelfwireError, format_error
from selfwire.extras.pages.journal_follower import JournalFollower
from selfwire.extras.pages.view.progress import NOTES, PREFIXES, RunProgress, describe_progress
from selfwire.runs.record import FAULTS, JOURNAL, get_run_folder, get_start_time
from selfwire.store.journal_file import is_held
from selfwire.store.library import LIBRARY_FILE, home_folder

SHARE = 10
"""A page is made anew after this many times the seconds that it took, so that it takes a small share of a processor."""
HELD = 2.0
"""Seconds after which a run that goes on is asked for again whether its process is there."""
SEEN_AGO = 1.0
"""Seconds between two pages of a run."""


class Page:
    """A page as it was made last, and the stamp by which an open one knows whether it is that one.

    Args:
        make: makes it.
        explain: makes a page of an error, where no page could be made yet.
    """

    def __init__(self, make: Callable[[], str], explain: Callable[[str], str]) -> None:
        self._make, self._explain = make, explain
        self._lock = threading.Lock()
        self._of: object = None
        self._again = 0.0
        self.text = self.stamp = self.fault = ""

    def refresh(self, of: object) -> None:
        """Make the page anew if it was made of something else, but not too often; one that fails leaves the last."""
        with self._lock:
            if of == self._of or time.monotonic() < self._again:
                return
            start = time.monotonic()
            try:
                self.text, self._of, self.fault = self._make(), of, ""
            except (SelfwireError, *FAULTS) as error:
                self.fault = explain_fault(error)
                if not self._of:
                    self.text = self._explain(self.fault)
            self.stamp = hashlib.sha256(self.text.encode()).hexdigest()[:16]
            end = time.monotonic()
            self._again = end + max(SEEN_AGO, SHARE * (end - start))


class WatchedRun:
    """A run whose files are looked at only when they have changed."""

    def __init__(self, home: str | Path | None, run: str) -> None:
        self.run = run
        self.path = get_run_folder(home, run) / JOURNAL
        self.started = get_start_time(self.path)
        self._library = home_folder(home) / LIBRARY_FILE
        self._follower = JournalFollower(self.path)
        self._lock = threading.Lock()
        self._files: tuple[Any, ...] = ()
        self._held, self._held_at = False, 0.0
        self._found = RunProgress(run=run, started=self.started)
        self.mark: tuple[Any, ...] = ()

    def look(self) -> RunProgress:
        """The run as it stands now."""
        with self._lock:
            files = (get_file_mark(self.path), get_file_mark(self.path.with_name(f"{JOURNAL}-wal")))
            if files == self._files and not self._is_held_unsure():
                return self._found
            self._held, self._held_at = is_held(self.path), time.monotonic()  # before its status is read
            self._found, self._files = self._read(), files
            return self._found

    def get_page_mark(self) -> tuple[Any, ...]:
        """State of the files behind the run's page: the page is made anew when it differs."""
        return (self.mark, get_file_mark(self._library))

    def _is_held_unsure(self) -> bool:
        return self._found.is_going_on and time.monotonic() > self._held_at + HELD

    def _read(self) -> RunProgress:
        try:
            found = self._follower.look(NOTES, PREFIXES)
            progress = describe_progress(self.run, self.started, found, held=self._held)
        except (SelfwireError, *FAULTS) as error:
            return RunProgress(run=self.run, started=self.started, fault=explain_fault(error))
        self.mark = (found.mark, progress.status)
        return progress


def explain_fault(error: Exception) -> str:
    """The error in a line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, SelfwireError) else f"its files cannot be read now: {format_error(error)}"[:500]


def get_file_mark(path: Path) -> tuple[int, int] | None:
    """A value that differs once the file was written to; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size

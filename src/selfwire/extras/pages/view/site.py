"""The pages of a home: the list of runs and saved teams, and one of each run."""

import hashlib
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.core.errors import ConfigError, SelfwireError, format_error
from selfwire.core.values import format_count
from selfwire.extras.pages.journal_follower import JournalFollower
from selfwire.extras.pages.page import SCRIPTS, STYLES, make_environment, render_page, sign
from selfwire.extras.pages.reading import read_report
from selfwire.extras.pages.view.progress import NOTES, PREFIXES, RunProgress, describe_progress
from selfwire.models.sync import run_sync
from selfwire.runs.record import FAULTS, JOURNAL, get_run_folder, get_runs_folder, get_start_time, list_run_names
from selfwire.store.journal_file import is_held
from selfwire.store.library import LIBRARY_FILE, Version, home_folder, open_library

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


VIEW = "view.css"
_KEPT = 16
"""Pages of runs that stay in memory."""


class SavedTeam(NamedTuple):
    """A saved team as the list shows it; `has_run` says whether the run that made it is there."""

    version: Version
    has_run: bool


class Site:
    """Pages that are made when they are asked for, and again when what they show has changed."""

    def __init__(self, home: str | Path | None) -> None:
        self.home = home
        self.folder = get_runs_folder(home)
        self._lock = threading.Lock()
        self._runs: dict[str, WatchedRun] = {}
        self._pages: dict[str, Page] = {}
        self._index = Page(self._make_index, self._explain)

    def get_index(self) -> Page:
        """The list, as it stands now."""
        self._index.refresh((tuple(self._list_runs()), get_file_mark(home_folder(self.home) / LIBRARY_FILE)))
        return self._index

    def get_run(self, run: str) -> tuple[Page, RunProgress]:
        """The page of a run and what the run is doing.

        Raises:
            ConfigError: there is no such run.
        """
        watched = self._watch(run)
        progress = watched.look()
        with self._lock:
            page = self._pages.pop(run, None) or Page(lambda: self._make_page(run), self._explain)
            self._pages[run] = page  # the latest is the last
            for old in [*self._pages][:-_KEPT]:
                del self._pages[old]
        page.refresh(watched.get_page_mark())
        return page, progress

    def _watch(self, run: str) -> WatchedRun:
        with self._lock:
            known = self._runs.get(run)
            if known is None or not known.path.exists():
                self._runs.pop(run, None)
                self._pages.pop(run, None)
                known = self._runs[run] = WatchedRun(self.home, run)
            return known

    def _list_runs(self) -> list[RunProgress]:
        """All runs, the newest first."""
        found = []
        for run in reversed(list_run_names(self.home)):
            with suppress(ConfigError):  # it was removed meanwhile
                found.append(self._watch(run).look())
        return found

    def _make_page(self, run: str) -> str:
        scripts = (*SCRIPTS, "live.js")
        return render_page(
            read_report(self.home, run, snapshot=True), template="live.html", scripts=scripts, styles=(*STYLES, VIEW)
        )

    def _make_index(self) -> str:
        runs = self._list_runs()
        names = {run.run for run in runs}
        with open_library(self.home, create=False, snapshot=True) as library:
            heads = [run_sync(library.head(name)) for name in run_sync(library.names())]
        saved = [SavedTeam(head, head.run in names) for head in heads]
        return self._render("index.html", runs=runs, saved=saved, folder=str(self.folder))

    def _explain(self, fault: str) -> str:
        return self._render("fault.html", fault=fault)

    def _render(self, template: str, **values: object) -> str:
        scripts = ("page.js", "live.js")
        found = make_environment().get_template(template)
        return found.render(**values, **sign(("page.css", VIEW), scripts), format_time=format_time)


def describe_live(page: Page, progress: RunProgress) -> dict[str, object]:
    """The line above an open page."""
    spend = progress.spend
    dollars = "" if not spend.dollars else f", ${spend.dollars:,.2f}"
    return {
        "status": progress.status,
        "where": "; ".join(filter(None, (progress.where, progress.resume_line))),
        "done": progress.done,
        "total": progress.total,
        "spend": f"{format_count(spend.calls, 'call')}, {format_count(spend.tokens, 'token')}{dollars}",
        "active": progress.is_going_on,
        "fault": progress.fault or page.fault,
    }


def format_time(seconds: float) -> str:
    """A time in UTC, to the minute."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"

"""The pages of a home: the list of runs and saved teams, and one of each run."""

import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from selfwire.core.errors import ConfigError
from selfwire.extras.pages.page import SCRIPTS, STYLES, make_environment, render_page, sign
from selfwire.extras.pages.reading import read_report
from selfwire.extras.pages.view.progress import RunProgress
from selfwire.extras.pages.view.watching import Page, WatchedRun, get_file_mark
from selfwire.models.sync import run_sync
from selfwire.runs.record import get_runs_folder, list_run_names
from selfwire.store.library import LIBRARY_FILE, Version, home_folder, open_library

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
        "spend": f"{spend.calls:,} calls, {spend.tokens:,} tokens{dollars}",
        "active": progress.is_going_on,
        "fault": progress.fault or page.fault,
    }


def format_time(seconds: float) -> str:
    """A time in UTC, to the minute."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"

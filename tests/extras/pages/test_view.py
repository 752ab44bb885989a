"""The server of pages: whom it answers, what it shows of a home, and that a run waits for nothing."""

import asyncio
import http.client
import json
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from langgraph.store.base import GetOp

from selfwire.core.agent import Agent
from selfwire.core.errors import LibraryError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.usage import Usage
from selfwire.extras.pages.journal_follower import GradedPhase, JournalFollower
from selfwire.extras.pages.view.server import ViewServer
from selfwire.extras.pages.view.site import WatchedRun
from selfwire.models.sync import run_sync
from selfwire.runs.record import JOURNAL, REQUEST, SUMMARY, get_runs_folder, list_run_names, make_summary, remove_run
from selfwire.runs.spec import EvaluateSpec, SystemSpec
from selfwire.store.journal import Journal
from selfwire.store.journal_file import CallResult
from selfwire.store.library import LIBRARY_FILE, open_library

TEAM = Team(
    method="hiva", agents=(Agent(id="a", prompt="Work."), Agent(id="b", prompt="Say.")), topology=make_chain("a", "b")
)
TOKEN = "a secret of thirty-two letters.."
HOSTILE = "<img src=x onerror=alert(1)>&\"'%2e"


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str


@contextmanager
def serving(home: Path, **options: object) -> Iterator[ViewServer]:
    with ViewServer(home, port=0, **options) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server: ViewServer, path: str = "/", method: str = "GET", **headers: str) -> Answer:
    with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)) as connection:
        connection.request(method, path, headers=headers)
        reply = connection.getresponse()
        return Answer(reply.status, reply.headers, reply.read().decode())  # type: ignore[arg-type]


def listen(server: ViewServer, path: str, many: int) -> list[tuple[str, str]]:
    """The first events of a stream."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)) as connection:
        connection.request("GET", path)
        reply, found = connection.getresponse(), list[tuple[str, str]]()
        while len(found) < many:
            event, data, _ = (reply.readline().decode().strip() for _ in range(3))
            found.append((event.removeprefix("event: "), data.removeprefix("data: ")))
        return found


def begin_run(home: Path, name: str = "first", tasks: int = 4) -> Journal:
    request = EvaluateSpec(benchmark="archive", entries=(SystemSpec(name="one", target="single"),), tasks=tasks)
    journal = Journal.create(get_runs_folder(home) / name / JOURNAL, run=name)
    run_sync(journal.put_note(REQUEST, request.model_dump(mode="json")))
    run_sync(journal.put_note(SUMMARY, {**make_summary("eval", request, "running"), "method": "single"}))
    return journal


async def call(journal: Journal, task: str, *, kind: str = "model", calls: int = 1, phase: str = "rollout") -> None:
    async def answer() -> CallResult:
        return CallResult('{"score": 1}', Usage(calls=calls, input_tokens=10, output_tokens=5, dollars=0.25))

    scope = Scope(run=journal.run, phase=phase, task=task, node="a")
    await journal.call_once(kind, scope, task, answer)  # type: ignore[arg-type]


def test_an_empty_home_has_a_page_and_nothing_is_written_to_it(tmp_path: Path) -> None:
    with serving(tmp_path / "none") as server:
        page = ask(server)
        assert (page.status, "There are no runs yet" in page.text) == (200, True)
        assert "There are no saved teams yet" in page.text
        assert listen(server, "/events?stamp=old", 2)[1][0] == "page"
    assert not (tmp_path / "none").exists()


def test_the_list_shows_state_kind_system_score_and_spend_of_runs_and_the_run_of_a_workflow(tmp_path: Path) -> None:
    with closing(begin_run(tmp_path)) as journal, serving(tmp_path) as server:
        run_sync(call(journal, "t1", calls=1234))
        run_sync(journal.put_note("rows/one/t1", {}))
        with open_library(tmp_path) as library:
            run_sync(library.save("mine", TEAM, run="first", step=3, facts={"score": 0.5, "method": "hiva"}))
            run_sync(library.save("lost", TEAM, run="gone", step=1))
        text = ask(server).text
    row = text.partition("<tbody>")[2].partition("</tr>")[0]
    for part in (
        "/runs/first",
        '<td class="words">running: 1 system on test tasks, 1 of 8',  # which wraps, however long it is
        ">eval<",
        ">single<",
        ">archive<",
        "1,234",
        "0.25",
    ):
        assert part in row, part
    saved = text.partition('id="teams"')[2]
    assert '<a href="/runs/first#team">mine</a>' in saved
    assert "gone (not here)" in saved
    assert ">0.50<" in saved


def test_hostile_names_are_texts_and_lead_to_their_pages(tmp_path: Path) -> None:
    begin_run(tmp_path, HOSTILE).close()
    with serving(tmp_path) as server:
        text = ask(server).text
        assert "<img" not in text
        assert f'href="/runs/{quote(HOSTILE, safe="")}"' in text
        page = ask(server, f"/runs/{quote(HOSTILE, safe='')}")
    assert (page.status, "<img" in page.text) == (200, False)
    assert "onerror" in page.text


@pytest.mark.parametrize("path", ["/runs/..", "/runs/%2e%2e%2f%2e%2e", "/runs/nobody", "/runs/nobody/events", "/etc"])
def test_what_is_no_run_is_not_found(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    with serving(tmp_path) as server:
        found = ask(server, path)
    assert (found.status, "secret" in found.text) == (404, False)


def test_an_open_page_hears_of_calls_of_the_end_and_of_the_run_s_removal(tmp_path: Path) -> None:
    journal = begin_run(tmp_path)
    with serving(tmp_path) as server:
        lines: list[dict[str, object]] = []
        with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)) as connection:
            connection.request("GET", "/runs/first/events?stamp=old")
            reply = connection.getresponse()
            assert reply.getheader("Content-Type") == "text/event-stream"

            def hear(name: str) -> dict[str, object]:
                """The next line in which something of that name is new."""
                before = lines[-1].get(name) if lines else None
                while not lines or lines[-1].get(name) == before:
                    said = reply.readline().decode()
                    assert said, lines
                    if said == "event: line\n":
                        lines.append(json.loads(reply.readline().decode().removeprefix("data: ")))
                return lines[-1]

            assert (hear("status")["status"], lines[-1]["total"]) == ("running", 8)
            run_sync(call(journal, "t1"))
            assert str(hear("spend")["spend"]).startswith("1 call, 15 tokens, $0.25")
            run_sync(journal.put_note("rows/one/t1", {}))
            assert hear("done")["done"] == 1
            journal.close()  # as a process that is killed, it notes nothing
            assert hear("status")["status"] == "interrupted"
            assert str(lines[-1]["where"]).endswith("; `selfwire eval --resume first` goes on with it")
            remove_run(tmp_path, "first")
            assert "there is no run 'first'" in str(hear("fault")["fault"])


def test_a_page_that_cannot_be_made_says_why_and_one_that_was_made_stays(tmp_path: Path) -> None:
    with closing(begin_run(tmp_path)) as journal, serving(tmp_path) as server:
        run_sync(journal.put_note(REQUEST, {"benchmark": 1}))
        assert "holds no request" in ask(server, "/runs/first").text
        request = EvaluateSpec(benchmark="archive", entries=(SystemSpec(name="one", target="single"),))
        page, _ = server.site.get_run("first")
        page._again = 0.0
        run_sync(journal.put_note(REQUEST, request.model_dump(mode="json")))
        text = ask(server, "/runs/first").text
        assert "No result yet" in text
        page._again = 0.0
        run_sync(journal.put_note(REQUEST, {"benchmark": 1}))
        assert ask(server, "/runs/first").text == text
        assert "holds no request" in str(json.loads(listen(server, "/runs/first/events", 1)[0][1])["fault"])


def test_a_library_that_is_removed_or_broken_meanwhile_leaves_the_list_of_runs(tmp_path: Path) -> None:
    begin_run(tmp_path).close()
    with open_library(tmp_path) as library:
        run_sync(library.save("mine", TEAM, run="first", step=0))
    with serving(tmp_path) as server:
        assert ">mine<" in ask(server).text
        (tmp_path / LIBRARY_FILE).write_bytes(b"no database")
        server.site._index._again = 0.0
        assert ">first<" in ask(server).text
        assert "is not a selfwire library" in str(json.loads(listen(server, "/events", 1)[0][1])["fault"])
        (tmp_path / LIBRARY_FILE).unlink()
        server.site._index._again = 0.0
        assert "There are no saved teams yet" in ask(server).text


def test_a_follower_counts_each_call_once_and_all_again_after_another_process(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    follower = JournalFollower(path)
    with closing(Journal.create(path, run="r")) as journal:
        run_sync(call(journal, "t1"))
        run_sync(call(journal, "t1", kind="environment", calls=0, phase="gate"))
        run_sync(call(journal, "t2", kind="environment", calls=0, phase="gate"))
        first = follower.look((), ())
        assert (first.spend.calls, first.phase, first.graded) == (1, GradedPhase(0, "gate", ""), 2)
        run_sync(call(journal, "t3"))
        assert follower.look((), ()).spend.replace(seconds=0.0) == journal.spend().replace(seconds=0.0)
    with closing(Journal.open(path)) as journal:
        with sqlite3.connect(path) as other:
            other.execute("UPDATE notes SET value = '\"another process\"' WHERE name = 'holder'")
        journal.retry_failed()
        scope = Scope(run="r", phase="rollout", task="t1", node="a")
        assert run_sync(journal.retry_call("model", scope, "t1"))
        run_sync(call(journal, "t1"))
        assert follower.look((), ()).spend.calls == journal.spend().calls == 3


def test_a_look_holds_no_lock_and_leaves_no_connection(tmp_path: Path) -> None:
    with closing(begin_run(tmp_path)) as journal:
        watched = WatchedRun(tmp_path, "first")
        for number in range(3):
            run_sync(call(journal, f"t{number}"))
            watched.look()
        writer = sqlite3.connect(tmp_path / "runs" / "first" / JOURNAL, timeout=0)
        with closing(writer):  # all of the log moves into the file only if nobody reads
            assert writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0] == 0


def test_saved_workflows_are_read_without_a_lock(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        run_sync(library.save("mine", TEAM, run="first", step=0))
    file = tmp_path / LIBRARY_FILE
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")  # nobody else gets a lock
        with open_library(tmp_path, create=False, snapshot=True) as library:
            assert run_sync(library.load("mine")) == TEAM
    with open_library(tmp_path, create=False, snapshot=True) as library:
        reading = library.store.batch([GetOp(("selfwire", "heads"), "mine")])
        with closing(sqlite3.connect(file, timeout=0)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
        assert reading
    file.with_name(f"{LIBRARY_FILE}-journal").touch()
    with pytest.raises(LibraryError, match="is being written"):
        open_library(tmp_path, create=False, snapshot=True)


def test_runs_are_listed_by_their_start_whatever_is_written_to_their_folders_later(tmp_path: Path) -> None:
    for name in ("b", "a"):
        begin_run(tmp_path, name).close()
        asyncio.run(asyncio.sleep(0.02))
    (tmp_path / "runs" / "b" / "report.html").write_text("page")
    assert list_run_names(tmp_path) == ("b", "a")
    copy = tmp_path / "copy"
    for name in ("a", "b"):  # the files of b are the newer ones
        shutil.copytree(tmp_path / "runs" / name, copy / "runs" / name, copy_function=shutil.copyfile)
        os.utime(copy / "runs" / name / f"{JOURNAL}.lease", (4e9, 4e9 + ord(name)))
    assert list_run_names(copy) == ("b", "a")
    assert WatchedRun(copy, "b").started == WatchedRun(tmp_path, "b").started == pytest.approx(time.time(), abs=100)

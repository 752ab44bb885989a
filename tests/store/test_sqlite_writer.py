"""A journal that writes on a loop which is lent to it: what is committed when, by whom, and what is told of faults."""

import asyncio
import contextlib
import resource
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from selfwire.core.errors import JournalError, ModelError
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.store import journal_file
from selfwire.store.journal import NOTE_DELAY, Journal, hash_body
from selfwire.store.journal_file import CallResult

COST = Usage(calls=1, input_tokens=10)


def committed(path: Path) -> list[tuple[str, str]]:
    """Kind and state of the rows, and names of the notes, that another process would find."""
    with closing(sqlite3.connect(path)) as other:
        calls = other.execute("SELECT kind, state FROM calls ORDER BY rowid").fetchall()
        return calls + other.execute("SELECT 'note', name FROM notes WHERE name != 'holder'").fetchall()


async def answers() -> CallResult:
    return CallResult('"fine"', COST)


async def graded() -> CallResult:
    return CallResult('{"score": 1.0}')


async def fails() -> CallResult:
    raise ModelError("down")


async def test_a_call_is_committed_before_it_is_sent_and_its_reply_when_the_turn_is_over(
    journal: Journal, path: Path
) -> None:
    seen = []

    async def call() -> CallResult:
        seen.append(committed(path))
        return CallResult('"fine"', COST)

    with journal.on_this_loop():
        await journal.call_once("model", Scope(), "q", call, COST)
        await asyncio.sleep(0)
        seen.append(committed(path))
    assert seen == [[("model", "reserved")], [("model", "settled")]]


async def test_a_grade_rides_with_the_next_commit_and_rows_wait_for_each_other_but_only_so_long(
    journal: Journal, path: Path
) -> None:
    with journal.on_this_loop():
        await journal.call_once("environment", Scope(task="a"), "q", graded)
        await journal.put_note_and_body("row", "{}", hash_body("body"), "body")
        assert committed(path) == []
        await journal.call_once("model", Scope(task="b"), "q", answers, COST)
        assert committed(path) == [("environment", "settled"), ("model", "reserved")]
        await asyncio.sleep(0)
        assert committed(path) == [("environment", "settled"), ("model", "settled")]
        assert await journal.get_note("row") == {}  # whoever reads finds it
        assert ("note", "row") in committed(path)
        for name in ("later", "too"):
            await journal.put_note_and_body(name, "{}", hash_body("body"), "body")
        await asyncio.sleep(0)
        assert not {("note", "later"), ("note", "too")} & {*committed(path)}
        await asyncio.sleep(2 * NOTE_DELAY)
        assert {("note", "later"), ("note", "too")} <= {*committed(path)}
        await journal.put_note_and_body("last", "{}", hash_body("body"), "body")
    assert ("note", "last") in committed(path)


async def test_whoever_only_puts_lets_others_take_their_turn(journal: Journal) -> None:
    order = list[str]()

    async def keeps() -> None:
        for number in range(journal_file.MOST_WAITING):
            await journal.put_note_and_body(f"n{number}", "{}", hash_body("body"), "body")
        order.append("kept")

    async def other() -> None:
        order.append("other")

    with journal.on_this_loop():
        await asyncio.gather(keeps(), other())
    assert order == ["other", "kept"]
    assert len(await journal.list_note_names("n")) == journal_file.MOST_WAITING


async def test_a_lent_loop_writes_by_itself_and_others_through_the_thread(journal: Journal) -> None:
    threads = list[str]()

    async def written() -> None:
        await journal._writer.run(lambda connection: threads.append(threading.current_thread().name))

    with journal.on_this_loop():
        await written()
        await asyncio.to_thread(lambda: asyncio.run(written()))
    await written()
    assert threads == [threading.main_thread().name, "journal", "journal"]


async def test_a_fault_stops_who_asks_next_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "r.sqlite", run="r")
    with journal.on_this_loop():
        await journal.put_note("before", 1)  # the table is there
        await journal._writer.run(lambda connection: connection.execute("ALTER TABLE notes RENAME TO gone").close())
        await journal.put_note_and_body("row", "{}", hash_body("body"), "body")
        await journal.call_once("model", Scope(), "q", answers, COST)  # does not wait for rows
        with pytest.raises(JournalError, match="no such table"):
            await journal.rows()
        for number in range(2, journal_file.MOST_WAITING // 2 + 1):  # two statements each
            await journal.put_note_and_body(f"row {number}", "{}", hash_body("body"), "body")
        with pytest.raises(JournalError, match="no such table"):
            await journal.put_note_and_body("row 1", "{}", hash_body("body"), "body")
        journal._writer._waiting.insert(0, lambda connection: connection.execute("ALTER TABLE gone RENAME TO notes"))
        assert [row.state for row in await journal.rows()] == ["settled"]
    assert await journal.get_note("row") == {}
    assert len(await journal.list_note_names("row ")) == journal_file.MOST_WAITING // 2
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        await journal.put_note("after", 1)


async def test_no_call_overtakes_rows_that_could_not_be_written_in_time(journal: Journal, path: Path) -> None:
    with journal.on_this_loop():
        await journal._writer.run(lambda connection: connection.execute("ALTER TABLE notes RENAME TO gone").close())
        await journal.put_note_and_body("row", "{}", hash_body("body"), "body")
        await asyncio.sleep(2 * NOTE_DELAY)
        with pytest.raises(JournalError, match="no such table"):
            await journal.call_once("model", Scope(task="a"), "q", answers, COST)
        await asyncio.to_thread(renamed, path, "gone", "notes")
        await journal.call_once("model", Scope(task="b"), "q", answers, COST)
        assert committed(path) == [("model", "reserved"), ("note", "row")]
        await asyncio.sleep(0)
        await journal.put_note_and_body("later", "{}", hash_body("body"), "body")
        await journal.call_once("model", Scope(task="c"), "q", answers, COST)
        assert ("note", "later") not in committed(path)
        await asyncio.sleep(2 * NOTE_DELAY)
        assert ("note", "later") in committed(path)


def renamed(path: Path, name: str, other: str) -> None:
    with closing(sqlite3.connect(path)) as outside:
        outside.execute(f"ALTER TABLE {name} RENAME TO {other}")


async def test_another_loop_replays_what_was_settled_in_a_turn_that_goes_on(journal: Journal) -> None:
    found = list[CallResult]()

    def elsewhere() -> None:
        found.append(asyncio.run(journal.call_once("model", Scope(), "q", fails, COST)))

    with journal.on_this_loop():
        await journal.call_once("model", Scope(), "q", answers, COST)
        other = threading.Thread(target=elsewhere)
        other.start()
        time.sleep(0.2)  # noqa: ASYNC251 - the turn goes on
        assert found == []
        await asyncio.to_thread(other.join)
    assert found == [CallResult('"fine"', COST, replayed=True)]


async def test_what_waits_is_written_once_and_whole_where_the_first_try_fails_in_the_middle(journal: Journal) -> None:
    broken = True

    def sometimes(connection: sqlite3.Connection) -> None:
        if broken:
            raise sqlite3.OperationalError("database or disk is full")

    with journal.on_this_loop():
        await journal.call_once("model", Scope(task="a"), "q", answers, COST)
        await journal._writer.put(sometimes)
        with pytest.raises(ModelError):
            await journal.call_once("environment", Scope(task="b"), "q", fails)
        with pytest.raises(JournalError, match="disk is full"):
            await journal.put_note("asked", 1)
        broken = False
        assert await journal.spend_at(task="a") == COST == journal.spend()
        assert [row.failures for row in await journal.rows(task="b")] == [1]
        assert await journal.get_note("asked") is None


@pytest.mark.parametrize("lent", [True, False])
async def test_a_text_that_no_file_can_hold_is_an_error_and_others_go_on(lent: bool, journal: Journal) -> None:
    with journal.on_this_loop() if lent else contextlib.nullcontext():
        with pytest.raises(JournalError, match="surrogates"):
            await asyncio.wait_for(journal.get_note("half of \ud83d"), 60)
        await asyncio.wait_for(journal.put_note("whole", 1), 60)


async def test_failures_are_noted_and_what_waits_is_written_on_close(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    journal = Journal.create(path, run="r")
    with journal.on_this_loop():
        with pytest.raises(ModelError):
            await journal.call_once("environment", Scope(), "q", fails)
        journal.close()
    assert committed(path) == [("environment", "failed")]


async def test_a_log_that_was_moved_begins_anew(journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_file, "CHECKPOINT", 50)
    body = "x" * 10_000
    with journal.on_this_loop():
        for number in range(1000):
            await journal.put_note(f"n{number}", body)
            if number % 50 == 49:
                await until_moved()
    assert (path.parent / "r.sqlite-wal").stat().st_size < 3_000_000  # of some 12 MB


async def until_moved() -> None:
    for thread in threading.enumerate():
        if thread.name == "checkpoint":
            await asyncio.to_thread(thread.join)


async def test_what_a_full_disk_refused_in_the_thread_is_told_and_later_writes_go_on(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    journal = Journal.create(path, run="r")
    await journal.put_note("before", 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("r.sqlite-wal").stat().st_size, limits[1]))
    try:
        with pytest.raises(JournalError, match=r"r\.sqlite failed: .*; check the disk, then resume the run"):
            await journal.put_note("during", "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    await journal.put_note("after", 3)
    assert sorted(committed(path)) == [("note", "after"), ("note", "before")]
    journal.close()


async def test_who_waits_for_the_connection_while_the_journal_is_closed_is_told_so(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "r.sqlite", run="r")
    with journal.on_this_loop():
        with journal._writer._shared.lock:  # as a thread holds it that moves the log into the file
            waiting = asyncio.create_task(journal.put_note("late", 1))
            await asyncio.sleep(0)
        journal.close()
        with pytest.raises(JournalError, match="is closed; open the run again"):
            await waiting

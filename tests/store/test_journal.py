import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from selfwire.core.errors import BudgetError, JournalError, ModelError, ToolError
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.store import journal_file
from selfwire.store.journal import Journal
from selfwire.store.journal_file import CallResult, JournalReader, Lease, is_held
from tests.store.spoiled import make_foreign, make_newer, scribble, truncate

COST = Usage(calls=1, input_tokens=10, output_tokens=5, dollars=0.1)
AT_MOST = Usage(calls=1, input_tokens=10, output_tokens=90)
FACTS = {"config": "c1", "task set": "d1"}


class Sender:
    def __init__(self, text: str = '"hello"', error: BaseException | None = None) -> None:
        self.text, self.error, self.sent = text, error, 0

    async def __call__(self) -> CallResult:
        self.sent += 1
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return CallResult(self.text, COST)


async def send(journal: Journal, sender: Sender, request: object = "q", scope: Scope = Scope()) -> CallResult:
    return await journal.call_once("model", scope, request, sender, AT_MOST)


async def test_a_settled_call_is_replayed_whole_by_the_next_process(path: Path) -> None:
    sender = Sender('{"text": "hällo", "n": [1, null]}')
    journal = Journal.create(path, run="r", facts=FACTS)
    first = await send(journal, sender)
    journal.close()
    journal = Journal.open(path, FACTS)
    again = await send(journal, sender)
    assert sender.sent == 1
    assert again == (first.text, COST, True)
    assert journal.spend() == COST
    assert journal.run == "r"


@pytest.mark.parametrize(
    ("scope", "request_", "attempt"),
    [(Scope(visit=1), "q", 0), (Scope(sample=1), "q", 0), (Scope(), "other", 0), (Scope(), "q", 1)],
)
async def test_another_place_request_or_attempt_is_sent(scope: Scope, request_: str, attempt: int) -> None:
    journal, sender = Journal.memory(), Sender()
    await send(journal, sender)
    await journal.call_once("model", scope, request_, sender, AT_MOST, attempt=attempt)
    assert sender.sent == 2


async def test_equal_calls_that_overlap_are_sent_once() -> None:
    journal, sender = Journal.memory(), Sender()
    outcomes = await asyncio.gather(*(send(journal, sender) for _ in range(5)))
    assert sender.sent == 1
    assert sum(outcome.replayed for outcome in outcomes) == 4


class CancelledAfter(Sender):
    """Its caller is cancelled while the outcome is written."""

    async def __call__(self) -> CallResult:
        asking = asyncio.current_task()
        assert asking is not None
        asyncio.get_running_loop().call_soon(asking.cancel)
        if isinstance(self.error, ModelError):
            self.error.cost = COST
        if self.error:
            raise self.error
        return CallResult(self.text, COST)


@pytest.mark.parametrize("error", [None, BudgetError("over"), ModelError("down")])
async def test_what_is_cancelled_while_its_outcome_is_written_is_counted_as_it_is_written(
    path: Path, error: Exception | None
) -> None:
    journal = Journal.create(path, run="r", facts=FACTS)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(send(journal, CancelledAfter(error=error)))
    spent, unknown = journal.spend(), journal.count_unsettled()
    journal.close()
    journal = Journal.open(path, FACTS)
    assert (spent, unknown) == (journal.spend(), journal.count_unsettled())
    assert spent.calls == (not isinstance(error, BudgetError))
    journal.close()


async def test_who_waits_for_an_equal_call_that_is_cancelled_sends_it() -> None:
    journal, sender, stuck = Journal.memory(), Sender(), asyncio.Event()

    async def never() -> CallResult:
        stuck.set()
        await asyncio.Event().wait()
        raise AssertionError

    first = asyncio.create_task(journal.call_once("model", Scope(), "q", never, AT_MOST))
    await stuck.wait()
    second = asyncio.create_task(send(journal, sender))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).text == '"hello"'
    assert sender.sent == 1


async def test_a_failure_is_noted_and_sent_again() -> None:
    journal = Journal.memory()
    with pytest.raises(ModelError):
        await send(journal, Sender(error=ModelError("down")))
    (row,) = await journal.rows()
    assert (row.state, row.failures, row.error, row.usage) == ("failed", 1, "down", None)
    assert journal.count_unsettled() == (1, 100)
    assert not (await send(journal, Sender())).replayed
    (row,) = await journal.rows()
    assert (row.state, row.failures, row.error, row.reply) == ("settled", 1, None, "hello")
    assert journal.count_unsettled() == (0, 0)


async def test_a_tool_that_failed_cost_no_tokens_and_is_not_unknown() -> None:
    journal = Journal.memory()
    with pytest.raises(ToolError):
        await journal.call_once("tool", Scope(), {"x": 1}, Sender(error=ToolError("bad input")))
    assert journal.count_unsettled() == (0, 0)
    assert (await journal.rows("tool", "failed"))[0].error == "bad input"


async def test_a_call_that_the_budget_refused_leaves_no_row() -> None:
    journal = Journal.memory()
    with pytest.raises(BudgetError):
        await send(journal, Sender(error=BudgetError("no")))
    assert await journal.rows() == []
    assert journal.count_unsettled() == (0, 0)


def fail(*, refused: bool) -> Sender:
    error = ModelError("down")
    error.is_cost_known = refused
    return Sender(error=error)


@pytest.mark.parametrize("before", ["failed", "refused", "killed"])
async def test_a_call_that_the_budget_refused_leaves_the_row_of_an_earlier_attempt_as_it_was(
    path: Path, before: str
) -> None:
    journal = Journal.create(path, run="r")
    if before == "killed":
        with pytest.raises(asyncio.CancelledError):
            await send(journal, Sender(error=asyncio.CancelledError()))
    else:
        with pytest.raises(ModelError):
            await send(journal, fail(refused=before == "refused"))
    rows, unknown = await journal.rows(), journal.count_unsettled()
    with pytest.raises(BudgetError):
        await send(journal, Sender(error=BudgetError("no")))
    assert await journal.rows() == rows
    assert journal.count_unsettled() == unknown == ((0, 0) if before == "refused" else (1, 100))
    journal.close()
    journal = Journal.open(path)
    assert journal.count_unsettled() == unknown


async def test_what_a_provider_refused_cost_nothing_and_what_it_was_sent_before_stays_unknown(path: Path) -> None:
    journal = Journal.create(path, run="r")
    for refused, unknown in ((True, (0, 0)), (False, (1, 100)), (True, (1, 100))):
        with pytest.raises(ModelError):
            await send(journal, fail(refused=refused))
        assert journal.count_unsettled() == unknown
    journal.close()
    journal = Journal.open(path)
    assert journal.count_unsettled() == (1, 100)


async def test_a_reply_of_no_use_is_paid_and_not_unknown(path: Path) -> None:
    journal = Journal.create(path, run="r")
    await send(journal, Sender())
    journal.retry_failed()
    assert await journal.retry_call("model", Scope(), "q")
    with pytest.raises(BudgetError):
        await send(journal, Sender(error=BudgetError("no")))
    assert journal.count_unsettled() == (0, 0)
    journal.close()
    journal = Journal.open(path)
    assert (journal.count_unsettled(), journal.spend()) == ((0, 0), COST)


async def test_rows_and_spend_are_found_by_place() -> None:
    journal = Journal.memory()
    for task in ("a", "b"):
        for node in ("x", "y"):
            scope = Scope(iteration=2, phase="rollout", task=task, node=node)
            await send(journal, Sender(f'"{task + node}"'), scope=scope)
    assert [row.reply for row in await journal.rows(task="b", iteration=2)] == ["bx", "by"]
    assert (await journal.rows(node="y"))[0].scope == Scope(iteration=2, phase="rollout", task="a", node="y")
    assert await journal.spend_at(task="a") == COST + COST
    with pytest.raises(ValueError, match="not by colour"):
        await journal.rows(colour="red")


async def test_spend_is_the_same_in_whatever_order_calls_settle() -> None:
    prices = [0.1, 0.2, 0.3, 1e-7, 7e-9]
    spends = []
    for order in (prices, prices[::-1]):
        journal = Journal.memory()
        for dollars in order:

            async def call(dollars: float = dollars) -> CallResult:
                return CallResult("null", Usage(calls=1, dollars=dollars))

            await journal.call_once("model", Scope(), dollars, call)
        spends.append(journal.spend())
    assert spends[0] == spends[1]


async def test_bodies_and_notes_outlive_the_process(path: Path) -> None:
    journal = Journal.create(path, run="r")
    digest = await journal.put_body({"steps": [1, 2]})
    assert digest == await journal.put_body({"steps": [1, 2]})
    await journal.put_note("status", "running")
    await journal.put_note("status", {"stopped": "budget"})
    journal.close()
    with JournalReader(path) as reading:
        assert reading.body(digest, dict) == {"steps": [1, 2]}
        assert reading.note("status") == {"stopped": "budget"}
        assert reading.note("nothing") is None
        with pytest.raises(JournalError, match="no body 'abc'"):
            reading.body("abc", dict)
    with closing(Journal.open(path)) as journal:
        assert await journal.get_body(digest) == {"steps": [1, 2]}
        assert await journal.get_note("nothing") is None
        with pytest.raises(JournalError, match="no body 'abc'"):
            await journal.get_body("abc")


def test_files_are_the_users_alone(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "runs" / "r.sqlite", run="r")
    modes = {stat.S_IMODE(os.stat(file).st_mode) for file in (tmp_path / "runs").iterdir()}
    assert modes == {0o600}
    journal.close()


def test_a_second_opener_is_refused_and_told_who_holds_it(path: Path) -> None:
    journal = Journal.create(path, run="r")
    with pytest.raises(JournalError, match=f"held by process {os.getpid()} since"):
        Journal.open(path)
    with JournalReader(path) as reading:  # reading beside it is fine
        assert reading.run == "r"
    opening = f"from selfwire.store.journal import Journal; Journal.open({str(path)!r})"
    other = subprocess.run([sys.executable, "-c", opening], capture_output=True, text=True, check=False)
    assert f"held by process {os.getpid()}" in other.stderr  # still, after the attempts of this process
    journal.close()
    Journal.open(path).close()


def test_a_file_that_another_program_locks_is_not_called_corrupt(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Journal.create(path, run="r").close()
    monkeypatch.setattr(journal_file, "PATIENCE", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(JournalError, match="is locked by another program; wait for it, and try again"):
            Journal.open(path)


def test_who_looks_whether_a_run_is_held_does_not_keep_others_from_it(path: Path) -> None:
    assert not is_held(path)
    Journal.create(path, run="r").close()
    assert not is_held(path)
    looking = Lease(path)
    threading.Timer(0.05, looking.release).start()
    journal = Journal.open(path)
    assert is_held(path)
    journal.close()


def test_a_lease_that_cannot_be_written_cannot_be_had(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Journal.create(path, run="r").close()
    monkeypatch.setattr("selfwire.store.journal_file.os.access", lambda file, mode: False)  # the superuser may write it
    with pytest.raises(JournalError, match="lease cannot be written: it is read-only; make room, or check the rights"):
        Lease(path)
    assert is_held(path)  # for all that is known


@pytest.mark.parametrize(
    ("now", "names"),
    [
        ({"config": "c2", "task set": "d1"}, "another config .c1 then, c2 now"),
        ({"config": "c1"}, "another task set .d1 then, nothing"),
    ],
)
def test_other_facts_are_refused_by_name(path: Path, now: dict[str, str], names: str) -> None:
    Journal.create(path, run="r", facts=FACTS).close()
    with pytest.raises(JournalError, match=names):
        Journal.open(path, now)
    Journal.open(path, FACTS).close()  # the refusal let go of the lease


@pytest.mark.parametrize(
    ("is_journal", "spoil", "says"),
    [
        (False, lambda path: path.write_text("hello"), "not a"),
        (False, lambda path: path.write_text("hello" * 200), "not a database"),
        (False, Path.touch, "not a journal"),
        (False, make_foreign, "not a journal"),
        (True, truncate, "corrupt"),
        (True, scribble, "corrupt"),
        (True, make_newer, "schema 99"),
        (False, lambda path: None, "there is no run file"),
    ],
)
def test_a_wrong_file_is_refused_and_left_as_it_is(
    path: Path, is_journal: bool, spoil: Callable[[Path], None], says: str
) -> None:
    if is_journal:
        Journal.create(path, run="r").close()
    spoil(path)
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    for attempt in (Journal.open, JournalReader):
        with pytest.raises(JournalError, match=says):
            attempt(path)
    assert {file: file.read_bytes() for file in path.parent.iterdir()} == before


def test_an_existing_file_is_not_started_over(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(JournalError, match="exists already"):
        Journal.create(path, run="r")
    assert path.read_text() == "precious"


async def test_a_closed_journal_says_so() -> None:
    journal = Journal.memory()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        await send(journal, Sender())


async def test_the_event_loop_never_touches_sqlite(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    threads = set()
    journal = Journal.create(path, run="r")
    run = journal._writer.run

    async def watched(job, **options):  # type: ignore[no-untyped-def]
        def seen(connection: sqlite3.Connection) -> object:
            threads.add(threading.current_thread().name)
            return job(connection)

        return await run(seen, **options)

    monkeypatch.setattr(journal._writer, "run", watched)
    await send(journal, Sender())
    await send(journal, Sender())
    assert threads == {"journal"}
    journal.close()


async def test_a_callback_on_an_event_loop_records_a_call_without_touching_sqlite_there() -> None:
    journal, sender = Journal.memory(), Sender()
    with blockbuster_ctx() as guard:  # raises where `langgraph dev` would, which lets threads wait for locks
        guard.functions["threading.Lock.acquire"].deactivate()
        journal.record("model", Scope(), "q", CallResult('"hello"', COST))
    assert (await send(journal, sender)).text == '"hello"'
    assert sender.sent == 0
    journal.close()


async def test_a_callback_records_a_call_after_the_main_thread_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)  # set when it ends, while other threads go on
    journal, sender = Journal.memory(), Sender()
    journal.record("model", Scope(), "q", CallResult('"hello"', COST))
    assert (await send(journal, sender)).text == '"hello"'
    journal.close()


async def test_failed_attempts_that_were_billed_are_spent_before_and_after_a_resume(path: Path) -> None:

    async def fails() -> CallResult:
        error = ModelError("an empty reply")
        error.cost = Usage(calls=2, input_tokens=30, dollars=0.5)
        raise error

    async def answers() -> CallResult:
        return CallResult('"fine"', Usage(calls=1, input_tokens=10, dollars=0.25))

    journal = Journal.create(path, run="r")
    for _ in range(2):
        with pytest.raises(ModelError, match="empty"):
            await journal.call_once("model", Scope(task="t"), "q", fails)
    assert journal.spend() == Usage(calls=4, input_tokens=60, dollars=1.0)
    journal.close()
    again = Journal.open(path)
    assert again.spend() == await again.spend_at(task="t") == Usage(calls=4, input_tokens=60, dollars=1.0)
    outcome = await again.call_once("model", Scope(task="t"), "q", answers)
    assert outcome.usage.calls == 1
    assert again.spend() == await again.spend_at(task="t") == Usage(calls=5, input_tokens=70, dollars=1.25)
    again.close()


def test_a_file_that_cannot_be_written_is_an_error_that_says_so(path: Path) -> None:
    Journal.create(path, run="r").close()
    path.with_name("r.sqlite-shm").mkdir()  # as on a disk that is mounted for reading: beside it nothing can be made
    with pytest.raises(JournalError, match=r"r\.sqlite cannot be written: .*; make room"):
        Journal.open(path)

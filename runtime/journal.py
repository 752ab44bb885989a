"""The journal of one run: every model, tool and environment call is a row in SQLite.

A row is reserved before its call and settled after it, with the whole reply and the cost. A settled call is replayed
and not sent again; a failed one is recorded and sent again; a row that is still reserved after a kill says what may
have been billed in vain. The spend is the sum of the settled rows. A call of an environment costs nothing by itself (a
judge's calls have rows of their own), so its row is only written when it settles.
"""

import asyncio
import json
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Self, TypeVar

from selfwire.core.errors import BudgetError, CallError, JournalError, SelfwireError
from selfwire.core.scope import Scope
from selfwire.core.secrets import mask_secrets
from selfwire.core.usage import ZERO_USAGE, Usage, UsageAccumulator
from selfwire.core.values import to_canonical_json
from selfwire.runtime import journal_sql as sql
from selfwire.runtime.journal_file import (
    MEMORY,
    choose_read_mode,
    create_journal,
    create_tables,
    open_as_holder,
    open_connection,
    read_header,
    refuse_other_facts,
)
from selfwire.runtime.journal_keys import Kind, hash_body, make_key
from selfwire.runtime.journal_rows import CallResult, Row, State, parse_stored
from selfwire.runtime.lease import Lease
from selfwire.runtime.sqlite_writer import PAUSE, Writer

T = TypeVar("T")
SOON = 0.05
"""Seconds within which rows are committed that can be computed again from committed calls."""


Call = Callable[[], Awaitable[CallResult]]


class Journal:
    """A run's calls, bodies and notes; make one with `create`, `open`, `open_read_only` or `memory`."""

    def __init__(self, connection: sqlite3.Connection, *, name: str, run: str, lease: Lease | None) -> None:
        self.run = run
        self._lease = lease
        self._lock = threading.Lock()
        self._settled: set[str] = set()
        self._retryable: set[str] = set()
        self._open: dict[str, int] = {}
        self._busy: dict[str, list[Future[None]]] = {}
        self._spend = UsageAccumulator()
        for key, state, at_most, *usage in connection.execute(f"SELECT key, state, at_most, {sql.USAGE} FROM calls"):
            if usage[0] is not None:  # a failed attempt may have been billed
                self._count(parse_stored(f"journal {name}", sql.usage, usage))
            if state == "settled":
                self._settled.add(key)
            else:
                self._open[key] = at_most
        self._writer = Writer(connection, name)

    @classmethod
    def memory(cls, run: str = "memory") -> Self:
        """A journal without a file, for runs that are not resumed."""
        return cls.create(MEMORY, run=run)

    @classmethod
    def create(
        cls,
        path: Path | str,
        *,
        run: str,
        facts: Mapping[str, str] | None = None,
        fill: Callable[[Self], None] = lambda journal: None,
    ) -> Self:
        """Create a run's journal, with mode 0600 or in ":memory:". Blocks for some milliseconds.

        Args:
            facts: hashes of what must be the same on resume: config, code, corpus, embedder.
            fill: writes what a resume needs; a file appears with that, or not at all.

        Raises:
            JournalError: the file exists or cannot be made.
        """
        facts = {**(facts or {}), "run": run}
        if path == MEMORY:
            journal = cls(create_tables(MEMORY, facts), name=MEMORY, run=run, lease=None)
            fill(journal)
            return journal

        def fill_draft(draft: Path) -> None:
            with closing(cls(open_connection(str(draft)), name=str(path), run=run, lease=None)) as journal:
                fill(journal)

        create_journal(Path(path), facts, fill_draft)
        lease = Lease(Path(path))
        return cls(open_as_holder(str(path)), name=str(path), run=run, lease=lease)

    @classmethod
    def open(cls, path: Path | str, facts: Mapping[str, str] | None = None) -> Self:
        """Resume a run's journal and hold its lease; `facts` are those of now. Blocks for some milliseconds.

        Raises JournalError if the file is missing, corrupt, foreign, open in another process, has other facts, or
        cannot be written; nothing is written then.
        """
        path = Path(path)
        found = read_header(path)
        lease = Lease(path, holder=found.holder)
        try:
            refuse_other_facts(path, found, facts)
            connection = open_as_holder(str(path))
            return cls(connection, name=str(path), run=found.facts["run"], lease=lease)
        except JournalError:
            lease.release()
            raise

    @classmethod
    def open_read_only(cls, path: Path | str) -> Self:
        """Open a run's journal for reading while another process may write it; fails as `open`."""
        found = read_header(Path(path))
        connection = open_connection(str(path), choose_read_mode(Path(path)))
        return cls(connection, name=str(path), run=found.facts["run"], lease=None)

    @property
    def can_resume(self) -> bool:
        """Whether another process may go on from what is recorded."""
        return self._lease is not None

    async def call_once(
        self,
        kind: Kind,
        scope: Scope,
        request: Any,
        call: Call,
        at_most: Usage = ZERO_USAGE,
        *,
        attempt: int = 0,
        anywhere: bool = False,
    ) -> CallResult:
        """Replay a settled row, or reserve one, call, and settle it.

        Equal calls (kind, scope, request, attempt) that overlap in this process are sent once.

        Args:
            anywhere: whether a row of the same request from another place of the run will do; the row is of the place
                that asked first.
            request: JSON with everything that the reply depends on.
            call: sends it; its errors pass through, and a SelfwireError is recorded as a failure.
            at_most: its highest cost, for rows that never settle.
            attempt: counts deliberate repetitions of the same request at the same place.
        """
        key, digest = make_key(kind, scope, request, attempt, anywhere)
        while other := self._get_running_call(key):
            await asyncio.wrap_future(other)
        try:
            if key in self._settled:
                return await self._replay(key)
            place = (scope.key, scope.iteration, scope.phase, scope.task, scope.node)
            reserved = (sql.RESERVE, (key, kind, *place, digest, attempt, at_most.tokens))
            before = self._open.get(key)
            self._open[key] = max(at_most.tokens, before or 0)
            if kind == "environment":
                return await self._make_call(key, call, before, reserved)
            await self._writer.run(sql.writing([reserved]), overtakes=True)
            return await self._make_call(key, call, before)
        finally:
            self._release_waiters(key)

    def _get_running_call(self, key: str) -> "Future[None] | None":
        """A future that ends with the same call that runs now; None if none does, and then this call is the one."""
        with self._lock:  # event loops of several threads may share a journal
            if key not in self._busy:
                self._busy[key] = []
                return None
            waiting: Future[None] = Future()
            waiting.set_running_or_notify_cancel()  # a waiting task cannot cancel it
            self._busy[key].append(waiting)
            return waiting

    def _release_waiters(self, key: str) -> None:
        with self._lock:
            others = self._busy.pop(key)
        for waiting in others:
            waiting.set_result(None)

    async def _make_call(self, key: str, call: Call, before: int | None, *first: sql.Statement) -> CallResult:
        """Make the call and record its reply or failure; `first` is written before that.

        What is written is written even if this task is cancelled meanwhile, so it is counted before.

        Args:
            before: tokens that earlier attempts which failed may have cost at most; None if there were none.
        """
        try:
            result = await call()
        except BudgetError:  # refused before it was sent
            if before is None:
                del self._open[key]
            else:
                self._open[key] = before
            await self._write((sql.FORGET, (key,)) if before is None else (sql.GIVE_BACK, (before, key)))
            raise
        except SelfwireError as error:
            billed = error.cost if isinstance(error, CallError) and error.cost and error.cost.calls else ZERO_USAGE
            bill = () if billed is ZERO_USAGE else ((sql.BILL, (*sql.columns(billed), key)),)
            self._count(billed)
            if isinstance(error, CallError) and error.is_cost_known:
                self._open[key] = before or 0
            await self._put(*first, (sql.FAIL, (self._open[key], mask_secrets(str(error)), key)), *bill)
            raise
        del self._open[key]
        self._count(result.usage)
        await self._put(*first, (sql.SETTLE, (result.text, *sql.columns(result.usage), key)))
        self._settled.add(key)
        return result

    async def _replay(self, key: str) -> CallResult:
        statement = f"SELECT reply, {sql.USAGE} FROM calls WHERE key = ?"
        while (row := (await self._read(statement, key))[0])[0] is None:  # noqa: ASYNC110 - another loop settles it
            await asyncio.sleep(PAUSE)
        return CallResult(row[0], self._parse(sql.usage, row[1:]), replayed=True)

    def _count(self, usage: Usage) -> None:
        with self._lock:
            self._spend.add(usage)

    def retry_failed(self) -> None:
        """Let `reopen` have the calls made again that were settled until now."""
        self._retryable = {*self._settled}

    async def reopen(self, kind: Kind, scope: Scope, request: Any, *, anywhere: bool = False) -> bool:
        """Have a settled call made again, whose reply was of no use; its cost stays counted.

        False for calls that were settled since `retry_failed`, and always without it.
        """
        key, _ = make_key(kind, scope, request, anywhere=anywhere)
        if key not in self._retryable:
            return False
        self._retryable.discard(key)
        self._open[key] = 0
        await self._write((sql.FAIL, (0, "its reply was of no use", key)))
        self._settled.discard(key)
        return True

    def take_in(self, path: Path, spent: Usage) -> None:
        """Know the calls of another journal, which were copied into this one's file.

        Args:
            spent: their cost, without that of calls which this one knew.
        """
        with closing(type(self).open_read_only(path)) as other:
            self._settled |= other._settled
            self._open |= other._open | dict.fromkeys(other._settled, 0)  # what is settled costs no more
        self._count(spent)

    def spend(self) -> Usage:
        """The sum of all rows, billed failures included; only its seconds depend on the order of calls."""
        with self._lock:
            return self._spend.usage

    def unknown(self) -> tuple[int, int]:
        """How many model calls never settled, and how many tokens they may have cost at most."""
        tokens = [at_most for at_most in self._open.values() if at_most]
        return len(tokens), sum(tokens)

    async def spend_at(self, **place: str | int) -> Usage:
        """The sum of the rows at a place, such as `spend_at(iteration=2, phase="rollout", task="t1")`."""
        where, values = sql.where(place)
        statement = f"SELECT {sql.USAGE} FROM calls WHERE {where} AND calls IS NOT NULL"
        spent = UsageAccumulator()
        for row in await self._read(statement, *values):
            spent.add(self._parse(sql.usage, row))
        return spent.usage

    async def rows(self, kind: Kind | None = None, state: State | None = None, **place: str | int) -> list[Row]:
        """The rows of a kind, a state and a place (iteration, phase, task, node) in the order of reservation."""
        where, values = sql.where({"kind": kind, "state": state, **place})
        columns = f"kind, scope, request, attempt, at_most, state, failures, error, reply, {sql.USAGE}"
        found = await self._read(f"SELECT {columns} FROM calls WHERE {where} ORDER BY rowid", *values)
        return [self._parse(Row.of, row) for row in found]

    async def put_body(self, body: Any) -> str:
        """Store a JSON body and return its hash, which is equal for equal bodies."""
        text = to_canonical_json(body)
        digest = hash_body(text)
        await self._write((sql.KEEP, (digest, text)))
        return digest

    async def get_body(self, digest: str) -> Any:
        """The body of a hash; raises JournalError if there is none."""
        found = await self._read("SELECT body FROM bodies WHERE hash = ?", digest)
        if not found:
            raise JournalError(f"journal {self._writer.name} has no body {digest!r}; it belongs to another run")
        return self._parse(json.loads, found[0][0])

    async def keep(self, name: str, note: str, digest: str, body: str) -> None:
        """Store a note and the body to which it refers, as JSON texts, together and soon; `digest` is its hash."""
        await self._writer.put_within(SOON, [(sql.KEEP, (digest, body)), (sql.NOTE, (name, note))])

    async def put_note(self, name: str, value: Any) -> None:
        """Set a note, a JSON fact about the run that may change, such as its status."""
        await self._write((sql.NOTE, (name, to_canonical_json(value))))

    async def get_note(self, name: str) -> Any:
        """The latest note of a name; None if there is none."""
        found = await self._read("SELECT value FROM notes WHERE name = ?", name)
        return self._parse(json.loads, found[0][0]) if found else None

    async def get_notes(self, names: Sequence[str]) -> dict[str, str]:
        """The latest notes of some names as JSON texts, in one read; names without a note are left out."""
        marks = ", ".join("?" * len(names))
        found = await self._read(f"SELECT name, value FROM notes WHERE name IN ({marks})", *names)
        return dict(found)

    async def note_names(self, prefix: str = "") -> list[str]:
        """Names of the notes that begin with a prefix, sorted."""
        statement = "SELECT name FROM notes WHERE substr(name, 1, ?) = ? ORDER BY name"
        found = await self._read(statement, len(prefix), prefix)
        return [name for (name,) in found]

    def on_this_loop(self) -> AbstractContextManager[None]:
        """Let the running event loop write by itself while this is open; for a loop that serves nothing else."""
        return self._writer.commit_on_loop()

    def close(self) -> None:
        """Finish waiting writes, close the file and release the lease. Blocks shortly."""
        self._writer.close()
        if self._lease:
            self._lease.release()

    def _parse(self, read: Callable[[Any], T], value: Any) -> T:
        return parse_stored(f"journal {self._writer.name}", read, value)

    async def _write(self, *statements: sql.Statement) -> None:
        await self._writer.run(sql.writing(statements))

    async def _put(self, *statements: sql.Statement) -> None:
        """Write; on a loop that writes by itself (`on_this_loop`), with the next write or at the end of its turn."""
        await self._writer.put(sql.writing(statements))

    async def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._writer.run(lambda connection: connection.execute(statement, values).fetchall())

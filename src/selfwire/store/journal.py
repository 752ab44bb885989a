"""The journal of a run: one row per paid call, replayed on resume instead of paid again.

A row is reserved before its call and settled after the call, with the whole reply and the cost. A settled call is
replayed instead of sent; a failed call is recorded and sent again. A row that is still reserved after a kill shows the
tokens that may have been billed in vain. The spend is the sum of all billed rows. A call of an environment costs
nothing by itself (a judge's calls have rows of their own), so its row is written only when the call settles.
"""

import asyncio
import hashlib
import json
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from selfwire.core.errors import BudgetError, CallError, JournalError, SelfwireError
from selfwire.core.scope import Scope
from selfwire.core.text import mask_secrets
from selfwire.core.usage import ZERO_USAGE, Usage, UsageAccumulator
from selfwire.core.values import to_canonical_json
from selfwire.store import journal_file as sql
from selfwire.store.journal_file import (
    MEMORY,
    PAUSE,
    STARTED,
    CallResult,
    CallRow,
    JournalReader,
    Lease,
    State,
    Writer,
    create_journal,
    create_tables,
    open_as_holder,
    open_connection,
    parse_stored,
    read_header,
    refuse_other_facts,
)

Kind = Literal["model", "tool", "environment"]


def make_key(kind: Kind, scope: Scope, request: Any, attempt: int = 0, share: bool = False) -> tuple[str, str]:
    """Make the key of a call, and the hash of its request.

    Args:
        share: whether equal requests of a run have equal keys at all places; only run, seed and sample count then.
            Sides of a comparison and systems are runs of their own, as free replies would give the second more calls.
    """
    if share:
        scope = Scope(run=scope.run, seed=scope.seed, sample=scope.sample)
    digest = hashlib.sha256(to_canonical_json(request).encode()).hexdigest()[:32]
    return hashlib.sha256(f"{kind}\n{scope.key}\n{digest}\n{attempt}".encode()).hexdigest()[:32], digest


def hash_body(text: str) -> str:
    """Hash a body's JSON text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


T = TypeVar("T")
NOTE_DELAY = 0.05
"""Seconds within which notes are committed that can be computed again from committed calls."""


Call = Callable[[], Awaitable[CallResult]]


class Journal:
    """A run's calls, bodies and notes; make one with `create`, `open` or `memory`; `JournalReader` reads one."""

    def __init__(self, connection: sqlite3.Connection, *, name: str, run: str, lease: Lease | None) -> None:
        self.run, self.name = run, name  # the name is its path
        self._lease = lease
        self._lock = threading.Lock()
        self._settled: set[str] = set()
        self._retryable: set[str] = set()
        self._open: dict[str, int] = {}
        self._busy: dict[str, list[Future[None]]] = {}
        self._spend = UsageAccumulator()
        for key, state, at_most, *usage in connection.execute(f"SELECT key, state, at_most, {sql.USAGE} FROM calls"):
            if usage[0] is not None:  # a failed attempt may have been billed
                self._count(parse_stored(f"journal {name}", sql.to_usage, usage))
            if state == "settled":
                self._settled.add(key)
            else:
                self._open[key] = at_most
        self._writer = Writer(connection, name)

    @classmethod
    def memory(cls, run: str = "memory") -> Self:
        """Create a journal without a file, for runs that are not resumed."""
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
            facts: hashes that must not differ on resume: config, code, tasks, embedder; and the version of selfwire.
            fill: writes the notes that a resume needs; the file appears with these notes, or not at all.

        Raises:
            JournalError: the file exists or cannot be made.
        """
        facts = {**(facts or {}), "run": run, STARTED: datetime.now(UTC).isoformat()}
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
        """Open a run's journal to resume the run, and lock its files. Blocks for some milliseconds.

        Args:
            facts: today's hashes, compared with those of `create`; None compares nothing.

        Raises:
            JournalError: the file is missing, corrupt, foreign, open in another process, has other facts, or cannot be
                written; nothing has been written.
        """
        path = Path(path)
        found = read_header(path)
        lease = Lease(path, holder=found.holder)
        try:
            refuse_other_facts(path, found.facts, facts)
            connection = open_as_holder(str(path))
            return cls(connection, name=str(path), run=found.facts["run"], lease=lease)
        except JournalError:
            lease.release()
            raise

    @property
    def can_resume(self) -> bool:
        """Whether a later process can resume the run from this journal."""
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
        share: bool = False,
    ) -> CallResult:
        """Replay the reply of a settled row; or reserve a row, make the call, and settle the row.

        Equal calls (kind, scope, request, attempt) that overlap in this process are sent once.

        Args:
            request: JSON with everything that determines the reply.
            call: sends the request; its errors pass through, and a SelfwireError is recorded as a failure.
            at_most: the highest cost of the call, for a row that never settles.
            attempt: number of deliberate repetitions of the same request at the same place.
            share: whether to reuse the reply that an equal request got at another place of this run.
        """
        key, digest = make_key(kind, scope, request, attempt, share)
        while other := self._get_running_call(key):
            await asyncio.wrap_future(other)
        try:
            if key in self._settled:
                statement = f"SELECT reply, {sql.USAGE} FROM calls WHERE key = ?"
                while (row := (await self._read(statement, key))[0])[0] is None:  # noqa: ASYNC110 - another loop settles it
                    await asyncio.sleep(PAUSE)
                return CallResult(row[0], self._parse(sql.to_usage, row[1:]), replayed=True)
            place = (scope.key, scope.iteration, scope.phase, scope.task, scope.node)
            reserved = (sql.RESERVE, (key, kind, *place, digest, attempt, at_most.tokens))
            before = self._open.get(key)
            self._open[key] = max(at_most.tokens, before or 0)
            if kind == "environment":
                return await self._make_call(key, call, before, reserved)
            await self._writer.run(sql.make_job([reserved]), overtakes=True)
            return await self._make_call(key, call, before)
        finally:
            with self._lock:
                others = self._busy.pop(key)
            for waiting in others:
                waiting.set_result(None)

    def _get_running_call(self, key: str) -> "Future[None] | None":
        """Return a future that ends with the equal call under way; None, after registering this call, without one."""
        with self._lock:  # event loops of several threads may share a journal
            if key not in self._busy:
                self._busy[key] = []
                return None
            waiting: Future[None] = Future()
            waiting.set_running_or_notify_cancel()  # a waiting task cannot cancel it
            self._busy[key].append(waiting)
            return waiting

    async def _make_call(self, key: str, call: Call, before: int | None, *first: sql.Statement) -> CallResult:
        """Make the call and record its reply or failure, after the statements `first`.

        A write happens even if this task is cancelled meanwhile, so the cost is counted before the write.

        Args:
            before: highest cost in tokens of earlier failed attempts; None if there were none.
        """
        try:
            result = await call()
        except (BudgetError, asyncio.CancelledError) as error:  # refused before it was sent, or given up unsent
            if isinstance(error, asyncio.CancelledError) and UNSENT not in error.args:
                raise
            if before is None:
                del self._open[key]
            else:
                self._open[key] = before
            await self._write((sql.FORGET, (key,)) if before is None else (sql.GIVE_BACK, (before, key)))
            raise
        except SelfwireError as error:
            billed = error.cost if isinstance(error, CallError) and error.cost and error.cost.calls else ZERO_USAGE
            bill = () if billed is ZERO_USAGE else ((sql.BILL, (*sql.to_columns(billed), key)),)
            self._count(billed)
            if isinstance(error, CallError) and error.is_cost_known:
                self._open[key] = before or 0
            await self._put(*first, (sql.FAIL, (self._open[key], mask_secrets(str(error)), key)), *bill)
            raise
        del self._open[key]
        self._count(result.usage)
        await self._put(*first, (sql.SETTLE, (result.text, *sql.to_columns(result.usage), key)))
        self._settled.add(key)
        return result

    def record(self, kind: Kind, scope: Scope, request: Any, result: CallResult) -> None:
        """Record an answered call behind equal ones of its place, while the calling thread waits shortly."""
        attempt = 0
        with self._lock:
            while (made := make_key(kind, scope, request, attempt))[0] in self._settled:
                attempt += 1
            self._settled.add(made[0])
        key, digest = made
        self._count(result.usage)
        place = (scope.key, scope.iteration, scope.phase, scope.task, scope.node)
        reserved = (sql.RESERVE, (key, kind, *place, digest, attempt, result.usage.tokens))
        settled = (sql.SETTLE, (result.text, *sql.to_columns(result.usage), key))
        self._writer.run_now(sql.make_job([reserved, settled]))

    async def list_replies(self, scope: Scope) -> list[tuple[str, str, str]]:
        """List node, hash of the request and reply as JSON of the model calls at a place, in order."""
        return [(node, request, reply) for _, node, request, reply in await self._select_replies(scope)]

    async def _select_replies(self, scope: Scope) -> list[tuple[str, str, str, str]]:
        statement = "SELECT key, scope, node, request, reply FROM calls WHERE kind = 'model' AND state = 'settled'"
        where, values = sql.make_condition({name: getattr(scope, name) for name in ("iteration", "phase", "task")})
        found = await self._read(f"{statement} AND {where} ORDER BY rowid", *values)
        return [(key, *row) for key, place, *row in found if place == scope.at(node=row[0]).key]

    async def retry_replies(self, scope: Scope) -> bool:
        """Forget the replies of a place as `retry_call` does; return whether there were any."""
        keys = [key for key, *_ in await self._select_replies(scope) if key in self._retryable]
        await self._forget(*keys)
        return bool(keys)

    def _count(self, usage: Usage) -> None:
        with self._lock:
            self._spend.add(usage)

    def retry_failed(self) -> None:
        """Allow `retry_call` and `retry_replies` for all calls that are settled now."""
        self._retryable = {*self._settled}

    async def retry_call(self, kind: Kind, scope: Scope, request: Any, *, share: bool = False) -> bool:
        """Forget a settled call with a useless reply, so that it is sent again; its cost stays counted.

        Returns:
            False for calls that settled after `retry_failed`, and for all calls without `retry_failed`.
        """
        key, _ = make_key(kind, scope, request, share=share)
        if key not in self._retryable:
            return False
        await self._forget(key)
        return True

    async def _forget(self, *keys: str) -> None:
        self._retryable.difference_update(keys)
        self._open.update(dict.fromkeys(keys, 0))
        await self._write(*((sql.FAIL, (0, "its reply was of no use", key)) for key in keys))
        self._settled.difference_update(keys)

    def merge(self, path: Path, spent: Usage) -> None:
        """Merge the state of another journal, whose rows have been copied into this journal's file.

        Args:
            spent: cost of the copied calls that this journal did not have.
        """
        with JournalReader(path, check=False) as other:
            for key, state, at_most in other.list_states():
                self._open[key] = 0 if state == "settled" else at_most  # what is settled costs no more
                if state == "settled":
                    self._settled.add(key)
        self._count(spent)

    def spend(self) -> Usage:
        """Return the cost of all rows, billed failures included; only its seconds depend on the order of calls."""
        with self._lock:
            return self._spend.usage

    def count_unsettled(self) -> tuple[int, int]:
        """Count the model calls that never settled, and the tokens that they may have cost at most."""
        tokens = [at_most for at_most in self._open.values() if at_most]
        return len(tokens), sum(tokens)

    async def spend_at(self, **place: str | int) -> Usage:
        """Add up the cost at a place, such as `spend_at(iteration=2, phase="rollout", task="t1")`."""
        where, values = sql.make_condition(place)
        statement = f"SELECT {sql.USAGE} FROM calls WHERE {where} AND calls IS NOT NULL"
        spent = UsageAccumulator()
        for row in await self._read(statement, *values):
            spent.add(self._parse(sql.to_usage, row))
        return spent.usage

    async def spend_by_model(self) -> dict[str, Usage]:
        """Add up the billed cost by model, with labels such as "cheap (gpt-4o-mini)"."""
        return self._parse(sql.read_spend_by_model, await self._read(sql.BY_MODEL))

    async def rows(self, kind: Kind | None = None, state: State | None = None, **place: str | int) -> list[CallRow]:
        """List the rows of a kind, a state and a place (iteration, phase, task, node) in the order of reservation."""
        where, values = sql.make_condition({"kind": kind, "state": state, **place})
        columns = f"kind, scope, request, attempt, state, failures, error, reply, {sql.USAGE}"
        found = await self._read(f"SELECT {columns} FROM calls WHERE {where} ORDER BY rowid", *values)
        return [self._parse(CallRow.from_columns, row) for row in found]

    async def put_body(self, body: Any) -> str:
        """Store a JSON body and return its hash, which is equal for equal bodies."""
        text = to_canonical_json(body)
        digest = hash_body(text)
        await self._write((sql.STORE_BODY, (digest, text)))
        return digest

    async def get_body(self, digest: str) -> Any:
        """Return the body of a hash; raises JournalError if there is none."""
        found = await self._read("SELECT body FROM bodies WHERE hash = ?", digest)
        if not found:
            raise JournalError(f"journal {self._writer.name} has no body {digest!r}; it belongs to another run")
        return self._parse(json.loads, found[0][0])

    async def put_note_and_body(self, name: str, note: str, digest: str, body: str) -> None:
        """Store a note and the body to which the note refers by `digest`, as JSON texts, in a single commit soon."""
        await self._writer.put_within(NOTE_DELAY, [(sql.STORE_BODY, (digest, body)), (sql.STORE_NOTE, (name, note))])

    async def put_note(self, name: str, value: Any) -> None:
        """Set a note: a JSON fact about the run that may change, such as its status."""
        await self._write((sql.STORE_NOTE, (name, to_canonical_json(value))))

    async def get_note(self, name: str) -> Any:
        """Return the latest note of a name; None if there is none."""
        found = await self._read("SELECT value FROM notes WHERE name = ?", name)
        return self._parse(json.loads, found[0][0]) if found else None

    async def get_notes(self, names: Sequence[str]) -> dict[str, str]:
        """Return the latest notes of some names as JSON texts, in a single read; names without a note are left out."""
        marks = ", ".join("?" * len(names))
        found = await self._read(f"SELECT name, value FROM notes WHERE name IN ({marks})", *names)
        return dict(found)

    async def list_note_names(self, prefix: str = "") -> list[str]:
        """List the names of the notes that begin with a prefix, sorted."""
        statement = "SELECT name FROM notes WHERE substr(name, 1, ?) = ? ORDER BY name"
        found = await self._read(statement, len(prefix), prefix)
        return [name for (name,) in found]

    def on_this_loop(self) -> AbstractContextManager[None]:
        """Commit on the running event loop inside the block, not in a thread; for a loop of this run only."""
        return self._writer.commit_on_loop()

    def close(self) -> None:
        """Finish waiting writes, close the file and unlock it. Blocks shortly."""
        self._writer.close()
        if self._lease:
            self._lease.release()

    def _parse(self, read: Callable[[Any], T], value: Any) -> T:
        return parse_stored(f"journal {self._writer.name}", read, value)

    async def _write(self, *statements: sql.Statement) -> None:
        await self._writer.run(sql.make_job(statements))

    async def _put(self, *statements: sql.Statement) -> None:
        """Write; on a loop that commits by itself (`on_this_loop`), with the next write or at the end of the turn."""
        await self._writer.put(sql.make_job(statements))

    async def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return await self._writer.run(lambda connection: connection.execute(statement, values).fetchall())


UNSENT = "nothing of the call was sent or is under way"
"""Mark of the cancellation of a call that has cost nothing."""


@contextmanager
def mark_unsent(unsent: bool) -> Iterator[None]:
    """Mark a cancellation in this block as that of a call of which nothing was sent, where that is so."""
    try:
        yield
    except asyncio.CancelledError as error:
        error.args += (UNSENT,) * unsent
        raise


class NullRecorder:
    """A recorder that records nothing, for long-lived processes, in which questions may be repeated."""

    can_resume = False

    async def call_once(self, kind: Kind, scope: Scope, request: object, call: Call, *_: Any, **__: Any) -> CallResult:
        """Make the call."""
        return await call()

    def record(self, *_: Any) -> None:
        """Do nothing."""

    async def list_replies(self, scope: Scope) -> list[tuple[str, str, str]]:
        """Return nothing, as no call is recorded."""
        return []

    async def retry_replies(self, scope: Scope) -> bool:
        """Return False, as no call is recorded."""
        return False

    async def put_note(self, name: str, value: object) -> None:
        """Do nothing."""

    async def retry_call(self, *_: Any, **__: Any) -> bool:
        """Return False, as no call is recorded."""
        return False


Recorder = Journal | NullRecorder
"""What makes calls and may record them."""

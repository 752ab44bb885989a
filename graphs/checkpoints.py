"""Savers that serve sync and async runs, from any event loop: SQLite in a file, PostgreSQL at an address."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from selfwire.core.errors import ConfigError, JournalError

LOCKED = 60
"""Seconds for which a file that another program has locked is waited for."""


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer for files that somebody else may have written: it never makes objects of unknown types.

    By default LangGraph imports and calls whatever a checkpoint names.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read a value.

        Raises:
            JournalError: it is of a type that no graph of ours stores, or cannot be read.
        """
        refused, reader = list[str](), threading.get_ident()

        def note(event: SerdeEvent) -> None:
            if event["kind"].endswith("blocked") and threading.get_ident() == reader:
                refused.append(f"{event['module']}.{event['name']}")

        unregister = register_serde_event_listener(note)
        try:
            value = super().loads_typed(data)
        except (NotImplementedError, TypeError, ValueError) as error:  # ormsgpack's errors are ValueErrors
            raise JournalError(f"a checkpoint cannot be read: {error}; start a new run or thread") from None
        finally:
            unregister()
        if refused:
            raise JournalError(
                f"a checkpoint holds {refused[0]}, which no graph of selfwire stores; whoever wrote the file may have "
                "wanted to run code here, so nothing was loaded: delete it and start a new run or thread"
            )
        return value


class Threaded(BaseCheckpointSaver[Any]):
    """Gives a saver of LangGraph async methods that run the sync ones in a thread.

    The async savers of LangGraph belong to one event loop; this one serves any.
    """

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As `get_tuple`."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def aput(self, *args: Any, **kwargs: Any) -> RunnableConfig:
        """As `put`."""
        return await asyncio.to_thread(self.put, *args, **kwargs)

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        """As `put_writes`."""
        await asyncio.to_thread(self.put_writes, *args, **kwargs)

    async def adelete_thread(self, thread_id: str) -> None:
        """As `delete_thread`."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def alist(self, *args: Any, **kwargs: Any) -> AsyncIterator[CheckpointTuple]:
        """As `list`."""
        for row in await asyncio.to_thread(lambda: [*self.list(*args, **kwargs)]):
            yield row


class ThreadedSqliteSaver(Threaded, SqliteSaver):
    """LangGraph's SQLite saver for sync and async runs; raises JournalError where the file cannot be used."""

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor, whose transaction is committed."""
        try:
            with super().cursor(transaction) as cursor:
                yield cursor
        except sqlite3.Error as error:
            raise JournalError(
                f"checkpoints cannot be used: {error}; end what locks their file or make room, then resume"
            ) from None

    def close(self) -> None:
        """Close the file once no thread uses it: a cancelled run leaves its last write to a thread."""
        with self.lock:
            self.conn.close()


def sqlite_saver(path: Path) -> ThreadedSqliteSaver:
    """Open (or create, readable by its owner only) a saver's file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return ThreadedSqliteSaver(sqlite3.connect(path, timeout=LOCKED, check_same_thread=False), serde=StrictSerializer())


@contextmanager
def postgres_saver(url: str) -> Iterator[BaseCheckpointSaver[Any]]:
    """A saver in PostgreSQL, for several machines; makes missing tables, and raises JournalError where it is away.

    Raises:
        ConfigError: the extra is not installed.
        JournalError: the server cannot be reached.
    """
    try:
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg import Error

        from selfwire.runtime.postgres_pool import open_pool
    except ImportError as error:
        raise ConfigError(f"checkpoints in PostgreSQL need: pip install 'selfwire[postgres]' ({error})") from None

    @contextmanager
    def explain_absence() -> Iterator[None]:
        try:
            yield
        except Error as error:
            raise JournalError(f"checkpoints cannot be used: {error}; start PostgreSQL, then resume") from None

    class ThreadedPostgresSaver(Threaded, PostgresSaver):
        @contextmanager
        def _cursor(self, *, pipeline: bool = False) -> Iterator[Any]:
            with explain_absence(), super()._cursor(pipeline=pipeline) as cursor:
                yield cursor

    with explain_absence():
        pool = open_pool(url)
    with closing(pool):
        saver = ThreadedPostgresSaver(pool, serde=StrictSerializer())
        saver.setup()
        yield saver

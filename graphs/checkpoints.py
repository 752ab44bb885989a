"""Checkpoints in SQLite for sync and async runs, and interrupts at agents inside a team.

A method's graph takes `interrupt_before` and `interrupt_after` with names of its own nodes and of nodes of the team
that runs inside one of them. The latter travel in the run's config to the node that runs the team.
"""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NotRequired

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.errors import ConfigError, JournalError, format_first_fault
from selfwire.models.sync import require_event_loop
from selfwire.store.files import find_computed_part

LOCKED = 60
"""Seconds for which a file that another program has locked is waited for."""


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer for files of unknown origin: it never makes objects of unknown types.

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
        except (NotImplementedError, RecursionError, TypeError, ValueError) as error:  # ormsgpack's are ValueErrors
            raise JournalError(f"a checkpoint cannot be read: {error}; start a new run or thread") from None
        finally:
            unregister()
        if refused:
            raise JournalError(
                f"a checkpoint holds {refused[0]}, which no graph of selfwire stores; whoever wrote the file may have "
                "wanted to run code here, so nothing was loaded: delete it and start a new run or thread"
            )
        return value


class _StoredCheckpoint(TypedDict):
    """The form in which LangGraph reads a checkpoint and its metadata without checking it."""

    step: int
    v: int
    id: str
    ts: str
    channel_values: dict[str, Any]
    channel_versions: dict[str, str | float]
    versions_seen: dict[str, dict[str, str | float]]
    updated_channels: NotRequired[list[str] | None]


_STORED = TypeAdapter(_StoredCheckpoint)


class Threaded(BaseCheckpointSaver[Any]):
    """Gives a saver of LangGraph async methods that run the sync ones in a thread, and checks what it reads.

    The async savers of LangGraph belong to one event loop; this one serves any.
    """

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read a checkpoint; raises JournalError where it is of another form than LangGraph's."""
        try:
            found = super().get_tuple(config)
            if found is not None:
                _STORED.validate_python({**found.metadata, **found.checkpoint})
        except (RecursionError, TypeError, ValueError) as error:
            fault = format_first_fault(error) if isinstance(error, ValidationError) else str(error)
            raise JournalError(f"a checkpoint cannot be read: {fault}; start a new run or thread") from None
        return found

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Call `get_tuple`."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def aput(self, *args: Any, **kwargs: Any) -> RunnableConfig:
        """Call `put`."""
        return await asyncio.to_thread(self.put, *args, **kwargs)

    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        """Call `put_writes`."""
        await asyncio.to_thread(self.put_writes, *args, **kwargs)

    async def adelete_thread(self, thread_id: str) -> None:
        """Call `delete_thread`."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def alist(self, *args: Any, **kwargs: Any) -> AsyncIterator[CheckpointTuple]:
        """Call `list`."""
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
    """Open (or create, readable by its owner only) a saver's file; raises JournalError if it is foreign or locked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(path, timeout=LOCKED, check_same_thread=False)
    saver = ThreadedSqliteSaver(connection, serde=StrictSerializer())
    try:
        with saver.cursor(transaction=False):
            part = find_computed_part(connection)
        if part:
            raise JournalError(
                f"{path} holds no checkpoints of selfwire: its {part} is none of selfwire's; remove the run"
            )
    except BaseException:
        saver.close()
        raise
    return saver


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

        from selfwire.store.postgres_pool import open_pool
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


WHEN = ("interrupt_before", "interrupt_after")
_KEY = "__selfwire_interrupts"  # LangGraph keeps keys with two underscores out of the checkpoints' metadata


class MethodStateGraph(StateGraph[Any, Any, Any, Any]):
    """A graph in whose nodes a team runs.

    Attributes:
        inner: nodes of the team, at which a run may be interrupted.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.inner: set[str] = set()

    def compile(self, *args: Any, **options: Any) -> "InterruptibleGraph":
        """Compile the graph so that it can be interrupted inside the team."""
        compiled = super().compile(*args, **options)
        made = InterruptibleGraph.__new__(InterruptibleGraph)
        vars(made).update(vars(compiled))
        return made


class InterruptibleGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph that can also be interrupted at nodes of the team inside it, if it has a checkpointer."""

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Invoke as LangGraph does; raises ConfigError without an event loop of asyncio."""
        require_event_loop("ainvoke")
        return await super().ainvoke(input, config, **options)

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Stream as LangGraph does; raises ConfigError if an interrupt names no node."""
        config, options = self._hand_down(config, options)
        return super().stream(input, config, **options)

    def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Stream as LangGraph does; raises ConfigError if an interrupt names no node."""
        config, options = self._hand_down(config, options)
        return super().astream(input, config, **options)

    def _hand_down(
        self, config: RunnableConfig | None, options: dict[str, Any]
    ) -> tuple[RunnableConfig | None, dict[str, Any]]:
        inner: dict[str, list[str]] = {}
        for when in WHEN:
            names = options.get(when)
            if not names or isinstance(names, str):  # "*" is every node of this graph
                continue
            own = [name for name in names if name in self.nodes]
            inner[when] = [self._find_inner(name) for name in names if name not in self.nodes]
            options = {**options, when: own}
        if not any(inner.values()):
            return config, options
        config = config or {}
        return {**config, "configurable": {**config.get("configurable", {}), _KEY: inner}}, options

    def _find_inner(self, name: str) -> str:
        known: Iterable[str] = getattr(self.builder, "inner", ())
        outer, _, node = name.rpartition(":")  # the drawing calls it forward:source
        if node in known and (not outer or outer in self.nodes):
            return node
        nodes = [name for name in self.nodes if not name.startswith("__")]
        raise ConfigError(
            f"there is no node {name!r} to interrupt at; the graph has {', '.join(nodes)}, and the team inside it "
            f"{', '.join(sorted(known)) or 'none'}"
        )


def get_interrupts() -> Mapping[str, Any]:
    """Where the current run is to be interrupted in a team, as options of `ainvoke`."""
    found: Mapping[str, Any] = ensure_config().get("configurable", {}).get(_KEY, {})
    return found

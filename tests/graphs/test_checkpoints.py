"""Savers under whole method graphs, called in both forms."""

import asyncio
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from selfwire.core.errors import ConfigError, JournalError
from selfwire.graphs import hiva
from selfwire.graphs.checkpoints import StrictSerializer, postgres_saver, sqlite_saver


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    if request.param == "sqlite":
        opened = sqlite_saver(tmp_path / "checkpoints.sqlite")
        yield opened
        opened.close()
        return
    with postgres_saver(request.getfixturevalue("postgres_address")) as shared:
        yield shared


def test_a_thread_is_kept_and_goes_on_in_both_forms(saver: BaseCheckpointSaver[Any]) -> None:
    graph = hiva.build().compile(checkpointer=saver)
    thread: RunnableConfig = {"configurable": {"thread_id": "t"}}
    first = graph.invoke({"question": "Who wrote Ulysses?"}, thread)
    second = asyncio.run(graph.ainvoke({"question": "Who wrote Emma?"}, thread))
    assert first["answer"]
    assert second["question"] == "Who wrote Emma?"
    questions = {state.values.get("question") for state in graph.get_state_history(thread)}
    assert questions >= {"Who wrote Ulysses?", "Who wrote Emma?"}
    inner = [found for found in saver.list(None) if found.config["configurable"]["checkpoint_ns"]]
    assert inner  # the team's own steps are kept too


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    saver = sqlite_saver(tmp_path / "checkpoints.sqlite")
    hiva.build().compile(checkpointer=saver).invoke({"question": "Who?"}, {"configurable": {"thread_id": "t"}})
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    saver.close()


async def test_deleting_a_thread_leaves_nothing_of_it(saver: BaseCheckpointSaver[Any]) -> None:
    graph = hiva.build().compile(checkpointer=saver)
    await graph.ainvoke({"question": "Who wrote Ulysses?"}, {"configurable": {"thread_id": "t"}})
    assert [found async for found in saver.alist(None)]
    await saver.adelete_thread("t")
    assert not [found async for found in saver.alist(None)]


@pytest.mark.parametrize(("code", "as_keywords"), [(0, False), (2, True), (4, True), (5, True)])
def test_a_foreign_type_in_a_checkpoint_is_an_error_and_runs_nothing(
    code: int, as_keywords: bool, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    argument = {"path": str(mark)} if as_keywords else str(mark)
    planted = ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(("os", "mkdir", argument))))
    thread: RunnableConfig = {"configurable": {"thread_id": "t"}}
    saver = sqlite_saver(tmp_path / "checkpoints.sqlite")
    graph = hiva.build().compile(checkpointer=saver)
    graph.invoke({"question": "Who wrote Ulysses?"}, thread)
    with saver.lock:
        saver.conn.execute("UPDATE checkpoints SET type = 'msgpack', checkpoint = ?", (planted,))
        saver.conn.commit()
    with pytest.raises(JournalError, match=r"holds os\.mkdir, which no graph of selfwire stores"):
        graph.invoke(None, thread)
    saver.close()
    assert not mark.exists()
    JsonPlusSerializer(allowed_msgpack_modules=True).loads_typed(("msgpack", planted))
    assert mark.is_dir()  # what LangGraph's own would have done


def test_a_checkpoint_that_is_no_msgpack_is_an_error_in_words() -> None:
    for data in (("msgpack", b"\xc1"), ("pickle", b""), ("json", b"{"), ("msgpack", b""), ("json", b"[" * 100_000)):
        with pytest.raises(JournalError, match="cannot be read"):
            StrictSerializer().loads_typed(data)


COMPLETE = {"v": 4, "id": "1", "ts": "", "channel_values": {}, "channel_versions": {}, "versions_seen": {}}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("checkpoint", ormsgpack.packb({})),
        ("checkpoint", ormsgpack.packb([1])),
        ("checkpoint", ormsgpack.packb(None)),
        ("checkpoint", ormsgpack.packb(COMPLETE | {"channel_values": []})),
        ("checkpoint", ormsgpack.packb(COMPLETE | {"updated_channels": 5})),
        ("metadata", b"{"),
        ("metadata", b"[]"),
        ("metadata", b"{}"),
        ("metadata", b"[" * 100_000),
    ],
)
def test_a_checkpoint_of_another_form_is_an_error_in_words(tmp_path: Path, column: str, value: bytes) -> None:
    thread: RunnableConfig = {"configurable": {"thread_id": "t"}}
    with closing(sqlite_saver(tmp_path / "checkpoints.sqlite")) as saver:
        graph = hiva.build().compile(checkpointer=saver)
        graph.invoke({"question": "Who wrote Ulysses?"}, thread)
        with saver.lock:
            saver.conn.execute(f"UPDATE checkpoints SET {column} = ?", (value,))
            saver.conn.commit()
        with pytest.raises(JournalError, match="a checkpoint cannot be read"):
            graph.invoke(None, thread)


@pytest.mark.parametrize("name", ["checkpoints", "more"])
def test_checkpoints_whose_file_computes_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "checkpoints.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE VIEW {name} AS SELECT 1")
    with pytest.raises(JournalError, match=f"its view '{name}' is none of selfwire's"):
        sqlite_saver(path)


def test_a_file_that_another_program_has_locked_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints.sqlite"
    saver = sqlite_saver(path)
    with closing(saver), saver.cursor() as cursor:  # makes the tables
        assert cursor.execute("PRAGMA busy_timeout").fetchone()[0] >= 60_000


def test_a_file_that_stays_locked_is_an_error_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfwire.graphs.checkpoints.LOCKED", 0.05)
    path = tmp_path / "checkpoints.sqlite"
    with closing(sqlite_saver(path)) as saver:
        saver.setup()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(JournalError, match="checkpoints cannot be used: database is locked"):
                saver.delete_thread("t")


def test_without_the_extra_of_postgres_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.postgres", None)
    with (
        pytest.raises(ConfigError, match=r"checkpoints in PostgreSQL need: pip install 'selfwire\[postgres\]'"),
        postgres_saver("postgresql://nowhere"),
    ):
        pytest.fail("it was opened")

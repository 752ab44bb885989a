"""PostgreSQL that is stopped and started beneath a run."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.store.base import Op, Result
from langgraph.store.postgres import PostgresStore

from selfwire.core.errors import JournalError, LibraryError
from selfwire.graphs import hiva
from selfwire.graphs.checkpoints import postgres_saver
from selfwire.models.providers import make_chat_model
from selfwire.store import postgres_pool
from selfwire.store.library import open_library
from tests import kills, processes
from tests.store import postgres
from tests.wire.server import WireServer, served

pytestmark = pytest.mark.slow
AWAY = 4.0
"""Seconds; meanwhile the evolution comes to where it saves a version."""
THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}
T = TypeVar("T")


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Cluster]:
    with postgres.cluster() as made:
        yield made


@pytest.fixture
def address(server: postgres.Cluster) -> str:
    return f"{server.address}/postgres"


def test_an_evolution_goes_on_when_its_library_comes_back(
    server: postgres.Cluster, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WireServer(served(make_chat_model("offline"))) as wire:
        expected, requests = kills.whole(tmp_path / "whole", wire, kills.TINY)
        monkeypatch.setenv("SELFWIRE_LIBRARY", address)
        process, asked = kills.start(tmp_path / "home", *kills.beginning(wire, kills.TINY)), len(wire.asked)
        while len(wire.asked) < asked + requests // 5:
            assert process.poll() is None
            time.sleep(0.01)
        server.stop()
        time.sleep(AWAY)
        server.start()
        processes.wait_for(process)
        assert len(wire.asked) == asked + requests
    assert asyncio.run(kills.result(tmp_path / "home")) == expected


async def until_it_is_back(act: Callable[[], Awaitable[T]]) -> T:
    """What an act gives as soon as it can; a pool tries again at growing intervals."""
    for _ in range(60):
        try:
            return await act()
        except (LibraryError, JournalError):
            continue
    return await act()


async def test_operations_whose_connection_is_lost_are_run_again(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, is_lost = PostgresStore.batch, iter((True, False))

    def lose_once(store: PostgresStore, ops: Iterable[Op]) -> list[Result]:
        if next(is_lost):
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return plain(store, ops)

    with open_library(address) as library:
        names = await library.names()
        monkeypatch.setattr(PostgresStore, "batch", lose_once)
        assert await library.names() == names


async def test_a_server_that_stays_away_is_an_error_in_words_and_no_connection_is_lost_for_ever(
    server: postgres.Cluster, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "PATIENCE", 1.0)
    with open_library(address) as library, postgres_saver(address) as saver:
        team = hiva.build(name="team", library=library).compile(checkpointer=saver)
        await team.ainvoke({"question": "Who wrote Ulysses?"}, THREAD)
        server.stop()
        try:
            with pytest.raises(LibraryError, match=r"library .* cannot be used"):
                await library.names()
            with pytest.raises(JournalError, match=r"checkpoints cannot be used: .*; start PostgreSQL, then resume"):
                await team.ainvoke({"question": "Who wrote Emma?"}, THREAD)
            with pytest.raises(LibraryError, match="cannot be opened"):
                open_library(address)
            with pytest.raises(JournalError, match="checkpoints cannot be used"), postgres_saver(address):
                pass
        finally:
            server.start()
        assert await until_it_is_back(library.names) == await library.names()
        done = await until_it_is_back(lambda: team.ainvoke({"question": "Who wrote Emma?"}, THREAD))
        assert done["answer"]
        questions = [one.values.get("question") async for one in team.aget_state_history(THREAD)]
        assert {*questions} >= {"Who wrote Ulysses?", "Who wrote Emma?"}

"""Savers under whole method graphs, called in both forms."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from selfwire.graphs import hiva
from selfwire.graphs.checkpoints import postgres_saver, sqlite_saver


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


async def test_deleting_a_thread_leaves_nothing_of_it(saver: BaseCheckpointSaver[Any]) -> None:
    graph = hiva.build().compile(checkpointer=saver)
    await graph.ainvoke({"question": "Who wrote Ulysses?"}, {"configurable": {"thread_id": "t"}})
    assert [found async for found in saver.alist(None)]
    await saver.adelete_thread("t")
    assert not [found async for found in saver.alist(None)]

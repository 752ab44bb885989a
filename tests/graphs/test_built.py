"""What holds for the graph of every method: questions, tools, budgets, stops, prompts, saved teams."""

import asyncio
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatResult
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import PrivateAttr

from selfwire.core.errors import BudgetError, ConfigError
from selfwire.core.plugins import method_names
from selfwire.core.team import Team
from selfwire.core.usage import Budget
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.build import build_graph
from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.graphs.method import make_method
from selfwire.store.library import open_library
from tests.graphs.scripted import ASKED, FORMS, on, run
from tests.request_parts import read_instructions

SHORT: dict[str, dict[str, Any]] = {
    "tacomas": {"rounds": 3},
    "dytopo": {"rounds": 2},
    "evomas": {"adapter": "fixed", "plan": [["io", "multi_generate"], ["ensemble"]], "stages": 2},
}
"""Configs with which a question is short."""

pytestmark = pytest.mark.parametrize("name", method_names())


def test_a_budget_may_be_a_dict_and_what_is_none_is_told_in_a_sentence(name: str) -> None:
    graph = make_method(name).seed().graph("offline", budget={"seconds": 1e-9})
    with pytest.raises(BudgetError, match="budget exhausted"):
        graph.invoke({"question": "What is 1 plus 1?"})
    with pytest.raises(ConfigError, match=r"a budget has no euros; .* write it as budget={\"calls\": 100}"):
        make_method(name).seed().graph("offline", budget={"euros": 1})


class Chat(OfflineChat):
    """The stand-in; keeps the instructions of every request."""

    _heard: list[str] = PrivateAttr(default_factory=list)

    def _reply(self, messages: Any, *args: Any, **kwargs: Any) -> AIMessage:
        self._heard.append(read_instructions(messages[0].text, messages[1].text))
        return super()._reply(messages, *args, **kwargs)


class SlowChat(Chat):
    """Takes some seconds for every reply; keeps when requests began, and one sign for each that has ended."""

    delay: float
    _begun: list[float] = PrivateAttr(default_factory=list)
    _ended: list[bool] = PrivateAttr(default_factory=list)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        self._begun.append(time.monotonic())
        reply = self._generate(*args, **kwargs)
        try:
            await asyncio.sleep(self.delay)
        finally:
            self._ended.append(True)
        return reply


def built(name: str, model: Any = "offline", **options: Any) -> Any:
    method = make_method(name, SHORT.get(name, {}))
    embedder: dict[str, Any] = {"embedder": "hashing"} if "embedder" in method.build_options else {}
    return build_graph(type(method), model, config=method.config, **embedder, **options)


def seed(name: str) -> Team:
    return make_method(name).seed()


def prompted(name: str, prompt: str) -> Team:
    """The seed, all of whose agents have this prompt."""
    start = seed(name)
    return start.replace(agents=[agent.replace(prompt=prompt) for agent in start.agents])


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    opened = sqlite_saver(tmp_path / "threads.sqlite")
    yield opened
    opened.conn.close()


@pytest.mark.parametrize("question", [{"question": ""}, {"question": "  "}, {"question": None}, {"question": 3}, {}])
def test_a_question_is_a_text_that_is_not_blank(name: str, question: Any) -> None:
    chat = Chat()
    with pytest.raises(ConfigError, match="not blank"):
        built(name, chat).compile().invoke(question)
    assert chat._heard == []


def test_a_team_whose_tools_are_missing_is_refused(name: str) -> None:
    start = seed(name)
    first, *others = start.agents
    with pytest.raises(ConfigError, match="saw"):
        built(name, initial=start.replace(agents=[first.replace(tools=["saw"]), *others]))


def test_the_team_of_another_method_is_refused(name: str) -> None:
    other = "hera" if name == "hiva" else "hiva"
    with pytest.raises(ConfigError, match=f"belongs to '{other}'"):
        built(name, initial=seed(other))


def test_calls_are_counted_and_the_budget_binds(name: str) -> None:
    chat = Chat()
    calls = built(name, chat).compile().invoke(ASKED)["usage"]["calls"]
    assert calls == len(chat._heard) > 1
    with pytest.raises(BudgetError, match=f"{calls - 1} of {calls - 1} calls"):
        built(name, budget=Budget(calls=calls - 1)).compile().invoke(ASKED)
    with pytest.raises(BudgetError, match="1 of 1 calls"):  # a run cannot exceed the budget of its graph
        built(name, budget=Budget(calls=1)).compile().invoke(ASKED, context={"calls": calls})


@pytest.mark.parametrize("delay", [0.5, 600.0])
async def test_calls_end_with_the_seconds_of_a_budget(name: str, delay: float) -> None:
    chat = SlowChat(delay=delay)
    graph = built(name, chat, budget=Budget(seconds=0.8)).compile()
    with pytest.raises(BudgetError, match=r"of 0\.80 seconds spent"):
        async with asyncio.timeout(60):
            await graph.ainvoke(ASKED)
    assert chat._ended == [True] * len(chat._heard)  # none goes on
    one_after_another = 0
    free_at = -math.inf
    for begun in chat._begun:
        if begun >= free_at:
            one_after_another, free_at = one_after_another + 1, begun + delay
    assert one_after_another <= 2


@FORMS
@pytest.mark.parametrize("share", [0.3, 0.9])
async def test_a_run_that_a_budget_stopped_goes_on_and_asks_no_agent_twice(
    name: str, form: str, share: float, saver: BaseCheckpointSaver[Any]
) -> None:
    whole, chat = Chat(), Chat()
    expected = await run(form, built(name, whole).compile(), ASKED)
    graph = built(name, chat).compile(checkpointer=saver)
    with pytest.raises(BudgetError):
        await run(form, graph, ASKED, on("1"), context={"calls": max(1, int(share * len(whole._heard)))})
    result = await run(form, graph, None, on("1"))
    assert result["answer"] == expected["answer"]
    prompts = [agent.prompt for agent in seed(name).agents if agent.prompt]
    spoken = [[text for text in one._heard if any(prompt in text for prompt in prompts)] for one in (chat, whole)]
    assert sorted(spoken[0]) == sorted(spoken[1]) != []


def test_edited_prompts_hold_for_their_run_only(name: str) -> None:
    chat = Chat()
    graph = built(name, chat).compile(checkpointer=InMemorySaver())
    fields = graph.get_context_jsonschema()["properties"]
    edits = {field: "You brainstorm." for field in fields if field.startswith("prompt_")}
    assert edits.keys() >= {f"prompt_{agent}" for agent in seed(name).agents_by_id}
    graph.invoke(ASKED, on("1"), context=edits)
    assert any("You brainstorm." in text for text in chat._heard)
    chat._heard.clear()
    graph.invoke(ASKED, on("1"), context=dict.fromkeys(edits, ""))  # an empty prompt is no edit
    assert not any("You brainstorm." in text for text in chat._heard)


async def test_a_run_may_choose_a_saved_team(name: str) -> None:
    chat, library = Chat(), open_library(":memory:")
    await library.save("other", prompted(name, "You brainstorm."), run="r", step=1)
    graph = built(name, chat, library=library).compile()
    await graph.ainvoke(ASKED)
    assert not any("You brainstorm." in text for text in chat._heard)
    await graph.ainvoke(ASKED, context={"workflow": "other"})
    assert any("You brainstorm." in text for text in chat._heard)
    with pytest.raises(ConfigError, match="built without library"):
        await built(name).compile().ainvoke(ASKED, context={"workflow": "other"})

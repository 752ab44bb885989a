"""A quiet chat model answers as LangChain's `ainvoke`, which it leaves out only where nothing listens."""

from typing import Any, TypedDict

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.graph import START, StateGraph

from selfwire.evolvers.hiva.schemas import SelfCriticism
from selfwire.models.providers import make_chat_model
from selfwire.models.tracing import QuietChat
from tests.models.test_tracing import Recorded

ASKED: list[BaseMessage] = [HumanMessage("Is it so?")]


class Plain(BaseChatModel):
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "plain"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kw: Any) -> ChatResult:
        self.asked += 1
        message = AIMessage("so", response_metadata={"own": 1})
        told = ChatGeneration(message=message, generation_info={"finish_reason": "stop", "options": sorted(kw)})
        return ChatResult(generations=[told], llm_output={"model_name": "b"})

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kw: Any) -> ChatResult:
        return self._generate(messages, stop, run_manager, **kw)


class Quiet(QuietChat, Plain):
    pass


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every start of a model that LangChain tells its callbacks."""
    found: list[object] = []
    start = AsyncCallbackManager.on_chat_model_start

    async def note(self: Any, *args: Any, **options: Any) -> Any:
        found.append(self)
        return await start(self, *args, **options)

    monkeypatch.setattr(AsyncCallbackManager, "on_chat_model_start", note)
    return found


def _bind(model: BaseChatModel) -> Runnable[Any, AIMessage]:
    return model.bind(temperature=0.5).bind(top=1, ls_structured_output_format={"schema": {}})


@pytest.mark.parametrize("options", [{}, {"stop": ["."]}, {"seed": 3}])
async def test_it_answers_as_langchain_without_its_callbacks(options: dict[str, Any], opened: list[object]) -> None:
    for asked in ("Is it so?", ASKED, [HumanMessage([{"type": "text", "text": "Is it so?"}])]):
        opened.clear()
        quiet = await _bind(Quiet()).ainvoke(asked, **options)
        assert len(opened) == (0 if asked is ASKED or isinstance(asked, str) else 1)
        usual = await _bind(Plain()).ainvoke(asked, **options)
        assert quiet.model_dump(exclude={"id"}) == usual.model_dump(exclude={"id"})
        assert str(quiet.id).startswith("lc_run--")


@pytest.mark.parametrize("kind", ["words", "tools", "object"])
async def test_the_offline_model_answers_the_same_where_a_callback_listens(kind: str) -> None:
    model: Any = make_chat_model("offline")
    if kind == "tools":
        model = model.bind_tools([{"type": "function", "function": {"name": "f", "parameters": {}}}])
    elif kind == "object":
        model = model.with_structured_output(SelfCriticism, include_raw=True).first.steps__["raw"]
    heard = await model.ainvoke(ASKED, {"callbacks": [Recorded()]}, seed=3)
    assert (await model.ainvoke(ASKED, seed=3)).model_dump(exclude={"id"}) == heard.model_dump(exclude={"id"})


async def test_a_cache_answers_a_second_call() -> None:
    model = Quiet(cache=InMemoryCache())
    assert [(await model.ainvoke(ASKED)).text for _ in range(3)] == ["so"] * 3
    assert model.asked == 1


@pytest.mark.parametrize("model", [Quiet(callbacks=[BaseCallbackHandler()]), Quiet(verbose=True)])
async def test_a_models_own_callbacks_are_told(model: Quiet, opened: list[object]) -> None:
    assert (await model.ainvoke(ASKED)).text == "so"
    assert len(opened) == 1


async def test_a_callback_around_it_is_told() -> None:
    heard = Recorded()

    async def node(_: int) -> str:
        return str((await Quiet().ainvoke(ASKED)).text)

    assert await RunnableLambda(node).ainvoke(0, {"callbacks": [heard]}) == "so"
    assert [run.name for run in heard.runs] == ["node", "Quiet"]


class Nothing(TypedDict, total=False):
    """The state of a graph that keeps nothing."""

    kept: str


async def test_inside_a_graph_callbacks_are_set_up_only_where_something_listens(opened: list[object]) -> None:
    async def node(state: Nothing) -> Nothing:
        await Quiet().ainvoke(ASKED)
        return {}

    graph = StateGraph(Nothing)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    outer = graph.compile()
    await outer.ainvoke({})
    assert opened == []
    await outer.ainvoke({}, {"callbacks": [BaseCallbackHandler()]})
    assert [chunk.text async for chunk, _ in outer.astream({}, stream_mode="messages")] == ["so"]  # type: ignore[union-attr]
    with get_usage_metadata_callback():
        await outer.ainvoke({})
    assert len(opened) == 3

"""A model of one's own around the company's gateway, and a graph that only works asynchronously."""
from collections.abc import AsyncIterator
from typing import Any, TypedDict

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

BADGE = "Answer as an employee of Harbour Freight would: no slang."


class GatewayChat(BaseChatModel):
    """Chat model behind the gateway."""

    inner: ChatOpenAI
    badge: str = BADGE

    @property
    def _llm_type(self) -> str:
        return "gateway"

    def _prepare(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        if messages and isinstance(messages[0], SystemMessage):
            first = SystemMessage(f"{self.badge}\n\n{messages[0].content}")
            return [first, *messages[1:]]
        return [SystemMessage(self.badge), *messages]

    def _generate(self, messages, stop=None, run_manager: CallbackManagerForLLMRun | None = None, **kw: Any) -> ChatResult:
        reply = self.inner.invoke(self._prepare(messages), stop=stop)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply.content))])

    async def _agenerate(self, messages, stop=None, run_manager: AsyncCallbackManagerForLLMRun | None = None, **kw: Any):
        reply = await self.inner.ainvoke(self._prepare(messages), stop=stop)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(reply.content))])


class Crate(TypedDict, total=False):
    note: str
    contents: str
    hazards: str
    label: str


class Ctx(TypedDict, total=False):
    lang: str


chat = GatewayChat(inner=ChatOpenAI(model="gpt-4o-mini"))
fast = ChatOpenAI(model="gpt-4o-mini", streaming=False)


async def contents(state: Crate) -> dict:
    reply = await chat.ainvoke([SystemMessage("List the goods of a freight note, one a line."), ("user", state["note"])])
    return {"contents": reply.content}


async def hazards(state: Crate, runtime: Runtime[Ctx]) -> dict:
    lang = (runtime.context or {}).get("lang", "English")
    pieces: list[str] = []
    async for chunk in fast.astream(f"Which of these goods burn or leak? Reply in {lang}.\n{state['contents']}"):
        pieces.append(chunk.text)
    return {"hazards": "".join(pieces)}


async def _words(state: Crate) -> AsyncIterator[str]:
    yield "Write the label of a crate."
    if state.get("hazards"):
        yield f"Print in red: {state['hazards']}"
    yield "No more than nine words."


async def label(state: Crate) -> dict:
    prompt = " ".join([w async for w in _words(state)])
    reply = await chat.ainvoke(prompt)
    return {"label": reply.content}


builder = StateGraph(Crate, context_schema=Ctx)
builder.add_sequence([("contents", contents), ("hazards", hazards), ("label", label)])
builder.add_edge(START, "contents")
graph = builder.compile()

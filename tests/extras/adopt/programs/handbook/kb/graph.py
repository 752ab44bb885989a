from __future__ import annotations

from typing import Annotated, Sequence, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.documents import Document
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from langgraph.graph import StateGraph, START, END
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

from .loader import SECTIONS


class Handbook(BaseRetriever):
    """Finds pages of the handbook."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content="Holidays are 30 days.")]


retriever_tool = create_retriever_tool(
    Handbook(),
    "search_handbook",
    "Search the handbook of the company.",
)
tools = [retriever_tool]


class State(TypedDict):
    messages: Annotated[Sequence[BaseMessage], add_messages]


class Model:
    """Holds the chat model, made on first use."""

    _llm = None

    @property
    def llm(self):
        if self._llm is None:
            self._llm = ChatOpenAI(model="gpt-4o-mini", temperature=0)
        return self._llm

    def with_tools(self):
        return self.llm.bind_tools(tools)


M = Model()


async def agent(state: State):
    prompt = ChatPromptTemplate.from_messages(
        [("system", SECTIONS["system"]), MessagesPlaceholder("messages")]
    )
    return {"messages": [await (prompt | M.with_tools()).ainvoke({"messages": state["messages"]})]}


async def rewrite(state: State):
    question = next(m.content for m in reversed(state["messages"]) if isinstance(m, HumanMessage))
    msg = [HumanMessage(content=f"{SECTIONS['rewrite']}\n\n{question}")]
    response = await M.llm.ainvoke(msg)
    return {"messages": [HumanMessage(content=response.text)]}


async def generate(state: State):
    docs = [m.content for m in state["messages"] if m.type == "tool"]
    prompt = (
        "Answer in three sentences.\n"
        "Question: {question}\n"
        "Context: {context}"
    )
    filled = prompt.format(question=state["messages"][0].content, context="\n".join(docs))
    return {"messages": [AIMessage(content=(await M.llm.ainvoke(filled)).text)]}


async def grade(state: State) -> str:
    verdict = await M.llm.ainvoke(
        [
            {"role": "system", "content": "Is the passage relevant? Reply 'yes' or 'no'."},
            {"role": "user", "content": state["messages"][-1].content},
        ]
    )
    if "yes" in verdict.text.lower():
        return "generate"
    return "rewrite"


def has_calls(state: State):
    last = state["messages"][-1]
    return "tools" if last.tool_calls else "__end__"


workflow = StateGraph(State)
workflow.add_node(agent)
workflow.add_node("tools", ToolNode(tools))
workflow.add_node(rewrite)
workflow.add_node(generate)
workflow.add_edge(START, "agent")
workflow.add_conditional_edges("agent", has_calls)
workflow.add_conditional_edges("tools", grade)
workflow.add_edge("generate", END)
workflow.add_edge("rewrite", "agent")
graph = workflow.compile()

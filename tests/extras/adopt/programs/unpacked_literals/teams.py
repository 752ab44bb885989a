from typing import List, Literal, Optional

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command
from typing_extensions import TypedDict


class State(MessagesState):
    next: str


def make_supervisor_node(llm: BaseChatModel, members: list[str]):
    options = ["FINISH"] + members
    system_prompt = (
        "You are a supervisor tasked with managing a conversation between the"
        f" following workers: {members}. Given the following user request,"
        " respond with the worker to act next. When finished, respond with FINISH."
    )

    class Router(TypedDict):
        """Worker to route to next. If no workers needed, route to FINISH."""

        next: Literal[*options]

    def supervisor_node(state: State) -> Command[Literal[*members, "__end__"]]:
        """An LLM-based router."""
        messages = [{"role": "system", "content": system_prompt}] + state["messages"]
        response = llm.with_structured_output(Router).invoke(messages)
        goto = response["next"]
        if goto == "FINISH":
            goto = END
        return Command(goto=goto, update={"next": goto})

    return supervisor_node


@tool
def scrape(urls: List[str]) -> str:
    """Scrape web pages for detailed information."""
    return "nothing found"


llm = ChatOpenAI(model="gpt-5-mini")
search_agent = create_react_agent(llm, tools=[scrape], prompt="You search the web.")
doc_agent = create_react_agent(llm, tools=[], prompt="You write documents. Don't ask follow-up questions.")


def search_node(state: State) -> Command[Literal["supervisor"]]:
    result = search_agent.invoke(state)
    return Command(
        update={"messages": [HumanMessage(content=result["messages"][-1].content, name="search")]}, goto="supervisor"
    )


def doc_node(state: State) -> Command[Literal["supervisor"]]:
    result = doc_agent.invoke(state)
    return Command(
        update={"messages": [HumanMessage(content=result["messages"][-1].content, name="writer")]}, goto="supervisor"
    )


builder = StateGraph(State)
builder.add_node("supervisor", make_supervisor_node(llm, ["search", "writer"]))
builder.add_node("search", search_node)
builder.add_node("writer", doc_node)
builder.add_edge(START, "supervisor")
graph = builder.compile()

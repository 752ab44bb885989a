import argparse
import re
from typing import Annotated, TypedDict

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt, StreamWriter
from langgraph.config import get_stream_writer

llm = ChatOpenAI(
    model="gpt-5-mini",
    default_headers={"X-Title": "A header that describes the program"},
    stop=["STOP HERE PLEASE"],
    metadata={"purpose": "Answers questions of visitors for the museum"},
)
PATTERN = re.compile(r"please answer (yes|no) to this question")
KEY = "cache key for the answer of {}"
HELP = "Ask the museum a question on the command line"
BANNED = ("the secret passage below the museum", "the password of the director")


class State(MessagesState):
    cache: dict


def guard(state: State) -> str:
    text = state["messages"][-1].content
    if any(word in text for word in BANNED):
        return END
    return "reply"


def reply(state: State, config: RunnableConfig):
    """Reply to the visitor in a friendly manner, and remember the reply in the cache of the state."""
    writer = get_stream_writer()
    writer({"progress": "The model is being asked for a reply right now"})
    if PATTERN.search(state["messages"][-1].content):
        approved = interrupt("May the museum answer this question with yes or no?")
        if not approved:
            raise PermissionError("The curator has refused to answer this question")
    message = llm.invoke(
        [HumanMessage("Reply as a museum guide.", name="curator"), *state["messages"]],
        config={"run_name": "reply of the guide to a visitor", "tags": ["a tag with several words"]},
    )
    return {"messages": [message], "cache": {KEY.format(message.id): message.text}}


b = StateGraph(State)
b.add_node("reply", reply, metadata={"description": "This node replies to the visitor of the museum"})
b.add_conditional_edges(START, guard, {"reply": "reply", END: END})
b.add_edge("reply", END)
graph = b.compile(name="Museum guide for all visitors")


def main() -> None:
    parser = argparse.ArgumentParser(description=HELP)
    parser.add_argument("question", help="The question that the museum is asked")
    print(graph.invoke({"messages": [("user", parser.parse_args().question)]}))

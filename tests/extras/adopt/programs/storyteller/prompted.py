"""Nodes whose docstring is the prompt."""
import functools
import inspect

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict


class Story(TypedDict):
    theme: str
    outline: str
    story: str
    title: str


def prompted(field: str, *, model: str = "gpt-4o-mini"):
    """Make a node of a function: its docstring is the system prompt, what it returns the user's."""

    def wrap(fn):
        system = inspect.cleandoc(fn.__doc__ or "")

        @functools.wraps(fn)
        def node(state: Story) -> dict:
            llm = ChatOpenAI(model=model)
            reply = llm.invoke([("system", system), ("user", fn(state))])
            return {field: reply.content}

        return node

    return wrap


@prompted("outline")
def outline(state: Story) -> str:
    """You outline short stories.

    Three acts, a line each.
    """
    return f"Theme: {state['theme']}"


@prompted("story", model="gpt-4o")
def write(state: Story) -> str:
    """You write the story of an outline."""
    return state["outline"]


def title(state: Story) -> dict:
    """Find a title of at most {n} words for the story."""
    llm = ChatOpenAI(model="gpt-4o-mini")
    return {"title": llm.invoke(title.__doc__.format(n=5) + "\n\n" + state["story"]).content}


def route(state: Story):
    """Route: this docstring reaches nobody."""
    return "title" if len(state["story"]) > 20 else END


builder = StateGraph(Story)
builder.add_node("outline", outline)
builder.add_node("write", write)
builder.add_node("title", title)
builder.add_edge(START, "outline")
builder.add_edge("outline", "write")
builder.add_conditional_edges("write", route)
graph = builder.compile()

import functools
import time

from langchain_core.messages import SystemMessage
from langchain_openai import ChatOpenAI

llm = ChatOpenAI(model="gpt-5-mini")
NODES = {}


def node(name: str):
    """Register a function as a node."""

    def register(fn):
        NODES[name] = fn
        return fn

    return register


def timed(fn):
    @functools.wraps(fn)
    def wrapper(state, *args, **kwargs):
        start = time.perf_counter()
        try:
            return fn(state, *args, **kwargs)
        finally:
            print(f"The node {fn.__name__} took {time.perf_counter() - start:.1f} seconds")

    return wrapper


def with_system(text: str):
    def decorate(fn):
        @functools.wraps(fn)
        def inner(state):
            return fn(state, [SystemMessage(text), *state["messages"]])

        return inner

    return decorate


@node("think")
@timed
def think(state):
    return {"messages": [llm.invoke([SystemMessage("Think before you speak."), *state["messages"]])]}


@node("speak")
@with_system("Speak in rhymes.")
def speak(state, messages):
    return {"messages": [llm.invoke(messages)]}

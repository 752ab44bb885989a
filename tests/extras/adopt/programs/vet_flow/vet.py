from typing import Any, Callable, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph


class Flow:
    """Collects steps by decorators and wires them."""

    def __init__(self, schema: type) -> None:
        self._graph = StateGraph(schema)

    def step(self, *, after: str | None = None, name: str | None = None, is_last: bool = False) -> Callable:
        def decorate(fn: Callable) -> Callable:
            own = name or fn.__name__
            self._graph.add_node(own, fn)
            self._graph.add_edge(after or START, own)
            if is_last:
                self._graph.add_edge(own, END)
            return fn

        return decorate

    def build(self) -> Any:
        return self._graph.compile()


class Visit(TypedDict):
    complaint: str
    questions: str
    answer: str


flow = Flow(Visit)
llm = ChatOpenAI(model="gpt-4o-mini")


@flow.step()
def ask(state: Visit) -> dict:
    messages = [("system", "You are a vet. Ask the owner two questions."), ("user", state["complaint"])]
    return {"questions": llm.invoke(messages).text}


@flow.step(after="ask", name="advise", is_last=True)
def give_advice(state: Visit) -> dict:
    return {"answer": llm.invoke("Advise the owner of the animal.\n" + state["questions"]).text}


graph = flow.build()

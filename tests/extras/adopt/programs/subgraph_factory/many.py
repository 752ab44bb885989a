from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

llm = ChatOpenAI(model="gpt-5-mini")
SPECS = {
    "facts": [("collect", "Collect facts on the topic."), ("sort", "Sort the facts.")],
    "style": [("tone", "Set the tone."), ("trim", "Trim the text.")],
}


class State(TypedDict):
    question: str
    answer: str


def step(prompt: str):
    def run(state: State) -> State:
        return {"answer": llm.invoke([("system", prompt), ("user", state.get("answer") or state["question"])]).text}

    return run


def build(spec):
    inner = StateGraph(State)
    last = START
    for name, prompt in spec:
        inner.add_node(name, step(prompt))
        inner.add_edge(last, name)
        last = name
    inner.add_edge(last, END)
    return inner.compile()


outer = StateGraph(State)
for name, spec in SPECS.items():
    outer.add_node(name, build(spec))
outer.add_edge(START, "facts")
outer.add_edge("facts", "style")
outer.add_edge("style", END)
graph = outer.compile()

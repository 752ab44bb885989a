from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

llm = ChatOpenAI(model="gpt-4o-mini")
EXPERTS = {
    "lawyer": "You are a lawyer. Judge the contract by the law.",
    "accountant": "You are an accountant. Judge the contract by its numbers.",
}


class State(TypedDict):
    contract: str
    opinions: dict
    verdict: str


def make_expert(name: str, prompt: str):
    def expert(state: State):
        answer = llm.invoke([("system", prompt), ("human", state["contract"])])
        return {"opinions": {name: answer.content}}

    return expert


def judge(state: State):
    listed = "\n".join(f"{name} says: {text}" for name, text in state["opinions"].items())
    return {"verdict": llm.invoke(f"Weigh these opinions and decide.\n{listed}").content}


builder = StateGraph(State)
for name, prompt in EXPERTS.items():
    builder.add_node(name, make_expert(name, prompt))
    builder.add_edge(START, name)
builder.add_node("judge", judge)
builder.add_edge(list(EXPERTS), "judge")
builder.add_edge("judge", END)
graph = builder.compile()

from typing import TypedDict

from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, StateGraph

from . import prompts

llm = init_chat_model("openai:gpt-5-mini")


class State(TypedDict):
    question: str
    steps: str
    answer: str


def plan(state: State):
    reply = llm.invoke([("system", prompts.PLANNER), ("human", state["question"])])
    return {"steps": reply.text}


def write(state: State):
    return {"answer": llm.invoke(prompts.WRITER.format(steps=state["steps"])).text}


graph = (
    StateGraph(State)
    .add_node(plan)
    .add_node(write)
    .add_edge(START, "plan")
    .add_edge("plan", "write")
    .add_edge("write", END)
    .compile()
)

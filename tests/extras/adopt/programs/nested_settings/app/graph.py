from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from .config import LIMITS, settings


class State(TypedDict):
    question: str
    plan: str
    answer: str


class Nodes:
    def __init__(self, settings):
        self.settings = settings
        self.llm = ChatOpenAI(model=settings.model)

    @property
    def rules(self) -> str:
        return "\n".join(f"* {rule}" for rule in self.settings.rules)

    def plan(self, state: State) -> State:
        system = f"{self.settings.prompts.planner}\n{self.rules}"
        return {"plan": self.llm.invoke([("system", system), ("user", state["question"])]).text}

    def critic(self, state: State) -> State:
        system = " ".join((self.settings.prompts.critic, LIMITS.note))
        return {"answer": self.llm.invoke([("system", system), ("user", state["plan"])]).text}


def build() -> StateGraph:
    nodes = Nodes(settings)
    builder = StateGraph(State)
    builder.add_node("plan", nodes.plan)
    builder.add_node("critic", nodes.critic)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "critic")
    builder.add_edge("critic", END)
    return builder


graph = build().compile()

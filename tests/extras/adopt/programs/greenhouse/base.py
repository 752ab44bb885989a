from abc import ABC
from functools import cached_property

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph


class GardenState(MessagesState):
    season: str


class PoliteMixin:
    manners = "Say please."


class BaseAgent(ABC):
    temperature = 0.0

    @property
    def system_prompt(self) -> str:
        return "You look after a greenhouse."

    @cached_property
    def model(self) -> ChatOpenAI:
        return ChatOpenAI(model="gpt-4o-mini", temperature=self.temperature)

    def respond(self, state: GardenState) -> dict:
        return {"messages": [self.model.invoke([("system", self.system_prompt)] + state["messages"])]}

    def compile(self):
        g = StateGraph(GardenState)
        g.add_node("respond", self.respond)
        self.extend(g)
        g.add_edge(START, "respond")
        return g.compile()

    def extend(self, g: StateGraph) -> None:
        g.add_edge("respond", END)

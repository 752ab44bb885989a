from enum import Enum
from typing import TypedDict

from langchain_core.prompts import (
    ChatPromptTemplate,
    HumanMessagePromptTemplate,
    SystemMessagePromptTemplate,
)
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph


class Step(str, Enum):  # noqa: UP042 - as many programs have it
    WRITE = "write"
    CRITIC = "critic"


WRITER = "You write {genre} stories."
CRITIC = "You are a critic of {genre} stories."


class State(TypedDict):
    genre: str
    story: str
    critique: str


class PromptedNode:
    """Node that fills one field by a prompt."""

    def __init__(self, llm: ChatOpenAI, system: str, field: str) -> None:
        self.field = field
        prompt = ChatPromptTemplate.from_messages(
            [
                SystemMessagePromptTemplate.from_template(system),
                HumanMessagePromptTemplate.from_template("Go on: {story}"),
            ]
        )
        self.chain = prompt | llm

    def __call__(self, state: State) -> dict:
        return {self.field: self.chain.invoke(state).content}


class StoryGraph:
    def __init__(self) -> None:
        self.llm = ChatOpenAI(model="gpt-4o")
        self.workflow = StateGraph(State)
        self._add_nodes()
        self._add_edges()

    def _add_nodes(self) -> None:
        self.workflow.add_node(Step.WRITE, PromptedNode(self.llm, WRITER, "story"))
        self.workflow.add_node(Step.CRITIC.value, PromptedNode(self.llm, system=CRITIC, field="critique"))

    def _add_edges(self) -> None:
        self.workflow.add_edge(START, Step.WRITE)
        self.workflow.add_edge(Step.WRITE, Step.CRITIC)
        self.workflow.add_conditional_edges(Step.CRITIC, self._is_done, {"yes": END, "no": Step.WRITE.value})

    def _is_done(self, state: State) -> str:
        return "yes" if "excellent" in state["critique"] else "no"

    def build(self):
        return self.workflow.compile()


def get_graph():
    return StoryGraph().build()

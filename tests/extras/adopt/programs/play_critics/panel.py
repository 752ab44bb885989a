"""A panel of critics of plays."""
from abc import ABC, abstractmethod
from typing import ClassVar, TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph


class Play(TypedDict, total=False):
    play: str
    plot: str
    stage: str
    cast: str
    verdict: str


class Critic(ABC):
    """One critic of the panel."""

    registry: ClassVar[dict[str, type["Critic"]]] = {}
    field: ClassVar[str]
    ground_rules: ClassVar[str] = "You sit in row seven. Be fair to amateurs."
    task: ClassVar[str] = "Say what you think of the play."

    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        if not getattr(cls, "abstract", False) or "abstract" not in cls.__dict__:
            Critic.registry[cls.__name__.lower()] = cls

    def __init__(self, llm):
        self.llm = llm

    @property
    @abstractmethod
    def persona(self) -> str: ...

    def system(self) -> str:
        return f"{self.ground_rules}\n{self.persona}"

    def human(self, state: Play) -> str:
        return self.task + "\n\nPlay: " + state["play"]

    def __call__(self, state: Play) -> dict:
        reply = self.llm.invoke([SystemMessage(self.system()), HumanMessage(self.human(state))])
        return {self.field: self.post(reply.content)}

    def post(self, text: str) -> str:
        return text


class Plot(Critic):
    field = "plot"
    task = "Where does the plot sag?"

    @property
    def persona(self):
        return "You wrote thrillers for thirty years."


class Stage(Critic):
    field = "stage"
    ground_rules = Critic.ground_rules + " Speak of the set alone."

    @property
    def persona(self):
        return "You build sets from cardboard."

    def human(self, state):
        first = super().human(state)
        return first + "\nName one prop that is missing."


class Cast(Critic):
    field = "cast"

    def __init__(self, llm, school="Method"):
        super().__init__(llm)
        self.school = school

    @property
    def persona(self):
        return f"You teach acting by the {self.school} school."

    def post(self, text):
        return f"On the actors: {text}"


class Chair(Critic):
    field = "verdict"
    task = "Weigh the three critics and give stars."

    @property
    def persona(self):
        return "You chair the panel and hate long words."

    def human(self, state):
        heard = "\n".join(f"{k.upper()}: {state[k]}" for k in ("plot", "stage", "cast"))
        return f"{super().human(state)}\n{heard}"


def build():
    llm = ChatOpenAI(model="gpt-4o-mini")
    builder = StateGraph(Play)
    for name, cls in Critic.registry.items():
        builder.add_node(name + "_critic", cls(llm))
    for name in Critic.registry:
        if name != "chair":
            builder.add_edge(START, f"{name}_critic")
            builder.add_edge(f"{name}_critic", "chair_critic")
    builder.add_edge("chair_critic", END)
    return builder.compile()


panel = build()

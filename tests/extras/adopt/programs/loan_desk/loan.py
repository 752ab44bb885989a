"""Loan desk: human in the loop, store, runtime context, multi-language prompts keyed by tuple."""
from dataclasses import asdict, dataclass, field
from enum import StrEnum, auto
from typing import Literal, TypedDict

from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, add_messages, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime, get_runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field
from typing_extensions import Annotated


class Lang(StrEnum):
    EN = auto()
    NL = auto()


class Step(StrEnum):
    INTAKE = "intake"
    SCORE = "score"
    REVIEW = "review"


PROMPTS: dict[tuple[Step, Lang], str] = {
    (Step.INTAKE, Lang.EN): "Ask for what is missing: income, sum, duration.",
    (Step.INTAKE, Lang.NL): "Vraag wat er ontbreekt: inkomen, bedrag, duur.",
    (Step.SCORE, Lang.EN): "Score the risk of this loan.",
    (Step.SCORE, Lang.NL): "Beoordeel het risico van deze lening.",
}


@dataclass
class Ctx:
    lang: Lang = Lang.EN
    bank: str = "First Bank"
    limits: dict[str, int] = field(default_factory=lambda: {"sum": 50_000})


class Score(BaseModel):
    """Risk of a loan."""

    points: int = Field(ge=0, le=100, description="0 is no risk, 100 is certain loss")
    why: str = Field(description=f"Reason in at most {20} words")


class LoanState(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    score: int
    decision: Literal["yes", "no"]


model = ChatOpenAI(model="gpt-4o-mini")
scorer = model.with_structured_output(Score, include_raw=False).with_retry(stop_after_attempt=2)
store = InMemoryStore()
OPENING = "You work for {bank}. " "The limits are {limits}."


def _prompt(step: Step) -> str:
    ctx = get_runtime(Ctx).context or Ctx()
    head = OPENING.format(**{k: v for k, v in asdict(ctx).items() if k != "lang"})
    return f"{head}\n{PROMPTS[step, ctx.lang]}"


def intake(state: LoanState, runtime: Runtime[Ctx]) -> Command[Literal["score", "__end__"]]:
    reply = model.invoke([SystemMessage(_prompt(Step.INTAKE)), *state["messages"]])
    if "?" in reply.text:
        return Command(goto=END, update={"messages": [reply]})
    if runtime.store is not None:
        runtime.store.put(("loans",), "last", {"text": reply.text})
    return Command(goto=Step.SCORE, update={"messages": [reply]})


def score(state: LoanState):
    found = scorer.invoke([SystemMessage(_prompt(Step.SCORE))] + state["messages"])
    return {"score": found.points}


def review(state: LoanState):
    if state["score"] < 20:
        return {"decision": "yes"}
    answer = interrupt(f"Risk {state['score']}: grant it?")
    return {"decision": "yes" if answer in (True, "yes") else "no"}


def letter(state: LoanState):
    wording = {
        "yes": "Write a letter that grants the loan.",
        "no": "Write a letter that declines the loan kindly.",
    }[state["decision"]]
    reply = model.invoke([HumanMessage(wording)])
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), reply]}


graph = (
    StateGraph(LoanState, context_schema=Ctx)
    .add_node(Step.INTAKE, intake)
    .add_sequence([(Step.SCORE.value, score), (Step.REVIEW.value, review), letter])
    .add_edge(START, Step.INTAKE)
    .add_edge("letter", END)
    .compile(store=store)
)

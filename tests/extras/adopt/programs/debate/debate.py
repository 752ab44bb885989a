from enum import StrEnum
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, StateGraph
from langgraph.types import Command

FINAL = "<FINAL>"
OPENING = "Please open the debate."
MAX_ROUNDS = 3


class Verdict(StrEnum):
    AGREE = "AGREE"
    DISAGREE = "DISAGREE"
    UNCLEAR = "UNCLEAR"


NEXT = {Verdict.AGREE: END, Verdict.DISAGREE: "pro", Verdict.UNCLEAR: "moderator"}

SIDES = dict(
    pro="You argue for the motion. Use one example.",
    con="You argue against the motion. Attack the example.",
)
MODERATOR = (
    "You moderate a debate. Answer with one of "
    + ", ".join(Verdict)
    + " and a reason."
)


class Debate(TypedDict, total=False):
    motion: str
    said: str
    rounds: int
    verdict: str


llm = ChatOpenAI(model="gpt-4.1", temperature=0.9)


def speak(side: str, state: Debate) -> str:
    heard = state.get("said", OPENING)
    if heard == OPENING:
        heard += " Be polite."
    return llm.invoke(
        [("system", SIDES[side]), ("user", f"Motion: {state['motion']}"), ("user", f"The last speaker said: {heard}")]
    ).text


def pro(state: Debate) -> Command:
    said = speak("pro", state)
    target = "moderator" if FINAL in said else "con"
    return Command(goto=target, update={"said": said, "rounds": state.get("rounds", 0) + 1})


def con(state: Debate) -> Command:
    said = speak("con", state)
    if said.startswith("I give up"):
        return Command(goto=END, update={"said": said})
    return Command(goto="moderator", update={"said": said})


def moderator(state: Debate) -> dict:
    closing = "" if state["rounds"] < MAX_ROUNDS else f"Time is over. End your reply with {FINAL}."
    reply = llm.invoke([("system", MODERATOR), ("user", state["said"] + "\n" + closing)]).text
    match reply.split()[:1]:
        case ["AGREE"]:
            verdict = Verdict.AGREE
        case ["DISAGREE"]:
            verdict = Verdict.DISAGREE
        case _:
            verdict = Verdict.UNCLEAR if state["rounds"] < MAX_ROUNDS else Verdict.AGREE
    return {"verdict": verdict, "rounds": state["rounds"] + 1}


builder = StateGraph(Debate)
builder.add_node("pro", pro, destinations=("con", "moderator"))
builder.add_node("con", con, destinations={"moderator": "speaks next", END: "gives up"})
builder.add_node("moderator", moderator)
builder.set_entry_point("pro")
builder.add_conditional_edges("moderator", lambda state: NEXT[state["verdict"]], list(NEXT.values()))
debate = builder.compile()

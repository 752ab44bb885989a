import enum
import random
from collections import ChainMap, defaultdict
from itertools import chain
from string import Formatter, Template
from types import MappingProxyType
from typing import Final, TypedDict

from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, StateGraph


class Level(str, enum.Enum):
    EASY = "easy"
    HARD = "hard"

    @property
    def rule(self) -> str:
        match self:
            case Level.EASY:
                return "Ask what a ten-year-old knows."
            case Level.HARD:
                return "Ask what only a professor knows."


class Msg(enum.StrEnum):
    ASK = "Put one question about {topic}."
    MARK = "Mark the reply with right or wrong."


BASE: Final = MappingProxyType({"tone": "Be cheerful.", "length": "One line."})
GERMAN = {"tone": "Sei heiter.", "lang": "Antworte auf Deutsch."}
FAQ = {"How many rounds?": "Three rounds are played.", "May I skip?": "Skipping costs a point."}
vals = {"a": "Rule A: no trick questions."}
vals.update(b="Rule B: no politics.")
vals.update({"c": "Rule C: no repeats."})
vals.setdefault("d", "Rule D: numbers need a unit.")
BANK: dict[str, list[str]] = defaultdict(list)
BANK["hints"].append("Hint: think of the sea.")
BANK["hints"].extend(["Hint: think of a king."])
HEAD = ("Quiz of the day",) + ("Keep it short",)
MARKER = Template("Score so far: ${score}. $comment")


class State(TypedDict, total=False):
    topic: str
    level: str
    question: str
    reply: str
    answer: str


llm = init_chat_model("openai:gpt-4o-mini")


def settings(lang: str) -> ChainMap:
    return ChainMap(GERMAN if lang == "de" else {}, BASE)


def ask(state: State) -> State:
    style = settings("de" if state["topic"].startswith("de") else "en")
    head, *more = HEAD
    lines = [head, *more, Msg.ASK.format(topic=state["topic"]), Level(state.get("level", "easy")).rule]
    lines += [v for _, v in style.items()]
    lines += [*vals.values()]
    text = "\n".join(chain(lines, BANK["hints"]))
    return {"question": llm.invoke(text).text}


def faq(state: State) -> State:
    body = "; ".join([*FAQ]) + "\n" + "; ".join(FAQ.values())
    return {"reply": llm.invoke(f"{body}\n\nReply to: {state['question']}").text}


def mark(state: State) -> State:
    if (n := len(state["reply"])) > 400:
        comment = "The reply is far too long."
    elif n == 0:
        comment = "There is no reply."
    else:
        comment = ""
    text = f"{Msg.MARK.value}\n" + MARKER.substitute(score=n % 10, comment=comment)
    text = text.replace("right or wrong", "full, half or no points")
    return {"answer": llm.invoke([("system", text), ("human", state["reply"])]).text}


builder = StateGraph(State)
NODES = {"ask": ask, "faq": faq, "mark": mark}
for name, fn in NODES.items():
    builder.add_node(name, fn)
order = [START, *NODES, END]
for a, b in zip(order, order[1:]):
    builder.add_edge(a, b)
graph = builder.compile()

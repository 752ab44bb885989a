import configparser
import json
from pathlib import Path
from typing import TypedDict

import yaml
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph

HERE = Path(__file__).resolve().parent
llm = ChatOpenAI(model="gpt-5-mini")
with open(HERE / "prompts.yaml", encoding="utf-8") as f:
    CONFIG = yaml.safe_load(f)
INTRO = Path(__file__).with_name("intro.md").read_text()
BY_NAME = {path.stem: path.read_text() for path in sorted((HERE / "roles").glob("*.txt"))}
SHOTS = json.loads((HERE / "shots.json").read_text(encoding="utf-8"))


class State(TypedDict):
    question: str
    answer: str


def role(name: str) -> str:
    return CONFIG["agents"][name]["prompt"].strip()


def first(state: State):
    return {"answer": llm.invoke([("system", role("scout")), ("human", state["question"])]).text}


def second(state: State):
    prompt = ChatPromptTemplate.from_messages([(m["role"], m["content"]) for m in CONFIG["chat"]])
    return {"answer": (prompt | llm).invoke({"question": state["question"]}).text}


def third(state: State):
    messages = [("system", INTRO)]
    for shot in SHOTS:
        messages += [("human", shot["in"]), ("ai", shot["out"])]
    return {"answer": llm.invoke(messages + [("human", state["question"])]).text}


def fourth(state: State):
    return {"answer": llm.invoke([("system", BY_NAME["judge"]), ("human", state["answer"])]).text}


graph = StateGraph(State).add_sequence([first, second, third, fourth]).add_edge(START, "first").compile()

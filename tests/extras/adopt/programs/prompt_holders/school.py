from typing import TypedDict

import prompts as pr
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from prompts import GRADE, HOMEWORK, LINES, P

llm = ChatOpenAI(model="gpt-5-mini")


class State(TypedDict):
    topic: str
    text: str
    answer: str


def lesson(state: State):
    return {"text": llm.invoke([("system", LINES), ("human", f"{P.plan}\nTopic: {state['topic']}")]).text}


def quiz(state: State):
    return {"text": llm.invoke(P.quiz % (5, state["topic"])).text}


def homework(state: State):
    return {"text": llm.invoke([("system", HOMEWORK.intro + " " + HOMEWORK.outro), ("human", state["text"])]).text}


def grade(state: State):
    messages = [("system", GRADE)]
    messages.append(("human", pr.PRAISE.substitute(pupil="Kim")))
    text = llm.invoke(messages).text
    return {"answer": llm.invoke(pr.PARENTS.format(pupil="Kim", mark=text)).text}


graph = StateGraph(State).add_sequence([lesson, quiz, homework, grade]).add_edge(START, "lesson").compile()

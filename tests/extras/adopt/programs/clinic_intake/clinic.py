"""Intake of a small clinic: a step per enum member, each with its own instruction."""

import operator
from enum import Enum
from functools import partial
from typing import Annotated, TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph


class Step(str, Enum):
    SYMPTOMS = "symptoms"
    HISTORY = "history"
    LETTER = "letter"


INSTRUCTIONS: dict[Step, str] = {
    Step.SYMPTOMS: "You are a triage nurse. List the patient's symptoms, one per line.",
    Step.HISTORY: (
        "You are a medical records clerk. "
        "Summarise what the patient says about earlier illnesses."
    ),
    Step.LETTER: """You write letters to general practitioners.
Use the notes below and keep it under one page.""",
}


class Intake(TypedDict):
    complaint: str
    age: float
    urgency: str
    notes: Annotated[list[str], operator.add]
    letter: str


llm = ChatOpenAI(model="gpt-4o-mini", temperature=0)


def tone_for(urgency: str) -> str:
    match urgency:
        case "high":
            return "Be brief: a doctor reads this within minutes."
        case "low" | "routine":
            return "Take your time and be thorough."
        case _:
            return "Write in a neutral tone."


def run_step(step: Step, state: Intake) -> dict:
    system = INSTRUCTIONS[step] + "\n" + tone_for(state["urgency"])
    human = f"Patient, {state['age']:.0f} years old, says: {state['complaint']!s:>5}"
    if step is Step.LETTER:
        human += "\n\nNotes of colleagues:\n" + "\n".join(state["notes"])
    reply = llm.invoke([SystemMessage(system), HumanMessage(human)])
    if step is Step.LETTER:
        return {"letter": reply.text}
    return {"notes": [f"[{step.value}] {reply.text}"]}


workflow = StateGraph(Intake)
for step in Step:
    workflow.add_node(step.value, partial(run_step, step))
workflow.add_edge(START, Step.SYMPTOMS.value)
workflow.add_edge(START, Step.HISTORY.value)
workflow.add_edge([Step.SYMPTOMS.value, Step.HISTORY.value], Step.LETTER.value)
workflow.add_edge(Step.LETTER.value, END)
app = workflow.compile()

import csv
import pathlib
from datetime import date
from typing import Annotated, Literal

from langchain_core.messages import AnyMessage
from langchain_core.prompts import ChatPromptTemplate, FewShotChatMessagePromptTemplate, MessagesPlaceholder
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel, Field

HERE = pathlib.Path(__file__).parent
with open(HERE / "examples.csv", newline="") as f:
    EXAMPLES = list(csv.DictReader(f))


class Label(BaseModel):
    """The label of a complaint."""

    label: Literal["delivery", "technical", "refund"] = Field(description="The one label that fits the complaint best.")
    why: str = Field(..., description="One sentence that explains the choice.")


class Ticket(BaseModel):
    messages: Annotated[list[AnyMessage], add_messages] = []
    label: str = ""
    why: str = ""


llm = ChatOpenAI(model="gpt-4o-mini", temperature=0)
shots = FewShotChatMessagePromptTemplate(
    examples=EXAMPLES,
    example_prompt=ChatPromptTemplate.from_messages([("human", "Complaint: {text}"), ("ai", "{label}")]),
)
classify_prompt = ChatPromptTemplate.from_messages(
    [
        ("system", "You sort complaints of a web shop. Today is {today}. {policy}"),
        shots,
        MessagesPlaceholder("messages"),
    ]
).partial(today=date.today().isoformat(), policy="When in doubt, choose refund.")
classifier = classify_prompt | llm.with_structured_output(Label)
reply_prompt = ChatPromptTemplate.from_messages(
    [
        ("system", "You answer a complaint about {{label}} in three sentences, without promises.", ),
        ("placeholder", "{messages}"),
    ],
    template_format="mustache",
)


def classify(state: Ticket) -> dict:
    found = classifier.invoke({"messages": state.messages})
    return {"label": found.label, "why": found.why}


def route(state: Ticket) -> Literal["answer", "escalate"]:
    return "escalate" if state.label == "refund" else "answer"


def answer(state: Ticket) -> dict:
    return {"messages": [(reply_prompt | llm).invoke({"messages": state.messages, "label": state.label})]}


def escalate(state: Ticket) -> dict:
    request = f"Write a note to the refunds team. Reason: {state.why}"
    return {"messages": [llm.invoke([*state.messages, ("human", request)])]}


g = StateGraph(Ticket)
for step in (classify, answer, escalate):
    g.add_node(step)
g.add_edge(START, "classify")
g.add_conditional_edges("classify", route)
g.add_edge(["answer"], END)
g.add_edge("escalate", END)
graph = g.compile()

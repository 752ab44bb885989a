from typing import TypedDict

from langchain_core.example_selectors import LengthBasedExampleSelector
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import FewShotPromptTemplate, PromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

EXAMPLES = [
    {"text": "The parcel came late.", "label": "logistics"},
    {"text": "The screen is cracked.", "label": "quality"},
]
PAIRS = [("It smells odd.", "quality"), ("Nobody rang the bell.", "logistics")]
one = PromptTemplate(input_variables=["text", "label"], template="Complaint: {text}\nLabel: {label}")
few = FewShotPromptTemplate(
    example_selector=LengthBasedExampleSelector(examples=EXAMPLES, example_prompt=one, max_length=200),
    example_prompt=one,
    prefix="Label the complaint.",
    suffix="Complaint: {complaint}\nLabel:",
    input_variables=["complaint"],
)
llm = ChatOpenAI(model="gpt-5-mini")


class State(TypedDict):
    complaint: str
    label: str
    answer: str


def label(state: State):
    return {"label": llm.invoke(few.format(complaint=state["complaint"])).text}


def check(state: State):
    messages = [SystemMessage("Check the label of a complaint.")]
    for text, right in PAIRS:
        messages += [HumanMessage(text), AIMessage(right)]
    messages.append(HumanMessage(state["complaint"]))
    return {"answer": llm.invoke(messages).text}


builder = StateGraph(State)
builder.add_node("label", label)
builder.add_node("check", check)
builder.add_edge(START, "label")
builder.add_edge("label", "check")
builder.add_edge("check", END)
graph = builder.compile()

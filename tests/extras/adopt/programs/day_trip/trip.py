import itertools
from typing import Annotated, Optional, TypedDict
import operator

from langchain_core.messages import SystemMessage, HumanMessage, AIMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import StateGraph, START, END
from langgraph.types import Command, Send, interrupt

fast = ChatOpenAI(model="gpt-4o-mini", tags=["fast"])


class Plan(TypedDict, total=False):
    city: str
    notes: Annotated[list, operator.add]
    plan: str
    feedback: Optional[str]


class Notes(TypedDict):
    notes: Annotated[list, operator.add]


def step(label, instruction, *, llm=fast, examples=()):
    """Make a node that adds a note."""

    def run(state):
        messages = [SystemMessage(content=instruction)]
        for q, a in examples:
            messages += [HumanMessage(content=q), AIMessage(content=a)]
        messages.append(HumanMessage(content=f"City: {state['city']}"))
        return {"notes": [(label, llm.invoke(messages).content)]}

    run.__name__ = label
    return run


def line(name, *steps):
    sg = StateGraph(Plan, output_schema=Notes)
    for s in steps:
        sg.add_node(s.__name__, s)
    names = [START, *[s.__name__ for s in steps], END]
    for a, b in itertools.pairwise(names):
        sg.add_edge(a, b)
    return sg.compile(name=name)


food = line(
    "food",
    step("breakfast", "Suggest one place for breakfast.", examples=[("City: Lyon", "Chez Paul")]),
    step("dinner", "Suggest one place for dinner, not a chain."),
)
sights = line("sights", step("museum", "Suggest a museum that is open on Mondays."))


def merge(state: Plan) -> Command:
    listed = "\n".join(": ".join(note) for note in state["notes"])
    ask = f"Make a day plan for {state['city']} from these notes.\n{listed}"
    if state.get("feedback"):
        ask += f"\nThe traveller says: {state['feedback']}"
    plan = fast.invoke(ask)
    return Command(update={"plan": plan.content}, goto="confirm")


def confirm(state: Plan):
    answer = interrupt({"plan": state["plan"], "ask": "Is this plan fine?"})
    if answer == "yes":
        return Command(goto=END)
    return Command(update={"feedback": answer}, goto="merge")


g = StateGraph(Plan)
g.add_node("food", food)
g.add_node("sights", sights)
g.add_node(merge)
g.add_node(confirm, destinations=("merge", END))
g.add_edge(START, "food")
g.add_edge(START, "sights")
g.add_edge(["food", "sights"], "merge")
app = g.compile()

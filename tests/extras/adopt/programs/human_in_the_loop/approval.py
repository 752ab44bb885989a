from typing import Literal, TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import AzureChatOpenAI
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

llm = AzureChatOpenAI(azure_deployment="gpt-4o-prod", api_version="2024-10-21")


class State(TypedDict):
    request: str
    draft: str
    feedback: str


def draft_email(state: State):
    messages = [SystemMessage(content="You draft polite emails for a support team.")]
    if state.get("feedback"):
        messages.append(HumanMessage(content=f"Improve the draft. Feedback: {state['feedback']}"))
    messages.append(HumanMessage(content=state["request"]))
    return {"draft": llm.invoke(messages).content}


def human_approval(state: State) -> Command[Literal["send", "draft_email"]]:
    decision = interrupt({"question": "Is this draft fine?", "draft": state["draft"]})
    if decision == "approve":
        return Command(goto="send")
    return Command(goto="draft_email", update={"feedback": decision})


def send(state: State):
    print("sending the email to the customer")
    return {}


builder = StateGraph(State)
builder.add_node("draft_email", draft_email)
builder.add_node("human_approval", human_approval)
builder.add_node("send", send)
builder.add_edge(START, "draft_email")
builder.add_edge("draft_email", "human_approval")
builder.add_edge("send", END)
graph = builder.compile(checkpointer=MemorySaver(), interrupt_before=["send"])

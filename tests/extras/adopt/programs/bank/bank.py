import json
from typing import Annotated

from langchain_core.messages import HumanMessage, RemoveMessage, SystemMessage, ToolMessage, trim_messages
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, tools_condition
from pydantic import BaseModel, Field

SYSTEM = SystemMessage(content="You answer questions about accounts of a bank. Never ask for a PIN.")


class Account(MessagesState):
    summary: str
    tier: str


class Transfer(BaseModel):
    iban: str = Field(description="IBAN of the receiver")
    amount: Annotated[float, Field(gt=0, description="Amount in euros")]


@tool("transfer", args_schema=Transfer)
def make_transfer(iban: str, amount: float) -> str:
    """Transfer money after the customer has confirmed."""
    return json.dumps({"status": "queued", "iban": iban})


@tool
def balance(state: Annotated[dict, InjectedState]) -> str:
    "Tell the balance of the customer's account."
    return "The balance is 12 euros." if state.get("tier") else "The customer is not known."


TOOLS = {t.name: t for t in [make_transfer, balance]}
llm = ChatOpenAI(model="gpt-4o").bind_tools(list(TOOLS.values()))
plain = ChatOpenAI(model="gpt-4o-mini")


def assistant(state: Account):
    messages = [SYSTEM]
    if summary := state.get("summary"):
        messages.append(SystemMessage(content="Summary of the conversation so far: " + summary))
    messages.extend(trim_messages(state["messages"], max_tokens=20, token_counter=len, strategy="last"))
    if state.get("tier") == "gold":
        messages.insert(
            1,
            HumanMessage(content=[{"type": "text", "text": "The customer has a gold account: greet them by name."}]),
        )
    return {"messages": [llm.invoke(messages)]}


def call_tools(state: Account):
    results = []
    for call in state["messages"][-1].tool_calls:
        if call["name"] not in TOOLS:
            content = f"There is no tool {call['name']}. Use one of {', '.join(TOOLS)}."
        else:
            extra = {"state": state} if call["name"] == "balance" else {}
            content = TOOLS[call["name"]].invoke({**call["args"], **extra})
        results.append(ToolMessage(content=content, tool_call_id=call["id"]))
    return {"messages": results}


def summarize(state: Account):
    if len(state["messages"]) < 6:
        return {}
    summary = state.get("summary", "")
    if summary:
        text = (
            f"This is the summary up to now: {summary}\n\n"
            "Extend it by the new messages above:"
        )
    else:
        text = "Summarise the conversation above:"
    reply = plain.invoke(state["messages"] + [HumanMessage(content=text)])
    return {"summary": reply.content, "messages": [RemoveMessage(id=m.id) for m in state["messages"][:-2]]}


flow = StateGraph(Account)
flow.add_node(assistant)
flow.add_node("tools", call_tools)
flow.add_node(summarize)
flow.add_edge(START, "assistant")
flow.add_conditional_edges("assistant", tools_condition, {"tools": "tools", END: "summarize"})
flow.add_edge("tools", "assistant")
flow.add_edge("summarize", END)
app = flow.compile()

from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

llm = ChatOpenAI(model="gpt-4o")
APPROVED = "APPROVED"
ASK_AGAIN = "please try again"


class State(TypedDict):
    text: str
    verdict: str
    rounds: int


def write(state: State):
    note = ASK_AGAIN if state["verdict"] == ASK_AGAIN else "This is your first try."
    return {"text": llm.invoke(["Write a slogan.", note]).content}


def review(state: State):
    reply = llm.invoke(f"Judge the slogan. Say {APPROVED} if it is good, else REJECTED.\n\n{state['text']}").content
    if "REJECTED" in reply:
        return {"verdict": ASK_AGAIN}
    return {"verdict": APPROVED}


def decide(state: State):
    match state["verdict"]:
        case "APPROVED":
            return END
        case _:
            return "write"


builder = StateGraph(State)
builder.add_node("write", write)
builder.add_node("review", review)
builder.add_edge(START, "write")
builder.add_edge("write", "review")
builder.add_conditional_edges("review", decide)
graph = builder.compile()

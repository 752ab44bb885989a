import os
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

try:
    from langchain_openai import ChatOpenAI

    llm = ChatOpenAI(model="gpt-4o")
except ImportError:
    from langchain_anthropic import ChatAnthropic

    llm = ChatAnthropic(model="claude-sonnet-4-0")

if os.environ.get("SHORT"):
    PROMPT = "Answer in one word."
else:
    PROMPT = "Answer in one paragraph."


class State(TypedDict):
    question: str
    answer: str


def answer(state: State):
    return {"answer": llm.invoke([("system", PROMPT), ("user", state["question"])]).content}


builder = StateGraph(State)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
if os.environ.get("DEBUG"):
    graph = builder.compile(debug=True)
else:
    graph = builder.compile()

if __name__ == "__main__":
    print(graph.invoke({"question": "Who wrote this question in the main block?"}))
    llm.invoke("This text is only asked by hand.")

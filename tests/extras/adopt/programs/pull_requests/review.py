import lib
from langchain_openai import ChatOpenAI
from langgraph.graph import StateGraph
from typing import TypedDict


class PR(TypedDict):
    diff: str
    message: str
    faults: str


chat = ChatOpenAI(model="gpt-4o-mini")


def write(pr: PR) -> PR:
    prompt = lib.WRITER + lib.EXTRA
    return {
        "message": chat.invoke(
            [{"role": "system", "content": prompt()}, {"role": "user", "content": pr["diff"]}]
        ).content
    }


def review(pr: PR) -> PR:
    return {
        "faults": chat.invoke(
            [{"role": "system", "content": lib.CRITIC(count=3)}, {"role": "user", "content": pr["diff"]}]
        ).content
    }


g = StateGraph(PR)
g.add_node(write)
g.add_node(review)
g.set_entry_point("write")
g.add_edge("write", "review")
g.set_finish_point("review")
graph = g.compile()

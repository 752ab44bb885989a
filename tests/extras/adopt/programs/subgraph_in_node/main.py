from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph

llm = ChatOpenAI(model="gpt-4.1")


class CheckState(TypedDict):
    claim: str
    verdict: str


class EssayState(TypedDict):
    topic: str
    essay: str
    checked: str


async def check_claim(state: CheckState):
    answer = await llm.ainvoke(
        [
            ("system", "You check claims. Answer TRUE or FALSE."),
            ("human", "Claim: " + state["claim"]),
        ]
    )
    return {"verdict": answer.content}


checker = StateGraph(CheckState).add_node(check_claim).add_edge(START, "check_claim").compile()


async def write(state: EssayState):
    answer = await llm.ainvoke("Write an essay about %s in %d words." % (state["topic"], 200))  # noqa: UP031
    return {"essay": answer.content}


async def check(state: EssayState):
    result = await checker.ainvoke({"claim": state["essay"]})
    if result["verdict"] == "TRUE":
        return {"checked": "yes"}
    return {"checked": "no"}


graph = StateGraph(EssayState).add_sequence([write, check]).add_edge(START, "write").compile()

import asyncio
import operator
from typing import Annotated, Literal, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.constants import Send
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field

MAX_ATTEMPTS = 2
EDITOR = "\n".join(
    [
        "You are the editor of a morning digest.",
        "",
        "Rules:",
        "- at most five sentences",
        "- no adjectives in headlines",
    ]
)
RETRY_NOTE = "Your last digest was rejected: {reason}. Write it again."


class Topics(BaseModel):
    topics: list[str] = Field(description="Topics worth a paragraph", max_length=3)


class Verdict(BaseModel):
    decision: Literal["publish", "rewrite"]
    reason: str = Field("", description="Why a rewrite is needed")


class Paper(TypedDict, total=False):
    question: str
    topics: list[str]
    paragraphs: Annotated[list[str], operator.add]
    answer: str
    attempts: int
    verdict: str
    reason: str


class Single(TypedDict):
    topic: str
    style: str


llm = ChatOpenAI(model="gpt-4o")
planner = llm.with_structured_output(Topics)
judge = llm.with_structured_output(Verdict)


async def plan(state: Paper) -> Paper:
    found = await planner.ainvoke(
        [
            {"role": "system", "content": "Pick topics for tomorrow's digest."},
            {"role": "user", "content": state["question"]},
        ]
    )
    return {"topics": found.topics}


def fan_out(state: Paper):
    return [
        Send("research", {"topic": topic, "style": "a dry report" if index else "an anecdote"})
        for index, topic in enumerate(state["topics"])
    ]


async def research(state: Single) -> Paper:
    questions = [f"What is new about {state['topic']}?", f"Who disagrees about {state['topic']}?"]
    replies = await asyncio.gather(*(llm.ainvoke(question) for question in questions))
    joined = " ".join(reply.text for reply in replies)
    paragraph = await llm.ainvoke(f"Write {state['style']} from these notes.\n{joined}")
    return {"paragraphs": [paragraph.text]}


async def edit(state: Paper) -> Paper:
    messages = [("system", EDITOR), ("user", "\n\n".join(state["paragraphs"]))]
    if state.get("reason"):
        messages.append(("user", RETRY_NOTE.format(reason=state["reason"])))
    reply = await llm.ainvoke(messages)
    return {"answer": reply.text, "attempts": state.get("attempts", 0) + 1}


async def check(state: Paper) -> Paper:
    verdict: Verdict = await judge.ainvoke("Would you publish this digest?\n\n" + state["answer"])
    return {"verdict": verdict.decision, "reason": verdict.reason}


def after_check(state: Paper) -> str:
    if state["verdict"] == "publish" or state["attempts"] >= MAX_ATTEMPTS:
        return END
    return "edit"


graph = (
    StateGraph(Paper)
    .add_node("plan", plan)
    .add_node("research", research)
    .add_node("edit", edit)
    .add_node("check", check)
    .add_edge(START, "plan")
    .add_conditional_edges("plan", fan_out, ["research"])
    .add_edge("research", "edit")
    .add_edge("edit", "check")
    .add_conditional_edges("check", after_check, ["edit", END])
    .compile()
)

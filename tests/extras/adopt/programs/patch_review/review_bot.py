import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import yaml
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, RetryPolicy
from typing_extensions import TypedDict

CONF = yaml.safe_load((Path(__file__).parent / "prompts.yaml").read_text(encoding="utf-8"))
MAX_ROUNDS = 4


class Verdict(TypedDict):
    """Decision of the release captain on a patch."""

    decision: Annotated[Literal["merge", "revise", "reject"], ..., "what happens to the patch"]
    rationale: Annotated[str, ..., "why, in two sentences at most"]
    blocking: Annotated[list[str], [], "findings that must be mended first"]


class ReviewState(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    author: str
    round: int
    reviews: Annotated[dict[str, str], lambda a, b: {**(a or {}), **(b or {})}]
    outcome: str


author_llm = init_chat_model("gpt-4.1", model_provider="openai", temperature=0.1)
captain_llm = author_llm.with_structured_output(Verdict)


async def write_patch(state: ReviewState):
    """Write or revise the patch."""
    msgs = [("system", CONF["author"]["system"]), *state["messages"]]
    if state.get("round", 0) >= MAX_ROUNDS - 1:
        msgs.append(("system", "This is the last round. Prefer the smallest change that satisfies the reviewers."))
    reply = await author_llm.ainvoke(msgs)
    return {"messages": [reply], "round": state.get("round", 0) + 1}


async def run_review(state: ReviewState, *, who: str, llm, system: str):
    patch = next(m for m in reversed(state["messages"]) if isinstance(m, AIMessage))
    swapped = [
        {"role": "system", "content": system},
        {"role": "user", "content": "```diff\n" + patch.text + "\n```"},
    ]
    if who in state.get("reviews", {}):
        swapped += [
            {"role": "assistant", "content": state["reviews"][who]},
            {"role": "user", "content": f"That was your review of round {state['round'] - 1}. What is still open?"},
        ]
    reply = await llm.ainvoke(swapped)
    return {"reviews": {who: reply.text}}


async def captain(state: ReviewState) -> Command[Literal["write_patch", "__end__"]]:
    sheet = "\n\n".join(f"## {who.upper()}\n{text}" for who, text in sorted(state["reviews"].items()))
    verdict = await captain_llm.ainvoke(
        [
            ("system", CONF["verdict"]["system"].format(author=state.get("author", "an unknown author"))),
            ("human", sheet),
        ]
    )
    if verdict["decision"] != "revise" or state["round"] >= MAX_ROUNDS:
        return Command(goto=END, update={"outcome": verdict["decision"]})
    review = "\n".join(f"* {b}" for b in verdict.get("blocking", [])) or verdict["rationale"]
    feedback = CONF["author"]["feedback"].format(review=review)
    return Command(goto="write_patch", update={"messages": [HumanMessage(content=feedback, name="captain")]})


def build() -> StateGraph:
    g = StateGraph(ReviewState)
    g.add_node("write_patch", write_patch, retry_policy=RetryPolicy(max_attempts=2))
    names = []
    for who, spec in CONF["reviewers"].items():
        if not spec.get("enabled", True):
            continue
        node = f"review_{who}"
        g.add_node(node, partial(run_review, who=who, llm=init_chat_model(spec["model"]), system=spec["system"]))
        g.add_edge("write_patch", node)
        names.append(node)
    g.add_node("captain", captain)
    g.add_edge(START, "write_patch")
    g.add_edge(names, "captain")
    return g


graph = build().compile()

if __name__ == "__main__":
    demo = "Please replace pickle by json in cache.py"
    print(asyncio.run(graph.ainvoke({"messages": [("user", demo)], "author": "mira"}))["outcome"])

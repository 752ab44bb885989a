"""Reviews of a change by several reviewers, each a graph that a node calls."""

import textwrap
from functools import lru_cache
from typing import Optional

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, ConfigDict

GUIDES = {
    "security": ["Look for secrets in the code.", "Look for queries built from input."],
    "style": ["Names are words.", "Functions are short."],
}


class Review(BaseModel):
    model_config = ConfigDict(extra="forbid")
    diff: str
    findings: Optional[str] = None
    severity: int = 0


class Change(BaseModel):
    diff: str
    security: str = ""
    style: str = ""
    answer: str = ""


@lru_cache
def get_model(name: str = "gpt-4o-mini") -> ChatOpenAI:
    return ChatOpenAI(model=name)


def build_reviewer(role: str, focus: list[str], persona: str = "You are a patient reviewer."):
    bullets = "\n".join(f"- {item}" for item in focus)
    system = textwrap.dedent(
        """\
        {persona}
        Review for {role} only:
        {bullets}
        Say 'LGTM' if nothing is wrong."""
    ).format(persona=persona, role=role, bullets=bullets)

    def look(state: Review):
        reply = get_model().invoke([("system", system), ("human", f"```diff\n{state.diff}\n```")])
        return {"findings": reply.content}

    def rank(state: Review):
        reply = get_model("gpt-4o").invoke("How bad are these findings, from 0 to 3?\n" + (state.findings or "none"))
        return {"severity": 3 if "3" in reply.text else 0}

    inner = StateGraph(Review)
    inner.add_node("look", look)
    inner.add_node("rank", rank)
    inner.add_edge(START, "look")
    inner.add_conditional_edges("look", lambda s: END if "LGTM" in s.findings else "rank", ["rank", END])
    inner.add_edge("rank", END)
    return inner.compile()


security_reviewer = build_reviewer("security", GUIDES["security"], persona="You are a suspicious reviewer.")
style_reviewer = build_reviewer(role="style", focus=GUIDES["style"])


def review_security(state: Change):
    found = security_reviewer.invoke({"diff": state.diff})
    return {"security": found["findings"]}


def review_style(state: Change):
    found = style_reviewer.invoke(Review(diff=state.diff))
    return {"style": found["findings"]}


def merge(state: Change):
    prompt = f"""
    Merge these reviews into one comment.

    Security: {state.security}
    Style: {state.style}
    """
    return {"answer": get_model().invoke(textwrap.dedent(prompt).strip()).text}


graph = StateGraph(Change)
graph.add_node("security_review", review_security)
graph.add_node("style_review", review_style)
graph.add_node("merge", merge)
graph.add_edge(START, "security_review")
graph.add_edge(START, "style_review")
graph.add_edge(["security_review", "style_review"], "merge")
graph.add_edge("merge", END)
reviewer = graph.compile()

import json
import operator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy, Send
from pydantic import BaseModel, Field

REVIEWERS = [r for r in json.loads(Path(__file__).with_name("reviewers.json").read_text()) if r["enabled"]]

HOUSE_RULES = (
    "You review pull requests for a payments company. "
    "Report only what you can point to with a line number. "
    "%s"
)
VERDICT_PROMPT = """Merge these findings into one verdict for {author}.
Findings:
{findings}

Repeat nothing."""
MAX_DIFF = 12_000
TOO_LONG = "The diff was cut after {n} characters."


class Finding(BaseModel):
    line: int = Field(description="Line in the new file")
    text: str = Field(description="What is wrong, in one sentence")


class Findings(BaseModel):
    """All findings of one reviewer; empty when the diff is fine."""

    items: list[Finding]


class Verdict(BaseModel):
    decision: Literal["approve", "request_changes"] = Field(description="Approve only without blockers")
    summary: str


@dataclass
class PR:
    diff: str
    author: str = "somebody"
    findings: Annotated[list[str], operator.add] = field(default_factory=list)
    verdict: Verdict | None = None


@dataclass
class Job:
    diff: str
    reviewer: dict


def clip(diff: str) -> str:
    if len(diff) <= MAX_DIFF:
        return diff
    return diff[:MAX_DIFF] + "\n" + TOO_LONG.format(n=MAX_DIFF)


def review_one(job: Job, *, llm) -> dict:
    out: Findings = llm.with_structured_output(Findings, method="function_calling").invoke(
        [
            SystemMessage(HOUSE_RULES % job.reviewer["brief"]),
            HumanMessage(
                content=[{"type": "text", "text": "Diff under review:"}, {"type": "text", "text": clip(job.diff)}]
            ),
        ]
    )
    tag = job.reviewer["severity"]
    return {"findings": [f"[{tag}] l.{f.line}: {f.text}" for f in out.items]}


def fan_out(state: PR):
    if not state.diff.strip():
        return END
    return [Send("review_one", Job(diff=state.diff, reviewer=r)) for r in REVIEWERS]


def judge(state: PR, *, llm) -> dict:
    prompt = VERDICT_PROMPT.format(author=state.author, findings="\n".join(state.findings) or "No findings at all.")
    return {"verdict": llm.with_structured_output(Verdict).invoke(prompt)}


def create(fast: str = "gpt-4o-mini", strong: str = "o4-mini"):
    g = StateGraph(PR)
    reviewing = partial(review_one, llm=ChatOpenAI(model=fast))
    g.add_node("review_one", reviewing, input_schema=Job, retry_policy=RetryPolicy(max_attempts=2))
    g.add_node("judge", partial(judge, llm=ChatOpenAI(model=strong)))
    g.add_conditional_edges(START, fan_out, ["review_one", END])
    g.add_edge("review_one", "judge")
    g.add_edge("judge", END)
    return g.compile()


graph = create()

"""Reports made of values, without a run."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from selfwire.core.task import Feedback, Question
from selfwire.core.trajectory import Message
from selfwire.evals.statistics import IntervalEstimate
from selfwire.evals.table import make_task_row
from selfwire.extras.pages.data import (
    AgentCard,
    EditGroup,
    EditLine,
    Link,
    Place,
    RunReport,
    SpendLine,
    SystemLine,
    TeamVersion,
)
from selfwire.extras.pages.stored import StoredStep, StoredTool, StoredTrajectory

GAIN = IntervalEstimate(value=0.2, low=0.1, high=0.3, n=30)


def make_agent(name: str, prompt: str = "Work.") -> AgentCard:
    return AgentCard(id=name, role="works", kind="worker", prompt=prompt, tools=("search",), runs=2, calls=1, tokens=90)


def make_version(number: int, chain: Sequence[str], *, text: str = "Work.", accepted: bool = True) -> TeamVersion:
    links = tuple(Link(source=a, target=b, traffic=1) for a, b in pairwise(chain))
    edit = EditGroup(operation="REWRITE_PROMPT", by=chain[0], why=text, lines=(EditLine(sign="+", text=text),))
    return TeamVersion(
        number=number,
        label=f"Version {number}",
        ref=f"team@run.{number}",
        accepted=accepted if number else None,
        outcome=("accepted" if accepted else "rejected") if number else "",
        why=text,
        difference=GAIN if number else None,
        nodes={name: name for name in chain},
        links=links,
        entry=chain[0],
        sink=chain[-1],
        agents=tuple(make_agent(name, text if name == chain[0] else f"Work {number}.") for name in chain),
        edits=(edit,) if number else (),
    )


def make_trail(task: str, text: str = "Rome", *, score: float | None = 1.0, steps: int = 2) -> StoredTrajectory:
    heard = (Message(source="plan", target="answer", text=text),)
    tools = (StoredTool(name="search", arguments={"query": text}, result=text),)
    return StoredTrajectory(
        question=Question(id=task, input=f"Where? {text}"),
        workflow="",
        steps=tuple(
            StoredStep(node="plan", agent="plan", visit=place, inbox=heard, output=text, tools=tools, sent=heard)
            for place in range(steps)
        ),
        answer=None if score is None else text,
        error="the provider is down" if score is None else None,
        feedback=None if score is None else Feedback(score=score, solved=score == 1, text=text),
    )


def make_place(key: str, trails: Sequence[StoredTrajectory], version: int | None = 0) -> Place:
    iteration, phase, side = f"{key}/".split("/")[:3]
    return Place(
        key=key,
        title=f"phase {key}",
        row=key,
        split={"rollout": "train"}.get(phase, phase),
        iteration=int(iteration),
        side=side,
        version=version,
        outcomes=tuple(make_task_row(side, done.question, done, done.usage, "") for done in trails),
        trails=tuple(trails),
    )


def make_report(versions: Sequence[TeamVersion], places: Sequence[Place], text: str = "It got better.") -> RunReport:
    line = SystemLine(name="evolved team", score=GAIN, calls=3, tokens=900, tasks=30)
    return RunReport(
        run="run",
        title="method on tasks",
        verdict=text,
        standfirst=text,
        facts=(("model", text),),
        warning=text,
        versions=tuple(versions),
        systems=(line,),
        places=tuple(places),
        spend=(SpendLine(role="agents", what="test tasks", calls=3, tokens=900, dollars=None),),
    )


def restore_texts(packed: Any) -> Any:
    """A packed value with its texts, as `page.js` restores it."""

    def restore(part: Any) -> Any:
        if isinstance(part, list):
            return [restore(inside) for inside in part]
        if not isinstance(part, dict):
            return part
        return packed["texts"][part["$text"]] if "$text" in part else {key: restore(part[key]) for key in part}

    return restore(packed["value"])

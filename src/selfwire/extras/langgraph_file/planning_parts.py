"""Functions for the file of a team that is planned per question, as HERA does it; `hera` copies them."""

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from selfwire.core.text import excerpt
from selfwire.core.topology import compute_greedy_order
from selfwire.evolvers.hera.schemas import QueryProfile, TopologyPlan
from selfwire.evolvers.hera.steps import StepDraft, connect_ends, draft_steps, resolve_steps, sort_steps
from selfwire.evolvers.prompted_model import quote_once
from selfwire.evolvers.topology_ops import find_free_name
from selfwire.evolvers.trajectory_text import TASK_LENGTH
from selfwire.extras.langgraph_file.parts import ask_for, fill
from selfwire.models.embeddings import split_pieces


def drop_defaults(schema: dict[str, Any]) -> None:
    """Leave defaults out of a schema, which providers refuse; a reply without the field is valid all the same."""
    for field in schema["properties"].values():
        field.pop("default", None)


class PlainReply(BaseModel):
    """A reply with exactly these fields."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=drop_defaults)


class QuestionSort(TypedDict):
    """The sort of a question: its type, how difficult it is, and what it takes to answer such questions."""

    kind: str
    difficulty: str
    summary: str


class KnownInsight(NamedTuple):
    """A lesson of earlier runs on a sort of questions; its utility is the success rate of runs that were shown it."""

    kind: str
    summary: str
    utility: float
    text: str


class TeamStep(TypedDict):
    """A step of a team: its agent, the steps that it reads, and its level; the steps of a level run side by side."""

    name: str
    agent: str
    reads: list[str]
    level: int


def characterize_question(model: BaseChatModel, prompt: str, question: str) -> QuestionSort:
    """Ask what sort of question it is."""
    sections = quote_once({"task": excerpt(question, TASK_LENGTH).strip()})
    [found] = ask_for(model, QueryProfile, fill(prompt, **sections))
    if found is None:
        return QuestionSort(kind="other", difficulty="medium", summary="")
    summary = " ".join(found.summary.split())[:300]
    return QuestionSort(kind=found.query_type, difficulty=found.difficulty, summary=summary)


def plan_steps(
    model: BaseChatModel,
    prompt: str,
    question: str,
    sort: QuestionSort | None,
    insights: Sequence[KnownInsight],
    team: Mapping[str, str],
    most: int,
) -> TopologyPlan | None:
    """Ask who takes part, and who reads whose output; None where the reply is not valid.

    Args:
        sort: None where there are no insights to find by it.
        team: its agents, each with what it is for, and the tools that they hold, a line each.
        most: steps.
    """
    learned = [f"- ({insight.kind}, utility {insight.utility:.2f}) {insight.text}" for insight in insights]
    sections = {
        "task": question.strip(),
        "profile": f"{sort['kind']} question, {sort['difficulty']}. {sort['summary']}".strip() if sort else "",
        **team,
        "insights": "\n".join(learned),
        "limits": f"at most {most} steps",
    }
    [found] = ask_for(model, TopologyPlan, fill(prompt, **quote_once(sections)))
    return found


def repair_plan(
    plan: TopologyPlan | None,
    agents: Sequence[str],
    answering: Collection[str],
    default: Sequence[TeamStep],
    most: int,
) -> list[TeamStep]:
    """Make steps of a plan that can run, with one that begins and one that answers; by default those of `default`.

    Args:
        agents: that can be planned.
        answering: those of them that a plan may end with.
        most: steps.
    """
    repairs: list[str] = []
    known = resolve_steps(plan.execution_order, agents, repairs)[:most] if plan else []
    if not known:
        return [*default]
    first, last = default[0]["agent"], default[-1]["agent"]
    drafts = sort_steps(draft_steps(known, repairs), repairs)
    drafts = connect_ends(drafts, first, last, {last, *answering}, repairs)
    names: list[str] = []
    for draft in drafts:
        names.append(find_free_name(draft.agent, names))
    return level_steps(drafts, names)


def level_steps(drafts: Sequence[StepDraft], names: Sequence[str]) -> list[TeamStep]:
    """Group steps by levels: a step comes after all that it reads, and reads them level by level."""
    reads = {name: {names[source] for source in draft.after} for name, draft in zip(names, drafts, strict=True)}
    inner = names[1:-1]
    pairs = [(source, name) for name in inner for source in reads[name] if source in inner]
    order = [*dict.fromkeys((names[0], *compute_greedy_order(inner, pairs), names[-1]))]
    level: dict[str, int] = {}
    for name in order:
        level[name] = 1 + max((level[source] for source in reads[name]), default=-1)
    place = {name: (level[name], order.index(name)) for name in order}
    agents = {name: draft.agent for name, draft in zip(names, drafts, strict=True)}
    return [
        TeamStep(name=name, agent=agents[name], reads=sorted(reads[name], key=place.__getitem__), level=level[name])
        for name in sorted(order, key=place.__getitem__)
    ]


Embed = Callable[[list[str]], list[list[float]]]
SHOWN, SIMILAR, REDUNDANT = 5, 0.5, 0.85
"""Most insights in a plan's prompt, and similarities from which summaries count as alike and texts as the same."""


def select_insights(insights: Sequence[KnownInsight], sort: QuestionSort, embed: Embed) -> list[KnownInsight]:
    """Select the best insights from similar questions, none of which says the same as another.

    Args:
        insights: the best first.
    """
    close = compare_texts([sort["summary"], *(insight.summary for insight in insights)], embed)[0][1:]
    found = [
        insight
        for insight, cosine in zip(insights, close, strict=True)
        if insight.kind == sort["kind"] != "other" or cosine >= SIMILAR
    ]
    cosines = compare_texts([insight.text for insight in found], embed)
    taken: list[int] = []
    for index in range(len(found)):
        if len(taken) < SHOWN and all(cosines[index][other] < REDUNDANT for other in taken):
            taken.append(index)
    return [found[index] for index in taken]


def compare_texts(texts: list[str], embed: Embed) -> list[list[float]]:
    """Compute the cosine of each text with each; blank texts are like none."""
    known = [text for text in texts if text.strip()]
    vectors = dict(zip(known, embed(known) if known else [], strict=True))
    units = []
    for text in texts:
        row = vectors.get(text, [0.0])
        length = math.sqrt(math.fsum(number * number for number in row)) or 1.0
        units.append([number / length for number in row])
    return [
        [round(math.fsum(a * b for a, b in zip(left, right, strict=False)), 6) for right in units] for left in units
    ]


def embed_by_spelling(texts: list[str]) -> list[list[float]]:
    """Embed texts by their words and the three-letter pieces of these, hashed into 384 numbers."""
    return [_embed_spelling(text) for text in texts]


def _embed_spelling(text: str) -> list[float]:
    row = [0.0] * 384
    for piece, weight in split_pieces(text):
        number = int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=8).digest(), "little")
        row[(number >> 1) % len(row)] += weight if number & 1 else -weight
    return row

"""One reply of an offline agent: its skills step by step over what its messages say."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from selfwire.runtime.offline.general import FAMILY as GENERAL
from selfwire.runtime.offline.skills import Family, OfferedTool, SkillInput, SkillOutput, ToolResult
from selfwire.runtime.offline.vocabulary import active_skills, family_of, skill

_SENDER = re.compile(r"(?:^|\n\n)From ([^\n:]+):\n")
_STEPS = re.compile(r"^Steps: (.+)\.$", re.MULTILINE)


@dataclass(frozen=True)
class PlainMessage:
    """One message, whatever library it came from.

    Attributes:
        role: system, user, assistant or tool.
        text: its content.
        calls: the tool calls of an assistant, as (id, name, arguments).
        answers: id of the call that a tool's message answers.
    """

    role: str
    text: str
    calls: tuple[tuple[str, str, Mapping[str, Any]], ...] = ()
    answers: str = ""


@dataclass(frozen=True)
class Turn:
    """What the agent says, which tools it calls, and which skills it has."""

    text: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    skills: tuple[str, ...]


def work_on(
    messages: Sequence[PlainMessage], tools: Sequence[OfferedTool], random: Callable[[str], Random], error_rate: float
) -> Turn:
    """The next turn of the tool loop.

    Args:
        messages: the whole conversation.
        tools: what may be called.
        random: a generator per purpose, keyed by the messages.
        error_rate: share of steps that go wrong.
    """
    skills = active_skills("\n".join(said.text for said in messages if said.role == "system"))
    work = parse_request(messages, tools)
    family = family_of(work.task) or GENERAL
    used, pending = _steps(messages)
    written: list[str] = []
    todo = [*pending, *(name for name in skills if name not in used)]
    while (found := first_move(todo, family, work, random, error_rate)) is not None:
        name, move = found
        todo.remove(name)
        used = (*used, name)
        written.extend(move.notes)
        work = work.noted(*move.notes)
        if move.calls and name not in pending:
            return Turn(_shown(written, used), move.calls, skills)
    return Turn(family.answer(replace(work, rng=random("answer"))), (), skills)


def parse_request(messages: Sequence[PlainMessage], tools: Sequence[OfferedTool] = ()) -> SkillInput:
    """The messages taken apart: task, peers, notes and results of the current tool loop."""
    last = max((i for i, said in enumerate(messages) if said.role == "user"), default=-1)
    text = messages[last].text if last >= 0 else ""
    head, *rest = _SENDER.split(text)
    loop = messages[last + 1 :]
    calls = {call[0]: call for said in loop for call in said.calls}
    results = [
        ToolResult(calls[said.answers][1], calls[said.answers][2], said.text)
        for said in loop
        if said.role == "tool" and said.answers in calls
    ]
    notes = [_STEPS.sub("", said.text).strip() for said in loop if said.role == "assistant"]
    return SkillInput(
        task=head.removeprefix("Task:\n").strip(),
        peers=tuple(zip(rest[::2], rest[1::2], strict=True)),
        notes=tuple(note for note in notes if note),
        results=tuple(results),
        tools=tuple(tools),
    )


def _steps(messages: Sequence[PlainMessage]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Steps taken in this tool loop, and the one whose results have just come in."""
    last = max((i for i, said in enumerate(messages) if said.role == "user"), default=-1)
    used: tuple[str, ...] = ()
    for said in messages[last + 1 :]:
        if said.role == "assistant" and (found := _STEPS.search(said.text)):
            used = tuple(found[1].split(", "))
    return used, used[-1:]


def first_move(
    todo: Sequence[str], family: Family, work: SkillInput, random: Callable[[str], Random], error_rate: float
) -> tuple[str, SkillOutput] | None:
    """The first of the skills that has something to do, and its step; None if none has.

    Args:
        todo: names of skills.
        family: whose abilities they are; a skill that it has no use for makes a remark.
        work: what there is to work on.
        random: a generator per purpose.
        error_rate: share of steps that go wrong.
    """
    for name in todo:
        rng = random(f"step {name}")
        slip = rng.random() < error_rate
        move = _move(name, family, replace(work, rng=rng, slip=slip))
        if move is not None:
            return name, move
    return None


def _move(name: str, family: Family, work: SkillInput) -> SkillOutput | None:
    if name in family.abilities:
        return family.abilities[name](work)
    return SkillOutput(notes=(f"Remark: {skill(name).remark}",))


def _shown(notes: Sequence[str], used: Sequence[str]) -> str:
    return "\n".join([*(f"- {note}" for note in notes), f"Steps: {', '.join(used)}."])

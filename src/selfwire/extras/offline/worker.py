"""Reply of an offline agent: its skills, step by step, on the content of its messages."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from selfwire.extras.offline.critic_input import CriticInput
from selfwire.extras.offline.general import FAMILY as GENERAL
from selfwire.extras.offline.instructions import PART, Voice, find_instructions, join_instructions
from selfwire.extras.offline.proposals import propose_instruction
from selfwire.extras.offline.skills import PLACES, Family, OfferedTool, SkillInput, SkillOutput, ToolResult
from selfwire.extras.offline.tacomas import OPEN
from selfwire.extras.offline.vocabulary import active_skills, family_of, skill
from selfwire.nodes.agent import split_request

_SENDER = re.compile(r"(?:^|\n\n)From ([^\n:]+):\n")
_STEPS = re.compile(r"^Steps: (.+)\.$", re.MULTILINE)
CRITICISES = re.compile(r"\bdo not write (?:a new|an|the) answer\b|\bsay for each fault\b", re.IGNORECASE)
"""Asks a worker for criticism alone."""
DIRECTS = re.compile(r"\bdivide the work\b|\bwhat the members should (?:do|find out)\b", re.IGNORECASE)
"""Asks a worker to direct others, beside its own work."""
FINISHES = re.compile(r"\bnothing is left to do\b", re.IGNORECASE)
"""Asks who directs others for the answer alone once nothing is left to do."""
NO_FAULT, NOTHING_LEFT = "No fault found.", "Nothing is left to do."


@dataclass(frozen=True)
class PlainMessage:
    """A message of system, user, assistant or tool; calls are (id, name, arguments), a result `answers` an id."""

    role: str
    text: str
    calls: tuple[tuple[str, str, Mapping[str, Any]], ...] = ()
    answers: str = ""


@dataclass(frozen=True)
class OfflineTurn:
    """The text of an agent's turn, its tool calls, and the agent's skills."""

    text: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    skills: tuple[str, ...]


def work_on(
    messages: Sequence[PlainMessage],
    tools: Sequence[OfferedTool],
    random: Callable[[str], Random],
    error_rate: float,
    critic_error_rate: float = 0.0,
    voice: Voice = "all",
) -> OfflineTurn:
    """The next turn of the tool loop, in which skills stay the same.

    Args:
        random: gives a generator per purpose.
        error_rate: share of wrong steps.
        critic_error_rate: share of wrong advice, where its standing instructions ask for criticism or direction.
    """
    last = _find_request(messages)
    if last >= 0 and (proposed := propose_instruction(messages[last].text, random, critic_error_rate)) is not None:
        return OfflineTurn(proposed, (), ())
    request = _read_request(messages[last].text if last >= 0 else "")
    system = "\n".join([*(message.text for message in messages if message.role == "system"), request.role])
    work = _parse_work(request, messages[last + 1 :], tools)
    skills = active_skills(join_instructions(system, find_instructions(request.head, work.peers), voice))
    family = family_of(work.task) or GENERAL
    if CRITICISES.search(system):
        return OfflineTurn("\n".join(_advise(work, random, critic_error_rate)) or NO_FAULT, (), ())
    turn = _work(messages, skills, work, family, random, error_rate)
    if DIRECTS.search(system) and not turn.calls:
        advice = "\n".join(_advise(work, random, critic_error_rate))
        answer = "\n".join(line for line in turn.text.split("\n") if not line.startswith("-")).strip()
        if work.peers and not advice and answer and FINISHES.search(system) and not OPEN.search(answer):
            return replace(turn, text=f"{NOTHING_LEFT}\n\n{answer}")
        return replace(turn, text=f"{advice}\n\n{turn.text}".strip())
    return turn


def _advise(work: SkillInput, random: Callable[[str], Random], error_rate: float) -> list[str]:
    """Instructions for steps that the work of others does not show, as critics with a schema give them."""
    trace = "\n".join(text for _, text in work.peers)
    brief = CriticInput({"task": work.task, "trace": trace}, random, error_rate)
    return [brief.phrase(skill) for skill in brief.missing[:PLACES]]


def _work(
    messages: Sequence[PlainMessage],
    skills: tuple[str, ...],
    work: SkillInput,
    family: Family,
    random: Callable[[str], Random],
    error_rate: float,
) -> OfflineTurn:
    used, pending = _steps(messages)
    written: list[str] = []
    todo = [*pending, *(name for name in skills if name not in used)]
    while (found := first_move(todo, family, work, random, error_rate)) is not None:
        name, move = found
        todo.remove(name)
        used = (*used, name)
        written.extend(move.notes)
        work = work.with_notes(*move.notes)
        if move.calls and name not in pending:
            text = "\n".join([*(f"- {note}" for note in written), f"Steps: {', '.join(used)}."])
            return OfflineTurn(text, move.calls, skills)
    return OfflineTurn(family.answer(replace(work, rng=random("answer"))), (), skills)


def _parse_work(request: "_HeardRequest", loop: Sequence[PlainMessage], tools: Sequence[OfferedTool]) -> SkillInput:
    """Parse task, peers, notes and results of the current tool loop, whose messages follow the request."""
    calls = {call[0]: call for message in loop for call in message.calls}
    results = [
        ToolResult(calls[message.answers][1], calls[message.answers][2], message.text)
        for message in loop
        if message.role == "tool" and message.answers in calls
    ]
    notes = [_STEPS.sub("", message.text).strip() for message in loop if message.role == "assistant"]
    return SkillInput(
        task=PART.sub("", request.head).strip(),
        part=found[1].strip() if (found := PART.search(request.head)) else "",
        peers=request.peers,
        notes=tuple(note for note in notes if note),
        results=tuple(results),
        tools=tuple(tools),
    )


class _HeardRequest(NamedTuple):
    """A user's message: task with the reader's part of it, the reader's standing instructions, messages by sender."""

    head: str
    role: str
    peers: tuple[tuple[str, str], ...]


def _read_request(text: str) -> _HeardRequest:
    if found := split_request(text):
        head, role, (_, *rest) = found.task, found.instructions, _SENDER.split(found.sent)
    else:
        role, (head, *rest) = "", _SENDER.split(text)
    return _HeardRequest(head.removeprefix("Task:\n"), role, tuple(zip(rest[::2], rest[1::2], strict=True)))


def _find_request(messages: Sequence[PlainMessage]) -> int:
    """The place of the last message of the user; -1 if there is none."""
    return max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)


def _steps(messages: Sequence[PlainMessage]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    used: tuple[str, ...] = ()
    for message in messages[_find_request(messages) + 1 :]:
        if message.role == "assistant" and (found := _STEPS.search(message.text)):
            used = tuple(found[1].split(", "))
    return used, used[-1:]


def first_move(
    todo: Sequence[str], family: Family, work: SkillInput, random: Callable[[str], Random], error_rate: float
) -> tuple[str, SkillOutput] | None:
    """The first skill that can do something, and its step; a skill that the family does not use makes a remark."""
    for name in todo:
        rng = random(f"step {name}")
        slip = rng.random() < error_rate
        if name not in family.abilities:
            return name, SkillOutput(notes=(f"Remark: {skill(name).remark}",))
        if move := family.abilities[name](replace(work, rng=rng, slip=slip)):
            return name, move
    return None

"""Members of a team that works in rounds: each reply holds work, what it needs and what it can give.

A worker's skills come from its instructions; one reply is one step of each. Its needs are the steps of which its notes
show no sign, with what is still open; its offers are its skills, with what they found. Who is told to ask for single
facts, and to offer those that others ask for, names them by the questions that they answer. A manager reads the public
messages only.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from selfwire.extras.offline.critic_input import CriticInput
from selfwire.extras.offline.instructions import join_instructions
from selfwire.extras.offline.skills import CriticView, OfferedTool, SkillInput, ToolResult
from selfwire.extras.offline.vocabulary import active_skills
from selfwire.extras.offline.worker import first_move

WORDINGS: Mapping[str, Mapping[str, Sequence[str]]] = tomllib.loads(
    (files(__package__) / "needs.toml").read_text("utf-8")
)
"""Openings of needs and of offers by skill; the two share no words that carry meaning."""
GIVES = {
    "look up": "passages brought up by a search",
    "read": "facts out of passages",
    "split": "simple parts of the question",
    "compare": "which of two values is larger",
    "intersect": "names on both lists",
    "overlap": "years that two periods share",
    "count": "how many different names there are",
    "plan": "recipes chosen level by level",
    "inventory": "what the stock lacks",
    "act": "moves with slots",
    "feasibility": "a ruling whether it is possible at all",
}
"""The result of a skill in words; other skills go by their names."""
NOTHING_NEW = "Nothing new from me in this round."
NAMED = 16
"""Words of the thing that a need or an offer names."""

BY_FACT = re.compile(r"\bask for one missing fact\b[^.]*\boffer the fact that others ask for\b", re.IGNORECASE)
"""Asks a worker to name facts in its needs and offers."""

_ENTRY = re.compile(r"(?:^|\n\n)\[(?:(You|Your answer so far)|From ([^\],]+)|Result of ([^\],]+)), round (\d+)\]\n")
_ARGUMENT = re.compile(r"^(\w+): (.+)$", re.MULTILINE)
_UNSETTLED = re.compile(r"Answer: unknown$|^(?:- .*|Nothing is known yet\.)$")


def member(brief: CriticInput) -> dict[str, Any]:
    """Play a worker for a round: a step of each of its skills on its memory."""
    skills = active_skills(join_instructions(brief["role"], brief["goal"], brief.voice))
    work = parse_round(brief)
    work, notes, calls = _work(brief, work, skills)
    text = brief.family.answer(replace(work, rng=brief.random("answer")))
    return {
        "public": "\n".join(f"- {note}" for note in notes) or NOTHING_NEW,
        "private": text if work.lines else "",
        "query": _need(brief, work, skills),
        "key": _offer(brief, work, skills),
        "answer": text,
        "verdict": _verdict(brief, work),
        "calls": [{"tool": name, "arguments": json.dumps(dict(given))} for name, given in calls],
    }


def manager(brief: CriticInput) -> dict[str, Any]:
    """Stop when an answer seems to leave nothing open; else name a missing step."""
    given = re.findall(
        r"^Its answer: (.+?)(?=\n\n\[|\nIts (?:verdict|need|offer):|\Z)", brief["trace"], re.DOTALL | re.MULTILINE
    )
    settled = any(not _UNSETTLED.search(text.strip().split("\n")[-1]) for text in given)
    if brief.errs("halt", share=0.5):
        settled = not settled
    missing = brief.missing[:1]
    goal = f"A step is missing. {brief.phrase(missing[0])}" if missing else "Settle what is open and give the answer."
    state = "An answer stands." if settled else "There is no settled answer yet."
    return {"is_complete": settled, "next_goal": goal, "speakers": [], "public": state}


def parse_round(brief: CriticInput) -> SkillInput:
    """Parse the sections of a worker's prompt; the results are those of the round before."""
    parts = _ENTRY.split(brief["memory"])[1:]
    entries = [parts[at : at + 5] for at in range(0, len(parts), 5)]
    latest = max((int(number) for *_, number, _ in entries), default=0)
    return SkillInput(
        task=brief["task"],
        peers=tuple((name, text) for _, name, _, _, text in entries if name),
        notes=tuple(text for own, _, _, _, text in entries if own),
        results=tuple(_result(tool, text) for _, _, tool, at, text in entries if tool and int(at) == latest),
        tools=tuple(_tools(brief["tools"])),
    )


def _work(
    brief: CriticInput, work: SkillInput, skills: Sequence[str]
) -> tuple[SkillInput, list[str], list[tuple[str, Any]]]:
    todo, notes, calls = list(skills), list[str](), list[tuple[str, Any]]()
    while (found := first_move(todo, brief.family, work, brief.random, brief.slip_rate)) is not None:
        name, move = found
        todo.remove(name)
        fresh = [note for note in move.notes if note not in work.lines]
        notes += fresh
        calls += move.calls
        work = work.with_notes(*fresh)
    return work, notes, calls


def _need(brief: CriticInput, work: SkillInput, skills: Sequence[str]) -> str:
    missing = list(brief.family.missing(CriticView(task=work.task, trace="\n".join(work.lines))))
    if missing and brief.errs("need", share=0.5):
        missing[0] = brief.any_skill("need")
    elif BY_FACT.search(brief["role"]) and (named := brief.family.unanswered(work)):
        return f"{_word(brief, 'needs', 'read')} {named[0]}"
    wanted = [name for name in missing if name not in skills][:1]
    return " ".join(f"{_word(brief, 'needs', name)} {_name_thing(work.task)}" for name in wanted)


def _offer(brief: CriticInput, work: SkillInput, skills: Sequence[str]) -> str:
    latest = next((line for line in reversed(work.lines) if line != NOTHING_NEW and line in "\n".join(work.notes)), "")
    if BY_FACT.search(brief["role"]):
        facts = [line for line in work.lines if line.startswith("Fact: ")]
        latest = next((fact for fact in facts if _find_asked(fact) in brief["needs"]), latest)
    if not latest:
        return ""
    return f"{_word(brief, 'offers', skills[0])} {_name_thing(latest)}"


def _find_asked(fact: str) -> str:
    """The question that a fact answers."""
    return fact.removeprefix("Fact: ").partition(" = ")[0]


def _word(brief: CriticInput, what: str, skill: str) -> str:
    texts = WORDINGS.get(skill.replace(" ", "_"), {}).get(what)
    return brief.pick(f"{what} {skill}", texts) if texts else f"{skill}:"


def _name_thing(text: str) -> str:
    """The first words of what a need or an offer is about."""
    line = text.strip().removeprefix("- ").split("\n")[0]
    return " ".join(line.split()[:NAMED])


def _verdict(brief: CriticInput, work: SkillInput) -> str:
    """Pass a message that shows no gap; whether it is true is not checked."""
    missing = brief.family.missing(CriticView(task=work.task, trace="\n".join(work.lines)))
    word = "open" if not work.peers or missing else "pass"
    return "fail" if brief.errs("verdict", share=0.5) else word


def _result(tool: str, text: str) -> ToolResult:
    given, _, result = text.partition("It gave:\n")
    return ToolResult(tool, dict(_ARGUMENT.findall(given)), result)


def _tools(text: str) -> list[OfferedTool]:
    found = []
    for line in text.split("\n"):
        head, cue, inputs = line.partition(" Input: ")
        name, _, description = head.partition(": ")
        if cue:
            found.append(OfferedTool(name, description, {"properties": _object(inputs)}))
    return found


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}

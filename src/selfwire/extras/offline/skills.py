"""Skills of the offline model: how an instruction activates one, and one step of work.

A `Skill` is an entry of the vocabulary for all families of tasks. A `Family` lists the skills that are useful for its
tasks; every other skill still takes a place when it is active, and writes notes.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from selfwire.core.values import FrozenModel

PLACES = 2
"""How many skills an agent has; a third one is ignored."""

FILLERS = ("look up", "read")
"""Skills that fill free places, in this order."""

_NEGATED = re.compile(r"\b(?:not|never|don't|without|avoid|instead of|rather than|no need to)\s+(?:\w+\s+){0,2}$", re.I)


class Skill(FrozenModel):
    """An entry of the vocabulary.

    Args:
        patterns: regular expressions, case ignored; a match in an instruction activates the skill
            unless a negation stands right before it.
        remark: its note for families that do not use it.
    """

    name: str
    patterns: tuple[str, ...]
    remark: str = ""

    def first_match(self, text: str) -> int | None:
        """The position of the first instruction for this skill in a text; None if there is none."""
        starts = (
            match.start()
            for pattern in self.patterns
            for match in re.finditer(pattern, text, re.IGNORECASE)
            if not _NEGATED.search(text[max(0, match.start() - 60) : match.start()])
        )
        return min(starts, default=None)


@dataclass(frozen=True)
class OfferedTool:
    """A tool as the model sees it; `parameters` is the JSON schema of its input."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class ToolResult:
    """A tool call of this tool loop and its result."""

    name: str
    arguments: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class SkillInput:
    """The input of a skill: the parsed messages, and nothing else.

    Attributes:
        peers: (sender, text) of the instructions and messages of others, in order.
        notes: lines written by this agent in this tool loop, oldest first.
        results: tool results of this tool loop, in order.
        rng: the only randomness.
        slip: whether this step goes wrong in a plausible way (drawn at the model's error rate).
        part: the reader's part of the task, where it has one.
    """

    task: str
    peers: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    results: tuple[ToolResult, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    slip: bool = False
    part: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines by others and then by this agent, without bullets."""
        return _lines((*(text for _, text in self.peers), *self.notes))

    def tool(self, words: str) -> OfferedTool | None:
        """The first offered tool whose name or description matches a regular expression."""
        return next((t for t in self.tools if re.search(words, f"{t.name} {t.description}", re.IGNORECASE)), None)

    def with_notes(self, *notes: str) -> "SkillInput":
        """The input with further notes."""
        return replace(self, notes=(*self.notes, *notes))


@lru_cache(maxsize=256)
def _lines(texts: tuple[str, ...]) -> tuple[str, ...]:
    found = [line.strip().removeprefix("- ").strip() for text in texts for line in text.split("\n")]
    return tuple(line for line in found if line)


@dataclass(frozen=True)
class SkillOutput:
    """The result of one step of work: notes to write, and tool calls as (name, arguments)."""

    notes: tuple[str, ...] = ()
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


Ability = Callable[[SkillInput], SkillOutput | None]
"""One step of a skill; None: it can do nothing now.

Each ability of an agent is used once per tool loop, as soon as it can do something. One that returns calls is used
once more when `work.results` has their results, to write its notes; further calls are then dropped.
"""


@dataclass(frozen=True)
class CriticView:
    """A run as a critic sees it: sections of its prompt, as text."""

    task: str = ""
    trace: str = ""
    feedback: str = ""
    role: str = ""
    tools: str = ""


@dataclass(frozen=True)
class Family:
    """A family of tasks that the offline model knows.

    Attributes:
        recognises: whether a task's text is of this family.
        abilities: the useful skills of the family by name.
        answer: writes the final text from all notes; it takes no place.
        missing: names of the skills whose absence the evidence shows, the most plausible first; critics
            use nothing else. It looks at symptoms only and never solves the task.
        unanswered: questions that the work asks by name and that its notes do not answer yet.
        concepts: concepts of a task, the main one first, then what it needs.
        join: the answer that several findings give together; "" where the last one is the answer.
        needs: regular expression for names and descriptions of tools that such tasks need.
        parallel: how far the parts of a task can be worked on in parallel, in [0, 1].
    """

    name: str
    recognises: Callable[[str], bool]
    abilities: Mapping[str, Ability]
    answer: Callable[[SkillInput], str]
    missing: Callable[[CriticView], tuple[str, ...]]
    concepts: Callable[[str], tuple[str, ...]]
    unanswered: Callable[[SkillInput], Sequence[str]] = lambda work: ()
    join: Callable[[str], str] = lambda findings: ""
    needs: str = r"(?!)"
    parallel: Callable[[str], float] = lambda task: 0.5


def find_instructed_skills(text: str, vocabulary: Sequence[Skill]) -> tuple[str, ...]:
    """Names of all skills that a text asks for, in order of appearance."""
    found = [(at, skill.name) for skill in vocabulary if (at := skill.first_match(text)) is not None]
    return tuple(name for _, name in sorted(found))


def choose_opening_skills(names: Sequence[str]) -> tuple[str, ...]:
    """At most two skills: the first instructed ones, then look-up and read in free places."""
    taken = list(names[:PLACES])
    for filler in FILLERS:
        if len(taken) < PLACES and filler not in taken:
            taken.append(filler)
    return tuple(taken)

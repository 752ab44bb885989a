"""What the offline model can do: skills, how an instruction switches one on, and one step of work.

A `Skill` is an entry of the one vocabulary that serves all families of tasks. A `Family` says which skills
do something useful for its tasks; every other skill still occupies a place when it is active, and writes notes.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from selfwire.core.values import FrozenModel

PLACES = 2
"""How many skills an agent has; a later third is ignored."""

FILLERS = ("look up", "read")
"""What unfilled places go to, in this order."""

_NEGATED = re.compile(r"\b(?:not|never|don't|without|avoid|instead of|rather than|no need to)\s+(?:\w+\s+){0,2}$", re.I)


class Skill(FrozenModel):
    """An entry of the vocabulary.

    Args:
        name: what the skill is called.
        patterns: regular expressions, case ignored; a match in a system message switches the skill on
            unless a negation stands right before it.
        remark: the note that it writes for a family that has no use for it.
    """

    name: str
    patterns: tuple[str, ...]
    remark: str = ""

    def first_match(self, text: str) -> int | None:
        """Where an instruction for this skill first stands in the text; None if nowhere."""
        starts = (
            match.start()
            for pattern in self.patterns
            for match in re.finditer(pattern, text, re.IGNORECASE)
            if not _NEGATED.search(text[max(0, match.start() - 60) : match.start()])
        )
        return min(starts, default=None)


@dataclass(frozen=True)
class OfferedTool:
    """A tool as the model is told of it; `parameters` is the JSON schema of its input object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class ToolResult:
    """A tool call of this tool loop and what came back."""

    name: str
    arguments: Mapping[str, Any]
    text: str


@dataclass(frozen=True)
class SkillInput:
    """What a skill works on: the messages taken apart, and nothing else.

    Attributes:
        task: the text of the task.
        peers: (sender, text) of the instructions and messages of others, in order.
        notes: lines written by this agent in this tool loop, oldest first.
        results: tool results of this tool loop, in order.
        tools: tools that are offered now.
        rng: the only randomness.
        slip: this step shall go wrong in a plausible way (drawn at the model's error rate).
    """

    task: str
    peers: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    results: tuple[ToolResult, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    slip: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """Every line that others and this agent wrote, others first, bullets taken off."""
        return _lines((*(text for _, text in self.peers), *self.notes))

    def tool(self, words: str) -> OfferedTool | None:
        """The first offered tool whose name or description matches a regular expression."""
        return next((t for t in self.tools if re.search(words, f"{t.name} {t.description}", re.IGNORECASE)), None)

    def noted(self, *notes: str) -> "SkillInput":
        """The work with further notes."""
        return replace(self, notes=(*self.notes, *notes))


@lru_cache(maxsize=256)
def _lines(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Looked at several times in every step, so taken apart once."""
    found = [line.strip().removeprefix("- ").strip() for text in texts for line in text.split("\n")]
    return tuple(line for line in found if line)


@dataclass(frozen=True)
class SkillOutput:
    """What one step of work came to: notes to write, and tool calls as (name, arguments)."""

    notes: tuple[str, ...] = ()
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


Ability = Callable[[SkillInput], SkillOutput | None]
"""One step of a skill; None: there is nothing to do for it now.

Each ability of an agent is used once per tool loop, as soon as it has something to do. One that returns
calls is asked once more when `work.results` has them, to write its notes; calls are then dropped.
"""


@dataclass(frozen=True)
class CriticView:
    """What a critic may see of a run: the prompt's own sections, as text."""

    task: str = ""
    trace: str = ""
    feedback: str = ""
    role: str = ""
    tools: str = ""


@dataclass(frozen=True)
class Family:
    """A family of tasks that the offline model knows.

    Attributes:
        name: what it is called.
        recognises: whether a task's text is of this family.
        abilities: the useful skills of the family by name.
        answer: writes the final text out of all notes; free, no place is needed.
        missing: names of the skills whose absence shows in the evidence, the most plausible first; the
            critics read nothing else. It looks at symptoms only and never solves the task.
        concepts: names of what such a task is about, main concept first, then what it needs.
        needs: expression on names and descriptions of tools that such tasks cannot be solved without.
        parallel: how far the parts of a task can be worked on side by side, in [0, 1].
    """

    name: str
    recognises: Callable[[str], bool]
    abilities: Mapping[str, Ability]
    answer: Callable[[SkillInput], str]
    missing: Callable[[CriticView], tuple[str, ...]]
    concepts: Callable[[str], tuple[str, ...]]
    needs: str = r"(?!)"
    parallel: Callable[[str], float] = lambda task: 0.5


def find_instructed_skills(text: str, vocabulary: Sequence[Skill]) -> tuple[str, ...]:
    """Names of all skills that a text asks for, in order of appearance."""
    found = [(at, skill.name) for skill in vocabulary if (at := skill.first_match(text)) is not None]
    return tuple(name for _, name in sorted(found))


def choose_opening_skills(names: Sequence[str]) -> tuple[str, ...]:
    """At most two skills: the first ones instructed, then look-up and read in unfilled places."""
    taken = list(names[:PLACES])
    for filler in FILLERS:
        if len(taken) < PLACES and filler not in taken:
            taken.append(filler)
    return tuple(taken)

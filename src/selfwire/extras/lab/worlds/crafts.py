"""Replies of agents, critics and orchestrators in a world without a language model, made of their prompts alone.

A task needs some skills. An agent has the first skill that its prompt names, hands on what it is handed, and adds a
line on its own part. On some tasks a part has to be checked for something; an agent whose prompt does not ask for that
check gets its part done with a slip, which its line shows. What an answer lacks stands in the feedback on it.

Whoever judges or coaches reads the prompt of the method as a model would, and is right with a given probability.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.usage import Usage
from selfwire.nodes.agent import split_request

SKILLS = ("locate", "extract", "convert", "compare", "verify", "translate", "count")
CHECKS = (
    "units dates names signs sums pages titles scales labels prices places ranks "
    "codes colours weights lengths angles ages hours rates causes quotes tables notes"
).split()
"""What a part of the work may have to be checked for."""
ANSWERER = "You give the answer."
PARTIAL = 0.4
"""The score of an answer in which every part is done, and one of them with a slip."""
TOKEN = 4
"""Characters of a token."""


Needs = Mapping[str, str]
"""The check that each part of a task must not go without, by skill."""


def draw_needs(
    random: np.random.Generator, questions: Sequence[Question], checks: Mapping[str, str], share: float
) -> dict[str, Needs]:
    """Draw the checks that each question's parts need, by id; `checks` are those of the skills."""
    drawn = random.random((len(questions), len(checks))) < share
    return {
        question.id: {skill: check for (skill, check), needed in zip(checks.items(), row, strict=True) if needed}
        for question, row in zip(questions, drawn, strict=True)
    }


def describe_skill(skill: str) -> str:
    """A prompt that gives an agent a skill."""
    return f"You {skill} what you are handed."


def describe_check(check: str) -> str:
    """An instruction that keeps an agent from a slip."""
    return f"Check the {check}."


def find_skills(text: str) -> list[str]:
    """The skills that a text names, in order."""
    return [word for word in re.findall(r"[a-z]+", text.lower()) if word in SKILLS]


def find_slips(text: str) -> list[str]:
    """Checks that a text says are off, in order."""
    return [check for check in re.findall(r"the (\w+) are off", text) if check in CHECKS]


def work(prompt: str, handed: str, needs: Needs, after: Mapping[str, Sequence[str]] | None = None) -> str:
    """An agent's output: what it was handed, and a line on its own part.

    Args:
        after: the parts on which each part builds; it cannot do without them, and any other spoils it. None lets
            everybody work in any place.
    """
    lines = list(dict.fromkeys(line for line in handed.splitlines() if re.match(r"\w+: (done|spoiled)", line)))
    named = [skill for skill in find_skills(prompt) if describe_skill(skill) in prompt]
    there = {line.partition(":")[0] for line in lines}
    if named and named[0] not in there:
        lines += _do_part(named[0], prompt, there, needs, after)
    return "\n".join(lines) or "nothing done"


def _do_part(
    skill: str, prompt: str, there: set[str], needs: Needs, after: Mapping[str, Sequence[str]] | None
) -> list[str]:
    before = there if after is None else set(after.get(skill, SKILLS))
    if not before <= there:
        return []
    if not there <= before:
        return [f"{skill}: spoiled"]
    check = needs.get(skill, "")
    slip = f", but the {check} are off" if check and describe_check(check) not in prompt else ""
    return [f"{skill}: done{slip}"]


def grade(answer: str, parts: Sequence[str]) -> Feedback:
    """Score of an answer whose parts have to be done in this order, and its faults."""
    lines = {line.partition(":")[0]: line for line in answer.splitlines()}
    left = list(parts)
    for skill in lines:
        left = left[1:] if left and left[0] == skill else left
    if left:
        return Feedback(score=0.0, solved=False, text=f"Nobody was there to {left[0]} it in its turn.")
    if slips := find_slips("\n".join(lines[skill] for skill in parts)):
        return Feedback(score=PARTIAL, solved=False, text=f"In detail the {slips[0]} are off.")
    return Feedback(score=1.0, solved=True, text="Right.")


@dataclass(frozen=True)
class Reading:
    """Skills in a prompt, and the luck of the agent that reads it.

    Attributes:
        sections: the texts inside the tags.
        warm: whether the model is asked above temperature 0.
        right: whether it reads rightly this time.
    """

    sections: Mapping[str, str]
    random: np.random.Generator
    warm: bool
    right: bool

    def draw(self, options: Sequence[str]) -> str:
        """Draw one of the texts."""
        return options[int(self.random.integers(len(options)))]


Reader = Callable[[Reading], dict[str, Any]]
"""Fills a schema."""


@dataclass
class ScriptedModel:
    """A model whose agents work and whose critics read.

    Attributes:
        script: by schema.
        work: an agent's output, by its prompt, what it was handed and the task's id.
        right: probability that a critic reads rightly.
        blind: schemas that are filled by chance.
        calls: so far.
    """

    script: Mapping[str, Reader]
    work: Callable[[str, str, str], str]
    right: float
    blind: frozenset[str] = frozenset()
    calls: int = 0

    async def generate(self, messages: Sequence[ChatMessage], *, scope: Scope, **_: Any) -> Reply:
        """An agent's work."""
        request = split_request(messages[-1].content)
        assert request is not None, "agents of a team are asked so"
        return Reply(content=self.work(request.instructions, request.sent, scope.task), usage=self._count(messages))

    async def generate_structured(
        self,
        schema: type[Schema],
        messages: Sequence[ChatMessage],
        *,
        scope: Scope,
        temperature: float | None = None,
        **_: Any,
    ) -> tuple[Schema, Usage]:
        """Reply to the prompt as the script says."""
        name, random = schema.__name__, scope.random(schema.__name__)
        found = re.findall(r"^<(\w+)>\n(.*?)\n</\1>", messages[-1].content, re.DOTALL | re.MULTILINE)
        right = name not in self.blind and bool(random.random() < self.right)
        filled = self.script[name](Reading(dict(found), random, bool(temperature), right))
        return schema.model_validate(filled), self._count(messages)

    def _count(self, messages: Sequence[ChatMessage]) -> Usage:
        self.calls += 1
        return Usage(calls=1, input_tokens=sum(len(message.content) for message in messages) // TOKEN)

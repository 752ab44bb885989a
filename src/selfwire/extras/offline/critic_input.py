"""The input of a critic: the sections of its prompt, and how often it errs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from selfwire.evals.instructions import paraphrases
from selfwire.extras.offline.general import FAMILY as GENERAL
from selfwire.extras.offline.instructions import Voice
from selfwire.extras.offline.skills import CriticView, Family
from selfwire.extras.offline.vocabulary import FED_BACK, VOCABULARY, family_of

INSTRUCTIONS = paraphrases()  # a server that is asked must not wait for a file


@dataclass(frozen=True)
class CriticInput:
    """The tagged sections of a critic's prompt, and how often it errs; `random` gives a generator per purpose.

    A critic that works itself has its skills from the instructions that its voice lets it hear, and its steps go wrong
    at the slip rate.
    """

    sections: Mapping[str, str]
    random: Callable[[str], Random]
    error_rate: float
    system: str = ""
    slip_rate: float = 0.0
    voice: Voice = "all"

    def __getitem__(self, section: str) -> str:
        return self.sections.get(section, "")

    def errs(self, purpose: str, share: float = 1.0) -> bool:
        """Whether this judgement is wrong."""
        return self.random(f"errs {purpose}").random() < self.error_rate * share

    def pick(self, purpose: str, options: Sequence[str]) -> str:
        """Draw one of the options."""
        return self.random(f"pick {purpose}").choice(list(options))

    def chance(self, purpose: str, probability: float) -> bool:
        """True with this probability."""
        return self.random(f"chance {purpose}").random() < probability

    @property
    def family(self) -> Family:
        """The family of the task in the prompt."""
        return family_of(self["task"]) or GENERAL

    @property
    def missing(self) -> tuple[str, ...]:
        """Skills of which the run shows no sign; at the error rate the first is replaced by any other."""
        shown = "\n".join((self["trace"], self["answer"]))
        evidence = CriticView(self["task"], shown, self["feedback"], self["role"], self["tools"])
        found = self.family.missing(evidence)
        return (self.any_skill("missing"), *found[1:]) if self.errs("missing") else found

    def any_skill(self, purpose: str) -> str:
        """Any skill of the vocabulary that need not be learned from feedback, even a useless one."""
        return self.pick(f"any {purpose}", [skill.name for skill in VOCABULARY if skill.name not in FED_BACK])

    def phrase(self, skill: str) -> str:
        """An instruction for the skill, in one of several wordings."""
        return self.pick(f"wording {skill}", INSTRUCTIONS.get(skill, (skill,)))


Critic = Callable[[CriticInput], dict[str, Any]]

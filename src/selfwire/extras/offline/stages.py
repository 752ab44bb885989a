"""Stages: a clerk stamps the file of the matter that is its part, by the rule in its instructions.

A step of such a task is a matter, and it is missing until its file bears a stamp, whichever it is: who is right for a
matter is told by the score alone.
"""

import re
from collections.abc import Callable, Mapping

from selfwire.extras.offline.skills import Ability, CriticView, Family, SkillInput, SkillOutput

_MATTER = re.compile(r"^Matter (\d), file (\d+) of ([^:\n]+): (.+)$", re.MULTILINE)
_STAMP = re.compile(r"^Stamp of matter (\d): (\S+)$", re.MULTILINE)
_RULES: Mapping[str, Callable[[str, str], str]] = {
    "mirror": lambda number, person: number[::-1],
    "digit sum": lambda number, person: str(sum(map(int, number))),
    "initials": lambda number, person: "".join(word[0] for word in person.split()),
}


def _name_step(number: str, text: str) -> str:
    return f"Settle matter {number}: {text}"


def _make_ability(rule: str) -> Ability:
    def stamp(work: SkillInput) -> SkillOutput | None:
        for number, file, person, text in _MATTER.findall(work.task):
            if _name_step(number, text) == work.part:
                made = _RULES[rule](file, person)
                return SkillOutput(notes=(f"Stamp of matter {number}: {made[:-1] or '0' if work.slip else made}",))
        return None

    return stamp


def join_stamps(text: str) -> str:
    """The answer that all stamps in a text give; of a file with several the first counts."""
    stamps = dict[str, str]()
    for number, stamp in _STAMP.findall(text):
        stamps.setdefault(number, stamp)
    return f"Answer: {', '.join(stamps.get(number, '-') for number in '123')}" if stamps else ""


def answer(work: SkillInput) -> str:
    """The stamp of the matter that is this agent's part; without a part the answer, of all stamps that it has read."""
    if work.part:
        return "\n".join(work.notes)
    return "\n".join([*work.notes, join_stamps("\n".join(work.lines)) or "Answer: unknown"])


def missing(evidence: CriticView) -> tuple[str, ...]:
    """The matters whose files bear no stamp."""
    stamped = {number for number, _ in _STAMP.findall(evidence.trace)}
    return tuple(
        _name_step(number, text) for number, *_, text in _MATTER.findall(evidence.task) if number not in stamped
    )


FAMILY = Family(
    name="stages",
    recognises=lambda task: len(_MATTER.findall(task)) == 3,
    abilities={rule: _make_ability(rule) for rule in _RULES},
    answer=answer,
    missing=missing,
    concepts=lambda task: ("office matter", "stamp"),
    join=join_stamps,
    parallel=lambda task: 0.8,
)

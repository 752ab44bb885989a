"""Tasks that one call of a named tool settles: the offline model calls it with the numbers of the task."""

import re

from selfwire.extras.offline.skills import CriticView, Family, SkillInput, SkillOutput

NAMED = re.compile(r"Use the tool (\w+)\.")
_GIVEN = re.compile(r"(\w+) = (-?\d+)")
_RESULT = "Result: "


def call(work: SkillInput) -> SkillOutput | None:
    """Call the tool that the task names, or note its result; a slip takes a number that is off by one."""
    if work.results:
        return SkillOutput(notes=tuple(f"{_RESULT}{' '.join(result.text.split())}" for result in work.results))
    named = NAMED.search(work.task)
    tool = next((offered for offered in work.tools if named and offered.name == named[1]), None)
    if tool is None:
        return None
    return SkillOutput(calls=((tool.name, {name: int(n) + work.slip for name, n in _GIVEN.findall(work.task)}),))


def answer(work: SkillInput) -> str:
    """The last result that is a number."""
    results = [line.removeprefix(_RESULT) for line in work.lines if line.startswith(_RESULT)]
    numbers = [result for result in results if re.fullmatch(r"-?\d+", result)]
    return "\n".join(
        [*(f"- {_RESULT}{result}" for result in results), "", f"Answer: {numbers[-1] if numbers else 'unknown'}"]
    )


def missing(evidence: CriticView) -> tuple[str, ...]:
    """Look-up if the trace shows no result."""
    return () if _RESULT in evidence.trace else ("look up",)


FAMILY = Family(
    name="tariff",
    recognises=lambda task: NAMED.search(task) is not None,
    abilities={"look up": call},
    answer=answer,
    missing=missing,
    concepts=lambda task: ("tariff question", "arithmetic"),
    needs=r"\b(?:fee|price|bill|pay|fine|costs?)\b",
)

"""Tasks of unknown families: the offline model searches once and quotes a sentence."""

import re

from selfwire.extras.offline.skills import CriticView, Family, SkillInput, SkillOutput

SEARCH = r"search|retriev|look ?up|find"


def look_up(work: SkillInput) -> SkillOutput | None:
    """Search for the task's text, or pass on the results."""
    if work.results:
        return SkillOutput(notes=tuple(f"Passage: {' '.join(result.text.split())[:400]}" for result in work.results))
    tool = work.tool(SEARCH)
    if tool is None or not (inputs := list(tool.parameters.get("properties", {}))):
        return None
    return SkillOutput(calls=((tool.name, {inputs[0]: work.task.split("\n")[0][:200]}),))


def read(work: SkillInput) -> SkillOutput | None:
    """Quote the sentence of a passage that shares most words with the task."""
    passages = [line.removeprefix("Passage: ") for line in work.lines if line.startswith("Passage: ")]
    sentences = [sentence for passage in passages for sentence in re.split(r"(?<=[.!?])\s+", passage) if sentence]
    wanted = set(re.findall(r"\w{4,}", work.task.lower()))
    if not sentences:
        return None
    best = max(sentences, key=lambda sentence: len(wanted & set(re.findall(r"\w{4,}", sentence.lower()))))
    return SkillOutput(notes=(f"Fact: {best}",))


def answer(work: SkillInput) -> str:
    """The notes without remarks on steps that did nothing, and the last fact as the answer."""
    facts = [line.removeprefix("Fact: ") for line in work.lines if line.startswith("Fact: ")]
    notes = "\n".join(
        f"- {line}" for line in dict.fromkeys(work.lines) if not line.startswith(("Answer: ", "Remark: "))
    )
    return f"{notes}\n\nAnswer: {facts[-1] if facts else 'unknown'}".strip()


def missing(evidence: CriticView) -> tuple[str, ...]:
    """Look-up if the trace shows no passage, and reading if it shows no fact."""
    return tuple(name for name, sign in (("look up", "Passage:"), ("read", "Fact:")) if sign not in evidence.trace)


FAMILY = Family(
    name="general",
    recognises=lambda task: True,
    abilities={"look up": look_up, "read": read},
    answer=answer,
    missing=missing,
    concepts=lambda task: ("general question", "lookup"),
)

"""Shelf marks: each rule that an agent is told makes one part of a mark, for any item; the answer joins all parts.

Which rules a room has is known from feedback alone, so a critic that is shown none names no rule.
"""

import re
from collections.abc import Callable, Mapping

from selfwire.extras.offline.skills import Ability, CriticView, Family, SkillInput, SkillOutput

ITEM = re.compile(
    r"The (?P<room>\w+ room) has got a new item: '(?P<title>[^']+)' by (?P<maker>[^,]+), made in (?P<year>\d+), "
    r"(?P<width>\d+) mm wide"
)
_PART = re.compile(r"^(?:- )?Part of the mark, (.+): (\S+)$", re.MULTILINE)
_STATED = {
    "mirror": re.compile(r"\bmirrored\b"),
    "initials": re.compile(r"\binitials\b"),
    "vowels": re.compile(r"\bvowels\b"),
    "digit sum": re.compile(r"\bdigit sum\b"),
}
_PARTS: Mapping[str, Callable[[re.Match[str]], str]] = {
    "mirror": lambda item: item["year"][::-1],
    "initials": lambda item: "".join(word[0] for word in item["maker"].split()),
    "vowels": lambda item: re.sub(r"[AEIOU\W]", "", item["title"].upper()),
    "digit sum": lambda item: str(sum(map(int, item["width"]))),
}


def _make_ability(rule: str) -> Ability:
    def write_part(work: SkillInput) -> SkillOutput | None:
        item = ITEM.search(work.task)
        if item is None:
            return None
        part = _PARTS[rule](item)
        return SkillOutput(notes=(f"Part of the mark, {rule}: {part[:-1] or '0' if work.slip else part}",))

    return write_part


def answer(work: SkillInput) -> str:
    """All parts that were written, by this agent or by others; of a part that two wrote, the first counts."""
    parts = dict[str, str]()
    for rule, part in _PART.findall("\n".join(work.lines)):
        parts.setdefault(rule, part)
    notes = "\n".join(f"- {line}" for line in dict.fromkeys(work.lines) if re.match(r"(?:Part of|Remark|Idea)\b", line))
    return f"{notes}\n\nAnswer: {'/'.join(sorted(parts.values())) or 'unknown'}".strip()


def missing(evidence: CriticView) -> tuple[str, ...]:
    """Rules that the feedback states for the task's room and that the work does not show."""
    item = ITEM.search(evidence.task)
    if item is None:
        return ()
    shown = f"{evidence.feedback}\n{evidence.trace}"
    stated = " ".join(re.findall(rf"A mark of the {item['room']} holds ([^.]+)", shown))
    written = {rule for rule, _ in _PART.findall(evidence.trace)}
    return tuple(rule for rule, words in _STATED.items() if words.search(stated) and rule not in written)


FAMILY = Family(
    name="shelf mark",
    recognises=lambda task: ITEM.search(task) is not None,
    abilities={rule: _make_ability(rule) for rule in _PARTS},
    answer=answer,
    missing=missing,
    concepts=lambda task: (f"{found['room']} mark" if (found := ITEM.search(task)) else "mark", "catalogue"),
    parallel=lambda task: 0.8,
)

"""The archive family: one step of each skill on questions about a corpus of documents.

Agents exchange plain lines: `Part 1: question`, `Passage: title | text`, `Fact: question = value`,
`Conclusion: value`. Each skill adds one sort of line; the final answer is read from them.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from selfwire.extras.offline import archive_language as language
from selfwire.extras.offline.skills import CriticView, Family, SkillInput, SkillOutput

SEARCH = r"search|retriev|corpus|passages"
PASSAGES_KEPT = 8
_NUMBER = re.compile(r"^(?:\[\d+\]|\d+\.) *")


def look_up(work: SkillInput) -> SkillOutput | None:
    """Search once per open question that names its subject; then pass on the passages."""
    if work.results:
        return SkillOutput(
            notes=tuple(dict.fromkeys(note for result in work.results for note in _passages(result.text)))
        )
    tool = work.tool(SEARCH)
    wanted = [question for question in _open(work) if not _subject_found(question, work)]
    if tool is None or not wanted or not (inputs := list(tool.parameters.get("properties", {}))):
        return None
    if work.slip:
        wanted = [" ".join(work.rng.sample(question.split(), k=2)) for question in wanted]
    return SkillOutput(calls=tuple((tool.name, {inputs[0]: query}) for query in wanted))


def read(work: SkillInput) -> SkillOutput | None:
    """Write a fact per open question with a passage."""
    passages = [
        line.removeprefix("Passage: ").partition(" | ")[::2] for line in work.lines if line.startswith("Passage: ")
    ]
    facts = []
    for question in _open(work):
        asked = language.parse_question(question)
        if asked is None:
            continue
        values = {title: language.find_value(asked, text) for title, text in passages}
        value = values.get(asked.subject)
        if work.slip:
            others = [other for title, other in values.items() if other and title != asked.subject]
            value = work.rng.choice(others) if others else None
        if value:
            facts.append(f"Fact: {question} = {value}")
    return SkillOutput(notes=tuple(facts)) if facts else None


def split(work: SkillInput) -> SkillOutput | None:
    """Decompose the task's question once."""
    if _parts(work.lines):
        return None
    parts = list(language.parts_of(language.find_question(work.task)))
    if not parts:
        return None
    if work.slip:
        parts.pop(work.rng.randrange(len(parts)))
    return SkillOutput(notes=tuple(f"Part {number}: {part}" for number, part in enumerate(parts, start=1)))


def compare(work: SkillInput) -> SkillOutput | None:
    """Compare two values and name the one that the question asks for."""
    question = language.find_question(work.task)
    found, names = _pair(work), language.options(question)
    if found is None or names is None or not all(_number(value) is not None for value in found):
        return None
    wants_more = bool(re.search(r"\b(?:later|more)\b", question))
    more = (_number(found[1]) or 0) > (_number(found[0]) or 0)
    return _conclude(names[(more == wants_more) != work.slip])


def intersect(work: SkillInput) -> SkillOutput | None:
    """Name the common entries of two lists."""
    found = _pair(work)
    if found is None or " both " not in language.find_question(work.task):
        return None
    first, second = (language.format_list(value) for value in found)
    common = [name for name in first if name in second]
    if work.slip:
        common = [work.rng.choice(first)]
    return _conclude(" and ".join(common)) if common else None


def overlap(work: SkillInput) -> SkillOutput | None:
    """The length of the overlap of two periods, in years."""
    found = _pair(work)
    if found is None:
        return None
    spans = [re.findall(r"\d{4}", value) for value in found]
    if any(len(span) != 2 for span in spans):
        return None
    start, end = max(int(span[0]) for span in spans), min(int(span[1]) for span in spans)
    years = max(0, end - start)
    return _conclude(str(years + work.rng.choice((1, 2)) if work.slip else years))


def count(work: SkillInput) -> SkillOutput | None:
    """Count the distinct names on two lists together, or on the first without the second."""
    question = language.find_question(work.task)
    found = _pair(work)
    if found is None or not re.match(r"how many (?:different )?people", question, re.IGNORECASE):
        return None
    first, second = (set(language.format_list(value)) for value in found)
    number = len(first - second) if "but not" in question else len(first | second)
    return _conclude(str(number + work.rng.choice((-1, 1)) if work.slip else number))


def answer(work: SkillInput) -> str:
    """The notes that others can use, and the answer as the last line."""
    keep = [line for line in work.lines if re.match(r"(?:Part \d|Fact|Conclusion|Remark|Idea)\b", line)]
    if _open(work):
        keep += [line for line in work.lines if line.startswith("Passage: ")][-PASSAGES_KEPT:]
    notes = "\n".join(f"- {line}" for line in dict.fromkeys(keep))
    return f"{notes}\n\nAnswer: {_result(work) or 'unknown'}".strip()


def missing(evidence: CriticView) -> tuple[str, ...]:
    """Skills whose step does not show in the trace of a question of this form."""
    question = language.find_question(evidence.task)
    seen = evidence.trace
    found = []
    if language.parse_question(question) is None and "Part 1:" not in seen:
        found.append("split")
    searched = re.search(rf"Passage:|\btool \S*(?:{SEARCH})", seen)
    if not searched and "Fact:" not in seen:
        found.append("look up")
    elif "Fact:" not in seen:
        found.append("read")
    elif len(set(re.findall(r"^\W*Part (\d)", seen, re.MULTILINE))) > len(set(re.findall(r"Fact: (.+) =", seen))):
        found += ["look up", "read"]
    if (needed := _combining(question)) and "Conclusion:" not in seen:
        found.append(needed)
    return tuple(found)


def unanswered(work: SkillInput) -> tuple[str, ...]:
    """Simple questions without a fact."""
    return tuple(question for question in _open(work) if language.parse_question(question) is not None)


def concepts(task: str) -> tuple[str, ...]:
    """The form of the question, then the skills that this form needs."""
    question = language.find_question(task)
    if needed := _combining(question):
        return f"{needed} question", "lookup", "decomposition", needed
    if language.parse_question(question) is None:
        return "multi-hop question", "lookup", "decomposition"
    return "factual question", "lookup"


def parallel(task: str) -> float:
    """High for questions of two independent parts, low if one part needs the other's answer."""
    parts = language.parts_of(language.find_question(task))
    return 0.2 if not parts else 0.3 if any("[1]" in part for part in parts) else 0.8


def is_archive_question(task: str) -> bool:
    """Whether the task is a question in the archive's language."""
    question = language.find_question(task)
    return language.parse_question(question) is not None or bool(language.parts_of(question))


FAMILY = Family(
    name="archive",
    recognises=is_archive_question,
    abilities={
        "look up": look_up,
        "read": read,
        "split": split,
        "compare": compare,
        "intersect": intersect,
        "overlap": overlap,
        "count": count,
    },
    answer=answer,
    missing=missing,
    unanswered=unanswered,
    concepts=concepts,
    needs=SEARCH,
    parallel=parallel,
)

_COMBINING: tuple[tuple[str, str], ...] = (
    (r"\b(?:earlier|later|more|fewer)\b[^?]*, .+ or ", "compare"),
    (r"how many years", "overlap"),
    (r"how many (?:different )?people work", "count"),
    (r"\bboth\b", "intersect"),
)


def _combining(question: str) -> str:
    return next((name for pattern, name in _COMBINING if re.search(pattern, question, re.IGNORECASE)), "")


@lru_cache(maxsize=256)
def _parts(lines: tuple[str, ...]) -> Mapping[int, str]:
    found: dict[int, str] = {}
    for line in lines:
        if match := re.match(r"Part (\d): (.+)", line):
            found.setdefault(int(match[1]), match[2])
    return found


@lru_cache(maxsize=256)
def _facts(lines: tuple[str, ...]) -> Mapping[str, str]:
    values: dict[str, list[str]] = {}
    for line in lines:
        if match := re.match(r"Fact: (.+) = (.+)", line):
            values.setdefault(match[1], []).append(match[2])
    return {question: Counter(found).most_common(1)[0][0] for question, found in values.items()}


def _questions(work: SkillInput) -> list[str]:
    """The parts of the question, with the known answer in place of [1]; the whole question if it is not split."""
    parts, facts = _parts(work.lines), _facts(work.lines)
    if not parts:
        return [language.find_question(work.task)]
    first = facts.get(parts.get(1, ""), "[1]")
    return [part.replace("[1]", first) for _, part in sorted(parts.items())]


def _open(work: SkillInput) -> list[str]:
    facts = _facts(work.lines)
    return [question for question in _questions(work) if question not in facts and "[1]" not in question]


def _subject_found(question: str, work: SkillInput) -> bool:
    asked = language.parse_question(question)
    return asked is not None and any(line.startswith(f"Passage: {asked.subject} |") for line in work.lines)


def _passages(text: str) -> list[str]:
    blocks = [block.strip().split("\n", 1) for block in re.split(r"\n\s*\n", text) if "\n" in block.strip()]
    return [f"Passage: {_NUMBER.sub('', title)} | {' '.join(body.split())}" for title, body in blocks]


def _pair(work: SkillInput) -> tuple[str, str] | None:
    """The values of the two parts of a paired question, when both are known."""
    parts, facts = _parts(work.lines), _facts(work.lines)
    if len(parts) != 2 or any("[1]" in part for part in parts.values()):
        return None
    first, second = (facts.get(part) for _, part in sorted(parts.items()))
    return (first, second) if first and second else None


def _number(value: str) -> int | None:
    digits = value.replace(",", "")
    return int(digits) if digits.isdigit() else None


def _conclude(value: str) -> SkillOutput:
    return SkillOutput(notes=(f"Conclusion: {value}",))


def _result(work: SkillInput) -> str | None:
    conclusions = Counter(line.removeprefix("Conclusion: ") for line in work.lines if line.startswith("Conclusion: "))
    if conclusions:
        return conclusions.most_common(1)[0][0]
    parts = _parts(work.lines)
    if parts and "[1]" not in parts[max(parts)]:
        return None
    return _facts(work.lines).get(_questions(work)[-1])

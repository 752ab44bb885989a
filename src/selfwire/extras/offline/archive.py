"""The archive family: one step of each skill on questions about a corpus of documents.

Agents exchange plain lines: `Part 1: question`, `Passage: title | text`, `Fact: question = value`,
`Conclusion: value`. Each skill adds one sort of line; the final answer is read from them.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from selfwire.extras.offline.skills import CriticView, Family, SkillInput, SkillOutput

_NAME = r"[A-Z][\w'’-]+(?: (?:of |the )?[A-Z][\w'’-]+)*"
_NAMES = rf"{_NAME}(?:, {_NAME})*(?:,? and {_NAME})?"
_YEAR = r"[12]\d{3}"
_NESTED = re.compile(r"\bthe (?:founder|author|city|person|novel|book|university)\b")


@dataclass(frozen=True)
class Relation:
    """A fact that sentences state and simple questions ask for.

    Attributes:
        questions: expressions with the groups `subject` and, for some, `other`.
        sentences: expressions whose first groups are the value; `{other}` stands for the question's `other`.
    """

    name: str
    questions: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class ParsedQuestion:
    """A parsed simple question."""

    relation: Relation
    subject: str
    other: str = ""


RELATIONS: tuple[Relation, ...] = (
    Relation(
        "birth city",
        (r"in which city was (?P<subject>.+) born", r"where was (?P<subject>.+) born"),
        (rf"\b[Bb]orn (?:in {_YEAR} )?in ({_NAME})", rf"\bnative of ({_NAME})"),
    ),
    Relation(
        "birth year",
        (r"in (?:which|what) year was (?P<subject>.+) born", r"when was (?P<subject>.+) born"),
        (rf"\b[Bb]orn[^.]*? in ({_YEAR})", rf"\bbirth in ({_YEAR})"),
    ),
    Relation(
        "university",
        (r"which university did (?P<subject>.+) attend", r"where did (?P<subject>.+) study"),
        (rf"(?:studied|degree)[^.]*? (?:at|from) (?:the )?({_NAME})", rf"\bgraduate of (?:the )?({_NAME})"),
    ),
    Relation(
        "years of work",
        (r"from when to when did (?P<subject>.+) work at (?P<other>.+)",),
        (
            rf"(?:worked|employed|served) at {{other}} from ({_YEAR}) (?:to|until) ({_YEAR})",
            rf"joined {{other}} in ({_YEAR}) and left[^.]*? in ({_YEAR})",
        ),
    ),
    Relation(
        "founder",
        (r"who founded (?P<subject>.+)", r"who (?:is|was) the founder of (?P<subject>.+)"),
        (rf"(?:founded|set up|established)[^.]*? by ({_NAME})", rf"[Ii]ts founder was ({_NAME})"),
    ),
    Relation(
        "founding year",
        (r"when was (?P<subject>.+) founded", r"in (?:which|what) year was (?P<subject>.+) founded"),
        (
            rf"(?:founded|set up|established)[^.]*? in ({_YEAR})",
            rf"[Ii]n ({_YEAR}),? [^.]*?(?:founded|set up|established)",
        ),
    ),
    Relation(
        "seat",
        (r"in which city is (?P<subject>.+) based", r"where is (?P<subject>.+) based"),
        (rf"(?:based|headquartered|seat) in ({_NAME})", rf"offices are in ({_NAME})"),
    ),
    Relation(
        "staff",
        (r"who worked at (?P<subject>.+)",),
        (rf"staff[^.]*? included ({_NAMES})", rf"({_NAMES}) (?:all )?worked there"),
    ),
    Relation(
        "country",
        (r"in which country (?:is|lies) (?P<subject>.+)",),
        (rf"(?:city|port|town) in ({_NAME})", rf"belongs to ({_NAME})"),
    ),
    Relation(
        "population",
        (r"how many (?:people|inhabitants) (?:live in|does) (?P<subject>[^,]+?)(?: have)?",),
        (r"population of ([\d,]*\d)", r"home to ([\d,]*\d) (?:people|inhabitants)"),
    ),
    Relation(
        "author",
        (r"who wrote (?P<subject>.+)", r"who (?:is|was) the author of (?P<subject>.+)"),
        (rf"(?:novel|book) by ({_NAME})", rf"written by ({_NAME})"),
    ),
    Relation(
        "publication year",
        (r"(?:in (?:which|what) year|when) was (?P<subject>.+) published",),
        (rf"(?:published|appeared)[^.]*? in ({_YEAR})",),
    ),
)

_DESCRIPTIONS: tuple[tuple[str, str], ...] = (
    (r"the founder of (?P<subject>.+?)(?= born\b| attend\b| study\b|\?|$)", "Who founded {subject}?"),
    (r"the author of (?P<subject>.+?)(?= born\b| attend\b| study\b|\?|$)", "Who wrote {subject}?"),
    (r"the city (?:where|in which) (?P<subject>.+?) is based", "In which city is {subject} based?"),
)

_PAIRS: tuple[tuple[str, str], ...] = (
    (r"which was founded (?:earlier|later|first)", "When was {name} founded?"),
    (r"who was born (?:earlier|later|first)", "In which year was {name} born?"),
    (r"which (?:novel|book) was published (?:earlier|later|first)", "In which year was {name} published?"),
    (r"which city has (?:more|fewer) inhabitants", "How many people live in {name}?"),
)


def find_question(task: str) -> str:
    """The question of a task: its first sentence that ends with a question mark, else its first line."""
    found = re.search(r"[A-Z][^?\n]*\?", task)
    return found[0] if found else task.strip().split("\n")[0]


@lru_cache(maxsize=4096)
def parse_question(question: str) -> ParsedQuestion | None:
    """Parse a simple question; None if it is not one, or contains another question."""
    if _NESTED.search(question):
        return None
    text = question.strip().rstrip("?")
    for relation in RELATIONS:
        for pattern in relation.questions:
            found = re.fullmatch(pattern, text, re.IGNORECASE)
            if found and not re.search(r" (?:and|or|both) ", found["subject"]):
                return ParsedQuestion(relation, found["subject"], found.groupdict().get("other") or "")
    return None


@lru_cache(maxsize=4096)
def parts_of(question: str) -> tuple[str, ...]:
    """Decompose a nested or paired question once; [1] stands for the answer of part 1."""
    for pattern, inner in _DESCRIPTIONS:
        if found := re.search(pattern, question):
            return inner.format(subject=found["subject"]), question[: found.start()] + "[1]" + question[found.end() :]
    if pair := options(question):
        template = next((t for p, t in _PAIRS if re.match(p, question, re.IGNORECASE)), None)
        return tuple(template.format(name=name) for name in pair) if template else ()
    if found := re.match(r"[^?]*?\bworked? at (?:both )?(.+?) (?:and|or|but not)(?: at)? ([^?,]+)", question):
        return f"Who worked at {found[1]}?", f"Who worked at {found[2]}?"
    if found := re.search(r"did (.+?) and (.+?) (?:both )?work at (.+?)(?: at the same time| together)?\?", question):
        return tuple(f"From when to when did {found[i]} work at {found[3]}?" for i in (1, 2))
    return ()


def options(question: str) -> tuple[str, str] | None:
    """The two options of a question that ends with `, A or B?`."""
    found = re.search(r", (.+) or (.+)\?$", question)
    return (found[1], found[2]) if found else None


def find_value(asked: ParsedQuestion, text: str) -> str | None:
    """The value that a passage about the subject states; None if it does not."""
    for pattern in asked.relation.sentences:
        for sentence in re.split(r"(?<=[.!?])\s+", text):
            if found := re.search(pattern.replace("{other}", re.escape(asked.other)), sentence):
                return " to ".join(found.groups())
    return None


def format_list(value: str) -> tuple[str, ...]:
    """The names of an enumeration `A, B and C`."""
    return tuple(name.strip() for name in re.split(r", and |,| and ", value) if name.strip())


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
        asked = parse_question(question)
        if asked is None:
            continue
        values = {title: find_value(asked, text) for title, text in passages}
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
    parts = list(parts_of(find_question(work.task)))
    if not parts:
        return None
    if work.slip:
        parts.pop(work.rng.randrange(len(parts)))
    return SkillOutput(notes=tuple(f"Part {number}: {part}" for number, part in enumerate(parts, start=1)))


def compare(work: SkillInput) -> SkillOutput | None:
    """Compare two values and name the one that the question asks for."""
    question = find_question(work.task)
    found, names = _pair(work), options(question)
    if found is None or names is None or not all(_number(value) is not None for value in found):
        return None
    wants_more = bool(re.search(r"\b(?:later|more)\b", question))
    more = (_number(found[1]) or 0) > (_number(found[0]) or 0)
    return _conclude(names[(more == wants_more) != work.slip])


def intersect(work: SkillInput) -> SkillOutput | None:
    """Name the common entries of two lists."""
    found = _pair(work)
    if found is None or " both " not in find_question(work.task):
        return None
    first, second = (format_list(value) for value in found)
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
    question = find_question(work.task)
    found = _pair(work)
    if found is None or not re.match(r"how many (?:different )?people", question, re.IGNORECASE):
        return None
    first, second = (set(format_list(value)) for value in found)
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
    question = find_question(evidence.task)
    seen = evidence.trace
    found = []
    if parse_question(question) is None and "Part 1:" not in seen:
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
    return tuple(question for question in _open(work) if parse_question(question) is not None)


def concepts(task: str) -> tuple[str, ...]:
    """The form of the question, then the skills that this form needs."""
    question = find_question(task)
    if needed := _combining(question):
        return f"{needed} question", "lookup", "decomposition", needed
    if parse_question(question) is None:
        return "multi-hop question", "lookup", "decomposition"
    return "factual question", "lookup"


def parallel(task: str) -> float:
    """High for questions of two independent parts, low if one part needs the other's answer."""
    parts = parts_of(find_question(task))
    return 0.2 if not parts else 0.3 if any("[1]" in part for part in parts) else 0.8


def is_archive_question(task: str) -> bool:
    """Whether the task is a question in the archive's language."""
    question = find_question(task)
    return parse_question(question) is not None or bool(parts_of(question))


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
        return [find_question(work.task)]
    first = facts.get(parts.get(1, ""), "[1]")
    return [part.replace("[1]", first) for _, part in sorted(parts.items())]


def _open(work: SkillInput) -> list[str]:
    facts = _facts(work.lines)
    return [question for question in _questions(work) if question not in facts and "[1]" not in question]


def _subject_found(question: str, work: SkillInput) -> bool:
    asked = parse_question(question)
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

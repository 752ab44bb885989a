"""The English that the offline model understands: simple and nested questions, and sentences that state facts."""

import re
from dataclasses import dataclass
from functools import lru_cache

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

"""BIG-Bench Hard: 27 tasks on which models once failed, 6,511 questions (Suzgun et al., 2023).

Answers are letters of options, closed words such as yes or invalid, whole numbers, or free: sorted words,
closing brackets. Each is compared in the normal form of its kind. There is no official split.
"""

import json
import re
from collections.abc import Iterator
from functools import cache

from selfwire.core.task import Feedback, Task
from selfwire.evals.benchmarks.benchmark import (
    RIGHT,
    Benchmark,
    RuleEnvironment,
    TrivialRule,
    make_answer_rule,
    make_disjoint_loader,
    reject,
)
from selfwire.evals.benchmarks.sources import find_source, list_sources
from selfwire.tools.calculator import CalculatorTool

FORM = "End with a line that starts with 'Answer:' and gives only the answer."
OPTION_FORM = "End with a line that starts with 'Answer:' and gives only the letter of the right option, as in (A)."

_LEAD = r"(?:(?:the|correct|right|best|answer|option|choice|is)\b[\s:]*)*+"
_LETTER = re.compile(_LEAD + r"(?:\(([A-Z])\)|([A-Z])(?=$|[).:]))", re.IGNORECASE)
_DECORATION = " .*_`\"'$\u201c\u201d\u2018\u2019"
_CLOSED = ("yes", "no", "true", "false", "valid", "invalid")
_BRACKETS = re.compile(r"[\s()\[\]{}<>]+")


@cache
def load_tasks() -> tuple[Task, ...]:
    """All questions; the kind is the name of their task."""
    return tuple(task for name in list_sources() if name.startswith("bbh/") for task in _questions(name))


def _questions(name: str) -> Iterator[Task]:
    kind = name.removeprefix("bbh/").removesuffix(".json")
    for number, example in enumerate(json.loads(find_source(name).read_text(encoding="utf-8"))["examples"]):
        form = OPTION_FORM if "(A)" in example["input"] else FORM
        text = f"{example['input']}\n{form}"
        yield Task(id=f"bbh-{kind}-{number}", input=text, kind=kind, reference=example["target"])


def normalise(answer: str, gold: str) -> str:
    """The normal form of an answer, which depends on the kind of the gold answer."""
    text = " ".join(answer.split()).strip(_DECORATION)
    if re.fullmatch(r"\([A-Z]\)", gold):
        letter = _LETTER.match(text)
        return f"({(letter[1] or letter[2]).upper()})" if letter else text
    if gold.lower() in _CLOSED:
        return re.split(r"[^a-z]", text.lower(), maxsplit=1)[0]
    if re.fullmatch(r"-?\d+", gold):
        return text.replace(",", "").replace("\u2212", "-")
    if _BRACKETS.fullmatch(gold):
        return "".join(text.split())
    return " ".join(text.lower().replace(",", " ").split())


def compare(task: Task, gold: str, given: str) -> Feedback:
    """Normalised exact match."""
    if normalise(given, gold) == normalise(gold, gold):
        return RIGHT
    if OPTION_FORM in task.input and not _LETTER.match(given.strip(_DECORATION)):
        return reject("The answer is wrong, and it is no letter of an option.")
    return reject("The answer is wrong.")


grade = make_answer_rule("BBH", compare)
ENVIRONMENT = RuleEnvironment("bbh", grade, "normal_form")


def choose_first_option(question: str) -> str:
    """The trivial baseline: the first of the options that the question names, else 0."""
    if OPTION_FORM in question:
        return "Answer: (A)"
    if "- Yes" in question or "plausible" in question or "tell the truth" in question:
        return "Answer: Yes"
    if "- valid" in question:
        return "Answer: valid"
    return "Answer: True" if re.search(r"\b(?:True|False)\b", question) else "Answer: 0"


BBH = Benchmark(
    name="bbh",
    description="27 tasks of reasoning, each answer compared in the normal form of its kind.",
    load=make_disjoint_loader(load_tasks),
    environment=ENVIRONMENT,
    toolbox={"calculator": CalculatorTool()},
    tools=("calculator",),
    baseline=TrivialRule("first option", choose_first_option),
)

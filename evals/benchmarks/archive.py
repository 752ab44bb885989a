"""The archive: generated multi-hop questions over generated documents, any size, seeded.

There are two questions of different kinds about each neighbourhood of the world. Initial teams hold `search`; the
toolbox also has `browse`, which opens a whole document, for pools with a browser.
"""

import random
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from selfwire.core.errors import ConfigError
from selfwire.core.task import Feedback, Task
from selfwire.evals.answers import find_final_answer
from selfwire.evals.benchmarks.archive_questions import KINDS
from selfwire.evals.benchmarks.archive_world import Names, documents, neighbourhood
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_loader
from selfwire.evals.benchmarks.grading import NO_ANSWER_LINE, RIGHT, RuleEnvironment, get_text_reference, reject
from selfwire.tools.browse import BrowseTool
from selfwire.tools.search import Document, SearchTool

FORM = "End with a line that starts with 'Answer:' and gives only the name, number or year."
"""Stands below every question, so that any model knows what is graded."""

PAIRS: tuple[tuple[str, str], ...] = (
    ("single", "bridge"),
    ("single", "comparison"),
    ("single", "intersection"),
    ("single", "temporal"),
    ("single", "counting"),
    ("bridge", "comparison"),
    ("intersection", "temporal"),
    ("counting", "bridge"),
    ("comparison", "intersection"),
    ("temporal", "counting"),
)
"""Kinds of the two questions of a neighbourhood, in turn."""

MOST = 100_000
"""Most tasks of an archive, which take half a minute to generate; it stops a typing error from running forever."""

LONGEST = 8
"""Most words of a name, number or year."""


@dataclass(frozen=True)
class Archive:
    """Generated tasks and the documents that answer them."""

    tasks: tuple[Task, ...]
    documents: tuple[Document, ...]


@lru_cache(maxsize=4)
def generate_archive(size: int, seed: int = 0) -> Archive:
    """Generate `size` tasks and ten documents for every two; ConfigError if the size is not from 1 to `MOST`."""
    if size < 1:
        raise ConfigError(f"an archive has at least 1 task, not {size}")
    if size > MOST:
        raise ConfigError(
            f"an archive has at most {MOST:,} tasks, and these splits take one of {size:,}; ask for fewer"
        )
    rng = random.Random(f"archive {seed}")
    names = Names(rng)
    tasks: list[Task] = []
    pages: list[Document] = []
    while len(tasks) < size:
        place = neighbourhood(names, rng)
        pages += documents(place, rng)
        for kind in PAIRS[len(tasks) // 2 % len(PAIRS)]:
            question, reference = KINDS[kind](place, rng)
            tasks.append(
                Task(
                    id=f"archive-{seed}-{len(tasks)}",
                    input=f"{question}\n{FORM}",
                    kind=kind,
                    reference=reference,
                    entities=place.entities,
                )
            )
    rng.shuffle(pages)
    return Archive(tuple(tasks[:size]), tuple(pages))


def grade(task: Task, answer: str) -> Feedback:
    """Normalised exact match on the last line that starts with "Answer:"; the text never depends on the reference."""
    gold = get_text_reference(task, "archive")
    given = find_final_answer(answer)
    if given is None:
        return reject(NO_ANSWER_LINE)
    return RIGHT if normalise(given) == normalise(gold) else reject(_describe_error(task.input, given))


ENVIRONMENT = RuleEnvironment("archive", grade, "final_em")


def normalise(text: str) -> str:
    """Lower case, without accents, punctuation, articles, thousands separators and double spaces."""
    plain = unicodedata.normalize("NFKD", text.lower()).encode("ascii", "ignore").decode()
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", plain)
    words = re.sub(r"[^\w\s]", " ", plain).split()
    return " ".join(word for word in words if word not in ("a", "an", "the"))


def choose_first_option(question: str) -> str:
    """The trivial baseline: the first of two options, and a fixed guess where there are none."""
    found = re.search(r", (.+?) or .+\?", question)
    guess = found[1] if found else "6" if question.lower().startswith(("how many", "for how many")) else "unknown"
    return f"Answer: {guess}"


def archive(size: int = 600, seed: int = 0) -> Benchmark:
    """The benchmark over one generated archive; splits have another seed."""
    made = generate_archive(size, seed)
    return Benchmark(
        name="archive",
        description="Generated multi-hop questions over generated documents, with a search tool.",
        load=make_disjoint_loader(lambda: made.tasks),
        environment=ENVIRONMENT,
        toolbox={"search": SearchTool(made.documents), "browse": BrowseTool(made.documents)},
        tools=("search",),
        baseline=TrivialRule("first option", choose_first_option),
    )


def _describe_error(question: str, given: str) -> str:
    """The fault of an answer, as far as question and answer alone show it."""
    if normalise(given) in ("unknown", "not known", "i do not know", "n a", "none"):
        return "The answer leaves the question open."
    if len(given.split()) > LONGEST:
        return "Format fault: the answer is longer than a name, number or year."
    lowered = question.lower()
    if re.match(r"(?:for )?how many\b", lowered) and not re.search(r"\d", given):
        return "The answer is not a number."
    if re.match(r"when\b|in (?:which|what) year\b", lowered) and not re.search(r"\d{4}", given):
        return "The answer is not a year."
    if re.match(r"who\b|in which (?:city|country)\b", lowered) and re.search(r"\d", given):
        return "The answer is not a name."
    return "The answer is wrong."

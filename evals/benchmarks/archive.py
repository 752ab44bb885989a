"""The archive: generated multi-hop questions over generated documents, any size, seeded.

Two questions of different kinds are asked about each neighbourhood of the world; a quarter of all questions
needs one fact, three in twenty each are bridge, comparison, intersection, temporal overlap and counting.

Seed teams hold `search`. `browse`, which opens a document whole, is in the toolbox for who is a browser by trade:
EvoMAS's pool has one, and no other method gives it to anybody.
"""

import random
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from selfwire.core.errors import ConfigError, GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.evals.answers import find_final_answer
from selfwire.evals.benchmarks.archive_questions import KINDS
from selfwire.evals.benchmarks.archive_world import Names, documents, neighbourhood
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_splits
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
"""Tasks of an archive; so many take half a minute to make, and a typed slip of the hand would never end."""

LONGEST = 8
"""Words of an answer beyond which it is no longer a name, number or year."""


@dataclass(frozen=True)
class Archive:
    """Generated tasks and the documents that answer them."""

    tasks: tuple[Task, ...]
    documents: tuple[Document, ...]


@lru_cache(maxsize=4)
def generate_archive(size: int, seed: int = 0) -> Archive:
    """Generate `size` tasks, and a corpus of ten documents for every two of them.

    Raises:
        ConfigError: the size is below 1, or above `MOST`.
    """
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


class ArchiveEnvironment:
    """Normalised exact match on the last line that starts with "Answer:"."""

    name = "archive"

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score 1 for the reference, else 0 with what can be said without it.

        Raises:
            GradingError: the task has no reference.
        """
        if not isinstance(task.reference, str):
            raise GradingError(f"archive task {task.id!r} has no text as reference: {task.reference!r}")
        given = find_final_answer(answer)
        if given is None:
            return _unsolved("Format fault: there is no line that starts with 'Answer:' and gives an answer.")
        if normalise(given) == normalise(task.reference):
            return Feedback(score=1.0, solved=True, text="The answer is right.")
        return _unsolved(_complaint(task.input, given))


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
    """The benchmark over one generated archive.

    Args:
        size: number of tasks to draw splits from.
        seed: seed of world and questions; splits have their own.
    """
    made = generate_archive(size, seed)
    return Benchmark(
        name="archive",
        description="Generated multi-hop questions over generated documents, with a search tool.",
        load=lambda split_seed, train, gate, test: make_disjoint_splits(made.tasks, split_seed, train, gate, test),
        environment=ArchiveEnvironment(),
        toolbox={"search": SearchTool(made.documents), "browse": BrowseTool(made.documents)},
        tools=("search",),
        baseline=TrivialRule("first option", choose_first_option),
    )


def _unsolved(text: str) -> Feedback:
    return Feedback(score=0.0, solved=False, text=text)


def _complaint(question: str, given: str) -> str:
    """What is wrong with an answer, as far as question and answer alone tell."""
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

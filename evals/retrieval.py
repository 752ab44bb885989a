"""Questions over passages, and the recall of a retriever on them without any team."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from selfwire.core.protocols import Embedder
from selfwire.core.task import Task
from selfwire.core.values import FrozenModel
from selfwire.evals.graders import get_references, normalise
from selfwire.tools.search import PER_STEP, SINGLE_TURN, Document, make_retriever

FORM = "End with a line that starts with 'Answer:' and gives only the name, date, number or phrase, or yes or no."
"""Line below every question, so that any model knows what is graded."""
CLOSED = ("yes", "no")


@dataclass(frozen=True)
class Collection:
    """Questions and the passages with their answers.

    Attributes:
        gold: titles of the passages that a question needs, by task; empty if the data does not name them.
    """

    name: str
    tasks: tuple[Task, ...]
    documents: tuple[Document, ...]
    gold: Mapping[str, frozenset[str]] = field(default_factory=dict)


def strip_format_hint(question: str) -> str:
    """Remove the line on the form of the answer from a task's input."""
    return question.removesuffix(FORM).strip()


class Recall(FrozenModel):
    """Recall among the first k passages, as means over questions; the question itself is the query.

    Args:
        questions, passages: numbers of them.
        gold: by k, the share of a question's gold passages among the first k; None if the data names none.
        answers: by k, the share of questions whose answer stands in one of the first k passages as whole words;
            questions with the answer yes or no do not count.
        seconds: time for the index and all queries.
    """

    benchmark: str
    retriever: str
    questions: int
    passages: int
    gold: tuple[tuple[int, float | None], ...]
    answers: tuple[tuple[int, float | None], ...]
    seconds: float


async def measure_recall(
    collection: Collection,
    name: str = "bm25",
    embedder: Embedder | None = None,
    depths: Sequence[int] = (PER_STEP, SINGLE_TURN),
) -> Recall:
    """Put every question to a retriever (bm25, dense or hybrid); `depths` are the k of recall@k, each at least 1.

    Raises:
        ConfigError: there is no such retriever, or it needs an embedder.
    """
    start = time.perf_counter()
    tasks, documents, gold = collection.tasks, collection.documents, collection.gold
    retriever = make_retriever(name, documents, embedder)
    first = {
        task.id: [documents[i] for i in await retriever.rank(strip_format_hint(task.input), max(depths))]
        for task in tasks
    }
    seconds = time.perf_counter() - start
    with_gold = [(first[task.id], gold[task.id]) for task in tasks if task.id in gold]
    open_questions = [
        (first[task.id], get_references(task))
        for task in tasks
        if not any(normalise(reference) in CLOSED for reference in get_references(task))
    ]
    return Recall(
        benchmark=collection.name,
        retriever=name,
        questions=len(tasks),
        passages=len(documents),
        gold=tuple((k, _mean([compute_gold_share(found[:k], titles) for found, titles in with_gold])) for k in depths),
        answers=tuple(
            (k, _mean([float(has_answer(found[:k], answers)) for found, answers in open_questions])) for k in depths
        ),
        seconds=seconds,
    )


def compute_gold_share(found: Sequence[Document], gold: frozenset[str]) -> float:
    """Compute the share of the gold titles, at least one, that are among the passages."""
    return len(gold & {passage.title for passage in found}) / len(gold)


def has_answer(found: Sequence[Document], answers: Sequence[str]) -> bool:
    """Whether any passage or its title contains any of the answers."""
    texts = [f" {normalise(f'{passage.title} {passage.text}')} " for passage in found]
    wanted = [f" {bare} " for answer in answers if (bare := normalise(answer))]
    return any(reference in text for reference in wanted for text in texts)


def format_recall(found: Recall) -> str:
    """Format the measurement of a retriever in a line."""
    shares = [*_format_shares("recall", found.gold), *_format_shares("answer", found.answers)]
    what = f"{found.benchmark}, {found.retriever} over {found.passages:,} passages, {found.questions} questions"
    return f"{what}: {', '.join([*shares, f'{found.seconds:.1f} s'])}"


def _format_shares(what: str, shares: Sequence[tuple[int, float | None]]) -> list[str]:
    parts = [f"{what}@{k} {share:.3f}" for k, share in shares if share is not None]
    return [" ".join(parts)] if parts else []


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None

"""Recall of a retriever without any team, over gold passages and over answers."""

import time
from collections.abc import Sequence
from statistics import fmean

from selfwire.core.protocols import Embedder
from selfwire.core.values import FrozenModel
from selfwire.evals.benchmarks.collection import Collection, strip_format_hint
from selfwire.evals.graders import get_references, normalise
from selfwire.tools.search import PER_STEP, SINGLE_TURN, Document, make_retriever

CLOSED = ("yes", "no")


class Recall(FrozenModel):
    """Recall among the first k passages, as means over questions; the question itself is the query.

    Args:
        benchmark, retriever: names.
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
    """Put every question to a retriever.

    Args:
        collection: questions and passages.
        name: bm25, dense or hybrid.
        embedder: for dense and hybrid.
        depths: the k of recall@k, each at least 1.

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
        if not any(normalise(one) in CLOSED for one in get_references(task))
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
    """Share of the gold titles, at least one, that are among the passages."""
    return len(gold & {one.title for one in found}) / len(gold)


def has_answer(found: Sequence[Document], answers: Sequence[str]) -> bool:
    """Whether one of the passages or their titles contains one of the answers."""
    texts = [f" {normalise(f'{one.title} {one.text}')} " for one in found]
    wanted = [f" {bare} " for answer in answers if (bare := normalise(answer))]
    return any(one in text for one in wanted for text in texts)


def format_recall(measured: Sequence[Recall]) -> list[str]:
    """One line per retriever, for people."""
    return [
        f"{one.benchmark}, {one.retriever} over {one.passages:,} passages, {one.questions} questions: "
        + ", ".join(
            [*_format_shares("recall", one.gold), *_format_shares("answer", one.answers), f"{one.seconds:.1f} s"]
        )
        for one in measured
    ]


def _format_shares(what: str, shares: Sequence[tuple[int, float | None]]) -> list[str]:
    parts = [f"{what}@{k} {share:.3f}" for k, share in shares if share is not None]
    return [" ".join(parts)] if parts else []


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None

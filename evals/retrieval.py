"""How well a retriever finds what questions need, apart from any team: recall over gold passages and over answers."""

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
    """What a retriever finds among its first passages, as means over questions; the question itself is the query.

    Args:
        benchmark, retriever: their names.
        questions, passages: how many there are.
        gold: by k, the share of a question's gold passages among the first k; None where the data names none.
        answers: by k, the share of questions whose answer stands in one of the first k passages as whole words,
            over those whose answer is not yes or no.
        seconds: for building the index and all queries.
    """

    benchmark: str
    retriever: str
    questions: int
    passages: int
    gold: tuple[tuple[int, float | None], ...]
    answers: tuple[tuple[int, float | None], ...]
    seconds: float


async def measure_recall(
    found: Collection,
    name: str = "bm25",
    embedder: Embedder | None = None,
    depths: Sequence[int] = (PER_STEP, SINGLE_TURN),
) -> Recall:
    """Put every question to a retriever.

    Args:
        found: questions and passages.
        name: bm25, dense or hybrid.
        embedder: for dense and hybrid.
        depths: the k of recall@k, each at least 1.

    Raises:
        ConfigError: there is no such retriever, or it needs an embedder.
    """
    started = time.perf_counter()
    ranks = make_retriever(name, found.documents, embedder)
    first = {
        task.id: [found.documents[i] for i in await ranks.rank(strip_format_hint(task.input), max(depths))]
        for task in found.tasks
    }
    took = time.perf_counter() - started
    known = [(first[task.id], found.gold[task.id]) for task in found.tasks if task.id in found.gold]
    opened = [
        (first[task.id], get_references(task))
        for task in found.tasks
        if not any(normalise(one) in CLOSED for one in get_references(task))
    ]
    return Recall(
        benchmark=found.name,
        retriever=name,
        questions=len(found.tasks),
        passages=len(found.documents),
        gold=tuple((k, _mean([compute_gold_share(some[:k], gold) for some, gold in known])) for k in depths),
        answers=tuple((k, _mean([float(has_answer(some[:k], answers)) for some, answers in opened])) for k in depths),
        seconds=took,
    )


def compute_gold_share(found: Sequence[Document], gold: frozenset[str]) -> float:
    """Share of the gold titles that are among the passages; at least one is asked for."""
    return len(gold & {one.title for one in found}) / len(gold)


def has_answer(found: Sequence[Document], answers: Sequence[str]) -> bool:
    """Whether one of the answers stands in one of the passages, titles included."""
    texts = [f" {normalise(f'{one.title} {one.text}')} " for one in found]
    wanted = [f" {bare} " for answer in answers if (bare := normalise(answer))]
    return any(one in text for one in wanted for text in texts)


def format_recall(measured: Sequence[Recall]) -> list[str]:
    """One line per retriever, for people."""
    return [
        f"{one.benchmark}, {one.retriever} over {one.passages:,} passages, {one.questions} questions: "
        + ", ".join(filter(None, (_told("recall", one.gold), _told("answer", one.answers), f"{one.seconds:.1f} s")))
        for one in measured
    ]


def _told(what: str, shares: Sequence[tuple[int, float | None]]) -> str:
    return " ".join(f"{what}@{k} {share:.3f}" for k, share in shares if share is not None)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None

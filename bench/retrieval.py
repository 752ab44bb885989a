"""The cost of retrieval over many short passages: building the index, a query, memory. Embedding is left out.

Words of passages and queries are as unevenly frequent as in real text (Zipf's law). The index is built in a fresh
process, so that only index and passages count as memory; dense ranking is over random unit rows.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from statistics import median, quantiles
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.measuring import Row, measure_call
from selfwire.extras.cluster.peak_memory import measure_peak
from selfwire.tools.search import Document, find_nearest, make_bm25_retriever

PASSAGES, WORDS, QUERY_WORDS, VOCABULARY = 100_000, 60, 12, 200_000
EXPONENT = 1.07
QUERIES, K, DIMENSIONS = 200, 5, 384


def measure_retrieval(passages: int = PASSAGES) -> list[Row]:
    """Measure BM25 in a fresh process, then dense ranking."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        bm25 = fresh.submit(measure_bm25, passages).result()
    return [*bm25, *measure_dense(passages)]


def measure_dense(passages: int) -> list[Row]:
    """Rank random unit rows by their cosine to random queries."""
    rng = np.random.default_rng(0)
    rows, queries = (_make_unit_rows(rng, count) for count in (passages, QUERIES))
    what = f"dense, {passages:,} rows of {DIMENSIONS}"
    ranked = _measure_queries(what, [partial(find_nearest, rows, query, K) for query in queries])
    return [Row(what=f"{what}: memory", value=rows.nbytes / 1e6, unit="MB"), *ranked]


def measure_bm25(passages: int) -> list[Row]:
    """Build an index and put queries to it."""
    documents, queries = make_corpus(passages)
    before = _measure_memory()
    retriever = make_bm25_retriever(documents)
    build = asyncio.run(measure_call(partial(retriever.rank, queries[0], K)))  # the first query builds the index
    index, peak = _measure_memory() - before, measure_peak() - before
    what = f"BM25, {passages:,} passages of {WORDS} words"
    return [
        Row(what=f"{what}: index build", value=build.wall, unit="s"),
        Row(what=f"{what}: memory of the index", value=index / 1e6, unit="MB"),
        Row(what=f"{what}: memory while it is built", value=peak / 1e6, unit="MB"),
        *_measure_queries(what, [partial(retriever.rank, query, K) for query in queries]),
    ]


def make_corpus(passages: int) -> tuple[list[Document], list[str]]:
    """Passages and queries; the same every time."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, VOCABULARY + 1) ** EXPONENT
    shares /= shares.sum()
    texts = rng.choice(VOCABULARY, size=(passages, WORDS), p=shares)
    queries = rng.choice(VOCABULARY, size=(QUERIES, QUERY_WORDS), p=shares)
    return [Document(title=f"w{row[0]} w{row[1]}", text=_text(row)) for row in texts], [_text(row) for row in queries]


def _text(row: npt.NDArray[np.int64]) -> str:
    return " ".join(f"w{word}" for word in row)


def _make_unit_rows(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    rows = rng.standard_normal((count, DIMENSIONS), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _measure_queries(what: str, queries: Sequence[Callable[[], Any]]) -> list[Row]:
    async def measure() -> list[float]:
        return [1000 * (await measure_call(query)).wall for query in queries]

    times = asyncio.run(measure())
    return [
        Row(what=f"{what}: a query, median", value=median(times), unit="ms"),
        Row(what=f"{what}: a query, 95th percentile", value=quantiles(times, n=20)[-1], unit="ms"),
    ]


def _measure_memory() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * 4096
    except OSError:  # pragma: no cover - a bench is run by hand
        return measure_peak()

"""What retrieval over many short passages costs: building the index, a query, memory. Embedding is left out.

Passages are drawn from a vocabulary whose frequencies fall as in real text (Zipf's law); queries likewise. The index
is built in a process of its own, so that memory is that of index and passages and of nothing else; dense ranking is
over random unit rows.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median, quantiles

import numpy as np
import numpy.typing as npt

from selfwire.bench.team import Row
from selfwire.tools.retrievers import Retriever, find_nearest
from selfwire.tools.search import Document, make_bm25_retriever

PASSAGES, WORDS, QUERY_WORDS, VOCABULARY = 100_000, 60, 12, 200_000
EXPONENT = 1.07
QUERIES, K, DIMENSIONS = 200, 5, 384


def measure_retrieval(passages: int = PASSAGES) -> list[Row]:
    """Measure."""
    code = f"from selfwire.bench import retrieval; retrieval.print_bm25({passages})"
    command = [sys.executable, "-c", code]
    bm25 = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    what = f"BM25, {passages:,} passages of {WORDS} words"
    return [
        Row(what=f"{what}: index build", value=bm25["build"], unit="s"),
        Row(what=f"{what}: memory of the index", value=bm25["index_mb"], unit="MB"),
        Row(what=f"{what}: memory while it is built", value=bm25["peak_mb"], unit="MB"),
        *_latencies(what, bm25["seconds"]),
        *measure_dense(passages),
    ]


def measure_dense(passages: int) -> list[Row]:
    """Rank random unit rows by their cosine to random queries."""
    rng = np.random.default_rng(0)
    rows, queries = (_units(rng, count) for count in (passages, QUERIES))
    seconds = [_timed(partial(find_nearest, rows, query, K)) for query in queries]
    what = f"dense, {passages:,} rows of {DIMENSIONS}"
    return [Row(what=f"{what}: memory", value=rows.nbytes / 1e6, unit="MB"), *_latencies(what, seconds)]


def print_bm25(passages: int) -> None:
    """Build an index, put queries to it, and print figures as JSON: seconds and megabytes."""
    documents, queries = make_corpus(passages)
    before = _memory()
    started = time.perf_counter()
    ranks = make_bm25_retriever(documents)
    asyncio.run(ranks.rank(queries[0], K))
    build = time.perf_counter() - started
    index, peak = _memory() - before, _peak() - before
    seconds = asyncio.run(_searched(ranks, queries))
    figures = {"build": build, "index_mb": index / 1e6, "peak_mb": peak / 1e6, "seconds": seconds}
    sys.stdout.write(json.dumps(figures))


async def _searched(ranks: Retriever, queries: Sequence[str]) -> list[float]:
    seconds = []
    for query in queries:
        started = time.perf_counter()
        await ranks.rank(query, K)
        seconds.append(time.perf_counter() - started)
    return seconds


def make_corpus(passages: int) -> tuple[list[Document], list[str]]:
    """Passages and queries of words that are as unevenly frequent as those of real text; the same every time."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, VOCABULARY + 1) ** EXPONENT
    shares /= shares.sum()
    texts = rng.choice(VOCABULARY, size=(passages, WORDS), p=shares)
    asked = rng.choice(VOCABULARY, size=(QUERIES, QUERY_WORDS), p=shares)
    return [Document(title=f"w{row[0]} w{row[1]}", text=_text(row)) for row in texts], [_text(row) for row in asked]


def _text(row: npt.NDArray[np.int64]) -> str:
    return " ".join(f"w{word}" for word in row)


def _units(rng: np.random.Generator, count: int) -> npt.NDArray[np.float32]:
    rows = rng.standard_normal((count, DIMENSIONS), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _latencies(what: str, seconds: list[float]) -> list[Row]:
    return [
        Row(what=f"{what}: a query, median", value=1000 * median(seconds), unit="ms"),
        Row(what=f"{what}: a query, 95th percentile", value=1000 * quantiles(seconds, n=20)[-1], unit="ms"),
    ]


def _memory() -> int:
    """Resident bytes of this process now; as the most so far where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as told:
            return int(told.read().split()[1]) * 4096
    except OSError:
        return _peak()


def _peak() -> int:
    """Most resident bytes of this process so far."""
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024

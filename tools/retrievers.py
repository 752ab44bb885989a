"""Retrievers rank the passages of a corpus for a query: by BM25 over words, by cosines of embeddings, or by both.

    bm25     sum over words t of  idf(t) · f / (f + k1·(1 − b + b·|d|/avgdl))     (Robertson et al., 1994; bm25s)
    dense    cos(Emb(query), Emb(passage))
    hybrid   sum over retrievers r of  1 / (60 + rank_r(d))                        (Cormack et al., 2009)

All are deterministic: passages with equal scores come in the order of the corpus.
"""

import asyncio
import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args
from weakref import WeakKeyDictionary

from selfwire.core.protocols import Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

RetrieverName = Literal["bm25", "dense", "hybrid"]
NAMES: tuple[RetrieverName, ...] = get_args(RetrieverName)

SMALL = 40
"""In a corpus of fewer passages, words count even if most passages have them; the query may have no others."""

DIGITS = 6
"""Decimal places of similarities, so that equal texts tie on every machine."""

CHUNK = 1024
"""Passages that are embedded at a time; a cancelled search stops after one chunk."""

RRF_K = 60
"""Constant of reciprocal rank fusion, as in the paper."""

RRF_DEPTH = 100
"""Ranks of each retriever that are fused; later ones add less than 1/160."""

_WORD = re.compile(r"\w+")


class Retriever(Protocol):
    """Ranks the passages of a corpus."""

    async def rank(self, query: str, k: int) -> tuple[int, ...]:
        """Indices of at most k passages, best first; fewer if fewer are relevant."""
        ...


class Bm25Retriever:
    """BM25 with k1 = 1.5 and b = 0.75; passages with a score of 0 are left out. The first search builds the index."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._lock = threading.Lock()
        self._index: _WordIndex | None = None

    async def rank(self, query: str, k: int) -> tuple[int, ...]:
        """See `Retriever`."""
        index = await asyncio.to_thread(self._build_index) if self._index is None else self._index
        known = [index.places[word] for word in sorted(set(split_words(query))) if word in index.places]
        if not known:
            return ()
        scores = index.weights.get_scores_from_ids(known)
        return tuple(i for i in find_best(scores, k) if scores[i] > 0)

    def _build_index(self) -> "_WordIndex":
        with self._lock:  # simultaneous searches share one index
            if self._index is None:
                self._index, self._texts = _index_words(self._texts), ()
            return self._index


class DenseRetriever:
    """Cosine similarity of embeddings; the first search embeds the passages."""

    def __init__(self, texts: Sequence[str], embedder: Embedder) -> None:
        self._texts, self._embedder = texts, embedder
        self._rows: npt.NDArray[np.float32] | None = None
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def rank(self, query: str, k: int) -> tuple[int, ...]:
        """See `Retriever`."""
        if not self._texts:
            return ()
        rows = self._rows if self._rows is not None else await self._embed_texts()
        (embedded,) = await self._embedder.embed([query])
        return find_nearest(rows, embedded, k)

    async def _embed_texts(self) -> "npt.NDArray[np.float32]":
        import numpy as np

        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:  # simultaneous searches wait for one embedding of the corpus
            if self._rows is None:
                starts = range(0, len(self._texts), CHUNK)
                self._rows = np.concatenate([await self._embedder.embed(self._texts[i : i + CHUNK]) for i in starts])
            return self._rows


class HybridRetriever:
    """Reciprocal rank fusion of several retrievers over the same passages."""

    def __init__(self, *retrievers: Retriever) -> None:
        self.retrievers = retrievers

    async def rank(self, query: str, k: int) -> tuple[int, ...]:
        """See `Retriever`."""
        depth = max(k, RRF_DEPTH)
        return fuse_rankings([await one.rank(query, depth) for one in self.retrievers])[:k]


def split_words(text: str) -> list[str]:
    """Words in lower case, as BM25 counts them."""
    return _WORD.findall(text.lower())


def find_best(scores: "npt.NDArray[np.float64]", k: int) -> tuple[int, ...]:
    """Indices of the k highest of N scores, highest first; ties go to the smaller index."""
    import numpy as np

    if k < len(scores):
        least = np.partition(scores, -k)[-k]
        candidates = np.flatnonzero(scores >= least)
    else:
        candidates = np.arange(len(scores))
    order = candidates[np.argsort(-scores[candidates], kind="stable")[:k]]
    return tuple(map(int, order))


def find_nearest(rows: "npt.NDArray[np.float32]", query: "npt.NDArray[np.float32]", k: int) -> tuple[int, ...]:
    """Indices of the k rows of shape (N, d) most similar to a query of shape (d,); all are unit rows or zero."""
    import numpy as np

    similarities: npt.NDArray[np.float64] = np.asarray(rows @ query, dtype=np.float64).round(DIGITS)
    return find_best(similarities, k)


def fuse_rankings(rankings: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """All ranked indices by the sum of 1 / (60 + rank), ranks from 1; ties go to the smaller index."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, place in enumerate(ranking, 1):
            scores[place] = scores.get(place, 0.0) + 1 / (RRF_K + rank)
    return tuple(sorted(scores, key=lambda place: (-round(scores[place], 12), place)))


class _WordIndex(NamedTuple):
    weights: Any
    places: dict[str, int]


def _index_words(texts: Sequence[str]) -> _WordIndex:
    from bm25s import BM25  # 0.3 s with its scipy

    places: dict[str, int] = {}
    rows = [[places.setdefault(word, len(places)) for word in split_words(text)] for text in texts]
    rarity = "lucene" if len(rows) < SMALL else "robertson"  # lucene's is above 0 even for words in every passage
    weights = BM25(method="robertson", idf_method=rarity, dtype="float64")
    if places:
        weights.index((rows, dict(places)), show_progress=False)
    return _WordIndex(weights, places)

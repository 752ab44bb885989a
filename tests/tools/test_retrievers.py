"""Retrievers: hand-worked ranks, ties, laziness and parallel first searches."""

import asyncio
import hashlib
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.evals.benchmarks.archive import archive, generate_archive
from selfwire.models.embeddings import HashingEmbedder
from selfwire.tools.search import (
    CHUNK,
    NAMES,
    Bm25Retriever,
    DenseRetriever,
    Document,
    HybridRetriever,
    Retriever,
    SearchTool,
    find_best,
    find_nearest,
    fuse_rankings,
    make_retriever,
)

TOWNS = [
    "Vask lies on the river", "Prund lies on a hill", "The river of Vask is the Onn", "Nobody lives in Kolm", "",
]  # fmt: skip


class Planes:
    name = "planes"

    def __init__(self) -> None:
        self.batches: list[int] = []

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.batches.append(len(texts))
        await asyncio.sleep(0)
        return np.array([[float(part) for part in text.split()] for text in texts], dtype=np.float32)


class Fixed:
    def __init__(self, *ranking: int) -> None:
        self.ranking = ranking

    async def rank(self, query: str, k: int) -> tuple[int, ...]:
        return self.ranking[:k]


async def test_bm25_ranks_by_rare_words_and_leaves_strangers_out() -> None:
    ranks: Retriever = Bm25Retriever(TOWNS)
    assert await ranks.rank("the river Onn", 5) == (2, 0)
    assert await ranks.rank("the river Onn", 1) == (2,)
    assert await ranks.rank("zebra", 5) == ()
    assert await ranks.rank("?!", 5) == ()


async def test_bm25_by_hand() -> None:
    """k1 = 1.5, b = 0.75, idf = ln(1 + (N - n + 0.5) / (n + 0.5)) in a small corpus; avgdl = 3."""
    index = Bm25Retriever(["a b", "a a c d", "e f g"])
    await index.rank("a", 3)
    assert index._index is not None
    found = index._index.weights.get_scores_from_ids([index._index.places["a"]])
    rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    once = rarity * 1 / (1 + 1.5 * (0.25 + 0.75 * 2 / 3))
    twice = rarity * 2 / (2 + 1.5 * (0.25 + 0.75 * 4 / 3))
    assert found == pytest.approx([once, twice, 0])


async def test_a_word_of_more_than_half_of_a_large_corpus_says_nothing() -> None:
    ranks = Bm25Retriever([*(f"the town {n}" for n in range(60)), *(f"river{n}" for n in range(40))])
    assert await ranks.rank("the", 5) == ()
    assert await ranks.rank("the river7", 5) == (67,)


async def test_passages_that_score_the_same_come_in_the_order_of_the_corpus() -> None:
    same = ["a town by the sea"] * 200 + ["a mountain"] * 300
    assert await Bm25Retriever(same).rank("sea", 7) == tuple(range(7))
    assert await DenseRetriever(same, HashingEmbedder()).rank("town by the sea", 7) == tuple(range(7))


@pytest.mark.parametrize("texts", [(), ("", " "), ("!?",)])
@pytest.mark.parametrize("name", NAMES)
async def test_a_corpus_without_words_finds_nothing_by_words_and_never_fails(name: str, texts: Sequence[str]) -> None:
    ranks = make_retriever(name, [Document(title="", text=text) for text in texts], HashingEmbedder())
    found = await ranks.rank("anything", 3)
    assert found == () if name == "bm25" else len(found) <= len(texts)


async def test_dense_ranks_by_cosine() -> None:
    planes = Planes()
    ranks = DenseRetriever(["1 0", "0 1", "0.6 0.8"], planes)
    assert await ranks.rank("0 1", 2) == (1, 2)
    assert await ranks.rank("0.8 0.6", 3) == (2, 0, 1)
    assert planes.batches == [3, 1, 1]


async def test_first_searches_at_the_same_time_embed_the_corpus_once() -> None:
    planes = Planes()
    ranks = DenseRetriever([f"{n % 2} {(n + 1) % 2}" for n in range(CHUNK + 1)], planes)
    found = await asyncio.gather(*(ranks.rank("1 0", 2) for _ in range(5)))
    assert set(found) == {(1, 3)}
    assert sorted(planes.batches) == [1] * 6 + [CHUNK]


async def test_first_searches_at_the_same_time_build_one_index() -> None:
    ranks = Bm25Retriever(TOWNS)
    indices = await asyncio.gather(*(asyncio.to_thread(ranks._build_index) for _ in range(8)))
    assert len({id(one) for one in indices}) == 1


async def test_fusion_by_hand() -> None:
    """0: 1/61 + 1/63; 1: 1/62 + 1/61; 2: 1/63; 3: 1/62."""
    assert fuse_rankings([(0, 1, 2), (1, 3, 0)]) == (1, 0, 3, 2)
    assert fuse_rankings([(4, 2), (2, 4)]) == (2, 4)
    assert await HybridRetriever(Fixed(0, 1, 2), Fixed(1, 3, 0)).rank("q", 3) == (1, 0, 3)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=30), st.integers(1, 40))
def test_best_is_the_head_of_a_stable_sort(scores: list[float], k: int) -> None:
    whole = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    assert find_best(np.array(scores), k) == tuple(whole[:k])


def test_rounding_makes_nearly_equal_similarities_tie() -> None:
    rows = np.array([[1.0, 0.0], [1.0, 1e-9]], dtype=np.float32)
    assert find_nearest(rows, np.array([0.6, 0.8], dtype=np.float32), 2) == (0, 1)


def test_an_unknown_retriever_and_a_missing_embedder_are_named() -> None:
    with pytest.raises(ConfigError, match="no retriever 'tfidf'; choose bm25, dense, hybrid"):
        make_retriever("tfidf", [])
    for name in ("dense", "hybrid"):
        with pytest.raises(ConfigError, match="was given no embedder"):
            make_retriever(name, [])


async def test_a_search_tool_searches_as_its_retriever_does() -> None:
    documents = [Document(title=str(n), text="x") for n in range(4)]
    tool = SearchTool(documents, k=2, retriever=Fixed(3, 1, 0))
    assert [one.title for one in await tool.passages("q")] == ["3", "1"]


async def test_archives_passages_are_what_they_have_always_been() -> None:
    """The published studies searched these passages; another index must find the same, in the same order."""
    made, tool = generate_archive(40), archive(40).toolbox["search"]
    digest = hashlib.sha256()
    for task in made.tasks:
        names = [entity for entity in task.entities if entity in task.input]
        for query in (task.input, task.input.split("\n")[0], *names, *(f"{name} founded year" for name in names)):
            digest.update((await tool.run({"query": query}, scope=Scope())).encode())
    assert digest.hexdigest() == "51231965adee364b0db9e9369e171544b3534e45d9491fbf13a6e7764bb1f2bf"

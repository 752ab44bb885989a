"""The barrier: what is delivered, to whom, in which order, and what a full memory lets go."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.trajectory import ToolUse
from selfwire.evolvers.dytopo.delivery import (
    DeliveryResult,
    Memory,
    MemoryEntry,
    cap_memory,
    describe_needs,
    limit_words,
    update_memories,
)
from selfwire.evolvers.dytopo.induction import Descriptors, RoundGraph, ScoredEdge
from selfwire.evolvers.dytopo.turns import WorkerTurn


def said(worker: str, private: str = "", **fields: object) -> WorkerTurn:
    return WorkerTurn.model_validate({"worker": worker, "public": f"{worker} speaks", "private": private, **fields})


def graph(*edges: str) -> RoundGraph:
    ends = [edge.split(">") for edge in edges]
    return RoundGraph(edges=tuple(ScoredEdge(source=a, target=b, score=1 - at / 10) for at, (a, b) in enumerate(ends)))


def delivered(
    *speakers: WorkerTurn, along: RoundGraph, memories: Mapping[str, Memory] | None = None, limit: int = 10_000
) -> DeliveryResult:
    return update_memories(memories or {}, speakers, along, limit=limit)


def texts(done: DeliveryResult, worker: str) -> list[str]:
    return [entry.text for entry in done.memories.get(worker, ())]


def test_a_worker_remembers_its_own_public_message_then_routed_ones_by_relevance() -> None:
    done = delivered(said("a", "from a"), said("b", "from b"), said("c"), along=graph("b>c", "a>c"))
    assert texts(done, "c") == ["c speaks", "from b", "from a"]
    assert [entry.kind for entry in done.memories["c"]] == ["own", "routed", "routed"]


def test_only_routed_messages_arrive() -> None:
    done = delivered(said("a", "secret of a"), said("b", "secret of b"), said("c"), along=graph("a>b"))
    assert texts(done, "b") == ["b speaks", "secret of a"]
    assert texts(done, "a") == ["a speaks"]
    assert texts(done, "c") == ["c speaks"]
    assert [(mail.source, mail.target) for mail in done.messages] == [("a", "b")]


def test_d2_a_private_message_is_one_text_that_reaches_everybody_who_is_connected() -> None:
    done = delivered(said("a", " for b: 7 "), said("b"), said("c"), said("d"), along=graph("a>b", "a>c"))
    assert [texts(done, worker)[1:] for worker in "bcd"] == [["for b: 7"], ["for b: 7"], []]


def test_d17_a_worker_remembers_the_newest_answer_that_it_has_given() -> None:
    first = delivered(said("a", answer="1842"), said("b"), along=graph())
    assert texts(first, "a") == ["a speaks", "1842"]
    silent = delivered(said("a", round=1), said("b"), along=graph(), memories=first.memories)
    assert texts(silent, "a") == ["a speaks", "1842", "a speaks"]
    third = delivered(said("a", round=2, answer="1843"), said("b"), along=graph(), memories=silent.memories)
    assert texts(third, "a") == ["a speaks", "a speaks", "a speaks", "1843"]
    assert [entry.kind for entry in third.memories["a"]] == ["own", "own", "own", "answer"]
    assert "1843" not in texts(third, "b")


def test_d18_who_was_not_asked_keeps_its_memory_and_hears_nothing() -> None:
    before = delivered(said("a", "hello"), said("b", "hi"), along=graph("a>b"))
    after = delivered(said("a", "more", round=1), said("b", asked=False), along=graph("a>b"), memories=before.memories)
    assert texts(after, "b") == texts(before, "b")
    assert after.messages == ()


def test_needs_say_who_answered_and_not_who_could_have() -> None:
    turns = (
        said("a", "the year is 1900", descriptors=Descriptors(key="the year")),
        said("b", descriptors=Descriptors(key="the year")),
        said("c", descriptors=Descriptors(query="the year")),
    )
    assert describe_needs(turns, graph("a>c", "b>c")) == {"c": "the year (sent by a)"}
    assert describe_needs(turns, graph("b>c")) == {"c": "the year (b offered it and sent nothing)"}
    assert describe_needs(turns, graph()) == {"c": "the year (no offer fitted)"}


def test_an_edge_without_a_private_message_delivers_nothing_and_blank_public_ones_are_not_remembered() -> None:
    done = delivered(said("a", public="  "), said("b"), along=graph("a>b"))
    assert (done.messages, texts(done, "a")) == ((), [])


def test_d5_results_of_tools_reach_their_user_and_nobody_else() -> None:
    use = ToolUse(name="search", arguments={"query": "x"}, result="found")
    done = delivered(said("a", "hello", tools=(use,)), said("b", "hi"), along=graph("a>b", "b>a"))
    assert texts(done, "a") == ["a speaks", "query: x\n\nIt gave:\nfound", "hi"]
    assert texts(done, "b") == ["b speaks", "hello"]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"code": "n = 1\nprint(n)", "seconds": 3}, "code:\nn = 1\nprint(n)\nseconds: 3\n\nIt gave:\n1"),
        ({"years": [1874, 1881]}, "years: [1874, 1881]\n\nIt gave:\n1"),
        ({}, "It gave:\n1"),
        ("no JSON", "no JSON\n\nIt gave:\n1"),
    ],
)
def test_the_input_of_a_tool_is_remembered_as_plain_text(arguments: object, shown: str) -> None:
    use = ToolUse(name="python", arguments=arguments, result="1")
    assert texts(delivered(said("a", tools=(use,)), along=graph()), "a") == ["a speaks", shown]


def test_d6_a_failed_worker_keeps_its_memory_and_neither_sends_nor_receives() -> None:
    before = {"a": (MemoryEntry(round=0, source="a", kind="own", text="first"),)}
    done = delivered(
        said("a", "lost", error="the provider is down"), said("b", "hi"), along=graph("a>b", "b>a"), memories=before
    )
    assert texts(done, "a") == ["first"]
    assert texts(done, "b") == ["b speaks"]


def test_d8_the_oldest_entries_go_first_and_are_recorded() -> None:
    before = {"a": tuple(MemoryEntry(round=at, source="a", kind="own", text=str(at) * 40) for at in range(5))}
    done = delivered(said("a", round=5), along=graph(), memories=before, limit=100)
    assert texts(done, "a") == ["3" * 40, "4" * 40, "a speaks"]
    assert done.memories["a"][-1].round == 5
    assert [dropped.entry.text[0] for dropped in done.dropped] == ["0", "1", "2"]


def test_d8_a_memory_that_one_round_overfills_keeps_what_its_owner_said_and_the_most_relevant_messages() -> None:
    before = {"c": (MemoryEntry(round=0, source="c", kind="own", text="old"),)}
    done = delivered(
        said("a", "a" * 40, round=1),
        said("b", "b" * 40, round=1),
        said("c", round=1),
        along=graph("b>c", "a>c"),
        memories=before,
        limit=60,
    )
    assert texts(done, "c") == ["c speaks", "b" * 40]
    assert [dropped.entry.text[0] for dropped in done.dropped] == ["o", "a"]


@given(st.lists(st.text(max_size=30), max_size=12), st.integers(1, 100))
def test_a_capped_memory_loses_no_entry_and_keeps_the_newest(words: list[str], limit: int) -> None:
    memory = tuple(MemoryEntry(round=at, source="a", kind="own", text=text) for at, text in enumerate(words))
    kept, gone = cap_memory(memory, limit)
    assert (*gone, *kept) == memory
    assert kept[-1:] == memory[-1:]
    assert len(kept) == min(len(memory), 1) or sum(len(entry.text) for entry in kept) <= limit


def test_d8_who_can_read_few_words_reads_the_most_relevant_ones_and_a_part_of_the_last() -> None:
    speakers = [said("a", "from a\nmore of a"), said("b", "from b"), said("c"), said("d")]
    done = update_memories({}, speakers, graph("b>c", "a>c", "a>d"), limit=10_000, words=4)
    assert texts(done, "c") == ["c speaks", "from b", "from a"]
    assert texts(done, "d") == ["d speaks", "from a\nmore of"]
    assert limit_words(done.messages, 2) == tuple(mail.replace(text=mail.text[:6]) for mail in done.messages[::2])


def test_d8_without_relevance_messages_are_read_in_any_order_that_the_scope_draws() -> None:
    speakers = [said(worker, f"from {worker}") for worker in "abcdefgh"]
    edges = tuple(ScoredEdge(source=a, target=b) for b in "abcdefgh" for a in "abcdefgh" if a != b)

    def hear(seed: int) -> list[tuple[str, str]]:
        rng = np.random.default_rng(seed)
        done = update_memories({}, speakers, RoundGraph(edges=edges), limit=10_000, words=2, rng=rng)
        return [(mail.source, mail.target) for mail in done.messages]

    heard = {seed: hear(seed) for seed in range(4)}
    assert all([target for _, target in pairs] == list("abcdefgh") for pairs in heard.values())
    assert hear(0) == heard[0]
    assert len({source for pairs in heard.values() for source, _ in pairs}) > 5

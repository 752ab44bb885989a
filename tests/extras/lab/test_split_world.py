"""The split world of DyTopo's matching, small: what its figures mean, and that the method's own code runs in it."""

from itertools import pairwise

from selfwire.core.scope import Scope
from selfwire.evolvers.dytopo.agents import render_memory
from selfwire.evolvers.dytopo.delivery import Memory
from selfwire.extras.lab.worlds.dytopo.split import (
    KEPT,
    MAIN,
    ORACLE,
    RANDOM,
    RING,
    SINGLE,
    WORLD,
    KnowingEmbedder,
    SplitModel,
    SplitParameters,
    make_task,
    run_seed,
    run_systems,
    run_task,
)

SMALL = SplitParameters(agents=4, held=2, needs=1, late=1, rounds=5, tasks=1)
SCOPE = Scope(seed=1, task="t0")


async def test_matching_that_knows_what_is_meant_finishes_every_part_over_edges_that_carry_what_is_needed() -> None:
    task = make_task(SMALL, 1, 0)
    done = await run_task(task, SMALL, SCOPE, embedder=KnowingEmbedder(task))
    assert all(done.finished)
    assert done.report.stopped == "complete"
    edges = [(one, edge) for one in done.report.rounds for edge in one.graph.edges]
    assert edges
    for one, edge in edges:
        said = {turn.worker: turn.descriptors for turn in one.said}
        assert task.find_fact(said[edge.target].query) == task.find_fact(said[edge.source].key)


async def test_a_part_is_finished_by_what_was_read_and_in_no_other_way() -> None:
    task = make_task(SMALL, 1, 0)
    assert not any((await run_task(task, SMALL.replace(budget=SMALL.length - 1), SCOPE, threshold=-1)).finished)
    done = await run_task(task, SMALL.replace(budget=SMALL.length), SCOPE, topology="broadcast")
    assert done.read <= SMALL.length * len(task.names) * (len(done.report.rounds) - 1)
    assert not task.check("a0", "")
    assert not task.check("a0", "00000000")


async def test_systems_differ_in_their_graphs_alone() -> None:
    done = await run_systems(SMALL, 1, 0)
    first = {name: one.report.rounds[0] for name, one in done.items()}
    assert len({one.said for one in first.values() if one.graph.order}) == 1, "round 0 is the same for all"
    kept = [set(map(str, one.graph.edges)) for one in done[KEPT].report.rounds]
    assert [edge.source for edge in first[KEPT].graph.edges] == [edge.source for edge in first[MAIN].graph.edges]
    assert all(before == after for before, after in pairwise(kept))
    for one in done[RING].report.rounds:
        assert {(edge.source, edge.target) for edge in one.graph.edges} == {
            ("a0", "a1"), ("a1", "a2"), ("a2", "a3"), ("a3", "a0")
        }  # fmt: skip
    assert len(first[RANDOM].graph.edges) == len(first[MAIN].graph.edges)
    assert (len(done[SINGLE].report.rounds), done[SINGLE].read) == (1, 0)


def test_a_need_and_an_offer_of_the_same_fact_are_worded_differently() -> None:
    task = make_task(SMALL, 0, 0)
    model = SplitModel(task, SMALL)
    texts = [model._name([2], SCOPE.at(visit=at), "key") for at in range(5)]
    assert len(set(texts)) == 5
    assert {task.find_fact(text) for text in texts} == {2}
    assert task.find_fact(" ".join(task.vocabulary)) is None


def test_a_worker_recalls_its_own_note_and_reads_the_last_round() -> None:
    memory: Memory = ()
    model = SplitModel(make_task(SMALL, 0, 0), SMALL)
    assert model._recall(render_memory(memory), 0) == ("", [])
    shown = "[You, round 1]\nold\n\n[You, round 2]\nKnown: 3=0000000a\n\n[From a1, round 2]\n4=0000000b and"
    notes, letters = model._recall(shown, 2)
    assert (notes.strip(), letters) == ("Known: 3=0000000a", ["4=0000000b and"])


async def test_no_system_gets_more_than_matching_that_knows_and_a_seed_repeats_itself() -> None:
    first = await run_seed(SMALL, 1)
    assert await run_seed(SMALL, 1) == first
    assert first.figures[ORACLE]["parts"] == max(one["parts"] for one in first.figures.values())
    assert first.figures[SINGLE]["parts"] == 0
    assert "| matching | random edges |" in WORLD.format_tables([first, first.replace(seed=2)])

"""The experience library: utilities, ADD, MERGE, PRUNE, KEEP, bounds, and that it is a value of the team."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.evolvers.hera.library import (
    SOURCES,
    Insight,
    InsightSource,
    LibraryConfig,
    add_insight,
    get_library,
    import_insights,
    limit_size,
    merge_insights,
    remove_insights,
    update_utilities,
    with_library,
)
from selfwire.evolvers.hera.reflection import apply_operation, consolidate_insights
from selfwire.evolvers.hera.schemas import LibraryOperation, LibraryOperations
from tests.evolvers.hera.doubles import BRIDGE, COMPARISON, Angles, known, meta_model, pool
from tests.scripted import ScriptedModel, prompts

CONFIG = LibraryConfig()


@pytest.mark.parametrize(("successes", "uses", "rank"), [(0, 0, 0.6), (9, 10, 0.863484), (1, 10, 0.196818)])
def test_rank_is_the_success_rate_and_a_bonus_for_the_rarely_used(successes: int, uses: int, rank: float) -> None:
    assert known("z", uses, successes).rank == pytest.approx(rank, abs=1e-6)


def test_d1_a_used_insight_moves_both_ways() -> None:
    one = known("z", 2, 1)
    [better], [worse] = (update_utilities((one,), {one.id: (4, wins)}) for wins in (4, 0))
    assert worse.utility < one.utility < better.utility
    assert (better.uses, better.successes, worse.uses, worse.successes) == (6, 5, 6, 1)
    assert update_utilities((one,), {"other": (4, 4)}) == (one,)


def test_d4_a_merge_adds_counts_and_joins_sources() -> None:
    old, new = known("use the reader", 4, 3), known("read twice", 2, 1)
    [one] = merge_insights((old,), new, [old.id], "use the reader, twice", 100)
    assert (one.successes, one.uses, one.text) == (4, 6, "use the reader, twice")
    assert set(one.sources) == {*old.sources, *new.sources}


def test_a_merge_of_several_leaves_one_in_the_place_of_the_first() -> None:
    first, other, third = known("a", 1, 1), known("b"), known("c", 2, 0)
    found = merge_insights((first, other, third), known("d"), [first.id, third.id], "a and c", 100)
    assert [one.text for one in found] == ["a and c", "b"]
    assert (found[0].uses, found[0].successes) == (3, 1)
    assert [one.text for one in merge_insights((first, other), known("d"), [first.id], "b", 100)] == ["b"]
    assert merge_insights((first,), known("d"), ["no such id"], "x", 100)[-1].text == "d"


def operation(name: str, *targets: Insight, text: str | None = None) -> LibraryOperation:
    ids = [one.id for one in targets]
    return LibraryOperation.model_validate(
        {"operation": name, "new_insight": "new", "target_entry_ids": ids, "merged_insight": text, "rationale": "so"}
    )


def test_d3_only_what_is_proven_worse_is_pruned_and_the_new_one_takes_its_place() -> None:
    poor, good, unproven = known("poor", 3, 0), known("good", 10, 9), known("unproven", 2, 0)
    library, new = (poor, good, unproven), known("new")
    pruned, change = apply_operation(library, new, library, operation("PRUNE", poor), CONFIG)
    assert ([one.text for one in pruned], change.operation) == (["good", "unproven", "new"], "PRUNE")
    for stays in (good, unproven):
        kept, change = apply_operation(library, new, library, operation("PRUNE", stays), CONFIG)
        assert (kept, change.operation) == (library, "KEEP")
        assert "not proven worse" in change.why
    mixed, change = apply_operation(library, new, library, operation("PRUNE", poor, good), CONFIG)
    assert (mixed, change.operation) == ((good, unproven), "PRUNE")


def test_an_operation_on_what_does_not_match_or_exist_adds_instead() -> None:
    library, new = (known("old"),), known("new")
    for wanted in (operation("MERGE", known("elsewhere")), operation("PRUNE"), None):
        found, change = apply_operation(library, new, library, wanted, CONFIG)
        assert ([one.text for one in found], change.operation) == (["old", "new"], "ADD")
    assert apply_operation(library, new, library, operation("KEEP"), CONFIG)[0] == library
    assert apply_operation(library, library[0], library, operation("PRUNE", library[0]), CONFIG)[1].operation == "KEEP"


@pytest.mark.parametrize("old", [(), (known("old", 5, 5),)])
async def test_what_matches_nothing_is_added_without_asking_and_without_a_decision_nothing_is_lost(
    old: tuple[Insight, ...],
) -> None:
    model, new = ScriptedModel(LibraryOperations=ReplyError("nonsense")), known("new")
    found, [change], _ = await consolidate_insights(old, [new], meta_model(model), Angles(), CONFIG, scope=Scope())
    assert (found, change.operation, len(model.asked)) == ((*old, new), "ADD", len(old))


def find_secret(text: str) -> str:
    return "the locksmith" if "locksmith" in text else ""


async def test_no_insight_keeps_what_copies_from_a_task() -> None:
    model, old = ScriptedModel(LibraryOperations=LibraryOperations(operations=[])), known("always use the reader")
    asked = BRIDGE.replace(summary="who was the locksmith")
    new = [known("ask for the locksmith first"), known("read again", profile=asked)]
    found, [left_out, added], _ = await consolidate_insights(
        (old,), new, meta_model(model), Angles(), CONFIG, find_copy=find_secret, scope=Scope()
    )
    assert [(one.text, one.profile.summary) for one in found] == [(old.text, BRIDGE.summary), ("read again", "")]
    assert (left_out.operation, added.operation) == ("KEEP", "ADD")
    assert left_out.why == "left out, as it copies from a train task: 'the locksmith'"


def test_a_merged_text_that_copies_from_a_task_is_not_taken() -> None:
    old, new = known("read twice"), known("read again")
    wanted = LibraryOperation(
        operation="MERGE", new_insight=new.text, target_entry_ids=[old.id], merged_insight="read of the locksmith twice"
    )
    [whole], change = apply_operation((old,), new, (old,), wanted, CONFIG, find_secret)
    assert (whole.text, change.operation) == ("read twice", "MERGE")


@pytest.mark.parametrize("name", ["consolidate", "consolidate_own_graph"])
def test_the_model_is_told_that_the_library_should_not_grow(name: str) -> None:
    assert "Prefer this to ADD: the library should not grow." in prompts("hera").texts[name]


@pytest.mark.parametrize("said", ["read twice", '- (bridge) "Read twice."', "read two times"])
async def test_a_decision_is_found_however_its_insight_is_repeated(said: str) -> None:
    old, new = known("read again"), [known("read twice."), known("ask again")]
    wanted = [
        LibraryOperation(operation="MERGE", new_insight=said, target_entry_ids=[f"[{old.id}]"], merged_insight="both"),
        LibraryOperation(operation="KEEP", new_insight="(bridge) ask again"),
    ]
    model = ScriptedModel(LibraryOperations=LibraryOperations(operations=wanted))
    found, changes, _ = await consolidate_insights((old,), new, meta_model(model), Angles(), CONFIG, scope=Scope())
    assert [change.operation for change in changes] == ["MERGE", "KEEP"]
    assert [one.text for one in found] == ["both"]


@pytest.mark.parametrize("said", ["read twice", "(bridge): \u201cRead twice.\u201d", "**Read twice**"])
async def test_a_decision_is_found_by_its_words_where_others_are_missing(said: str) -> None:
    old, new = known("read again"), [known("ask again"), known("read twice.")]
    wanted = [LibraryOperation(operation="KEEP", new_insight=said)]
    model = ScriptedModel(LibraryOperations=LibraryOperations(operations=wanted))
    _, changes, _ = await consolidate_insights((old,), new, meta_model(model), Angles(), CONFIG, scope=Scope())
    assert [change.operation for change in changes] == ["ADD", "KEEP"]


async def test_decisions_on_fewer_insights_are_not_matched_by_place() -> None:
    old, new = known("read again"), [known("read twice"), known("ask again")]
    wanted = [LibraryOperation(operation="KEEP", new_insight="something else")]
    model = ScriptedModel(LibraryOperations=LibraryOperations(operations=wanted))
    _, changes, _ = await consolidate_insights((old,), new, meta_model(model), Angles(), CONFIG, scope=Scope())
    assert [change.operation for change in changes] == ["ADD", "ADD"]


async def test_d17_the_model_decides_once_for_a_group_and_sees_the_entries_that_match() -> None:
    near, far = known("always use the reader"), known("compare twice", profile=COMPARISON)
    new = [known("leave the reader out"), known("read again")]
    model = ScriptedModel(LibraryOperations=LibraryOperations(operations=[]))
    await consolidate_insights((near, far), new, meta_model(model), Angles(), CONFIG, scope=Scope())
    [shown] = model.shown("LibraryOperations")
    assert near.text in shown
    assert far.text not in shown
    assert "- (bridge) leave the reader out\n- (bridge) read again" in shown


def test_d18_low_utility_alone_prunes_nothing_but_a_full_library_drops_the_worst_first() -> None:
    useless, good = known("useless", 50, 0), known("good", 4, 4)
    assert [one.text for one in add_insight((useless, good), known("new"), 100)] == ["useless", "good", "new"]
    assert [one.text for one in add_insight((useless, good), known("new"), 2)] == ["good", "new"]


async def test_the_model_decides_on_what_it_is_shown() -> None:
    old, new = known("always use the reader", 4, 0), known("leave the reader out")
    wanted = LibraryOperation(operation="PRUNE", new_insight=new.text, target_entry_ids=[old.id], rationale="opposites")
    model = ScriptedModel(LibraryOperations=LibraryOperations(operations=[wanted]))
    found, [change], usage = await consolidate_insights(
        (old,), [new], meta_model(model), Angles(), CONFIG, scope=Scope()
    )
    assert ([one.text for one in found], change.operation, usage.calls) == (["leave the reader out"], "PRUNE", 1)
    [shown] = model.shown("LibraryOperations")
    assert f"[{old.id}] (bridge, utility 0.17 over 4 uses) always use the reader" in shown


def test_the_worst_goes_where_there_are_too_many_among_equals_the_oldest() -> None:
    library = (known("a"), known("b", 9, 0), known("c"), known("d", 3, 3))
    assert [one.text for one in limit_size(library, 3)] == ["a", "c", "d"]
    assert [one.text for one in limit_size(library, 2)] == ["c", "d"]


def test_a_full_library_of_better_ones_stays_and_the_change_says_so() -> None:
    full = (known("a", 4, 4), known("b", 4, 4))
    found, change = apply_operation(full, known("new"), full[:1], None, LibraryConfig(size=2))
    assert (found, change.operation) == (full, "KEEP")
    assert "2 better ones fill the library" in change.why


def test_an_entry_that_was_merged_meanwhile_is_pruned_by_what_it_is_now() -> None:
    stale = known("search once", 4, 0)
    now = merge_insights((stale,), known("search one time"), [stale.id], stale.text, 100)
    found, change = apply_operation(now, known("search twice"), (stale,), operation("PRUNE", stale), CONFIG)
    assert ([one.text for one in found], change.operation) == (["search twice"], "PRUNE")


def test_the_library_lives_in_the_workflow_and_survives_json() -> None:
    team = with_library(pool(), (known("a", 2, 1), known("b")))
    read = type(team).model_validate_json(team.model_dump_json())
    assert get_library(read) == (known("a", 2, 1), known("b"))
    assert read.fingerprint == team.fingerprint != pool().fingerprint
    assert with_library(pool(), ()) == pool()


def test_an_insight_names_a_bounded_number_of_trajectories() -> None:
    sources = tuple(InsightSource(question=f"q{i}") for i in range(40))
    insight = Insight(profile=known("z").profile, text="z", sources=sources)
    assert [s.question for s in insight.sources] == [f"q{i}" for i in range(40 - SOURCES, 40)]
    assert str(InsightSource(question="q", sample=2, iteration=3, run="r")) == "r/3/q#2"


def test_imported_insights_join_the_evidence_of_those_that_are_there() -> None:
    mine, theirs = (known("a", 2, 1),), (known("a", 3, 3), known("b", 1, 0))
    found, taken = import_insights(mine, theirs, 100, {})
    assert [(one.text, one.uses, one.successes) for one in found] == [("a", 5, 4), ("b", 1, 0)]
    assert import_insights(found, theirs, 100, taken) == (found, taken)  # once is enough
    later = (known("a", 4, 3), known("b", 1, 0), known("c", 1, 1))
    more, _ = import_insights(found, later, 100, taken)
    assert [(one.text, one.uses, one.successes) for one in more] == [("a", 6, 4), ("b", 1, 0), ("c", 1, 1)]
    pruned = remove_insights(found, [known("b").id])
    assert import_insights(pruned, theirs, 100, taken) == (pruned, taken)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9)), max_size=20), st.integers(1, 4))
def test_a_library_is_bounded_and_has_each_id_once(entries: list[tuple[str, int]], size: int) -> None:
    library: tuple[Insight, ...] = ()
    for text, uses in entries:
        library = add_insight(library, known(text, uses), size)
    assert len({one.id for one in library}) == len(library) <= size
    assert remove_insights(library, [one.id for one in library]) == ()

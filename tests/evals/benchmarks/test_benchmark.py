import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.errors import ConfigError
from selfwire.core.task import Task
from selfwire.evals.benchmarks.benchmark import make_disjoint_splits, split_into_components


def made(number: int, *entities: str, text: str | None = None, kind: str = "") -> Task:
    return Task(id=f"t{number}", input=text or f"question {number}", entities=entities, kind=kind)


def test_tasks_are_grouped_through_shared_entities_and_texts() -> None:
    tasks = [made(0, "a"), made(1, "b"), made(2, "a", "c"), made(3, "c"), made(4, text="question 1")]
    assert [[task.id for task in group] for group in split_into_components(tasks)] == [["t0", "t2", "t3"], ["t1", "t4"]]
    tasks = [made(0, "a"), made(1).replace(group="a"), made(2), made(3).replace(group="a")]
    assert [[task.id for task in group] for group in split_into_components(tasks)] == [["t0"], ["t1", "t3"], ["t2"]]


@given(
    st.lists(st.lists(st.integers(0, 12), max_size=3), min_size=1, max_size=25),
    st.tuples(*[st.integers(0, 6)] * 3),
    st.integers(0, 5),
)
def test_no_entity_is_on_two_sides(entities: list[list[int]], sizes: tuple[int, int, int], seed: int) -> None:
    tasks = [made(i, *(f"e{one}" for one in of)) for i, of in enumerate(entities)]
    try:
        splits = make_disjoint_splits(tasks, seed, *sizes)
    except ConfigError:
        return
    sides = [splits.train, splits.gate, splits.test]
    assert tuple(map(len, sides)) == sizes
    for name in ("id", "input"):
        seen = [getattr(task, name) for side in sides for task in side]
        assert len(seen) == len(set(seen))
    owned = [{entity for task in side for entity in task.entities} for side in sides]
    assert sum(map(len, owned)) == len(set.union(*owned))


def test_splits_follow_from_the_seed_and_mix_kinds_evenly() -> None:
    tasks = [made(i, f"e{i}", kind="ab"[i % 2]) for i in range(200)]
    first = make_disjoint_splits(tasks, 1, 20, 20, 40)
    assert first == make_disjoint_splits(tasks, 1, 20, 20, 40)
    assert first != make_disjoint_splits(tasks, 2, 20, 20, 40)
    for side in (first.train, first.gate, first.test):
        assert abs(sum(task.kind == "a" for task in side) - len(side) / 2) <= 2


def test_too_few_tasks_are_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="3 tasks are not enough"):
        make_disjoint_splits([made(i) for i in range(3)], 0, 2, 2, 2)

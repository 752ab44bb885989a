"""What a process holds is sampled over many tasks and invocations."""

from bench import flat
from bench.flat import Held


def test_an_evaluation_and_a_graph_are_sampled_at_every_tenth() -> None:
    evaluated, invoked = flat.sample_evaluation(40), flat.sample_graph(40)
    assert len(evaluated) == len(invoked) == flat.SAMPLES
    assert all(one.memory > 10 and one.files > 2 and one.threads >= 1 for one in [*evaluated, *invoked])


def test_growth_is_counted_after_the_first_fifth() -> None:
    found = [Held(100, 9, 3), Held(120, 10, 4), *[Held(130, 10, 4)] * 7, Held(136, 11, 4)]
    rows = flat.make_rows("runs", 10_000, found)
    assert [row.value for row in rows] == [120, 136, 16 * 1024 / 8000, 11, 4]
    assert [row.bound for row in rows] == [None, None, None, 10, 4]

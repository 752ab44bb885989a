from selfwire.bench import rounds


def test_the_loop_and_the_vectorised_form_find_the_same_graph() -> None:
    for size in (8, 64):
        queries, keys = rounds.make_vectors(size)
        assert rounds.compute_looped(queries, keys) == rounds.compute_vectorised(queries, keys)
        assert rounds.compute_looped(queries, keys)[0]


def test_the_bench_tells_figures_beside_what_is_aimed_for() -> None:
    rows = rounds.measure_rounds(sizes=(8, 16), workers=4, rounds=1)
    assert [row.bound for row in rows] == [None, None, 1.15]
    assert all(row.value > 0 for row in rows)

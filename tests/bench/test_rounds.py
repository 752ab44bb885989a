from selfwire.bench import rounds


def test_the_loop_and_the_vectorised_form_find_the_same_graph() -> None:
    for size in (8, 64):
        queries, keys = rounds.vectors(size)
        assert rounds.looped(queries, keys) == rounds.vectorised(queries, keys)
        assert rounds.looped(queries, keys)[0]


def test_the_bench_tells_figures_beside_what_is_aimed_for() -> None:
    rows = rounds.run(sizes=(8, 16), workers=4, rounds=1)
    assert [row.bound for row in rows] == [None, None, 1.15]
    assert all(row.value > 0 for row in rows)

from bench import harness


def test_the_bench_runs_every_task_through_journal_and_grading() -> None:
    rows = harness.measure_evaluation_harness(tasks=20, delays=(0.01,), rounds=1)
    assert [row.bound for row in rows] == [1.3, *[None] * 4]
    assert all(row.value >= 1 for row in rows if "ideal" in row.what)
    whole, results, bare = [row.value for row in rows if "CPU per task" in row.what]
    assert 0 < results <= whole
    assert bare > 0

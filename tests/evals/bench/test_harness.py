from selfwire.evals.bench import harness


def test_the_bench_runs_every_task_through_journal_and_grading() -> None:
    rows = harness.run(tasks=20, many=40, delays=(0.01,), rounds=1)
    assert [row.bound for row in rows] == [1.3, *[None] * 7]
    assert rows[0].value >= 1
    whole, *parts = [row.value for row in rows if "CPU per task" in row.what]
    assert len(parts) == 3
    assert 0 < sum(parts) <= whole

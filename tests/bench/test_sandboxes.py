import pytest

from bench import references
from bench.references import measure_references
from bench.sandboxes import measure_sandboxes
from tests.sandboxed import needs_monty, needs_sandbox


@needs_sandbox
@needs_monty
@pytest.mark.slow
def test_sandboxes_are_measured_beside_a_bare_subprocess() -> None:
    rows = {row.what: row for row in measure_sandboxes(rounds=1, at_once=2)}
    names = [f"{name}, {act}" for name in ("bubblewrap", "monty") for act in ("run", "call", "run, cold")]
    assert {"a bare subprocess", *names} < rows.keys()
    assert all(row.value > 0 for row in rows.values() if row.bound is None)
    left = [row.value for what, row in rows.items() if "left after 2 at once" in what]
    assert left == [0, 0, 0, 0]


@needs_monty
def test_the_share_of_solutions_that_monty_runs_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = ["assert 1 + 1 == 2", "assert sorted([2, 1]) == [1, 2]", "import heapq", "import heapq\nimport no_such"]
    monkeypatch.setattr(references, "_find_programs", lambda: [("Some", programs)])
    share, reason = measure_references()
    assert (share.what, share.value) == ("Some: reference solutions that pass in Monty, 2 of 4", 50.0)
    assert (reason.what, reason.value) == ("  not: ModuleNotFoundError: No module named 'heapq'", 2)

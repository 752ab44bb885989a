import pytest

from bench import references
from bench.references import measure_references
from tests.sandboxed import needs_monty


@needs_monty
def test_the_share_of_solutions_that_monty_runs_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = ["assert 1 + 1 == 2", "assert sorted([2, 1]) == [1, 2]", "import heapq", "import heapq\nimport no_such"]
    monkeypatch.setattr(references, "_find_programs", lambda: [("Some", programs)])
    share, reason = measure_references()
    assert (share.what, share.value) == ("Some: reference solutions that pass in Monty, 2 of 4", 50.0)
    assert (reason.what, reason.value) == ("  not: ModuleNotFoundError: No module named 'heapq'", 2)

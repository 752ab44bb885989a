"""What a run records of itself, to be the same when it is resumed."""

from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from selfwire.graphs.evolution.config import EvolutionConfig
from selfwire.graphs.method_names import DEFAULT_METHOD, GROUP
from selfwire.runs import run_record
from selfwire.runs.requests import EvolveRequest


def test_a_method_of_another_package_is_recorded_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "METADATA").write_text("Name: prune-method\nVersion: 2.1\n")
    (tmp_path / "entry_points.txt").write_text(f"[{GROUP}]\nprune = prune_method:DESCRIPTOR\n")
    points = tuple(PathDistribution(tmp_path).entry_points)
    monkeypatch.setattr(run_record, "outside_methods", lambda: {"prune": points})

    def record(method: str) -> dict[str, str]:
        request = EvolveRequest(method=method, benchmark="archive", evolution=EvolutionConfig(name="x"))
        return run_record.compute_run_hashes(request, [], "hashing")

    assert record("prune")["method"] == "prune-method 2.1"
    assert "method" not in record(DEFAULT_METHOD)

"""What a run records of itself, to be the same when it is resumed."""

from datetime import UTC, datetime
from importlib.metadata import PathDistribution
from pathlib import Path, PureWindowsPath

import pytest

from selfwire.core.errors import ConfigError, JournalError
from selfwire.core.plugins import DEFAULT_METHOD, GROUP
from selfwire.core.values import is_id
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.runs import record
from selfwire.runs.spec import EvaluateSpec, EvolveSpec, SystemSpec
from selfwire.store.journal import Journal
from tests.commands import call


def test_a_graph_that_is_measured_has_models_of_its_own() -> None:
    entries = (SystemSpec(name="mine", target="shop_app:graph"),)
    request = EvaluateSpec(benchmark="archive", entries=entries)
    assert record.make_summary("eval", request, "running")["model"] == "of its own"
    mixed = request.replace(entries=(*entries, SystemSpec(name="single", target="single")))
    assert record.make_summary("compare", mixed, "running")["model"] == "offline"


def test_a_run_among_many_is_listed_with_its_start_and_read_without_a_look_at_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "runs" / "r"

    Journal.create(folder / record.JOURNAL, run="r").close()
    started = datetime.fromisoformat(record.summarise_run(tmp_path, "r").started)
    assert 0 <= (datetime.now(UTC) - started).total_seconds() < 100
    assert f"{started.astimezone():%Y-%m-%d %H:%M:%S}" in call(tmp_path, "runs").stdout
    monkeypatch.setattr(record, "list_run_names", lambda home: pytest.fail("all runs were listed"))
    assert record.get_run_folder(tmp_path, "r") == folder
    assert record.summarise_run(tmp_path, "r").started == f"{started:%Y-%m-%dT%H:%M:%S}+00:00"
    monkeypatch.undo()
    monkeypatch.setattr(record, "get_start_time", lambda path: 1e14)
    assert "run 'r' holds something that selfwire did not write (ValueError: year" in call(tmp_path, "runs").stdout
    for name in ("", ".", "..", "../runs/r", "r" * 300):
        with pytest.raises(ConfigError, match=f"no run {name!r}"):
            record.get_run_folder(tmp_path, name)
    Journal.create(tmp_path / "runs" / "up\\r" / record.JOURNAL, run="r").close()
    monkeypatch.setattr(record, "Path", PureWindowsPath)
    with pytest.raises(ConfigError, match="no run"):
        record.get_run_folder(tmp_path, "up\\r")


def test_the_name_of_a_run_is_one_that_a_run_may_have() -> None:
    """However long the names of its graph and its tasks are."""
    graph = "customer_support_assistant_graph_v2:graph"
    name = record.make_run_name(graph, benchmark="the_customer_support_questions_of_march.jsonl")
    assert is_id(name)
    assert name != record.make_run_name(graph, benchmark="the_customer_support_questions_of_march.jsonl")


def test_a_method_of_another_package_is_recorded_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "METADATA").write_text("Name: sparsify-method\nVersion: 2.1\n")
    (tmp_path / "entry_points.txt").write_text(f"[{GROUP}]\nsparsify = sparsify_method:Sparsify\n")
    points = tuple(PathDistribution(tmp_path).entry_points)
    monkeypatch.setattr(record, "outside_methods", lambda: {"sparsify": points})

    def hash_run(method: str) -> dict[str, str]:
        request = EvolveSpec(method=method, benchmark="archive", evolution=EvolutionConfig(name="x"))
        return record.compute_run_hashes(request, [], "hashing")

    assert hash_run("sparsify")["method"] == "sparsify-method 2.1"
    assert "method" not in hash_run(DEFAULT_METHOD)


async def test_a_run_of_another_version_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = Journal.create(path, run="old", facts={})
    await journal.put_note(record.REQUEST, {"evolution": {"gate": "better than before"}})
    journal.close()
    with pytest.raises(JournalError, match="or of another version of selfwire"):
        record.load_request(path, EvolveSpec)

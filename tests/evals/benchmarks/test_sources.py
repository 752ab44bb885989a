import hashlib
import json
import urllib.error
from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError
from selfwire.evals.benchmarks import sources
from selfwire.evals.benchmarks.sources import DataFile, Sources, find_source, list_sources
from tests.benchmark_data import PINNED, needs_data

NAME = "gsm8k/test.jsonl"
UPSTREAM = b'{"question": "1 + 1?", "solution": "easy", "answer": "#### 2"}\n' * 101


def unreachable(address: str) -> bytes:
    raise urllib.error.URLError("no route to host")


def pinned(monkeypatch: pytest.MonkeyPatch, content: bytes, **fields: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    where = {"repository": "o/r", "commit": "c0ffee", "path": "d/test.jsonl", "licence": "MIT"}
    one = DataFile.model_validate({**where, "sha256": digest, **fields})
    monkeypatch.setattr(sources, "list_sources", lambda: {NAME: one})


@needs_data
def test_every_file_of_the_data_folder_is_the_pinned_one() -> None:
    here = [name for name in list_sources() if not name.startswith(PINNED)]
    assert len(here) == 46
    for name in here:
        assert find_source(name).name == Path(name).name


def test_every_source_says_where_it_comes_from() -> None:
    for name, one in list_sources().items():
        assert one.licence
        assert len(one.sha256) == 64
        assert one.note or one.change == "none", name
        assert one.change == "local_only" or (len(one.commit) == 40 and one.address.startswith("https://raw.")), name


def test_a_download_is_checked_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetch(address: str) -> bytes:
        asked.append(address)
        return UPSTREAM

    pinned(monkeypatch, UPSTREAM)
    found = [Sources(None, tmp_path, fetch).find(NAME) for _ in range(2)]
    assert found[0] == found[1]
    assert found[0].read_bytes() == UPSTREAM
    assert asked == ["https://raw.githubusercontent.com/o/r/c0ffee/d/test.jsonl"]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1  # no partial file is left behind


def test_the_folder_comes_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned(monkeypatch, UPSTREAM)
    own = tmp_path / "mine" / NAME
    own.parent.mkdir(parents=True)
    own.write_bytes(UPSTREAM)
    assert Sources(tmp_path / "mine", tmp_path / "cache", unreachable).find(NAME) == own
    own.write_bytes(UPSTREAM + b"{}\n")
    with pytest.raises(ConfigError, match="not the pinned file"):
        Sources(tmp_path / "mine", tmp_path / "cache", unreachable).find(NAME)


def test_without_folder_and_network_the_way_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned(monkeypatch, UPSTREAM)
    with pytest.raises(ConfigError) as caught:
        Sources(None, tmp_path, unreachable).find(NAME)
    for told in ("no route to host", NAME, "SELFWIRE_DATA", "d/test.jsonl", "github.com/o/r", "c0ffee"):
        assert told in str(caught.value)


@pytest.mark.parametrize("content", [b"", UPSTREAM[:-9], b"<html>not found</html>"])
def test_another_file_than_the_pinned_one_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    pinned(monkeypatch, UPSTREAM, change="without_solution")
    with pytest.raises(ConfigError, match="has another hash"):
        Sources(None, tmp_path, lambda address: content).find(NAME)
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_changes_of_upstream_files_are_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = (json.dumps({"question": "1 + 1?", "answer": "#### 2"}) + "\n").encode()
    pinned(monkeypatch, bare * 101, change="without_solution")
    assert Sources(None, tmp_path, lambda address: UPSTREAM).find(NAME).read_bytes() == bare * 101
    cut = UPSTREAM[: len(UPSTREAM) // 101 * 100]
    pinned(monkeypatch, cut, change="first_100_lines")
    assert Sources(None, tmp_path, lambda address: UPSTREAM).find(NAME).read_bytes() == cut


def test_what_cannot_be_made_here_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be made from a download .* SELFWIRE_DATA"):
        Sources(None, tmp_path, unreachable).find("deepresearcher/test.jsonl")
    with pytest.raises(ConfigError, match="there is no source 'x'"):
        Sources(None, tmp_path, unreachable).find("x")


def test_a_folder_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFWIRE_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="is no folder"):
        find_source(NAME)


def test_a_spoiled_cache_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned(monkeypatch, UPSTREAM)
    path = Sources(None, tmp_path, lambda address: UPSTREAM).find(NAME)
    path.write_bytes(b"spoiled")
    with pytest.raises(ConfigError, match="delete it there"):
        Sources(None, tmp_path, unreachable).find(NAME)


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned(monkeypatch, UPSTREAM)
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ConfigError, match="cannot be kept"):
        Sources(None, tmp_path / "cache", lambda address: UPSTREAM).find(NAME)

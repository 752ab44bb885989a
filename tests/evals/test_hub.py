"""Data sets of the Hugging Face Hub, through its own client, from a local server."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError
from selfwire.evals import readers
from selfwire.evals.readers import OwnData, find_place
from selfwire.evals.tasks import read_tasks, resolve_name
from tests.commands import call
from tests.evals.test_own_data import table
from tests.wire.hub_server import HubServer, get_commit

ROWS = b"question,answer\n1 + 1?,2\n2 + 2?,4\n"
LINE = b'{"question": "1 + 1?", "answer": "2"}\n'


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    sums = table(tmp_path, "FROM (VALUES ('3 + 3?', '6'), ('4 + 4?', '8')) t(question, answer)").read_bytes()
    datasets = {
        "ada/sums": {
            "refs/convert/parquet": {
                "main/train/0000.parquet": sums, "main/test/0000.parquet": sums, "main/test/0001.parquet": sums,
            },
            "main": {"sums.csv": ROWS, "README.md": b"Sums."},
        },
        "ada/plain": {"main": {"test.csv": ROWS, "test.jsonl": LINE, "data/train-00000-of-00001.json": LINE}},
        "ada/many": {"main": {"easy/test.jsonl": LINE, "hard/test.jsonl": LINE}},
        "ada/pictures": {"main": {"a.png": b"", "../../out.csv": ROWS}},
        "ada/locked": {"main": {"test.jsonl": LINE}},
    }  # fmt: skip
    monkeypatch.setattr(readers, "TIMEOUT", 5.0)
    readers._list_files.cache_clear()
    with HubServer(datasets) as server:
        server.point_client_here(monkeypatch, str(tmp_path / "cache"))
        yield server
    readers._list_files.cache_clear()


def test_the_hubs_own_conversion_is_read_of_the_test_split(server: HubServer) -> None:
    read = read_tasks("hf:ada/sums")
    assert [(task.id, task.input, task.reference) for task in read.tasks] == [
        ("row-1", "3 + 3?", "6"), ("row-2", "4 + 4?", "8"), ("row-3", "3 + 3?", "6"), ("row-4", "4 + 4?", "8"),
    ]  # fmt: skip
    assert read.notes[0] == "ada/sums: tasks are from the split 'test'; --data-split chooses another (train)"
    assert read.notes[1].startswith("hf:ada/sums: question from 'question', reference from 'answer'; guessed")
    assert len(read_tasks("hf:ada/sums:main", OwnData(split="train")).tasks) == 2


def test_files_of_the_repository_are_read_where_there_is_no_conversion(server: HubServer) -> None:
    assert [task.input for task in read_tasks("hf:ada/plain").tasks] == ["1 + 1?"]  # JSONL comes before CSV
    assert len(read_tasks("hf:ada/plain", OwnData(split="train")).tasks) == 1
    assert [task.input for task in read_tasks("hf:ada/sums@main").tasks] == ["1 + 1?", "2 + 2?"]


def test_a_run_keeps_the_commit_and_needs_no_hub_for_it(server: HubServer) -> None:
    name = resolve_name("hf:ada/plain")
    assert name == f"hf:ada/plain@{get_commit('ada/plain', 'main')}"
    before = read_tasks(name).tasks
    server.datasets = {}
    readers._list_files.cache_clear()
    assert read_tasks(name).tasks == before


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        (
            "hf:ada/nothing",
            None,
            r"hf:ada/nothing: there is no data set 'ada/nothing' .*; if it is private, set HF_TOKEN",
        ),
        ("hf:ada/sums@v9", None, r"ada/sums has no revision 'v9'"),
        ("hf:ada/sums:other", None, r"has the configs main; name one, as in --benchmark hf:ada/sums:main$"),
        ("hf:ada/many", None, r"has the configs easy, hard; name one, as in --benchmark hf:ada/many:easy$"),
        ("hf:ada/sums", "dev", r"--data-split dev: hf:ada/sums has test, train"),
        ("hf:ada/pictures", None, r"has no file of \.parquet, .*; save it as one of them and give its path"),
        ("hf:ada/locked", None, r"its owner lets in who asks; ask on its page, then set HF_TOKEN"),
        ("hf:", None, r"'hf:' names no data set .*; write hf:owner/name"),
        ("hf:ada sums", None, r"'hf:ada sums' names no data set"),
        ("hf:ada--sums/x", None, r"there is no data set 'ada--sums/x'"),
    ],
)
def test_what_cannot_be_read_says_the_way_out(server: HubServer, name: str, split: str | None, message: str) -> None:
    server.refuses["ada/locked"] = (403, "GatedRepo")
    with pytest.raises(ConfigError, match=message):
        read_tasks(name, OwnData(split=split))


def test_a_hub_that_does_not_answer_or_breaks_down_says_the_way_out(
    server: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.refuses["ada/plain"] = (500, "")
    with pytest.raises(
        ConfigError, match=r"did not answer \(.*500.*\); download a file .* give its path to --benchmark"
    ):
        read_tasks("hf:ada/plain")
    del server.refuses["ada/plain"]
    name = resolve_name("hf:ada/plain")
    server.refuses["ada/plain"] = (500, "")
    with pytest.raises(ConfigError, match="did not answer"):  # the list of files is known, and a file is not
        read_tasks(name)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"did not answer \(.*refused\)"):
        read_tasks("hf:ada/many")


def test_a_file_that_breaks_off_says_the_way_out(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_off(*_: object, **__: object) -> str:
        raise ConnectionError("the connection was reset")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", break_off)
    with pytest.raises(ConfigError, match=r"the connection was reset.*download a file"):
        read_tasks("hf:ada/plain")


def test_a_large_file_is_refused_before_it_is_fetched(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MOST_BYTES", 10)
    with pytest.raises(ConfigError, match=r"test\.jsonl has 0 MB, more than the 0 MB .* choose another --data-split"):
        read_tasks("hf:ada/plain")
    assert not [one for one in server.asked if "resolve" in one]


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    readers._list_files.cache_clear()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", None)
    with pytest.raises(ConfigError, match=r"need the extra 'data': pip install 'selfwire\[data\]'"):
        read_tasks("hf:ada/sums")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("main/test/0000.parquet", ("main", "test")),
        ("default/partial-train/0001.parquet", ("default", "partial-train")),
        ("data/test_seen-00000-of-00002-0a1b.parquet", ("default", "test_seen")),
        ("algebra/test-00000-of-00001.parquet", ("algebra", "test")),
        ("data/dev.csv", ("default", "validation")),
        ("train/part1.jsonl", ("default", "train")),
        ("questions.json", ("default", "train")),
        ("hard/val_set.tsv", ("hard", "validation")),
        ("../x/test.csv", None),
        ("/etc/test.csv", None),
        ("README.md", None),
    ],
)
def test_paths_tell_config_and_split(path: str, place: tuple[str, str] | None) -> None:
    assert find_place(path) == place


def test_a_method_is_measured_on_a_data_set(server: HubServer, tmp_path: Path) -> None:
    called = call(tmp_path / "home", "eval", "single", "--benchmark", "hf:ada/plain", "--grader", "numeric")
    assert "run eval-plain-" in called.stdout
    assert "fewer tasks than usual: --tasks 1 (not 100)" in called.stderr

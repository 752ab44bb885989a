"""What belongs to a part of a run is copied from journal to journal, once."""

import os
from pathlib import Path

import pytest

from selfwire.core.errors import JournalError
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.store.journal import Journal
from selfwire.store.journal_file import CallResult, copy_rows, read_header

COST = Usage(calls=1, input_tokens=10, output_tokens=5, dollars=0.1)


async def send(journal: Journal, run: str, sent: list[str]) -> CallResult:
    async def call() -> CallResult:
        sent.append(run)
        return CallResult(f'{{"run": "{run}"}}', COST)

    return await journal.call_once("model", Scope(run=run), "q", call, COST)


async def test_calls_notes_and_bodies_of_the_named_runs_are_copied_and_replayed(tmp_path: Path) -> None:
    source, into = tmp_path / "part.sqlite", tmp_path / "whole.sqlite"
    sent: list[str] = []
    part, whole = Journal.create(source, run="r"), Journal.create(into, run="r")
    for run in ("r/a", "r/b"):
        await send(part, run, sent)
    await part.put_note("rows/a/t1", {"score": 1})
    await part.put_note("rows/ab/t1", {"score": 2})
    body = await part.put_body({"what": "was done"})
    await whole.put_note("rows/a/t1", {"score": 0})
    part.close()
    for _ in range(2):  # a second time changes nothing
        copy_rows(source, into, runs=["r/a"], notes=["rows/a/"], bodies=True)
    assert await whole.get_note("rows/a/t1") == {"score": 1}
    assert await whole.get_note("rows/ab/t1") is None
    assert await whole.get_body(body) == {"what": "was done"}
    whole.close()
    again = Journal.open(into)
    assert again.spend() == COST
    assert (await send(again, "r/a", sent)).replayed
    assert not (await send(again, "r/b", sent)).replayed
    assert sent == ["r/a", "r/b", "r/b"]
    again.close()


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    Journal.create(tmp_path / "whole.sqlite", run="r").close()
    (tmp_path / "part.sqlite").write_bytes(b"x" * 4096)
    with pytest.raises(JournalError, match="is not a journal of selfwire"):
        copy_rows(tmp_path / "part.sqlite", tmp_path / "whole.sqlite", runs=[], notes=[])


def test_a_journal_can_be_read_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "run" / "journal.sqlite", list[str]()
    place = os.link

    def watch(draft: Path, name: Path) -> None:
        seen.append("before" if path.exists() else "nothing")
        place(draft, name)
        seen.append(read_header(path).facts["run"])

    monkeypatch.setattr("os.link", watch)
    Journal.create(path, run="r").close()
    assert seen == ["nothing", "r"]
    assert [one.name for one in path.parent.iterdir() if one.name.startswith(".")] == []
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(JournalError, match="exists already"):
        Journal.create(path, run="r")


def test_a_process_that_was_faster_keeps_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, place = tmp_path / "run" / "journal.sqlite", os.link

    def be_late(draft: Path, name: Path) -> None:
        path.write_bytes(b"of the other process")
        place(draft, name)

    monkeypatch.setattr("os.link", be_late)
    with pytest.raises(JournalError, match="exists already; resume that run or name another"):
        Journal.create(path, run="r")
    assert path.read_bytes() == b"of the other process"
    assert [one.name for one in path.parent.iterdir() if "lease" not in one.name] == [path.name]

"""The table of weak models, without a model."""

import json
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from bench.calibrate import serve
from bench.weak import Bench, read_counts
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.models.metered_chat import ASKED, INVALID_NOTE, ObjectCounts
from selfwire.models.sync import run_sync
from selfwire.store.journal import Journal
from selfwire.store.journal_file import CallResult


def test_counts_are_read_beside_a_run_that_is_at_work(tmp_path: Path) -> None:
    async def answer(again: bool) -> CallResult:
        return CallResult(json.dumps({"metadata": {ASKED: {"again": again}}}), Usage(calls=1))

    path = tmp_path / "journal.sqlite"
    with closing(Journal.create(path, run="r")) as journal:
        for number, again in enumerate((False, False, True)):
            run_sync(journal.call_once("model", Scope(task=f"t{number}"), "q", partial(answer, again)))
        run_sync(journal.put_note(f"{INVALID_NOTE}once t1", "no year"))
        before = path.read_bytes()
        assert read_counts(path) == (3, ObjectCounts(at_once=1, again=1))
        assert path.read_bytes() == before


@pytest.mark.slow
def test_a_proof_by_a_server_ends_in_the_table_of_its_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serve(lambda body: AIMessage("Answer: Veld")) as address:
        shown = Bench(address, "smollm2", tmp_path, calls=8, tokens=60).prove(["self-refine", "centralised"])
    first, head, _, *rows = shown.splitlines()
    assert first == "prove: exit 0", (tmp_path / "prove.txt").read_text()
    assert head.startswith("| system | score [95 %] |")
    assert [row.split(" | ")[0] for row in rows if "price" not in row] == [
        "| direct", "| cot", "| self-refine", "| centralised",
    ]  # fmt: skip
    assert "prove: exit 0 after" in capsys.readouterr().err

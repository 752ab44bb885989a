"""The table of weak models, without a model."""

import json
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.weak import read_counts
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

"""A run that somebody else made, or damaged, beside a run of ours: lists and pages go on."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from selfwire.cli.commands import WRONG
from selfwire.cli.trajectories import read_trajectories
from selfwire.core.agent import Agent
from selfwire.core.errors import JournalError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.graphs.evolve import EvolutionLoop, EvolutionState
from selfwire.graphs.rollouts import TRAJECTORIES, keep_trajectories
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import get_start_notes
from selfwire.runs.evolution import SEED, OpenEvolution, load_seed
from selfwire.runs.front import read_phases
from selfwire.runs.record import (
    JOURNAL,
    REQUEST,
    SUMMARY,
    get_runs_folder,
    load_request,
    make_summary,
    refuse_other_request,
)
from selfwire.runs.spec import EvaluateSpec, SystemSpec
from selfwire.runs.systems import TEAM_DIGESTS, load_noted_teams
from selfwire.store import journal_file
from selfwire.store.journal import Journal
from selfwire.store.journal_file import CallResult, JournalReader, read_header, read_spend
from selfwire.store.library import LIBRARY_FILE, open_library
from tests.commands import call
from tests.extras.pages.test_view import TEAM, ask, serving
from tests.journals import read_journal

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
COLUMNS = (
    "key, kind, scope, iteration, phase, task, node, request, attempt, at_most, state, failures, error, reply, "
    "calls, input_tokens, output_tokens, dollars, seconds"
)
VIEW = (
    f"ALTER TABLE calls RENAME TO c; CREATE VIEW calls AS SELECT {COLUMNS}, c.rowid AS rowid FROM c, ({ENDLESS}) "
    "WHERE i < 0"
)


def make_run(home: Path, run: str) -> Path:
    path = get_runs_folder(home) / run / JOURNAL
    request = EvaluateSpec(benchmark="archive", tasks=2, entries=(SystemSpec(name="direct", target="direct"),))

    async def answer() -> CallResult:
        return CallResult("{}", Usage(calls=1, input_tokens=3, output_tokens=1))

    async def fill(journal: Journal) -> None:
        await journal.put_note(REQUEST, request.model_dump(mode="json"))
        await journal.put_note(SUMMARY, make_summary("eval", request, "finished"))
        await journal.call_once("model", Scope(task="t"), "q", answer)

    with closing(Journal.create(path, run=run)) as journal:
        run_sync(fill(journal))
    return path


def change(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        connection.commit()


def put_summary(value: Any) -> Callable[[Path], None]:
    def put(path: Path) -> None:
        change(path, f"UPDATE notes SET value = '{json.dumps(value)}' WHERE name = '{SUMMARY}'")

    return put


def run_script(script: str) -> Callable[[Path], None]:
    return lambda path: change(path, script)


SCHEMAS = {
    "endless view": run_script(VIEW),
    "view of notes": run_script(f"ALTER TABLE notes RENAME TO n; CREATE VIEW notes AS SELECT i name FROM ({ENDLESS})"),
    "trigger": run_script("CREATE TRIGGER t AFTER INSERT ON notes BEGIN DELETE FROM calls; END"),
    "index": run_script("CREATE INDEX i ON calls (abs(at_most))"),
    "generated column": run_script("ALTER TABLE notes ADD COLUMN more TEXT AS (hex(zeroblob(1)))"),
    "no calls": run_script("DROP TABLE calls"),
}
SUMMARIES: dict[str, Callable[[Path], None]] = {
    "list": put_summary([1]),
    "number": put_summary(7),
    "text": put_summary("eval"),
    "no command": put_summary({"status": "stopped: it broke", "benchmark": "b"}),
    "command is a list": put_summary({"command": ["eval"], "status": "finished"}),
}
ROWS = {
    "most tokens": run_script(
        "UPDATE calls SET input_tokens = 9223372036854775807, output_tokens = 9223372036854775807;"
        f"INSERT INTO calls SELECT 'k', {COLUMNS[5:]} FROM calls"
    ),
    "texts as numbers": run_script("UPDATE calls SET at_most = 'x', state = 'open'"),
    "no scope": run_script("UPDATE calls SET scope = '7'"),
    "request": run_script(f"UPDATE notes SET value = '[]' WHERE name = '{REQUEST}'"),
    "holder": run_script("INSERT OR REPLACE INTO notes VALUES ('holder', '{')"),
    "no run": run_script("DELETE FROM facts"),
    "nested": run_script(f"UPDATE notes SET value = '{'[' * 99_999}' WHERE name = '{SUMMARY}'"),
}


@pytest.mark.parametrize("spoil", (every := {**SCHEMAS, **SUMMARIES, **ROWS}).values(), ids=every)
def test_a_foreign_run_stops_neither_the_list_nor_a_page(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    make_run(tmp_path, "ours")
    spoil(make_run(tmp_path, "theirs"))
    listed = call(tmp_path, "runs").output
    assert "ours" in listed
    assert "theirs" in listed
    for command in (("show", "theirs"), ("report", "theirs")):
        told = call(tmp_path, *command, code=None)
        assert told.exit_code in (0, WRONG)
        assert told.exception is None or isinstance(told.exception, SystemExit)
    with serving(tmp_path) as server:
        page = ask(server)
        assert page.status == 200
        assert "ours" in page.text
        ask(server, "/runs/theirs")


@pytest.mark.parametrize("spoil", SCHEMAS.values(), ids=SCHEMAS)
def test_a_journal_with_other_tables_is_refused_before_they_are_read(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    path = make_run(tmp_path, "theirs")
    spoil(path)
    for read in (read_header, read_spend, Journal.open, JournalReader):
        with pytest.raises(JournalError, match="is not as selfwire makes it"):
            read(path)


async def keep(journal: Journal, done: Trajectory) -> str:
    """A trajectory of task t1 in the gate of the first iteration; returns the hash of its body."""
    await keep_trajectories(journal, [done], Scope(run="r", iteration=0, phase="gate"), {})
    (name,) = await journal.list_note_names(TRAJECTORIES)
    (digest,) = (await journal.get_note(name)).values()
    return str(digest)


@pytest.mark.parametrize("damaged", ["{1: 2}", '{"question": 3}', "[" * 5000])
def test_a_damaged_body_names_its_file_and_the_way_out(tmp_path: Path, damaged: str) -> None:
    done = Trajectory(question=Question(id="t1", input="Who?"), workflow="f", answer="Ada")
    path = make_run(tmp_path, "theirs")
    with closing(Journal.open(path)) as journal:
        digest = run_sync(keep(journal, done))
        run_sync(journal.put_note(SEED, digest))
        run_sync(journal.put_note(TEAM_DIGESTS, {"hiva": digest}))
    change(path, f"UPDATE bodies SET body = '{damaged}' WHERE hash = '{digest}'")
    says = re.escape(f"journal {path} is damaged: ") + ".*; start a new run, or restore the file"
    shown = call(tmp_path, "show", "theirs", code=None)
    assert re.search(says, " ".join(shown.output.split())), shown.output
    with pytest.raises(JournalError, match=says):
        load_seed(path, "hiva")
    with JournalReader(path) as reader, pytest.raises(JournalError, match=says):
        load_noted_teams(reader)
    with JournalReader(path) as reader, pytest.raises(JournalError, match=says):
        list(read_phases(reader, Trajectory))


def test_a_trajectory_with_deep_notes_is_read_again(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(230):
        deep = [deep]
    done = Trajectory(question=Question(id="t1", input="Who?"), workflow="f", answer="Ada", notes={"tree": deep})
    with closing(Journal.open(make_run(tmp_path, "deep"))) as journal:
        run_sync(keep(journal, done))
    ((_, read),) = read_trajectories(str(tmp_path), "deep")
    assert read == done


def test_reading_a_cost_or_the_facts_of_a_run_does_not_check_the_whole_file(tmp_path: Path) -> None:
    path = make_run(tmp_path, "large")
    with closing(Journal.open(path)) as journal:
        run_sync(journal.put_body("x" * 20_000))
    request = load_request(path, EvaluateSpec)
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'bodies'").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * journal_file.PAGE)
        file.write(b"\xff" * journal_file.PAGE)
    with pytest.raises(JournalError, match="is corrupt"):
        JournalReader(path)
    assert read_spend(path).calls == 1
    with pytest.raises(JournalError, match="ended before it had begun"):
        get_start_notes(path)
    with pytest.raises(JournalError, match="goes on only under the code"):  # and not that it is corrupt
        refuse_other_request(path, request.replace(tasks=3))


def test_prices_add_up_exactly_in_any_order(tmp_path: Path) -> None:
    path = make_run(tmp_path, "priced")
    for number, price in enumerate((0.1, 1e9, 0.2, -0.0, 0.3)):
        change(path, f"INSERT INTO calls SELECT 'k{number}', {COLUMNS.split(', ', 1)[1]} FROM calls LIMIT 1")
        change(path, f"UPDATE calls SET dollars = {price} WHERE key = 'k{number}'")
    change(path, "UPDATE calls SET dollars = 1e-7 WHERE substr(key, 1, 1) != 'k'")
    with closing(read_journal(path)) as journal:
        assert read_spend(path) == journal.spend()
    change(path, "UPDATE calls SET dollars = NULL WHERE key = 'k1'")
    assert read_spend(path).dollars is None
    change(path, "UPDATE calls SET input_tokens = 'many'")
    with pytest.raises(JournalError, match="is damaged"):
        read_spend(path)


def test_a_file_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_run(tmp_path, "theirs")
    monkeypatch.setattr(journal_file, "READING", -1.0)
    monkeypatch.setattr(journal_file, "STEPS", 1)
    for read in (read_header, read_spend):
        with pytest.raises(JournalError, match="cannot be read within"):
            read(path)


def test_a_report_replaces_a_link_and_is_not_written_through_it(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    page = make_run(tmp_path, "theirs").with_name("report.html")
    page.symlink_to(mine)
    call(tmp_path, "report", "theirs")
    assert mine.read_text() == "mine"
    assert not page.is_symlink()
    assert "<html" in page.read_text()
    assert [path.name for path in page.parent.glob(".*")] == []
    chosen = tmp_path / "chosen.html"
    call(tmp_path, "report", "theirs", "--out", str(chosen))
    assert "<html" in chosen.read_text()


def test_of_a_run_that_is_a_link_the_link_is_removed_and_one_that_stays_keeps_no_other(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    make_run(outside, "elsewhere")
    home = tmp_path / "home"
    make_run(home, "ours")
    (home / "runs" / "linked").symlink_to(outside / "runs" / "elsewhere")
    with closing(Journal.open(make_run(home, "busy"))):
        result = call(home, "clean", "busy", "linked", "ours", "-y", code=WRONG)
    assert "busy" in result.stderr
    assert "Traceback" not in result.output
    assert [path.name for path in (home / "runs").iterdir()] == ["busy"]
    assert (outside / "runs" / "elsewhere" / JOURNAL).exists()


def test_saved_workflows_are_not_removed_under_a_run(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        run_sync(library.save("mine", TEAM, run="busy", step=0))
    with closing(Journal.open(make_run(tmp_path, "busy"))):
        make_run(tmp_path, "ours")
        result = call(tmp_path, "clean", "ours", "--library", "-y", code=WRONG)
        assert "run 'busy' is at work and saves its teams in" in result.stderr
        assert (tmp_path / LIBRARY_FILE).exists()
        assert (tmp_path / "runs" / "ours").exists()
    call(tmp_path, "clean", "--library", "--all", "-y")
    assert not (tmp_path / LIBRARY_FILE).exists()


def test_an_evolution_finds_its_own_version_whichever_run_has_moved_the_name_on(tmp_path: Path) -> None:
    better = TEAM.with_lineage(TEAM, ()).replace(agents=(Agent(id="a", prompt="Better."), *TEAM.agents[1:]))
    with open_library(tmp_path) as library:
        for run in ("ours", "theirs"):
            run_sync(library.save("mine", TEAM, run=run, step=0))
            run_sync(library.save("mine", better, run=run, step=1))
        for run in ("ours", "theirs", "third"):
            here = SimpleNamespace(library=library, config=SimpleNamespace(name="mine"), run=run, seed_team=TEAM)
            found = run_sync(OpenEvolution.find_evolved(here))  # type: ignore[arg-type]
            assert (found and found.version) == (None if run == "third" else f"{run}.1")


def test_the_end_of_an_evolution_names_the_run_that_has_moved_the_name_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = OpenEvolution.note_end

    async def save_another(run: OpenEvolution, final: Any) -> None:
        own = await run.library.save("n", TEAM, run=run.run, step=99)
        assert own
        await run.library.save("n", TEAM.replace(agents=(Agent(id="c", prompt="Say."), *TEAM.agents)), run="t", step=1)
        await end(run, final)

    monkeypatch.setattr(OpenEvolution, "note_end", save_another)
    small = ("--gate", "mean", "--train", "2", "--gate-size", "2", "--test", "2", "--iterations", "1", "--batch", "1")
    asked = ("evolve", "hiva", "--benchmark", "archive", "--name", "n", "--gate-tasks", "1")
    result = call(tmp_path, *asked, *small)
    said = " ".join(result.stdout.split())
    assert "nothing was evolved" not in said
    assert "run 't' has saved 'n@t.1' under this name since; this run's own is 'n@" in said
    assert ".99" in said


def test_the_end_of_an_evolution_tells_of_a_rollback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = OpenEvolution.note_end

    async def roll_back(run: OpenEvolution, final: Any) -> None:
        await run.library.save("n", TEAM, run=run.run, step=99)
        await run.library.rollback("n", "0")
        await end(run, final)

    monkeypatch.setattr(OpenEvolution, "note_end", roll_back)
    small = ("--gate", "mean", "--train", "2", "--gate-size", "2", "--test", "2", "--iterations", "1", "--batch", "1")
    asked = ("evolve", "hiva", "--benchmark", "archive", "--name", "n", "--gate-tasks", "1")
    said = " ".join(call(tmp_path, *asked, *small).stdout.split())
    assert "a rollback has put 'n@" in said
    assert "has saved" not in said


def test_a_rollback_during_an_evolution_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = EvolutionLoop.save

    @wraps(save)
    async def save_and_roll_back(loop: EvolutionLoop, state: EvolutionState) -> EvolutionState:
        done = await save(loop, state)
        if state["iteration"] == 0:
            await loop.library.rollback("n", "0")
        return done

    monkeypatch.setattr(EvolutionLoop, "save", save_and_roll_back)
    small = ("--gate", "off", "--train", "8", "--gate-size", "2", "--test", "0", "--iterations", "3", "--batch", "4")
    said = " ".join(call(tmp_path, "evolve", "hiva", "--benchmark", "archive", "--name", "n", *small).stdout.split())
    with open_library(tmp_path) as library:
        history = run_sync(library.history("n"))
    assert [version.step for version in history.versions] == [0, 1, 2, 3]
    assert history.head == history.versions[0].version
    assert f"a rollback has put '{history.versions[0].ref}' under this name" in said
    assert f"this run's own is '{history.versions[3].ref}'" in said

"""The reading commands, end to end over a library and runs on disk."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import selfwire
from selfwire.cli.app import build
from selfwire.cli.versions import explain_drafts, format_outcome, format_scores
from selfwire.core.agent import Agent
from selfwire.core.edits import (
    AddEdge,
    AddNode,
    Grant,
    RemoveEdge,
    RemoveTool,
    Revoke,
    Rewiring,
    RewritePrompt,
    RewriteTool,
)
from selfwire.core.own_tool import ToolExample, ToolRecord
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.usage import Budget, Usage
from selfwire.models.sync import run_sync
from selfwire.runs.record import JOURNAL, SUMMARY
from selfwire.store.journal import Journal
from selfwire.store.journal_file import CallResult
from selfwire.store.library import History, Version, open_library
from tests.commands import call
from tests.core.generators import SOURCES, make_tool

SEED = Team(
    method="hiva",
    agents=(
        Agent(id="plan", role="plans", prompt="Plan [bold]it[/bold].\nThen stop.", memory=("dates matter",)),
        Agent(id="answer", prompt="Answer.", tools=("search",), kind="aggregator"),
    ),
    topology=make_chain("plan", "answer"),
    memory={"beliefs": {"plan": [1, 1]}},
)
GROWN = SEED.apply(
    Rewiring(
        AddNode("check", "plan"),
        AddEdge("plan", "check"),
        AddEdge("check", "answer"),
        RemoveEdge("plan", "answer"),
        RewritePrompt("plan", "Plan [bold]it[/bold].\nThen check."),
        Revoke("answer", "search"),
        Grant("answer", "calculator"),
        why="answers were wrong",
        operation="ADD_SERIAL",
        by="plan",
    )
).with_memory(beliefs={"plan": [2, 1]})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    async def fill() -> None:
        with open_library(tmp_path / "home") as library:
            await library.save("archive", SEED, run="r1", step=0, facts={"why": "seed", "method": "hiva"})
            facts = {"score": 0.625, "gate": {"accepted": True}, "reasons": ["answers were wrong"]}
            facts["cost"] = {"calls": 12}
            await library.save("archive", GROWN, run="r1", step=1, facts=facts)
            await library.tag("archive", "r1.1", "best")

    asyncio.run(fill())
    return tmp_path / "home"


def said(home: Path, *arguments: str, stdin: str | None = None) -> str:
    result = call(home, *arguments, stdin=stdin)
    return result.stdout


def test_show_tells_topology_prompts_tools_lineage_and_score(home: Path) -> None:
    text = said(home, "show", "archive")
    assert "archive@r1.1  hiva  " + GROWN.fingerprint in text
    assert "scores: gate 0.62" in text
    assert "  1  check (plan)  -> answer" in text
    assert "    Plan [bold]it[/bold].\n    Then check.\n    * dates matter" in text
    assert "answer  (aggregator)  tools: calculator" in text
    assert "learned\n  beliefs: " in text
    assert f"made from {SEED.fingerprint} by\n  ADD_SERIAL AddNode(check, plan), " in text
    assert " by plan: answers were wrong" in text
    assert "a seed: no parent" in said(home, "show", "archive@0")


def test_show_as_mermaid_is_nothing_but_the_chart(home: Path) -> None:
    assert said(home, "show", SEED.fingerprint[:8], "--mermaid").splitlines()[0] == "flowchart TD"


def test_diff_shows_every_change(home: Path) -> None:
    assert said(home, "diff", "archive@0", "archive@best").splitlines() == [
        "- edge plan->answer",
        "+ node check (plan)",
        "+ edge check->answer",
        "+ edge plan->check",
        "- answer may not call search",
        "+ answer may call calculator",
        "prompt of plan:",
        "- Then stop.",
        "+ Then check.",
        "memory beliefs: plan changed",
    ]
    assert said(home, "diff", "archive", "archive@1") == "no difference\n"


def test_tools_of_a_workflow_are_shown_and_compared_without_control_characters(home: Path) -> None:
    examples = (ToolExample(arguments={"n": 1}, result="2\x1b[31m"),)
    record = ToolRecord(calls=4, failures=1, seconds=2)
    tool = make_tool(by="plan", why="a sum is\x07 needed", examples=examples, record=record)
    held = SEED.replace(tools=(tool, make_tool("less", SOURCES[0])))
    better = held.apply(Rewiring(RewriteTool("add", SOURCES[2]), RemoveTool("less"), why="one too few"))

    async def save() -> None:
        with open_library(home) as library:
            await library.save("tools", held, run="r2", step=0)
            await library.save("tools", better, run="r2", step=1)

    asyncio.run(save())
    text = said(home, "show", "tools@0")
    assert "tool add  version 1\n    Adds to a number.\n    made by plan because a sum is\\x07 needed\n" in text
    assert "    4 calls, 75% without a failure, 0.5 s each\n" in text
    assert '    {"n":1} gives 2\\x1b[31m\n    | def tool_function(n: int) -> int:\n    |     return n + 1\n' in text
    assert said(home, "diff", "tools@0", "tools@1").splitlines() == [
        "- tool less: Adds to a number.",
        "-     def tool_function(n: int) -> int:",
        "-         return n + 0",
        "source of tool add:",
        "-     return n + 1",
        "+     return n + 2",
        "version of tool add: 1 -> 2",
        "by of tool add:",
        "- plan",
        "why of tool add:",
        "- a sum is\\x07 needed",
        "+ one too few",
    ]


def test_history_marks_the_head_and_shows_scores_reasons_and_tags(home: Path) -> None:
    seed, grown, reasons, facts, mark = said(home, "history", "archive").splitlines()[1:]
    assert seed.split()[0] == "r1.0"
    assert grown.split()[:3] == ["*", "r1.1", "[best]"]
    assert grown.endswith(f"{GROWN.fingerprint}  gate 0.62  accepted")
    assert reasons == "     answers were wrong"
    assert 'cost={"calls":12}' in facts
    assert mark.startswith(
        "* is the team that 'archive' means, where it is asked, loaded or served; a version holds what"
    )
    assert said(home, "history") == "archive\n"


def test_history_and_show_have_the_held_out_score_of_the_current_version_and_name_each_phase(home: Path) -> None:
    a_run(home, "r1")  # finished with a score of 0.5

    async def save() -> None:
        with open_library(home) as library:
            await library.save("archive", GROWN, run="r1", step=2, facts={"parent_score": 0.25, "why": "no change"})

    asyncio.run(save())
    lines = [line for line in said(home, "history", "archive").splitlines() if "r1." in line]
    assert f"{GROWN.fingerprint}  gate 0.62, train 0.25" in lines[1]
    assert lines[2].startswith("*")
    assert "test 0.50, gate 0.62, train 0.25" in lines[2]
    assert "scores: test 0.50, gate 0.62, train 0.25" in said(home, "show", "archive")
    assert json.loads(said(home, "history", "archive", "--json"))["tested"] == {"r1.2": 0.5}


def test_a_version_of_a_rejected_change_or_a_draft_is_the_team_before_and_a_seed_is_one_word() -> None:
    rejected = {"gate": {"accepted": False}, "why": "it does worse"}
    assert format_outcome(rejected) == "rejected, the team stays"
    drafted = {"gate": {"accepted": False, "draft": True}, "why": "it does no worse"}
    assert format_outcome(drafted) == "draft, the team stays"
    assert format_outcome({"why": "seed"}) == "seed"


def test_a_train_score_of_a_draft_is_none_of_the_team_that_stays_and_its_way_on_is_named() -> None:
    gates = (None, {"draft": True}, {"unchanged": "no change"}, {"accepted": True}, {"accepted": False})
    versions = tuple(
        Version(name="mine", run="r", step=step, fingerprint="ab", saved=f"{step}", facts={"gate": gate, **parent})
        for step, (gate, parent) in enumerate(
            zip(gates, ({}, *({"parent_score": step / 10} for step in range(1, 5))), strict=True)
        )
    )
    history = History(name="mine", head="r.4", versions=versions)
    scores = format_scores(history, {})
    assert (scores["r.0"], scores["r.1"], scores["r.2"], scores["r.3"]) == (
        "train 0.10",
        *["train 0.10"] * 2,
        "train 0.40",
    )
    assert "1 draft has no proof of a gain, as `selfwire history mine` says" in explain_drafts(history, "r")
    assert "--gate-size" in explain_drafts(history, "r")
    assert explain_drafts(history, "other") == ""


def test_show_tells_the_sentence_of_an_added_agent_once_and_no_edits_where_there_are_none(home: Path) -> None:
    agent = Agent(id="check", prompt="Check every date.", role="Check every date.")
    grown = SEED.replace(agents=(*SEED.agents, agent), lineage=SEED.lineage.replace(parent="8056"))

    async def save() -> None:
        with open_library(home) as library:
            await library.save("other", grown, run="r2", step=1)

    asyncio.run(save())
    text = said(home, "show", "other")
    assert text.count("Check every date.") == 1
    assert text.endswith("\nmade from 8056\n")


def test_runs_gives_whole_reasons_and_names_clean_where_many_runs_have_stopped(home: Path) -> None:
    for name in ("r1", "r2", "r3"):
        journal = Journal.create(home / "runs" / name / JOURNAL, run=name)
        why = "the provider is down and " * 20
        run_sync(journal.put_note(SUMMARY, {"command": "train", "status": f"stopped: {why}"}))
        journal.close()
    lines = said(home, "runs").splitlines()
    assert said(home, "runs").count(why.strip()) == 3
    assert lines[-1].startswith("3 runs have stopped; remove those of no use: selfwire clean r")


def test_rollback_moves_the_head_and_history_tells(home: Path) -> None:
    assert "archive is now archive@r1.0" in said(home, "rollback", "archive", "0")
    assert "archive is archive@r1.0" in said(home, "rollback", "archive", "0")
    lines = said(home, "history", "archive").splitlines()
    assert [line[:1] for line in lines[1:3]] == ["*", " "]
    assert lines[-1].endswith("r1.1 -> r1.0")


def test_an_exported_workflow_is_taken_in_place_of_a_name(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "team.json"
    said(home, "export", "archive@0", str(file))
    assert Team.model_validate_json(file.read_text()) == SEED
    assert "edge plan->answer" in said(home, "diff", str(file), "archive")
    assert json.loads(said(home, "export", "archive@0", "-"))["method"] == "hiva"


def test_export_replaces_nothing_unasked(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "team.json"
    file.write_text("mine")
    call(home, "export", "archive", str(file), code=2)
    assert file.read_text() == "mine"
    said(home, "export", "archive", str(file), "--force")
    assert Team.model_validate_json(file.read_text()) == GROWN
    call(home, "export", "archive", str(tmp_path / "team.txt"), code=2)


@pytest.mark.parametrize("name", ["team.py", "team.json"])
def test_an_export_into_a_folder_that_is_not_there_is_refused_in_a_line(home: Path, tmp_path: Path, name: str) -> None:
    selfwire.save(selfwire.load("hiva"), "plain", home=home)
    refused = call(home, "export", "plain", str(tmp_path / "none" / name), code=2).stderr
    assert "cannot be written to" in refused
    assert refused.count("\n") == 1


def a_run(home: Path, name: str) -> None:
    async def fill() -> None:
        journal = Journal.create(home / "runs" / name / JOURNAL, run=name)

        async def reply() -> CallResult:
            return CallResult('"text"', Usage(calls=1, input_tokens=1500, output_tokens=34, dollars=0.5))

        await journal.call_once("model", Scope(run=name), {"ask": 1}, reply)
        await journal.put_note(SUMMARY, {"command": "evolve", "method": "hiva", "status": "finished", "score": 0.5})
        journal.close()

    asyncio.run(fill())


STARTED = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


def test_runs_lists_what_they_did_and_spent(home: Path) -> None:
    assert "there are no runs" in said(home, "runs")
    a_run(home, "r1")
    a_run(home, "r2")
    (home / "runs" / "r3").mkdir()
    (home / "runs" / "r3" / JOURNAL).write_text("not a journal")
    first, second, third, trouble = said(home, "runs").splitlines()[1:]
    assert re.sub(STARTED, "?", first).split() == "r1 evolve hiva finished 0.50 ? 1 call, 1,534 tokens, $0.50".split()
    assert (second.split()[0], third.split()[0], third.split()[-1]) == ("r2", "r3", "?")
    assert "is not a journal of selfwire" in trouble


def leave_run(home: Path, status: str) -> None:
    journal = Journal.create(home / "runs" / "r1" / JOURNAL, run="r1")
    run_sync(journal.put_note(SUMMARY, {"command": "train", "status": status}))
    listed = said(home, "runs")
    assert (status in listed, "its process is gone" in listed) == (True, False)
    journal.close()


@pytest.mark.parametrize("status", ["running", "evolving hiva"])
def test_runs_says_that_a_process_is_gone_and_how_to_go_on(home: Path, status: str) -> None:
    leave_run(home, status)
    _, row, line = said(home, "runs").splitlines()
    assert re.sub(STARTED, "?", row).split() == "r1 train interrupted ? 0 calls, 0 tokens, $0.00".split()
    assert line == "r1: its process is gone; go on with: selfwire train --resume r1"


def test_runs_says_of_a_run_that_has_ended_what_it_noted(home: Path) -> None:
    why = f"stopped: the provider is down {'and does not answer ' * 20}at all"
    leave_run(home, why)
    listed = said(home, "runs")
    assert listed.splitlines()[-1] == f"r1: {why}; go on with: selfwire train --resume r1"
    assert "interrupted" not in listed


def test_clean_asks_and_removes_runs_only(home: Path) -> None:
    a_run(home, "r1")
    a_run(home, "r2")
    assert "nothing was removed" in said(home, "clean", stdin="n\n")
    assert "removed runs r1\n" in said(home, "clean", "r1", stdin="y\n")
    assert [path.name for path in (home / "runs").iterdir()] == ["r2"]
    refused = call(home, "clean", "--yes", code=2).stderr
    assert "no run is named; name them, or give --all for the 1 run in" in refused
    assert "and not both" in call(home, "clean", "r2", "--all", "--yes", code=2).stderr
    said(home, "clean", "--all", "--yes")
    assert list((home / "runs").iterdir()) == []
    assert said(home, "history") == "archive\n"
    assert "nothing to remove" in said(home, "clean", "--yes")


def test_clean_with_library_removes_saved_workflows(home: Path) -> None:
    said(home, "clean", "--library", "--yes")
    assert not (home / "library.sqlite").exists()
    assert said(home, "history") == "nothing has been saved yet\n"


def test_clean_spares_a_run_that_is_held(home: Path) -> None:
    a_run(home, "r1")
    journal = Journal.open(home / "runs" / "r1" / JOURNAL)
    refused = call(home, "clean", "r1", "--yes", code=2)
    journal.close()
    assert "is held by" in refused.stderr
    assert (home / "runs" / "r1" / JOURNAL).exists()


def test_clean_spares_a_foreign_library(tmp_path: Path) -> None:
    (tmp_path / "library.sqlite").write_text("mine" * 50)
    call(tmp_path, "clean", "--library", "--yes", code=2)
    assert (tmp_path / "library.sqlite").read_text() == "mine" * 50


def test_an_option_before_its_command_is_told_where_it_stands(home: Path) -> None:
    told = call(home, "--json", "runs", code=2).stderr
    assert "No such option: --json; did you mean: selfwire runs --json ...\n" in told
    assert "did you mean" not in call(home, "--nosuch", code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "archiv"], r"no team 'archiv' in library .*did you mean archive\?"),
        (["show", "nosuch"], r"no team 'nosuch' in library .*; saved there are archive; methods are"),
        (["run", "What is it?", "hiva"], r"the team stands before the question: selfwire run hiva 'What is it\?'"),
        (["show", "none.json"], r"team file none.json cannot be read"),
        (["diff", "archive", "archive@9"], r"version '9' of team 'archive' does not exist; choose among r1.0"),
        (["history", "other"], r"no team 'other'"),
        (["rollback", "archive", "7"], r"version '7' of team 'archive' does not exist"),
        (["rollback", "archive", "-1"], r"Error: -1 is no version; name one as `selfwire history` lists it, its step"),
        (["clean", "r9", "--yes"], r"no run 'r9' in .*there are none"),
        (["runs", "--home", "postgres://u:secret@h/db"], r"runs lie in a folder, not at postgres://"),
        (["show"], r"Missing argument '(?i:ref)'"),
        (["shw", "x"], r"No such command 'shw'"),
        (["show", "archive", "--colour"], r"No such option"),
        (["evolve", "--from", "archive@1"], r"No such option: --from; did you mean: selfwire evolve archive@1\n"),
        (["evolve", "--from=archive@1", "--seed", "1"], r"--from; did you mean: selfwire evolve archive@1\n"),
        (["show", "archive", "--from", "x"], r"No such option: --from[^;]*$"),
        (
            ["eval", "a:b", "--input", '{"a": "{question}"}'],
            r"No such option: --input; did you mean: --set 'input=\{\"a\": \"\{question\}\"\}'\n",
        ),
        (["eval", "a:b", "--answer=c"], r"No such option: --answer; did you mean: --set answer=c\n"),
        (["show", "archive", "--answer", "x"], r"No such option: --answer[^;]*$"),
    ],
)
def test_bad_input_is_one_clear_message_and_exit_code_2(home: Path, arguments: list[str], message: str) -> None:
    before = sorted(path for path in home.rglob("*"))
    result = call(home, *arguments, code=2)
    assert result.stdout == ""
    assert len([line for line in result.stderr.splitlines() if line.lower().startswith("error: ")]) == 1
    assert "Traceback" not in result.stderr
    assert "secret" not in result.stderr
    assert re.search(message, result.stderr)
    assert sorted(path for path in home.rglob("*")) == before


def test_a_corrupt_library_is_one_message_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "library.sqlite").write_text("garbage" * 50)
    result = call(tmp_path, "history", "archive", code=2)
    assert len(result.stderr.splitlines()) == 1
    assert (tmp_path / "library.sqlite").read_text() == "garbage" * 50


def test_reading_makes_nothing(tmp_path: Path) -> None:
    for arguments in (["history"], ["runs"], ["show", "x"], ["clean", "--yes", "--library"], ["rollback", "x", "1"]):
        call(tmp_path / "home", *arguments, code=None)
    assert list(tmp_path.iterdir()) == []


def _failing(error: Exception) -> Callable[[], None]:
    def fails() -> None:
        raise error

    return fails


def with_command(command: Callable[[], None]) -> typer.Typer:
    app = build()
    app.command("fails")(command)
    return app


def test_a_value_that_does_not_validate_is_named() -> None:
    def fails() -> None:
        Budget(calls=-1)

    result = CliRunner().invoke(with_command(fails), ["fails"])
    assert result.exit_code == 2
    assert result.stderr == "error: --budget-calls must be 0 or more, not -1\n"


def test_a_fault_of_ours_keeps_its_traceback() -> None:
    result = CliRunner().invoke(with_command(_failing(ZeroDivisionError("bug"))), ["fails"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_the_traceback_of_an_error_can_be_asked_for() -> None:
    app = with_command(_failing(ValueError("two\nlines")))
    assert CliRunner().invoke(app, ["fails"]).stderr == "error: two lines\n"
    assert isinstance(CliRunner().invoke(app, ["--traceback", "fails"]).exception, ValueError)


def test_an_unanswered_question_removes_nothing(home: Path) -> None:
    a_run(home, "r1")
    told = "error: nobody can be asked whether to remove runs r1; give --all --yes"
    assert told in call(home, "clean", stdin="", code=2).stderr
    assert (home / "runs" / "r1" / JOURNAL).exists()


def test_ctrl_c_exits_130_without_a_traceback(tmp_path: Path) -> None:
    code = """
import asyncio, signal
from selfwire.cli.app import build
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts tests may ignore Ctrl-C
app = build()
@app.command("wait")
def wait() -> None:
    async def forever() -> None:
        print("ready", flush=True)
        await asyncio.sleep(600)
    asyncio.run(forever())
app()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, "wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "stopped\n")


def test_version_and_help_name_the_commands(home: Path) -> None:
    assert said(home, "version").startswith("selfwire ")
    text = said(home, "--help")
    for command in ("show", "diff", "history", "rollback", "export", "runs", "clean", "version"):
        assert f"  {command} " in text


@pytest.mark.parametrize("command", [("runs",), ("clean", "--yes")])
def test_a_home_that_is_a_file_has_no_runs_and_is_an_error(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("mine")
    assert (
        "is a file, and teams and runs lie in a folder; choose another"
        in call(tmp_path / "file", *command, code=2).stderr
    )

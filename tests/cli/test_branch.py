"""Texts of an evolved graph as a branch with a commit for each change, and as values of its context."""

import asyncio
import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from selfwire.cli.branch import TextChange, format_page, write_branch
from selfwire.core.agent import Agent
from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import ConfigError
from selfwire.evolvers.topology_ops import add_serial
from selfwire.graphs.insertions import INSERTED
from selfwire.graphs.own_graph import OwnGraph
from selfwire.models.text_layer import LayerText
from selfwire.store.library import Library, Version, open_library
from tests.commands import call

APP = """
from dataclasses import dataclass, field

from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from plan_texts import SUM_UP

model = ChatOpenAI(model="mine", api_key="k")


@dataclass
class Context:
    plan_prompt: str = "You plan {{well}} for {person} each day."
    sum_prompt: str = field(default=SUM_UP)


def plan(state: MessagesState, runtime: Runtime[Context]):
    return {"messages": [model.invoke([("system", runtime.context.plan_prompt.format(person="Ann"))])]}


def check(state: MessagesState):
    return {"messages": [model.invoke([("system", "You check the plan.")])]}


def sum_up(state: MessagesState, runtime: Runtime[Context]):
    return {"messages": [model.invoke([("system", runtime.context.sum_prompt), *state["messages"]])]}


builder = StateGraph(MessagesState, context_schema=Context)
builder.add_sequence([plan, check, sum_up])
builder.add_edge(START, "plan")
graph = builder.compile()
"""
SUM = 'SUM_UP = "You sum up what was said."\n'
GATE = {"accepted": True, "why": "a gain above 0 is proved: mean difference +0.300"}


def git(*words: str) -> str:
    given = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    return subprocess.run(["git", *given, *words], check=True, capture_output=True, encoding="utf-8").stdout


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository" / "inner"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"):
        monkeypatch.setenv(name, "Ann")
    for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "ann@example.com")
    Path("plans.py").write_text(APP, encoding="utf-8")
    Path("plan_texts.py").write_text(SUM, encoding="utf-8")
    git("init", "--quiet", "..")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    return tmp_path / "home"


def save(home: Path, *steps: dict[str, str], why: str = "{} is too short", run: str = "first") -> None:
    """Save a seed and a version for each step, which rewrites some texts; of "" it inserts an agent.

    Another run than the first one goes on from the head.
    """

    async def save_all(library: Library) -> None:
        team = OwnGraph("plans.py:graph", {}).seed() if run == "first" else await library.load("plans")
        await library.save("plans", team, run=run, step=0, facts={"why": "seed"})
        for number, rewrites in enumerate(steps, 1):
            changes = [
                Rewiring(RewritePrompt(name, text), why=why.format(name), by=name)
                for name, text in rewrites.items()
                if name
            ]
            if prompt := rewrites.get(""):
                agent = Agent(id="note-checker", prompt=prompt)
                changes.append(add_serial(team, "check", agent, why="Nobody counts.").replace(by=agent.id))
                place = {"agent": agent.id, "after": "check", "before": ["sum_up"], "field": "messages"}
                team = team.with_memory(**{INSERTED: [place]})
            applied = [change.model_dump(mode="json") for change in changes]
            team, _ = team.apply_legal(changes)
            facts = {"gate": GATE, "why": GATE["why"], "applied": applied}
            await library.save("plans", team, run=run, step=number, facts=facts)

    with open_library(home) as library:
        asyncio.run(save_all(library))


def export(home: Path, *more: str, code: int = 0) -> Any:
    return call(home, "export", "plans", *more, code=code)


def test_a_patch_says_of_which_changes_together_the_gain_is(home: Path) -> None:
    save(home, {"sum-up": "You sum up in a word.", "check": "You check twice."}, {"check": "You check it thrice."})
    written = export(home, "-", "--as", "patch").stdout.splitlines()
    gain = GATE["why"]
    assert f"plan_texts.py:1 sum-up: sum-up is too short ({gain}, together with 1 other change)" in written
    assert [line for line in written if line.endswith(f" check: check is too short ({gain})")]  # made alone


def test_a_reason_that_several_changes_share_stands_once_on_the_page_of_a_branch(home: Path) -> None:
    save(home, {"sum-up": "You sum up in a word.", "check": "You check twice."}, why="They are long.")
    rows = [row.split(" | ") for row in export(home, "better", "--as", "pr").stdout.splitlines() if ".py:" in row]
    assert [row[3] for row in rows if len(row) > 3] == ["They are long.", "as above"]


def test_a_branch_has_a_commit_for_each_change_and_nothing_else_is_touched(home: Path) -> None:
    save(
        home,
        {"sum-up": "You sum up in a word.", "check": "You check {it} twice."},
        {"sum-up": "You sum up in | two words."},
    )
    Path("note.txt").write_text("of mine", encoding="utf-8")
    before = git("status", "--porcelain")
    done = export(home, "better/prompts", "--as", "pr")
    assert (git("status", "--porcelain"), Path("plans.py").read_text(), Path("plan_texts.py").read_text()) == (
        before, APP, SUM,
    )  # fmt: skip
    assert git("log", "--format=%s", "better/prompts").splitlines() == [
        "Rewrite the prompt sum-up", "Rewrite the prompt sum-up", "Rewrite the prompt check", "first",
    ]  # fmt: skip
    assert git("show", "better/prompts:inner/plan_texts.py") == SUM.replace("what was said", "in | two words")
    assert git("show", "better/prompts:inner/plans.py") == APP.replace("You check the plan.", "You check {it} twice.")
    assert git("show", "better/prompts~2:inner/plan_texts.py") == SUM
    message = " ".join(git("log", "-1", "--format=%B", "better/prompts~1").split())
    assert (
        "sum-up is too short Gate: a gain above 0 is proved: mean difference +0.300 (together with 1 other" in message
    )
    assert "Text: plan_texts.py:1. Version: first.1." in message
    last = git("rev-parse", "better/prompts").strip()
    assert f"| {last[:10]} | sum-up | plan_texts.py:1 | as above | {GATE['why']} |" in done.stdout
    assert done.stdout.count("sum-up is too short") == 1
    assert (
        "exists; name a new one, or replace it with --force"
        in export(home, "better/prompts", "--as", "pr", code=2).stderr
    )
    export(home, "better/prompts", "--as", "pr", "--force")
    assert "is checked out" in export(home, git("branch", "--show-current").strip(), "--as", "pr", code=2).stderr
    assert "cannot be the name of a branch" in export(home, "a..b", "--as", "pr", code=2).stderr


def test_what_a_run_goes_on_from_keeps_its_reasons_in_a_branch(home: Path) -> None:
    save(home, {"sum-up": "You sum up in a word."})
    save(home, {"check": "You check twice."}, run="second")
    done = export(home, "both", "--as", "pr")
    rows = [row.split(" | ") for row in done.stdout.splitlines() if ".py:" in row and row.count(" | ") > 3]
    assert [row[3:] for row in rows] == [[f"{name} is too short", f"{GATE['why']} |"] for name in ("sum-up", "check")]


def test_an_inserted_agent_has_a_commit_and_so_has_its_new_prompt(home: Path) -> None:
    save(home, {"check": "You check it twice.", "": "You count."}, {"note-checker": "You count well."})
    done = export(home, "more", "--as", "pr")
    assert git("log", "--format=%s", "more").splitlines() == [
        "Rewrite the prompt note-checker",
        "Insert the agent note-checker behind check",
        "Rewrite the prompt check",
        "first",
    ]
    added = git("show", "--format=%b", "more~1")
    assert "Nobody counts" in added
    assert "(together with 1 other change)" in " ".join(added.split())
    assert '+NOTE_CHECKER = """You count.' in added
    assert '+builder.add_sequence([plan, check, ("note_checker", note_checker), sum_up])' in added
    assert '+NOTE_CHECKER = """You count well.' in git("show", "more")
    assert "| note-checker | behind check | Nobody counts. |" in done.stdout
    refused = export(home, "context.json", "--as", "context", code=2).stderr
    assert "no context can insert or take out 'note-checker'; export a patch" in " ".join(refused.split())


def test_a_change_that_was_taken_home_is_not_written_again(home: Path) -> None:
    save(home, {"check": "You check it twice."}, {"sum-up": "You sum up in a word."})
    Path("plans.py").write_text(APP.replace("You check the plan.", "You check it twice."), encoding="utf-8")
    git("commit", "--quiet", "-am", "second")
    export(home, "more", "--as", "pr")
    assert git("log", "--format=%s", "more").splitlines() == ["Rewrite the prompt sum-up", "second", "first"]


def test_files_that_have_changed_are_refused_by_name(home: Path) -> None:
    save(home, {"check": "You check it twice."})
    Path("plans.py").write_text(f"# more\n{APP}", encoding="utf-8")
    assert "plans.py has changes that are not committed" in export(home, "more", "--as", "pr", code=2).stderr
    Path("plans.py").write_text(APP.replace("the plan.", "all of the plan."), encoding="utf-8")
    for given in (("more", "--as", "pr"), ("more.patch",)):
        refused = " ".join(export(home, *given, code=2).stderr.split())
        assert "has another text 'check' than the one that was evolved, which would be lost" in refused
    assert git("branch", "--list", "more") == ""


def test_fields_of_the_context_are_written_as_its_values(home: Path) -> None:
    save(home, {"plan": "Plan for {person} in {few} steps.", "sum-up": "Sum up."})
    export(home, "context.json", "--as", "context")
    assert json.loads(Path("context.json").read_text(encoding="utf-8")) == {
        "plan_prompt": "Plan for {person} in {{few}} steps.",
        "sum_prompt": "Sum up.",
    }
    assert json.loads(export(home, "-", "--as", "context").stdout)["sum_prompt"] == "Sum up."


def test_a_text_that_is_no_field_of_the_context_is_refused_by_name(home: Path) -> None:
    save(home, {"check": "You check it twice.", "sum-up": "Sum up."})
    refused = " ".join(export(home, "context.json", "--as", "context", code=2).stderr.split())
    assert "check (plans.py:24) is the default of no field of the graph's context" in refused
    assert not Path("context.json").exists()


def lose_object() -> None:
    """Remove a file's object, so that git fetches it from a remote that promises it."""
    found = git("rev-parse", "HEAD:inner/plans.py").strip()
    Path("..", ".git", "objects", found[:2], found[2:]).unlink()
    git("config", "core.repositoryformatversion", "1")
    git("config", "extensions.partialClone", "origin")
    git("config", "remote.origin.promisor", "true")


def set_trap(kind: str, trap: Path) -> None:
    """Name a program in the repository, as git runs one."""
    match kind:
        case "hooks":
            for hook in ("reference-transaction", "post-index-change"):
                Path("..", ".git", "hooks", hook).symlink_to(trap)
        case "folder of hooks":
            Path("../hooks").mkdir()
            Path("../hooks/reference-transaction").symlink_to(trap)
            git("config", "core.hooksPath", str(Path("../hooks").resolve()))
        case "fsmonitor":
            git("config", "core.fsmonitor", str(trap))
        case "clean" | "process":
            git("config", f"filter.a=b.{kind}", str(trap))
            Path("..", ".git", "info", "attributes").write_text("* filter=a=b\n", encoding="utf-8")
        case "fetch":
            lose_object()
            git("config", "protocol.ext.allow", "always")
            git("config", "remote.origin.url", f"ext::{trap} x")
        case "fetch by ssh":
            lose_object()
            git("config", "core.sshCommand", str(trap))
            git("config", "remote.origin.url", "ssh://a@example.invalid/b")


TRAPS = ("hooks", "folder of hooks", "fsmonitor", "clean", "process", "fetch", "fetch by ssh")


@pytest.mark.parametrize("kind", TRAPS)
def test_git_starts_no_program_that_a_repository_names(home: Path, tmp_path: Path, kind: str) -> None:
    trap, ran = tmp_path / "trap", tmp_path / "ran"
    trap.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n", encoding="utf-8")
    trap.chmod(0o755)
    set_trap(kind, trap)
    os.utime("plans.py", (1, 1))  # so that git compares its text
    change = TextChange(LayerText(name="check", pieces=("You check the plan.",), place="plans.py:24"), "You check it.")
    with suppress(ConfigError):  # without the object nothing can be written
        write_branch("plans.py:graph", [change], "better", force=False)
    assert not ran.exists()
    assert ("fetch" in kind) == (git("branch", "--list", "better") == "")


def test_a_file_that_only_a_filter_has_changed_is_refused_with_the_way_out(home: Path) -> None:
    save(home, {"check": "You check it twice."})
    git("config", "filter.tidy.clean", "sed 's/ *$//'")
    Path("..", ".git", "info", "attributes").write_text("*.py filter=tidy\n", encoding="utf-8")
    Path("plans.py").write_text(f"# more  \n{APP}", encoding="utf-8")
    git("commit", "--quiet", "-am", "second")
    assert git("status", "--porcelain", "--untracked-files=no", ".") == ""
    os.utime("plans.py", (1, 1))  # so that git compares its text
    refused = " ".join(export(home, "more", "--as", "pr", code=2).stderr.split())
    assert "perhaps by the repository's filter 'tidy' alone, which is not run here" in refused
    assert "--as patch" in refused
    export(home, "more.patch", "--as", "patch")
    assert "+" in Path("more.patch").read_text(encoding="utf-8")


@pytest.mark.parametrize("count", ["x", "-1"])
def test_a_number_of_settings_of_git_that_is_none_is_refused_by_name(
    home: Path, monkeypatch: pytest.MonkeyPatch, count: str
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", count)
    with pytest.raises(ConfigError, match=f"GIT_CONFIG_COUNT is '{count}', which is no number; unset it"):
        write_branch("plans.py:graph", [], "better", force=False)


def test_a_repository_inside_a_clone_is_not_taken_for_ones_own(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap, ran = tmp_path / "trap", tmp_path / "ran"
    trap.write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
    trap.chmod(0o755)
    git("clone", "--quiet", "--bare", "..", "inside")
    monkeypatch.chdir("inside")
    git("config", "core.bare", "false")
    git("config", "core.worktree", str(Path.cwd()))
    git("config", "core.fsmonitor", str(trap))
    ran.unlink(missing_ok=True)
    with pytest.raises(ConfigError, match=r"bare repository"):
        write_branch("plans.py:graph", [], "better", force=False)
    assert not ran.exists()


def test_reasons_are_texts_on_the_page_of_a_pull_request() -> None:
    why = "![](http://a.b/c) <img src=x> `a` \\| b | [c](d) @team #12 &commat;team"
    change = TextChange(LayerText(name="plan", pieces=("You plan.",), place="app.py:3"), "You plan well.", why=why)
    version = Version(name="mine", run="r", step=1, fingerprint="f", saved="2026-01-01")
    row = format_page("app:graph", version, [("0123456789", change)], None).splitlines()[-1]
    shown = r"!\[](http://a.b/c) \<img src=x> \`a\` \\\| b \| \[c](d) @<!-- -->team #<!-- -->12 \&commat;team"
    assert row == f"| 0123456789 | plan | app.py:3 | {shown} | not known |"

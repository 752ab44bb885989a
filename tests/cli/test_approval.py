"""`evolve --approve edits`: what is asked on a terminal, and what becomes of the answers."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import selfwire
from selfwire.cli import options
from selfwire.cli.approval import ask, show_question
from selfwire.cli.commands import INTERRUPTED, WRONG
from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.evals.baselines import make_pair
from selfwire.graphs.approval import ApprovalQuestion
from selfwire.runs.record import list_run_names
from tests.commands import call
from tests.graphs.test_own_evolution import GOOD, RULE, Shop
from tests.graphs.test_own_evolution import home as home
from tests.graphs.test_own_evolution import shop as shop

ASKS = ("evolve", "shop_app.py:graph", "--benchmark", "desk.jsonl", "--iterations", "2", "--batch", "3")
MODEL = ("--model", "openai:mine", "--retries", "0", "--name", "desk")
MINE = f"In a friendly tone. {GOOD}"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "has_terminal", lambda: True)
    monkeypatch.setenv("LOGNAME", "ada")


def evolve(home: Path, *more: str, typed: str = "", code: int = 0) -> Any:
    address = ("--base-url", os.environ["MY_MODEL"])
    return call(home, *ASKS, *MODEL, *address, "--approve", "edits", *more, code=code, stdin=typed)


def get_history(home: Path) -> str:
    return " ".join(call(home, "history", "desk").output.split())


def test_without_a_terminal_it_is_refused_before_anything_is_done(home: Path, shop: Shop) -> None:
    refused = evolve(home, code=WRONG)
    assert "--approve asks a person on a terminal, and there is none here; leave it out" in refused.stderr
    assert not shop.asked
    assert not list_run_names(home)
    assert "--approve must be 'edits', not 'all'" in evolve(home, "--approve", "all", code=WRONG).stderr


@pytest.mark.usefixtures("terminal")
def test_a_change_is_shown_with_its_gain_and_price_and_kept_once_it_is_approved(home: Path, shop: Shop) -> None:
    done = evolve(home, typed="perhaps\na\n")
    assert "a change of 'desk' waits for your answer" in done.output
    assert f"+ You sort messages of a shop. {RULE}" in done.output
    assert re.search(r"gain: \+1.00 \[\+0\.\d\d, \+1\.00\] over 20 held-out tasks", done.output)
    assert "per task: 2.00 calls, 83 tokens, price unknown before, 2.00 calls, 88 tokens" in " ".join(
        done.output.split()
    )
    assert "type a, e, r or always" in done.stderr
    assert "; approved by ada" in get_history(home)
    assert "evolved - seed, paired over 30 tasks: +1.00" in done.output


@pytest.mark.usefixtures("terminal")
def test_prompts_that_cannot_be_edited_are_not_offered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = evolve(home, typed="e\nfor the tone\ngraph\na\n")
    assert "agent (decide, read)" in asked.output
    assert "there is no agent 'graph'; agents are decide, read" in asked.stderr
    typed, shown = ["a", "e"], list[str]()

    def type_next(text: str, **_: object) -> str:
        shown.append(text)
        return typed.pop()

    monkeypatch.setattr("typer.prompt", type_next)
    assert ask(ApprovalQuestion(run="r", name="desk", iteration=1, why="better"))["answer"] == "approve"
    assert shown == ["(a)pprove, (r)eject, or always approve "] * 2


@pytest.mark.usefixtures("terminal")
def test_a_rejected_change_is_not_kept(home: Path, shop: Shop) -> None:
    evolve(home, "--iterations", "1", typed="r\ntoo short\n" * 2)
    shop.rewrites = [GOOD]
    done = evolve(home, "--iterations", "1", "--name", "desk2", typed="r\ntoo short\n")
    assert "nothing was evolved" in done.output
    assert "rejected by ada (too short), though a gain above 0 is proved" in " ".join(done.output.split())


@pytest.mark.usefixtures("terminal")
def test_a_prompt_is_changed_by_hand_in_an_editor_or_by_a_file(
    home: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rewrites = [GOOD]
    Path("edit.py").write_text(
        "import sys, pathlib\np = pathlib.Path(sys.argv[1])\np.write_text('In a friendly tone. ' + p.read_text())\n"
    )
    monkeypatch.setenv("EDITOR", f"{sys.executable} edit.py")
    missing, edited = "e\n\nnobody\ne\n\n\nmissing.md\n", "e\nfriendlier\n\n\n"
    done = evolve(home, "--iterations", "1", typed=f"{missing}e\n\n\n/dev/zero\n{edited}")
    said = " ".join(done.stderr.split())
    assert "there is no agent 'nobody'; agents are decide, read" in said
    assert "that cannot be used: file missing.md cannot be read: No such file or directory; give another" in said
    assert "that cannot be used: file /dev/zero has more than 200,000 characters; give a prompt" in said
    assert selfwire.load("desk", home=home).agents_by_id["decide"].prompt == MINE
    assert "changed by hand by ada (friendlier), and not measured since; before that: a gain" in get_history(home)
    assert "1 BY_HAND" in get_history(home)


@pytest.mark.usefixtures("terminal")
def test_an_editor_that_is_not_there_is_named_and_what_was_written_is_kept(
    home: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.rewrites = [GOOD]
    Path("edit.py").write_text(
        "import sys, pathlib\np = pathlib.Path(sys.argv[1])\nold = p.read_text()\n"
        "p.write_text(old + '\\n\\n{wish}\\n\\n{question}' if 'Draft' in old else old)\n"
    )
    Path("latin.md").write_bytes(b"\xe9")
    Path("draft.md").write_text("Draft.")
    monkeypatch.setenv("EDITOR", "no-such-editor")
    missing, latin = "e\nfriendlier\n\n\n", "e\n\n\nlatin.md\n"
    said = " ".join(evolve(home, "--iterations", "1", typed=missing + latin, code=INTERRUPTED).stderr.split())
    assert "cannot be used: EDITOR=no-such-editor cannot be started: No such file or directory; give a file" in said
    assert "why (for the history) [friendlier]" in said
    assert "file latin.md is no text in UTF-8" in said
    monkeypatch.setenv("EDITOR", f"{sys.executable} edit.py")
    [run] = list_run_names(home)
    done = call(home, "evolve", "--resume", run, stdin="e\nfriendlier\n\ndraft.md\n" + "e\n\n\n\n")
    assert "that cannot be used: prompt of 'decide': it must end with '{wish}" in " ".join(done.stderr.split())
    assert selfwire.load("desk", home=home).agents_by_id["decide"].prompt.startswith("Draft.")
    assert "changed by hand by ada (friendlier)" in get_history(home)


@pytest.mark.usefixtures("terminal")
def test_who_leaves_without_an_answer_is_told_how_to_go_on(home: Path, shop: Shop) -> None:
    left = evolve(home, code=INTERRUPTED)
    [run] = list_run_names(home)
    assert f"go on with: selfwire evolve --resume {run}" in left.stderr
    assert "waits for a person's answer" in call(home, "runs").output
    asked = len(shop.asked)
    again = call(home, "evolve", "--resume", run, code=INTERRUPTED)
    assert "a change of 'desk' waits for your answer" in again.output
    assert len(shop.asked) == asked
    call(home, "evolve", "--resume", run, stdin="always\n")
    assert "approved, with all later changes of this kind, by ada" in get_history(home)


class Terminal:
    """The command on a terminal of its own, which can be typed into and killed."""

    def __init__(self, home: Path, *words: str) -> None:
        self.here, there = pty.openpty()
        command = [sys.executable, "-c", "from selfwire.cli import main; main()", *words]
        env = {**os.environ, "SELFWIRE_HOME": str(home), "COLUMNS": "200", "LOGNAME": "ada"}
        self.process = subprocess.Popen(command, stdin=there, stdout=there, stderr=there, env=env)
        os.close(there)
        self.said = ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 120
        while text not in self.said:
            assert time.monotonic() < deadline, self.said
            self.said += os.read(self.here, 4096).decode(errors="replace")

    def type(self, line: str) -> None:
        os.write(self.here, f"{line}\n".encode())

    def close(self, how: int | None = None) -> int:
        if how is not None:
            self.process.send_signal(how)
        try:
            while os.read(self.here, 4096):
                pass
        except OSError:  # the other end is closed
            pass
        os.close(self.here)
        return self.process.wait(60)


@pytest.fixture
def opened() -> Iterator[list[Terminal]]:
    terminals = list[Terminal]()
    yield terminals
    for terminal in terminals:
        if terminal.process.poll() is None:
            terminal.close(signal.SIGKILL)


@pytest.mark.slow
def test_a_wait_survives_kill_9_and_nothing_is_paid_twice(home: Path, shop: Shop, opened: list[Terminal]) -> None:
    address = ("--base-url", os.environ["MY_MODEL"])
    opened.append(Terminal(home, *ASKS, *MODEL, *address, "--approve", "edits"))
    opened[0].wait_for("always approve")
    assert opened[0].close(signal.SIGKILL) == -signal.SIGKILL
    [run], asked = list_run_names(home), len(shop.asked)
    opened.append(Terminal(home, "evolve", "--resume", run))
    opened[1].wait_for("always approve")
    assert len(shop.asked) == asked
    shown = [terminal.said.partition("a change of 'desk'")[2].partition("always approve")[0] for terminal in opened]
    assert shown[0] == shown[1] != ""
    opened[1].type("a")
    assert opened[1].close() == 0
    assert "; approved by ada" in get_history(home)


def test_a_reason_that_several_edits_share_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    team = make_pair(())
    edits = [
        Rewiring(RewritePrompt(agent, "Be brief."), why="It is long.").model_dump(mode="json")
        for agent in ("worker", "summary")
    ]
    show_question(ApprovalQuestion(run="r", name="n", iteration=1, why="proved", rewirings=edits), team, team)
    printed = capsys.readouterr().out
    assert (printed.count("It is long."), printed.count(": as above")) == (1, 1)

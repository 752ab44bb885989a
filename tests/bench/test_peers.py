"""The bench beside other engines: equal questions, counted calls, quartiles, and a table that a page can hold."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import peers
from bench.measuring import Row, keep_lines, make_lines
from bench.peers.contest import open_contest
from bench.peers.environments import InstallError, make_environment
from bench.peers.worker import CHAIN, ENGINES, FAN, OPEN, PeerTeam
from selfwire.core.errors import ConfigError
from selfwire.extras.lab.result_pages import fill_page
from tests.wire.server import WireServer, text

HERE = ["openai", "langgraph", "langgraph-chat", "selfwire"]
"""Engines that need no environment of their own."""


@pytest.mark.parametrize("team", [CHAIN, FAN])
async def test_all_engines_of_this_environment_ask_the_same(team: PeerTeam) -> None:
    asked = {}
    with WireServer(text("It is the first.")) as server:
        async with OPEN:
            for name in HERE:
                assert await ENGINES[name](server.url, team)() == "It is the first."
                asked[name] = sorted(json.dumps(one.body["messages"], sort_keys=True) for one in server.asked)
                server.asked.clear()
    assert len(asked["openai"]) == len(team.sources)
    assert all(messages == asked["openai"] for messages in asked.values())


def test_engines_take_turns_and_their_calls_are_counted() -> None:
    ratios = peers.collect_ratios({"openai": sys.executable, "selfwire-journal": sys.executable}, {"chain of 4": 2}, 3)
    assert ratios["chain of 4", "openai"] == [1.0, 1.0, 1.0]
    assert len(ratios["chain of 4", "selfwire-journal"]) == 3
    assert all(one > 0 for one in ratios["chain of 4", "selfwire-journal"])


def test_an_engine_that_does_less_or_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_contest({"openai": sys.executable}) as contest:
        monkeypatch.setattr(contest, "_count_calls", lambda: 0)
        with pytest.raises(RuntimeError, match="openai made 0 calls for chain of 4, not 4"):
            [*contest.take_turns({"chain of 4": 1}, 1)]
        with pytest.raises(RuntimeError, match=r"worker\.py openai .*has ended"):
            [*contest.take_turns({"no such shape": 1}, 1)]


def test_a_peer_that_cannot_be_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: tuple[str, ...], **_: object) -> None:
        raise subprocess.CalledProcessError(1, command, stderr="Looking\nERROR: No matching distribution\n")

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(InstallError, match=r"^ERROR: No matching distribution$"):
        make_environment("agentscope==0", tmp_path)
    monkeypatch.chdir(tmp_path)
    pythons, missing = peers.find_pythons()
    assert [*pythons] == [*HERE, "selfwire-journal"]
    assert [row.note for row in missing] == ["cannot be installed here: ERROR: No matching distribution"] * 3


def test_an_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []

    def note(command: tuple[str, ...], **_: object) -> None:
        commands.append(command)
        Path(command[-1]).mkdir(parents=True, exist_ok=True) if "venv" in command else None

    monkeypatch.setattr(subprocess, "run", note)
    python = make_environment("agentscope==1", tmp_path)
    assert make_environment("agentscope==1", tmp_path) == python
    assert len(commands) == 2
    assert commands[1][:4] == (python, "-m", "pip", "install")
    assert "agentscope==1" in commands[1]


def test_rows_become_a_table_that_a_page_holds(tmp_path: Path) -> None:
    ratios = {(shape, name): [1.0, 1.5, 2.0] for shape in peers.REPEATS for name in ("openai", "selfwire")}
    rows = [*peers.make_rows(ratios), Row(what="other", note="cannot be installed here")]
    assert make_lines(rows)[1]["chain of 4"] == "1.50 (1.25 to 1.75), aim 1.30"
    keep_lines(rows, tmp_path / "rows.jsonl")
    page = tmp_path / "page.md"
    page.write_text("<!-- table: cells rows=rows.jsonl -->\n<!-- end of table -->\n")
    head, line, bare, ours, other = fill_page(page).splitlines()[1:-1]
    assert (head.count("|"), line.count("---")) == (6, 5)
    assert bare.startswith("| `openai`'s client alone | 1.50 |")
    assert ours.count("1.50 (1.25 to 1.75)") == 4
    assert other.count("cannot be installed here") == 4
    (tmp_path / "rows.jsonl").write_text("{}\nnothing")
    with pytest.raises(ConfigError, match="holds no table"):
        fill_page(page)


def test_rows_without_columns_have_a_line_each() -> None:
    rows = [Row(what="a", value=2, unit="x", bound=1), Row(what="a", value=1, unit="s", bound=1)]
    assert [[*line.values()] for line in make_lines(rows)] == [
        ["a", "2.00", "x", "<= 1 (missed)"],
        ["a", "1.00", "s", "<= 1"],
    ]

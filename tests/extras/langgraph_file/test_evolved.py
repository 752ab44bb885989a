"""Evolved teams as files that run by themselves, on the recorded replies of a run."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from selfwire.cli.run import KNOWN
from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, AddEdge, AddNode, AddTool, Grant, RemoveEdge, Rewiring
from selfwire.core.team import Team
from selfwire.models.providers import make_chat_model
from selfwire.models.sync import run_sync
from selfwire.store.library import open_library
from tests.commands import call
from tests.core.generators import make_tool
from tests.extras.langgraph_file.files import digest, export, keep, save, take
from tests.processes import ROOT, start, wait_for
from tests.wire.server import Body, WireServer, asked_kind, served

EVOLVE = (
    "--benchmark archive --gate mean --train 8 --gate-size 8 --gate-tasks 8 --batch 4 --test 4 --iterations 4 --seed 1 "
    "--embedder hashing"
).split()
MODULE = '''
import json
from pathlib import Path

FOUND = json.loads(Path(__file__).with_name("found.json").read_text())


def search(query: str) -> str:
    """Search the corpus; returns the passages that match a query best."""
    return str(FOUND[query])
'''
BLOCKED = """
import runpy, sys
sys.modules["selfwire"] = None
sys.argv = sys.argv[1:]
sys.path.insert(0, ".")
runpy.run_path(sys.argv[0], None, "__main__")
"""


class Recorded:
    """Replies of the offline model, which are kept by what was asked; `replays` has those alone."""

    def __init__(self) -> None:
        self.replays, self.replies = False, dict[str, AIMessage]()
        self.model = served(make_chat_model("offline"))

    async def __call__(self, body: Body) -> AIMessage:
        asked = digest([keep(body["messages"]), bool(body.get("tools")), asked_kind(body)])
        if not self.replays and asked not in self.replies:
            self.replies[asked] = await self.model(body)
        return self.replies[asked]


def branch(team: Team) -> Team:
    """A team of HiVA with two more agents in parallel, one of them with a tool of the team's own."""
    [before, sink] = [team.topology.order()[-2], team.topology.sink]
    edits: list[Any] = [RemoveEdge(before, sink), AddTool(make_tool("add-up"))]
    for name in ("checker", "counter-2"):
        edits += [AddAgent(Agent(id=name, prompt=f"You are the {name}.\nCheck it.")), AddNode(name, name)]
        edits += [AddEdge(before, name), AddEdge(name, sink)]
    return team.apply(Rewiring(*edits, Grant("checker", "add-up"), why="to branch"))


@pytest.fixture(scope="module")
def evolve(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Evolve a method once; returns the home."""

    @cache
    def evolve(method: str) -> Path:
        home = tmp_path_factory.mktemp(method)
        call(home, "evolve", method, "--name", "mine", *EVOLVE)
        return home

    return evolve


@pytest.mark.slow
@pytest.mark.parametrize(("method", "change"), [("hiva", None), ("hera", None), ("hiva", branch)])
def test_an_evolved_team_runs_without_this_package(
    method: str, change: Callable[[Team], Team] | None, evolve: Callable[[str], Path], tmp_path: Path
) -> None:
    home = evolve(method)
    with open_library(home) as library:
        evolved = run_sync(library.load("mine"))
    assert evolved.lineage.parent
    if change:
        call(home, "export", "mine", str(tmp_path / "evolved.json"))
        save(home := tmp_path / "changed", change(evolved))
    check_alone(home, tmp_path / "out")
    check_types(tmp_path / "out" / "mine.py")


def check_types(file: Path) -> None:
    """Check the types of a file beside the cache of `make check`, which has read the libraries, and its style."""
    with (ROOT / "pyproject.toml").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # mypy refuses a cache that another one fills
        types = subprocess.run(
            [sys.executable, "-m", "mypy", str(file)],
            cwd=ROOT, env={**os.environ, "MYPYPATH": str(file.parent)}, capture_output=True, text=True,
        )  # fmt: skip
    assert types.returncode == 0, types.stdout
    style = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", str(file)],
        cwd=file.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert style.returncode == 0, style.stdout


def check_alone(home: Path, folder: Path) -> None:
    """Run a saved team and its file in a process without this package; requests and answers are equal."""
    folder.mkdir()
    question = KNOWN[0]
    recorded = Recorded()
    with WireServer(recorded) as server:
        asked = ("run", "mine", question, "--benchmark", "archive", "--model", "openai:local", "--base-url", server.url)
        done = json.loads(call(home, *asked, "--embedder", "hashing", "--json").stdout)
        sent = take(server, without=("TaskProfile",))
        uses = [use for step in done["trajectory"]["steps"] for use in step["tools"] if use["name"] == "search"]
        assert uses
        (folder / "found.json").write_text(json.dumps({use["arguments"]["query"]: use["result"] for use in uses}))
        (folder / "archive_tools.py").write_text(MODULE)
        sys.path.insert(0, str(folder))
        try:
            with chdir(folder):
                file = export(home, folder / "mine.py", "--tools", "archive_tools:search")
        finally:
            sys.path.remove(str(folder))
            sys.modules.pop("archive_tools", None)
        recorded.replays = True
        env = {**os.environ, "MODEL": "openai:local", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        env = {name: value for name, value in env.items() if name != "PYTHONPATH"}
        alone = subprocess.run(
            [sys.executable, "-c", BLOCKED, str(file), question], env=env, cwd=folder, capture_output=True, text=True
        )
        assert alone.returncode == 0, alone.stderr
        assert alone.stdout.strip() == done["answer"].strip()
        assert [messages for messages, _ in groupby(take(server))] == [messages for messages, _ in groupby(sent)]
    env.pop("OPENAI_API_KEY")
    _, errors = wait_for(start("tests.processes:run_python", str(file), question, cwd=folder, env=env), code=1)
    assert errors.startswith("give the model's key, or another MODEL in the environment: ")

"""Where the commands of a page are run: a scratch folder, and a server on this machine in place of any model's."""

import ast
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfwire.cli.app import build
from selfwire.cli.commands import COMMANDS
from selfwire.graphs.method import make_method
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from selfwire.models.sync import run_sync
from selfwire.store.library import open_library
from tests.docs.blocks import Block, Command
from tests.graphs.dev_server import dev_server
from tests.processes import start, wait_for
from tests.wire.server import WireServer

OFFLINE = MeteredModel(make_chat_model("offline"))
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/v1")
"""Of a model's server on a page."""
CONTAINER = re.compile(rf"^docker (?:compose )?run .*?\bselfwire (?=(?:{'|'.join(COMMANDS)}) )")
"""What stands before a command that a page runs in a container."""
STUDIO = "http://127.0.0.1:2024"
"""Of `langgraph dev` on a page."""

LEARN = "--iterations 1 --batch 1 --train 2 --gate-size 2 --gate-tasks 2"
CUT = {
    "run": "--embedder hashing",
    "evolve": f"--test 2 --embedder hashing --gate mean {LEARN}",
    "eval": "--tasks 2 --embedder hashing",
    "compare": f"--tasks 1 --seeds 1 --workers 1 --embedder hashing --gate mean {LEARN}",
    "ablate": f"--variants full,random --seeds 1 --test 1 --workers 1 --embedder hashing {LEARN}",
    "prove": "--systems self-refine --tasks 3 --seeds 1 --evolve none --embedder hashing",
    "prune": "--iterations 1 --batch 2 --checks 2 --gate-size 30 --gate-tasks 30 --margin 0.4",
    "train": "--train 4 --batch 4 --updates 1 --test 2 --embedder hashing",
}
"""Options that a command gets in place of those of the page, so that it takes a second."""

USELESS = {"--gate off": ("--gate-tasks",), "--evolve none": ["--gate", *LEARN.split()[::2]]}
"""Options that a command refuses beside others."""

REPLACED: Mapping[str, str] = {
    "--seed s+100": "--seed 101",
    "--seed s": "--seed 1",
    "lib-s": "lib-1",
    "COMPARE-RUN": "{run}",
    "RUN": "{run}",
    "TASK": "{task}",
}
"""Words of a page that stand for something: a seed, the last run, its first task."""

TASKS = [{"input": f"What is {n} + {n}?", "reference": f"{2 * n}"} for n in range(1, 61)]


class World:
    """A folder with a home in it; `cut` says whether commands get small sizes."""

    def __init__(self, folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, *, cut: bool = True) -> None:
        self.folder, self.home, self.server, self.cut = folder, folder / ".selfwire", server, cut
        self.setenv, self.studio, self.stack = monkeypatch.setenv, STUDIO, ExitStack()
        monkeypatch.chdir(folder)
        monkeypatch.delenv("SELFWIRE_HOME", raising=False)
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setenv("OPENAI_API_KEY", "a key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)

    def fill(self) -> None:
        """Make what pages take for granted: tasks in `my.jsonl` and `my.csv`, twelve versions of `hiva-archive`."""
        (self.folder / "my.jsonl").write_text("\n".join(map(json.dumps, TASKS)))
        rows = "".join(f"{task['input']},{task['reference']}\n" for task in TASKS)
        (self.folder / "my.csv").write_text(f"question,answer\n{rows}")
        with open_library(self.home) as library:
            team = make_method("hiva").seed()
            for step in range(1, 13):
                run_sync(library.save("hiva-archive", team.with_memory(step=step), run="evolved", step=step))

    def point_at_servers(self, text: str) -> str:
        """A text of a page with the addresses of the servers that stand in for the reader's."""
        return ADDRESS.sub(self.server.url, text).replace(STUDIO, self.studio)

    def write(self, block: Block) -> None:
        """Write the file that a block is."""
        (self.folder / block.file).write_text(self.point_at_servers(block.text))

    def execute(self, block: Block, known: Mapping[str, Any]) -> None:
        """Execute a block of Python, which may await at its top level."""
        code = self.point_at_servers(block.text)
        compiled = compile(code, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if inspect.iscoroutine(running := eval(compiled, dict(known))):
            run_sync(running)

    def run(self, command: Command) -> str:
        """Run a command, which must end with 0 and print what the page shows; returns what it has printed."""
        name, *arguments = self.replace(command.words)
        if name == "export":
            self.setenv(*arguments[0].split("=", 1))
            return ""
        if name == "langgraph":
            self.studio = self.stack.enter_context(dev_server(self.folder / "studio", self.home))
            return ""
        if name == "git":
            printed = subprocess.run([name, *arguments], check=True, capture_output=True, text=True).stdout
            self.forget_modules()
        elif name == "python":
            printed, _ = wait_for(start("tests.processes:run_python", *arguments, cwd=self.folder))
        else:
            assert name == "selfwire", f"no way to run {command.text!r} here"
            done = CliRunner().invoke(build(), arguments)
            assert done.exit_code == 0, f"{shlex.join([name, *arguments])}\n{done.output}"
            printed = done.output
        check_shown(command, printed)
        return printed

    def forget_modules(self) -> None:
        """Forget the modules of the folder, as a reader's next command reads changed files anew."""
        for name, module in [*sys.modules.items()]:
            if (file := getattr(module, "__file__", None)) and Path(file).is_relative_to(self.folder):
                del sys.modules[name]

    def replace(self, words: list[str]) -> list[str]:
        """A command with a server of ours, small sizes, and something in place of words that stand for it."""
        text = CONTAINER.sub("selfwire ", self.point_at_servers(shlex.join(words)))
        for word, value in REPLACED.items():
            place = rf"(?<![\w-]){re.escape(word)}(?![\w-])"
            if re.search(place, text):
                text = re.sub(place, value.format(**self.find_run()), text)
        words = shlex.split(text)
        return cut_options(words) if self.cut and words[0] == "selfwire" else words

    def find_run(self) -> dict[str, str]:
        """The last run, and its first task."""
        folders = sorted((self.home / "runs").glob("*"), key=os.path.getmtime)
        if not folders:
            self.run(Command("selfwire eval single --benchmark archive --tasks 1"))
            return self.find_run()
        results = folders[-1] / "results.jsonl"
        rows = results.read_text().splitlines() if results.exists() else []
        return {"run": folders[-1].name, "task": json.loads(rows[1])["task"] if rows else ""}


def cut_options(words: list[str]) -> list[str]:
    """A command with the options of `CUT`, in place of its own."""
    given = CUT.get(words[1], "").split()
    if "--dry-run" in words:
        return words
    line = f"{shlex.join(words)} "
    useless = {option for beside, options in USELESS.items() if f"{beside} " in line for option in options}
    kept = list(words)
    for option, value in zip(given[::2], given[1::2], strict=True):
        if option in kept:
            kept[kept.index(option) + 1] = value
        elif option not in useless:
            kept += [option, value]
    return kept


def check_shown(command: Command, printed: str) -> None:
    """Look in what was printed for what the page shows of it, in its order; `...` stands for anything, as do breaks."""
    place, whole = 0, " ".join(printed.split())
    for part in command.shown.split("..."):
        words = " ".join(part.split())
        found = whole.find(words, place)
        assert found >= 0, f"$ {command.text}\nshows: {words}\nwhich is not behind: {whole[:place]}\nin:\n{printed}"
        place = found + len(words)

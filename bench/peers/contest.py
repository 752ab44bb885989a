"""A contest of `make bench ARGS=peers`: the server, a process per engine, and turns in rounds."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

from bench.peers.server import TEXT

HERE = Path(__file__).parent
Turn = Mapping[str, Any]
"""What a worker says of one turn: `cpu` and `wall` in seconds, `calls`, `answer`."""


class Process:
    """A script in a process of its own that answers each line with a line and ends with its input."""

    def __init__(self, python: str, script: str, *arguments: str) -> None:
        command = (python, "-P", str(HERE / script), *arguments)  # -P: else the names in this folder come first
        env = {name: value for name, value in os.environ.items() if python == sys.executable or name != "PYTHONPATH"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def read(self) -> str:
        """The next line.

        Raises:
            RuntimeError: the process has ended.
        """
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(map(str, self.process.args[2:]))} has ended; its error stands above")  # type: ignore[index]
        return line

    def ask(self, question: object) -> Any:
        """The answer to a question, both as JSON."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.read())


class Contest:
    """Engines that are ready to run."""

    def __init__(self, address: str, workers: Mapping[str, Process]) -> None:
        self.address, self.workers = address, workers

    def take_turns(self, repeats: Mapping[str, int], rounds: int) -> Iterator[tuple[str, str, Turn]]:
        """Shape, engine and turn of every turn: one of each engine after another, in every round.

        Args:
            repeats: how often each shape is run in a turn. A first round of single runs warms up and is not given.

        Raises:
            RuntimeError: an engine has not made all its calls, or gave another answer than the server's.
        """
        for shape, name in [(shape, name) for shape in repeats for name in self.workers]:
            self._take_turn(name, shape, 1)
        for _ in range(rounds):
            for shape, repeat in repeats.items():
                for name in self.workers:
                    yield shape, name, self._take_turn(name, shape, repeat)

    def _take_turn(self, name: str, shape: str, repeat: int) -> Turn:
        before = self._count_calls()
        turn: Turn = self.workers[name].ask([shape, repeat])
        made = self._count_calls() - before
        if made != turn["calls"] or turn["answer"] != TEXT:
            raise RuntimeError(f"{name} made {made} calls for {shape}, not {turn['calls']}, or changed the answer")
        return turn

    def _count_calls(self) -> int:
        with build_opener(ProxyHandler({})).open(f"{self.address}/count") as answer:
            return int(answer.read())


@contextmanager
def open_contest(pythons: Mapping[str, str]) -> Iterator[Contest]:
    """Start the server and the engines, each with its Python."""
    with ExitStack() as stack:
        server = stack.enter_context(Process(sys.executable, "server.py"))
        address = f"http://127.0.0.1:{server.read().strip()}"
        yield Contest(
            address,
            {
                name: stack.enter_context(Process(python, "worker.py", name, address))
                for name, python in pythons.items()
            },
        )

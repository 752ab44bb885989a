"""Kills evolutions and resumes them: `python -m tests.kills --points 20` prints a row per kill point.

An evolution runs through the real command line and the real OpenAI client against a local server that serves
the offline model. At every kill point the process gets three kills -9, each some replies after the one before,
then `--resume` runs to the end: the result must be that of the run that was not killed.
"""

import argparse
import asyncio
import os
import random
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from selfwire.cli.app import build
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import to_canonical_json
from selfwire.models.providers import make_chat_model
from selfwire.runs.record import JOURNAL, list_run_names
from selfwire.store.journal import Journal
from selfwire.store.library import open_library
from tests import processes
from tests.journals import read_journal
from tests.wire.server import WireServer, served

NAME = "killed"
SMALL = tuple("--gate mean --iterations 3 --batch 6 --gate-tasks 6 --train 18 --gate-size 18 --test 10".split())
TINY = tuple("--gate mean --iterations 1 --batch 4 --gate-tasks 4 --train 8 --gate-size 8 --test 4".split())
SECONDS = re.compile(r'"seconds":[\d.e-]+,?')
METHOD = ("hiva",)
"""What is killed where nothing else is said: the method, and maybe fields."""


class Result(NamedTuple):
    """What must be equal: the final team, all saved versions with their verdicts, every score by place and
    task, and calls, tokens and dollars.
    """

    workflow: str
    versions: tuple[tuple[str, str], ...]
    scores: dict[str, dict[str, float | None]]
    spend: tuple[int, int, int, float | None]


class Killed(NamedTuple):
    """A kill point and what came of it.

    Args:
        replies: of the server, at each kill.
        open_calls: model calls that had no settled row, at each kill.
        extra: requests beyond those of the run that nobody killed.
        differs: names of what is not equal.
    """

    replies: tuple[int, ...]
    open_calls: tuple[int, ...]
    extra: int
    differs: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the result is equal and no more was sent again than was in flight."""
        return not self.differs and self.extra <= sum(self.open_calls)


def name_model(server: WireServer) -> tuple[str, ...]:
    """Options for a model that a local server plays."""
    return ("--model", "openai:gpt-4o-mini", "--base-url", server.url, "--embedder", "hashing")


def beginning(server: WireServer, sizes: Sequence[str], method: Sequence[str] = METHOD) -> tuple[str, ...]:
    """Arguments that start an evolution."""
    return ("evolve", *method, "--benchmark", "archive", "--name", NAME, *name_model(server), *sizes)


def resumption(home: Path) -> tuple[str, ...]:
    """Arguments that resume the only evolution of a home."""
    return ("evolve", "--resume", run_of(home))


def start(home: Path, *arguments: str, **environment: str) -> processes.Process:
    """Start the command line in a new process."""
    return processes.start_selfwire(*arguments, env={**os.environ, "SELFWIRE_HOME": str(home), **environment})


def call(home: Path, *arguments: str) -> None:
    """Run the command line in this process."""
    called = CliRunner().invoke(build(), [*arguments], env={"SELFWIRE_HOME": str(home)})
    assert called.exit_code == 0, called.output


def run_of(home: Path) -> str:
    """Name of the only run of a home."""
    [name] = list_run_names(home)
    return name


async def result(home: Path) -> Result:
    """The result of the only evolution of a home."""
    with open_library(home, create=False) as library:
        history = await library.history(NAME)
        team = (await library.head(NAME)).fingerprint
    versions = tuple((one.fingerprint, to_canonical_json(one.facts.get("gate"))) for one in history.versions)
    journal = read_journal(home / "runs" / run_of(home) / JOURNAL)
    try:
        notes = await journal.list_note_names("trajectories")
        scores = {note: await _scores(journal, note) for note in notes}
        spend = journal.spend()
    finally:
        journal.close()
    return Result(team, versions, scores, (spend.calls, spend.input_tokens, spend.output_tokens, spend.dollars))


async def _scores(journal: Journal, note: str) -> dict[str, float | None]:
    found = await _trajectories(journal, note)
    return {task: done.feedback.score if done.feedback else None for task, done in found.items()}


async def questions(home: Path, note: str) -> dict[str, str]:
    """What was asked at a place, by task."""
    journal = read_journal(home / "runs" / run_of(home) / JOURNAL)
    try:
        return {task: done.question.input for task, done in (await _trajectories(journal, note)).items()}
    finally:
        journal.close()


async def trajectories(journal: Journal) -> dict[str, str]:
    """All trajectories by place, without times."""
    found = dict[str, str]()
    for note in await journal.list_note_names("trajectories"):
        done = await _trajectories(journal, note)
        plain = to_canonical_json({task: one.model_dump(mode="json") for task, one in done.items()})
        found[note] = SECONDS.sub("", plain)
    return found


async def _trajectories(journal: Journal, note: str) -> dict[str, Trajectory]:
    bodies = await journal.get_note(note)
    return {task: Trajectory.model_validate(await journal.get_body(body)) for task, body in bodies.items()}


async def open_calls(home: Path) -> int:
    """Model calls that were reserved and neither settled nor failed."""
    journal = read_journal(home / "runs" / run_of(home) / JOURNAL)
    try:
        return len(await journal.rows("model", "reserved"))
    finally:
        journal.close()


def killed_after(process: processes.Process, server: WireServer, replies: int) -> None:
    """Kill -9 as soon as the server has given that many replies."""
    processes.kill_when(process, lambda: server.replied >= replies)


def whole(home: Path, server: WireServer, sizes: Sequence[str], method: Sequence[str] = METHOD) -> tuple[Result, int]:
    """The run that is not killed, in this process, where sets have another order; its result and its requests."""
    before = len(server.asked)
    call(home, *beginning(server, sizes, method))
    return asyncio.run(result(home)), len(server.asked) - before


def killed(
    home: Path,
    server: WireServer,
    sizes: Sequence[str],
    points: Sequence[int],
    expected: Result,
    method: Sequence[str] = METHOD,
) -> Killed:
    """Kill at each point, resume, and compare; `points` are replies since the beginning of the evolution."""
    before, asked = server.replied, len(server.asked)
    replies, in_flight = [], []
    for point in points:
        process = start(home, *(resumption(home) if (home / "runs").exists() else beginning(server, sizes, method)))
        killed_after(process, server, before + point)
        replies.append(server.replied - before)
        in_flight.append(asyncio.run(open_calls(home)))
    processes.wait_for(start(home, *resumption(home)))
    found = asyncio.run(result(home))
    differs = tuple(name for name in Result._fields if getattr(found, name) != getattr(expected, name))
    return Killed(tuple(replies), tuple(in_flight), len(server.asked) - asked, differs)


def drawn(seed: int, points: int, replies: int) -> list[tuple[int, int, int]]:
    """Seeded triples of kills: the first ones lie evenly over the run, each next one up to 30 replies later."""
    rng = random.Random(seed)
    width = (replies - 62) / points
    found = []
    for place in range(points):
        first = 1 + int(width * place + rng.random() * width)
        second = first + rng.randint(1, 30)
        found.append((first, second, second + rng.randint(1, 30)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--method", default="hiva")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, WireServer(served(make_chat_model("offline"))) as server:
        expected, requests = whole(Path(folder) / "whole", server, SMALL, [given.method])
        told(f"not killed: team {expected.workflow}, {requests} requests, spend {expected.spend}")
        failed = 0
        for number, points in enumerate(drawn(given.seed, given.points, requests)):
            found = killed(Path(folder) / f"killed-{number}", server, SMALL, points, expected, [given.method])
            found = found._replace(extra=found.extra - requests)
            failed += not found.holds
            verdict = "equal" if found.holds else f"DIFFERS in {', '.join(found.differs) or 'requests'}"
            told(f"{number:3} kills at {found.replies}, in flight {found.open_calls}, extra {found.extra}: {verdict}")
    sys.exit(1 if failed else 0)


def told(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""The pages of a large run, of 50 versions of 12 agents and 5,000 trajectories, and of a large team, of 200 agents."""

import asyncio
import hashlib
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.browser import measure_in_browser
from bench.measuring import Elapsed, Row
from selfwire.core.agent import Agent
from selfwire.core.plugins import DEFAULT_METHOD
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Message, Step, Trajectory
from selfwire.extras.pages.page import write_report
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.graphs.rollouts import get_sample_name, get_trajectories_note
from selfwire.runs.record import JOURNAL, REQUEST, SUMMARY
from selfwire.runs.spec import EvolveSpec
from selfwire.store.journal import Journal
from selfwire.store.library import open_library

VERSIONS, AGENTS, TRAJECTORIES = 50, 12, 5000
MANY, FEW = 200, 5
"""Agents of the large team, and its versions, each with as many trajectories."""
GRADIENTS = 30
"""Most gradients that an iteration notes."""
_RUN = "bench"


def measure_pages() -> list[Row]:
    """Make the pages, from the stored runs to the files, and open them."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        asyncio.run(_store_run(home / "large", VERSIONS, AGENTS, TRAJECTORIES // VERSIONS))
        asyncio.run(_store_run(home / "many", FEW, MANY, FEW))
        start = Elapsed.now()
        page = write_report(home / "large", _RUN, home / "large.html")
        taken = start.until_now()
        size = page.stat().st_size
        many = write_report(home / "many", _RUN, home / "many.html")
        what = f"{VERSIONS} versions of {AGENTS} agents, {TRAJECTORIES:,} trajectories"
        return [
            Row(what=f"{what}: page", value=size / 1e6, unit="MB", bound=2),
            Row(what=f"{what}: made", value=taken.cpu, unit="s of CPU", bound=5),
            *measure_in_browser({what: page, f"{FEW} versions of {MANY} agents": many}),
        ]


async def _store_run(home: Path, versions: int, agents: int, tasks: int) -> None:
    names = tuple(f"agent-{number}" for number in range(agents))
    request = EvolveSpec(benchmark="archive", evolution=EvolutionConfig(name=_RUN, iterations=versions - 1))
    summary = {"command": "evolve", "status": "finished", "benchmark": "archive", "name": _RUN}
    with closing(Journal.create(home / "runs" / _RUN / JOURNAL, run=_RUN)) as journal, open_library(home) as library:
        await journal.put_note(REQUEST, request.model_dump(mode="json"))
        await journal.put_note(SUMMARY, summary)
        for number in range(versions):
            facts = {"why": f"reason {number}", "notes": {"gradients": _note_gradients(number, names)}}
            await library.save(_RUN, _make_team(number, names), run=_RUN, step=number, facts=facts)
            found = [_make_trajectory(number, task, names) for task in range(tasks)]
            dumped = [trajectory.model_dump(mode="json") for trajectory in found]
            bodies = await asyncio.gather(*map(journal.put_body, dumped))
            kept = {get_sample_name(trajectory): body for trajectory, body in zip(found, bodies, strict=True)}
            await journal.put_note(get_trajectories_note(number, "rollout"), kept)


def _make_team(number: int, names: tuple[str, ...]) -> Team:
    agents = tuple(Agent(id=name, prompt=f"You are {name}. {_write(f'{name} {number}', 40)}") for name in names)
    return Team(method=DEFAULT_METHOD, agents=agents, topology=make_chain(*names))


def _note_gradients(number: int, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The longest notes of an iteration: the critique of every agent on each of some tasks."""
    critique = {"sentiment": "critical", "concerns": "both"}
    ways = [(name, (after,)) for name, after in zip(names, (*names[1:], ""), strict=True)]
    return [
        {
            "task": f"task-{task}",
            "feedback": _write(f"feedback {number} {task}", 40),
            "gradients": [
                {**critique, "node": name, "received": received if received[0] else (), "text": _write(text, 44)}
                for name, received in reversed(ways)
                for text in [f"gradient {number} {task} {name}"]
            ],
        }
        for task in range(max(1, GRADIENTS // len(names)))
    ]


def _make_trajectory(number: int, task: int, names: tuple[str, ...]) -> Trajectory:
    texts = [_write(f"{number} {task} {name}", 30) for name in names]
    steps = tuple(
        Step(node=name, agent=name, output=text, sent=(Message(source=name, target=after, text=text),))
        for name, after, text in zip(names, (*names[1:], names[0]), texts, strict=True)
    )
    asked = Question(id=f"task-{task}", input=_write(f"question {task}", 60))
    score = float(task % 3 == 0)
    graded = Feedback(score=score, solved=bool(score), text="as expected")
    return Trajectory(question=asked, workflow="", steps=steps, answer=texts[-1], feedback=graded)


def _write(about: str, words: int) -> str:
    """Text that is not the same twice, so that it can hardly be compressed."""
    digest = hashlib.shake_256(about.encode()).hexdigest(4 * words)
    return " ".join(digest[8 * place : 8 * place + 8] for place in range(words))

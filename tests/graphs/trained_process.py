"""Trains a router, in a process that can be killed: the arguments of `main` are FOLDER [DIE_AT].

Agents are scripted: an episode is solved if `weigh` is among the first layer. Kills itself with -9 at moment DIE_AT:
moments are, in order, the beginning of every question's episodes, a version about to be saved and one just saved, and
the end of every update.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question, Task
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Budget
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.layers import make_chooser
from selfwire.evolvers.router.config import SamplingConfig, TrainConfig
from selfwire.evolvers.router.decisions import Decision, Episode
from selfwire.evolvers.router.reinforce import Update
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.evomas import Evomas
from selfwire.graphs.machine import Ctx
from selfwire.graphs.rollouts import RolloutContext
from selfwire.graphs.router import Training
from selfwire.models.budget import Ledger
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import Journal
from selfwire.store.library import open_library

if "pytest" not in sys.modules:  # an optimiser imports it when it is made: here once, and not in every fork
    import torch._dynamo

CONFIG = EvomasConfig(sampling=SamplingConfig(layers=2, width=1), samples=3)
TRAIN = TrainConfig(updates=5, batch=12, checkpoint_every=2)
TASKS = tuple(Task(id=f"t{number}", input=f"parcel {number}", reference="weigh") for number in range(8))
AGENTS = tuple(Agent(id=name, role=f"{name} parcels", prompt=name) for name in ("sort", "weigh", "paint"))
STATE, RUN, NAME = "router.safetensors", "training", "router"


class Scales:
    """Solved if the right agent was chosen first."""

    name = "scales"

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        solved = answer == task.reference
        return Feedback(score=float(solved), solved=solved, text="")


def seed() -> Team:
    return Team(method="evomas", agents=AGENTS, topology=make_chain(*(agent.id for agent in AGENTS)))


class Clock:
    """Counts moments from 0, and kills the process at one of them."""

    def __init__(self, die_at: int | None = None) -> None:
        self.die_at, self.moments = die_at, 0

    def tick(self) -> None:
        if self.moments == self.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.moments += 1


class Player:
    """Puts a question to the head, which is all that a run is here."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.embedder, self.clock = HashingEmbedder(), clock or Clock()

    async def __call__(self, team: Team, question: Question, ctx: Ctx[Any]) -> Sequence[Trajectory]:
        self.clock.tick()
        return [await self.one(team, question, ctx.scope.at(sample=number)) for number in range(CONFIG.samples)]

    async def one(self, team: Team, question: Question, scope: Scope) -> Trajectory:
        chooser = await make_chooser(team, CONFIG, self.embedder)
        rows = (f"active subtask: {question.input}", "objective: post it")
        layered = await chooser(rows, team.agents, scope=scope)
        ids = tuple(agent.id for agent in team.agents)
        episode = Episode(decisions=(Decision(rows=rows, agents=ids, layered=layered),))
        return Trajectory(
            question=question,
            workflow=team.fingerprint,
            answer=layered.layers[0][0],
            sample=scope.sample,
            notes={"episode": episode.model_dump(mode="json")},
        )


async def train(
    folder: Path, player: Player | None = None, config: TrainConfig = TRAIN, start: Team | None = None
) -> tuple[Team, list[Update]]:
    path, updates = folder / "journal.sqlite", list[Update]()
    journal = Journal.open(path, {}) if path.exists() else Journal.create(path, run=RUN, facts={})
    player = player or Player()

    def told(update: Update) -> None:
        player.clock.tick()
        updates.append(update)

    try:
        with open_library(folder) as library:

            async def save(team: Team, step: int) -> None:
                player.clock.tick()
                await library.save(NAME, team, run=RUN, step=step)
                player.clock.tick()

            training = Training(
                run=RUN,
                seed=0,
                rollout_context=RolloutContext(
                    Scales(), journal, Ledger(Budget()), concurrency=3, calls_per_task=1, keep_errors_below=0.5
                ),
                rollout_fn=player,
                ctx=Evomas(CONFIG).make_ctx(MeteredModel(OfflineChat()), {}, player.embedder),
                tasks=TASKS,
                config=CONFIG.routing,
                train=config,
                state=folder / STATE,
                save=save,
            )
            return await training.execute(start or seed(), told), updates
    finally:
        journal.close()


def main() -> None:
    torch.set_num_threads(1)
    clock = Clock(int(sys.argv[2]) if len(sys.argv) > 2 else None)
    asyncio.run(train(Path(sys.argv[1]), Player(clock)))

"""Does semantic matching bring facts to those who need them? DyTopo's graph beside other graphs, where facts are split.

All systems run in DyTopo's own LangGraph with the same scripted agents, and an agent can read no more words in one than
in another. Fixed graphs and the one that always matches rightly are embedders, so that nothing else differs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.evals.statistics import compute_mean
from selfwire.evals.table import Column
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.dytopo.parts import SplitModel, SplitParameters, SplitTask, make_task
from selfwire.extras.lab.worlds.gains import Scale, WorldResult, mean_column
from selfwire.graphs.dytopo import Dytopo, Report
from selfwire.models.embeddings import HashingEmbedder

MAIN, ORACLE = "matching", "matching that knows what is meant"
DEAF, KEPT = f"{MAIN}, needs not heard", f"{MAIN}, the first graph kept"
BEST = f"{MAIN}, best tau in hindsight"
RANDOM, BROADCAST, RING, SINGLE = "random edges", "broadcast", "fixed ring", "single turn"
CHECKPOINTS = (2, 4, 6)
TAUS = (0.1, 0.2, 0.4)
"""Thresholds beside the default."""

Rows = npt.NDArray[np.float32]


@dataclass
class KnowingEmbedder:
    """Knows what texts mean: two that name the same fact have cosine 1, others 0."""

    task: SplitTask
    name: str = "knowing"

    async def embed(self, texts: Sequence[str]) -> Rows:
        """Unit rows."""
        rows = np.zeros((len(texts), len(self.task.words)), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if (fact := self.task.find_fact(text)) is not None:
                row[fact] = 1
        return rows


@dataclass
class FixedEmbedder:
    """Gives the same graph in every round, whatever is needed and offered.

    Attributes:
        providers: by agent.
        spoken: whose query or offer a text was; every agent has both.
    """

    providers: Mapping[str, Sequence[str]]
    spoken: Mapping[str, str]
    name: str = "fixed"

    async def embed(self, texts: Sequence[str]) -> Rows:
        """Unit rows of queries, then of offers."""
        names = list(self.providers)
        rows = np.zeros((len(texts), len(names)), dtype=np.float32)
        for at, text in enumerate(texts):
            speaker = self.spoken[text]
            for name in self.providers[speaker] if at < len(names) else [speaker]:
                rows[at, names.index(name)] = 1
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        return rows


@dataclass(frozen=True)
class SystemRun:
    """Run of a system on a task.

    Attributes:
        finished: for each part, the round in which it was finished, from 1.
        read: words that agents read.
    """

    finished: tuple[int | None, ...]
    read: int
    edges: int
    report: Report


async def run_task(
    task: SplitTask,
    given: SplitParameters,
    scope: Scope,
    embedder: Embedder | None = None,
    providers: Mapping[str, Sequence[str]] | None = None,
    listens: bool = True,
    **config: object,
) -> SystemRun:
    """Run DyTopo on a task.

    Args:
        embedder: hashing by default.
        providers: of a fixed graph instead, by agent.
        listens: whether workers offer what others needed.
        config: what differs from DyTopo's defaults.
    """
    model = SplitModel(task, given, listens=listens, relays=providers is not None)
    fixed = FixedEmbedder(providers, model.spoken) if providers is not None else None
    settings = DytopoConfig.model_validate({"rounds": given.rounds, **config})
    method = Dytopo(settings)
    ctx = method.make_ctx(model, {}, fixed or embedder or HashingEmbedder(), at=scope)
    report = await method.run(task.make_team(), Question(id=scope.task, input="All parts."), ctx)
    right = [{turn.worker for turn in done.said if task.check(turn.worker, turn.answer)} for done in report.rounds]
    finished = [next((at for at, there in enumerate(right, 1) if name in there), None) for name in task.names]
    return SystemRun(tuple(finished), model.read, sum(len(done.graph.edges) for done in report.rounds), report)


async def run_systems(given: SplitParameters, seed: int, number: int) -> dict[str, SystemRun]:
    """All systems on a task."""
    task, scope = make_task(given, seed, number), Scope(seed=seed, task=f"t{number}", phase="test")
    run = partial(run_task, task, given, scope, embedder=HashingEmbedder())
    unread = given.replace(budget=given.length * given.agents)
    done = {MAIN: await run(), ORACLE: await run(embedder=KnowingEmbedder(task))}
    done |= {f"{MAIN}, tau = {tau}": await run(threshold=tau) for tau in TAUS}
    first = done[MAIN].report.rounds[0].graph
    ring = {name: (task.names[at - 1],) for at, name in enumerate(task.names)}
    return done | {
        DEAF: await run(listens=False),
        KEPT: await run(providers={name: first.providers(name) for name in task.names}),
        RANDOM: await run(topology="random"),
        BROADCAST: await run(topology="broadcast"),
        f"{BROADCAST}, all is read": await run_task(task, unread, scope, topology="broadcast"),
        RING: await run(providers=ring),
        SINGLE: await run(rounds=1, topology="none", manager=False),
    }


async def run_seed(given: SplitParameters, seed: int) -> WorldResult:
    """All systems on all tasks of a seed."""
    trials = [await run_systems(given, seed, number) for number in range(given.tasks)]
    figures = {name: summarise([trial[name] for trial in trials], given.rounds) for name in trials[0]}
    best = max(
        (name for name in figures if name.startswith(MAIN) and ("tau" in name or name == MAIN)),
        key=lambda name: figures[name]["parts"],
    )
    return WorldResult(seed=seed, figures=figures | {BEST: figures[best]})


def summarise(trials: Sequence[SystemRun], rounds: int) -> dict[str, float]:
    """Shares of parts and of whole tasks that are finished, by round; words read and edges per task."""
    last = [[rounds + 1 if at is None else at for at in trial.finished] for trial in trials]
    by_round = {at: compute_mean([sum(end <= at for end in ends) / len(ends) for ends in last]) for at in CHECKPOINTS}
    return {
        "parts": compute_mean([sum(end <= rounds for end in ends) / len(ends) for ends in last]),
        "tasks": compute_mean([float(max(ends) <= rounds) for ends in last]),
        "tokens": compute_mean([trial.read for trial in trials]),
        "edges": compute_mean([trial.edges / len(trial.report.rounds) for trial in trials]),
        **{f"parts by round {at}": share for at, share in by_round.items()},
    }


def list_columns(results: Sequence[WorldResult]) -> tuple[Column[str], ...]:
    """Progress of parts and tasks, round by round."""
    return (
        *(mean_column(results, f"parts by round {at}", ".2f") for at in CHECKPOINTS),
        mean_column(results, "parts", ".2f", "parts in the end"),
        mean_column(results, "tasks", ".2f", "whole tasks"),
        mean_column(results, "edges", ".1f", "edges per round"),
    )


SCALE = Scale("parts", least=RANDOM, most=ORACLE, main=MAIN)
CLAIMS = (
    SCALE.claim("matching", RANDOM),
    SCALE.claim("matching, at equal tokens", BROADCAST),
    SCALE.claim("matching, against a fixed graph", RING),
    SCALE.claim("a graph of its own for every round", KEPT),
    SCALE.claim("public needs (D12)", DEAF),
    SCALE.claim("a tau that fits the embedder", MAIN, main=BEST),
)
STUDY = SplitParameters()
WORLD = World(STUDY, run_seed, SCALE, CLAIMS, columns=list_columns)

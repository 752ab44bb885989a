"""Does the router learn? The trained head against choosers without learning, on held-out errands, over seeds."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from selfwire.core.errors import refuse_missing
from selfwire.core.values import FrozenModel
from selfwire.evals.benchmarks.errands import RIGHT, Errand, generate_errands
from selfwire.evals.statistics import IntervalEstimate, compute_student_interval
from selfwire.evolvers.router.config import PAPER_HEAD, HeadConfig, TrainConfig, paper_training
from selfwire.evolvers.router.decisions import Episode
from selfwire.extras.lab.worlds.errand_runs import (
    ERRANDS,
    IDS,
    Choose,
    ErrandEmbeddings,
    Rows,
    Rules,
    choose_by_chance,
    embed_errands,
    find_best_constant,
    find_best_fixed,
    make_fixed_chooser,
    make_head_chooser,
    make_lookup_chooser,
    make_sampled_lookup_chooser,
    run_errand,
)
from selfwire.extras.lab.worlds.gains import SeedOutcome
from selfwire.models.embeddings import load_embedder

if TYPE_CHECKING:
    from selfwire.evolvers.router.head import RoutingHead

NEAREST = 25
"""Neighbours of the look-ups."""
MANY, SHARP = 1000, 0.03
"""Neighbours and softness of the look-up on rewards that draws: the best of six on the test tasks."""
REPEATS = 4
"""Runs per held-out task."""


class TrainingSizes(FrozenModel):
    """How long a head is trained: updates, and episodes for each."""

    updates: int = 400
    batch: int = 64


class ErrandStudy(TrainingSizes):
    """The learning test.

    Args:
        length: situations per task; more situations make the terminal reward rarer.
        tasks: of each split.
        sparse: whether it is about rare rewards, with and without process reward.
    """

    length: int = 2
    tasks: int = 200
    embedder: str = "minilm"
    sparse: bool = False


class Curve(FrozenModel):
    """Course of a training: mean reward, entropy and gradient norm after each update."""

    reward: tuple[float, ...]
    entropy: tuple[float, ...]
    gradient_norm: tuple[float, ...]


class SeedResult(SeedOutcome):
    """Share of held-out tasks solved by system, share of rewarded chance runs, and course of the training."""

    solved: dict[str, float]
    positive: float
    curve: Curve


def run_seed(study: ErrandStudy, seed: int) -> SeedResult:
    """All systems on one seed's tasks."""
    refuse_missing("torch", "the world errands")
    import torch

    torch.set_num_threads(1)
    return asyncio.run(_one_seed(study, seed))


async def _one_seed(study: ErrandStudy, seed: int) -> SeedResult:
    from selfwire.evolvers.router.head import RoutingHead

    learn, test = (
        generate_errands(study.tasks, length=study.length, seed=seed, held_out=held) for held in (False, True)
    )
    heads = (HeadConfig(),) if study.sparse else (HeadConfig(), PAPER_HEAD)
    embeddings = await embed_errands((*learn, *test), load_embedder(study.embedder)[0], heads)
    dimensions = embeddings.agents.shape[1]
    solved: dict[str, float] = {}

    def measure(name: str, choose: Choose) -> None:
        found, _ = run_errand(list(test) * REPEATS, choose, np.random.default_rng([seed, 1]))
        solved[name] = float(found.mean())

    ours, paper = HeadConfig(seed=seed), PAPER_HEAD.replace(seed=seed)
    head, curve = train_head(study, learn, embeddings, ours, TrainConfig())
    measure("trained", make_head_chooser(head, embeddings))
    if study.sparse:
        with_process, _ = train_head(study, learn, embeddings, ours, TrainConfig(), process=True)
        measure("trained with process reward", make_head_chooser(with_process, embeddings))
    else:
        printed, _ = train_head(study, learn, embeddings, paper, paper_training())
        measure("trained, preset paper", make_head_chooser(printed, embeddings))
        plain, _ = train_head(study, learn, embeddings, ours, paper_training())
        measure("trained, our head, the paper's REINFORCE", make_head_chooser(plain, embeddings))
    measure("untrained", make_head_chooser(RoutingHead(dimensions), embeddings))
    measure("random", choose_by_chance)
    if not study.sparse:
        _without_learning(study, seed, learn, test, embeddings, measure, solved)
    solved["knows the truth"] = float(
        run_errand(test, make_fixed_chooser(lambda s: RIGHT[s.situations]), np.random.default_rng(0))[0].mean()
    )
    positive = float(run_errand(list(learn) * 10, choose_by_chance, np.random.default_rng([seed, 2]))[0].mean())
    return SeedResult(seed=seed, solved=solved, positive=positive, curve=curve)


def _without_learning(
    study: ErrandStudy,
    seed: int,
    learn: Sequence[Errand],
    test: Sequence[Errand],
    embeddings: ErrandEmbeddings,
    measure: Callable[[str, Choose], None],
    solved: dict[str, float],
) -> None:
    solved["best fixed workflow of all"] = find_best_fixed(test)
    solved["best constant choice per stage"] = find_best_constant(learn, test)
    _, episodes = run_errand(
        draw_tasks(learn, study.updates * study.batch, seed), choose_by_chance, np.random.default_rng([seed, 3])
    )
    rewarded = _to_examples(episodes)
    measure("nearest neighbours, by the same rewards", make_lookup_chooser(embeddings, *rewarded, nearest=NEAREST))
    measure(
        "the same, by the subtask alone, drawn",
        make_sampled_lookup_chooser(embeddings, *rewarded, nearest=MANY, softness=SHARP),
    )
    labels = [
        (task.rows(place, False), int(RIGHT[situation]))
        for task in learn
        for place, situation in enumerate(task.situations)
    ]
    states, agents = [rows for rows, _ in labels], [agent for _, agent in labels]
    right = (states, agents, [1.0] * len(labels))
    measure("nearest neighbour, told the right agents", make_lookup_chooser(embeddings, *right, nearest=1))
    measure("told them, by the subtask alone, drawn", make_sampled_lookup_chooser(embeddings, *right, nearest=NEAREST))


def _to_examples(episodes: Sequence[Episode]) -> tuple[list[Rows], list[int], list[float]]:
    """States, agents and rewards of at most 20,000 choices of episodes, for look-ups."""
    states, agents, values = [], [], []
    for episode in episodes:
        for decision in episode.decisions:
            for name in decision.layered.layers[-1]:
                states.append(decision.rows)
                agents.append(IDS.index(name))
                values.append(episode.reward or 0.0)
    kept = np.random.default_rng(0).permutation(len(states))[:20_000]
    return [states[i] for i in kept], [agents[i] for i in kept], [values[i] for i in kept]


def train_head(
    study: TrainingSizes,
    tasks: Sequence[Errand],
    embeddings: ErrandEmbeddings,
    head_config: HeadConfig,
    config: TrainConfig,
    *,
    process: bool = False,
    rules: Rules = ERRANDS,
) -> tuple["RoutingHead", Curve]:
    """Train a head on errands by the rewards of its own runs; the seed of its config draws them too."""
    from selfwire.evolvers.router.head import RoutingHead
    from selfwire.evolvers.router.reinforce import Learner

    seed, head = head_config.seed, RoutingHead(embeddings.agents.shape[1], head_config)
    learner = Learner(head, config, rules.sampling, stages=rules.stages, process=process)
    updates = []
    for number in range(study.updates):
        drawn = draw_tasks(tasks, study.batch, seed, number)
        choose, random = make_head_chooser(head, embeddings, rules), np.random.default_rng([seed, 4, number])
        _, episodes = run_errand(drawn, choose, random, rules)
        updates.append(learner.update(episodes, embeddings.by_agent, embeddings.texts))
    return head, Curve(
        reward=tuple(update.reward or 0.0 for update in updates),
        entropy=tuple(update.entropy for update in updates),
        gradient_norm=tuple(update.gradient_norm for update in updates),
    )


def draw_tasks(tasks: Sequence[Errand], count: int, seed: int, number: int = 0) -> list[Errand]:
    """Tasks for learning, drawn anew for each update."""
    places = np.random.default_rng([seed, 5, number]).integers(len(tasks), size=count)
    return [tasks[int(place)] for place in places]


def summarise_results(results: Sequence[SeedResult]) -> list[tuple[str, IntervalEstimate, IntervalEstimate | None]]:
    """Per system: share solved, and the trained head's gain over it, paired over seeds; with intervals."""

    def summarise(name: str) -> tuple[str, IntervalEstimate, IntervalEstimate | None]:
        solved = compute_student_interval([result.solved[name] for result in results]).clip(0, 1)
        gains = [result.solved["trained"] - result.solved[name] for result in results]
        return name, solved, None if name == "trained" else compute_student_interval(gains).clip(-1, 1)

    return [summarise(name) for name in results[0].solved]

"""Evolutions whose scores are drawn by chance: how many accept a change that does nothing, drafts included."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Splits, Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.gate import name_outcome
from selfwire.graphs.evolve import EvolutionLoop, EvolutionState
from tests.graphs.test_evolution import SEED, Scripted, context, tasks

Draw = Callable[[random.Random, bool], float]
"""A score of the first team, or of one that has changed."""
NOTHING: dict[str, Draw] = {
    "half of the tasks are right": lambda chance, changed: float(chance.random() < 0.5),
    "nine of ten are right": lambda chance, changed: float(chance.random() < 0.9),
    "scores between 0 and 1": lambda chance, changed: chance.betavariate(2, 2),
}


@dataclass(frozen=True, kw_only=True)
class Drawing(EvolutionLoop):
    """An evolution that runs no team and draws scores."""

    draw: Draw
    chance: random.Random

    async def _run(
        self,
        team: Team,
        tasks: Sequence[Task],
        scope: Scope,
        *,
        explores: bool = False,
        earlier: Sequence[Trajectory] = (),
        before: Sequence[Trajectory] = (),
    ) -> list[Trajectory]:
        def run(task: Task) -> Trajectory:
            score = self.draw(self.chance, team.agents != SEED.agents)
            done = Trajectory(question=task.question, workflow=team.fingerprint)
            return done.with_feedback(Feedback(score=score, solved=score > 0.5, text=""))

        known = {done.question.id: done for done in earlier}
        return [known.get(task.id) or run(task) for task in tasks]


async def list_outcomes(draw: Draw, seed: int, iterations: int = 6) -> list[str]:
    """The outcomes of an evolution, all of whose iterations propose a change."""
    made = context(Scripted(), gate="better", iterations=iterations, batch=10, gate_tasks=20, seed=seed)
    splits = Splits(train=tasks("train", 100), gate=tasks("gate", 100), test=())
    loop = Drawing(**{**vars(made), "splits": splits}, draw=draw, chance=random.Random(seed))
    seed_team = SEED.with_memory(lessons=0)
    loop, found = replace(loop, seed_team=seed_team), list[str]()
    state = EvolutionState(equals=0, incumbent=await loop._put(seed_team))
    for number in range(iterations):
        candidate = seed_team.apply(Rewiring(RewritePrompt("a", str(number + 1)), why="next"))
        evolved = await loop.journal.put_body({"applied": [], "refused": [], "notes": {}, "needs_gate": False})
        state = {**state, "iteration": number, "candidate": await loop._put(candidate), "evolved": evolved}
        state = {**state, **await loop.gate(state)}
        found.append(name_outcome(state["verdict"]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", NOTHING)
async def test_at_most_one_run_of_twenty_accepts_a_change_that_does_nothing(kind: str) -> None:
    runs = [await list_outcomes(NOTHING[kind], seed) for seed in range(60)]
    assert sum("accepted" in outcomes for outcomes in runs) <= 0.05 * len(runs)
    assert sum(outcomes.count("draft") for outcomes in runs) > len(runs)  # so that drafts are built on


@pytest.mark.slow
async def test_most_runs_accept_a_change_that_gains() -> None:
    def draw(chance: random.Random, changed: bool) -> float:
        return float(chance.random() < 0.5 + 0.3 * changed)

    runs = [await list_outcomes(draw, seed) for seed in range(10)]
    assert sum("accepted" in outcomes for outcomes in runs) >= 8

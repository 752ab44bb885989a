"""tau and K_in are tried on held-out tasks, and the best setting is kept in the workflow."""

from typing import Any

import pytest

from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.tuning import Setting, current
from selfwire.graphs.dytopo import Dytopo
from selfwire.graphs.dytopo.tuning import tuned
from selfwire.runtime.embeddings import HashingEmbedder
from tests.graphs.rounds import MATH, Script, SpokenModel

TASKS = [Task(id=f"t{at}", input=f"What is 3 + {at}?", reference="7") for at in range(3)]
SETTINGS = [Setting(threshold=tau, providers=most) for tau in (0.2, 1.0) for most in (1, 3)]
SCOPE = Scope(phase="tune")


class Graded:
    """Right are those answers that were found with an open mind: where the solver got the plan."""

    name = "graded"

    def __init__(self, broken: str = "") -> None:
        self.broken = broken

    async def assess(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        if task.id == self.broken:
            raise GradingError("the grader is down")
        solved = answer == task.reference
        return Feedback(score=float(solved), solved=solved, text="")


class Planned(SpokenModel):
    """The solver is right only if it has read the plan."""

    async def ask(self, schema: Any, messages: Any, *, scope: Scope, **options: Any) -> Any:
        found, usage = await super().ask(schema, messages, scope=scope, **options)
        said: Any = found
        if scope.node == "Solver" and said.answer and "plan: add" not in messages[-1].content:
            found = schema.model_validate({**said.model_dump(), "answer": "8"})
        return found, usage


def method(config: DytopoConfig, script: Script = MATH) -> Dytopo:
    return Dytopo(Planned(script), {}, HashingEmbedder(), config)


async def test_a_threshold_that_lets_nothing_through_is_given_up() -> None:
    dytopo = method(DytopoConfig(threshold=1.0, rounds=4))
    seed = dytopo.seed(domain="math")
    found = await tuned(dytopo, seed, TASKS, Graded(), scope=SCOPE, settings=SETTINGS)
    assert found.chosen.threshold == 0.2
    assert [trial.scores for trial in found.trials if trial.setting.threshold == 1.0] == [(0.0, 0.0, 0.0)] * 2
    assert current(found.workflow, dytopo.config) == found.chosen
    assert found.workflow.lineage.parent == seed.fingerprint
    assert (await dytopo.solve(found.workflow, TASKS[0].question, scope=SCOPE)).answer == "7"


async def test_without_a_better_setting_the_workflow_stays() -> None:
    dytopo = method(DytopoConfig(rounds=4))
    seed = dytopo.seed(domain="math")
    found = await tuned(dytopo, seed, TASKS, Graded(), scope=SCOPE, settings=SETTINGS)
    assert found.workflow is seed
    assert len(found.trials) == 5
    assert found.trials[0].setting == found.chosen == Setting(threshold=0.3, providers=3)


async def test_errors_are_no_scores() -> None:
    dytopo = method(DytopoConfig(rounds=4))
    seed = dytopo.seed(domain="math")
    found = await tuned(dytopo, seed, TASKS, Graded(broken="t1"), scope=SCOPE, settings=SETTINGS[:1])
    assert found.trials[0].scores == (1.0, None, 1.0)
    mute = method(DytopoConfig(rounds=2), {**MATH, "Solver": ["down"]})
    found = await tuned(mute, seed, TASKS, Graded(), scope=SCOPE, settings=SETTINGS[:1])
    assert found.trials[0].scores == (None, None, None)
    assert found.workflow is seed


async def test_without_tasks_nothing_is_tuned() -> None:
    dytopo = method(DytopoConfig())
    with pytest.raises(ValueError, match="held-out tasks"):
        await tuned(dytopo, dytopo.seed(domain="math"), [], Graded(), scope=SCOPE)

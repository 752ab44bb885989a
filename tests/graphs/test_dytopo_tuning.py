"""tau and K_in are tried on held-out tasks, and the best setting is kept in the team."""

from collections.abc import Sequence
from typing import Any

from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.tuning import Setting, Tuning, get_current_setting, tune_team
from selfwire.graphs.dytopo import Dytopo
from selfwire.graphs.machine import Ctx, TrajectoryGrader
from selfwire.models.embeddings import HashingEmbedder
from tests.graphs.rounds import MATH, Script, SpokenModel

QUESTIONS = [Question(id=f"t{at}", input=f"What is 3 + {at}?") for at in range(3)]
SETTINGS = [Setting(threshold=tau, providers=most) for tau in (0.2, 1.0) for most in (1, 3)]
SCOPE = Scope(phase="tune")


async def grade(done: Trajectory, scope: Scope) -> Trajectory:
    if done.answer is None:
        return done
    right = done.answer == "7"
    return done.with_feedback(Feedback(score=float(right), solved=right, text=""))


async def broken(done: Trajectory, scope: Scope) -> Trajectory:
    return done.as_failed("the grader is down") if scope.task == "t1" else await grade(done, scope)


async def explored(dytopo: Dytopo, team: Team, ctx: Ctx[DytopoConfig]) -> list[Trajectory]:
    there = ctx.where(phase="rollout")
    return [await grade(await dytopo.answer(team, question, there), SCOPE) for question in QUESTIONS]


async def tuned(
    dytopo: Dytopo,
    team: Team,
    ctx: Ctx[DytopoConfig],
    grade: TrajectoryGrader = grade,
    settings: Sequence[Setting] = SETTINGS,
) -> Tuning:
    async def run_graded(candidate: Team, question: Question) -> Trajectory:
        return await grade(await dytopo.answer(candidate, question, ctx), ctx.scope.at(task=question.id))

    graded = await explored(dytopo, team, ctx)
    return await tune_team(team, graded, dytopo.config, run_graded, settings=settings)


class Planned(SpokenModel):
    """The solver is right only if it has read the plan."""

    async def generate_structured(self, schema: Any, messages: Any, *, scope: Scope, **options: Any) -> Any:
        found, usage = await super().generate_structured(schema, messages, scope=scope, **options)
        said: Any = found
        if scope.node == "Solver" and said.answer and "plan: add" not in messages[-1].content:
            found = schema.model_validate({**said.model_dump(), "answer": "8"})
        return found, usage


def wired(config: DytopoConfig, script: Script = MATH) -> tuple[Dytopo, Ctx[DytopoConfig]]:
    method = Dytopo(config)
    return method, method.make_ctx(Planned(script), {}, HashingEmbedder(), scope=SCOPE, grade_run=grade)


async def test_a_threshold_that_lets_nothing_through_is_given_up() -> None:
    dytopo, ctx = wired(DytopoConfig(threshold=1.0, rounds=4))
    seed = dytopo.seed(domain="math")
    found = await tuned(dytopo, seed, ctx)
    assert found.chosen.threshold == 0.2
    assert [trial.scores for trial in found.trials if trial.setting.threshold == 1.0] == [(0.0, 0.0, 0.0)] * 2
    assert get_current_setting(found.workflow, dytopo.config) == found.chosen
    assert found.workflow.lineage.parent == seed.fingerprint
    assert (await dytopo.answer(found.workflow, QUESTIONS[0], ctx)).answer == "7"


async def test_without_a_better_setting_the_workflow_stays() -> None:
    dytopo, ctx = wired(DytopoConfig(rounds=4))
    seed = dytopo.seed(domain="math")
    found = await tuned(dytopo, seed, ctx)
    assert found.workflow is seed
    assert len(found.trials) == 5
    assert found.trials[0].setting == found.chosen == Setting(threshold=0.3, providers=3)


async def test_errors_are_no_scores() -> None:
    dytopo, ctx = wired(DytopoConfig(rounds=4))
    seed = dytopo.seed(domain="math")
    found = await tuned(dytopo, seed, ctx, broken, SETTINGS[:1])
    assert [trial.scores for trial in found.trials] == [(1.0, 1.0, 1.0), (1.0, None, 1.0)]
    mute, mute_ctx = wired(DytopoConfig(rounds=2), {**MATH, "Solver": ["down"]})
    found = await tuned(mute, seed, mute_ctx, grade, SETTINGS[:1])
    assert found.trials == ()
    assert found.workflow is seed


async def test_evolving_takes_one_step_towards_a_better_setting_and_lets_the_gate_rule() -> None:
    dytopo, ctx = wired(DytopoConfig(threshold=1.0, rounds=4, domain="math"))
    seed = dytopo.seed()
    evolved = await dytopo.propose(seed, await explored(dytopo, seed, ctx), ctx)
    assert evolved.needs_gate
    assert evolved.workflow.topology == seed.topology
    assert get_current_setting(evolved.workflow, dytopo.config) == Setting(threshold=0.9, providers=3)
    notes: Any = evolved.notes
    assert [(trial["setting"]["threshold"], trial["setting"]["providers"]) for trial in notes["trials"]] == [
        (1.0, 3), (0.9, 3), (1.0, 2),
    ]  # fmt: skip
    assert dytopo.keep_memory(seed, evolved.workflow) is seed
    again = await dytopo.propose(evolved.workflow, await explored(dytopo, evolved.workflow, ctx), ctx)
    assert not again.needs_gate
    assert again.workflow is evolved.workflow


async def test_all_settings_are_tried_by_config() -> None:
    dytopo, ctx = wired(DytopoConfig(rounds=4, domain="math", search="grid"))
    seed = dytopo.seed()
    evolved = await dytopo.propose(seed, (await explored(dytopo, seed, ctx))[:1], ctx)
    notes: Any = evolved.notes
    assert len(notes["trials"]) == 27

"""What an evolution has brought: the seed and the evolved workflow on the test split, beside baselines."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines.single import SingleAgent, make_single_workflow
from selfwire.evals.evaluation.rows import get_own_opinion
from selfwire.evals.statistics import IntervalEstimate, compute_paired_interval, compute_wilson_interval
from selfwire.graphs.evolution.nodes import EvolutionState, get_trajectories_note
from selfwire.graphs.rollouts import collect_rollouts, compute_spent, grade_answer, to_rollout_fn
from selfwire.nodes.agent import make_agent_runner
from selfwire.runs.evolution import EvolutionRun
from selfwire.runtime.ledger import enforce_deadline

STAMP = "offline stand-in model: shows the machinery, not a method's accuracy"


class Line(FrozenModel):
    """One contestant on the test split.

    Args:
        name: how the table calls it.
        solved: share of graded tasks that were solved, with Wilson's 95 % interval; None if none was graded.
        scores: by task, in the order of the split; None for an infrastructure error.
        calls: model calls per task.
        tokens: per task.
        dollars: per task; None where a price is not known.
    """

    name: str
    solved: IntervalEstimate | None
    scores: tuple[float | None, ...]
    calls: float
    tokens: float
    dollars: float | None

    @property
    def errors(self) -> int:
        """Tasks that ended as infrastructure errors; they are no zeros."""
        return sum(score is None for score in self.scores)


class Report(FrozenModel):
    """The result of an evolution.

    Args:
        before, after: seed and evolved workflow.
        lines: trivial baseline, single agent at equal calls, before, after.
        gain: after - before, paired over test tasks; None if fewer than two tasks can be compared.
        over_single: after - single agent, likewise.
        critic: (agreed, judged): how often the team's own opinion, where it was asked for, was the environment's.
    """

    before: Workflow
    after: Workflow
    lines: tuple[Line, ...]
    gain: IntervalEstimate | None
    over_single: IntervalEstimate | None
    critic: tuple[int, int] = (0, 0)


async def make_report(
    run: EvolutionRun, final: EvolutionState, progress: Callable[[str], None] = lambda text: None
) -> Report:
    """Run the baselines through the run's journal and compare.

    Raises:
        BudgetError, ModelError: as an evolution; what was paid for is not lost.
    """
    async with enforce_deadline(run.parts.ledger):
        return await _compared(run, final, progress)


async def _compared(run: EvolutionRun, final: EvolutionState, progress: Callable[[str], None]) -> Report:
    parts, tasks = run.parts, run.parts.splits.test
    after = Workflow.model_validate(await parts.journal.get_body(final["incumbent"]))
    sides = {side: await get_test_trajectories(run, side, tasks) for side in ("before", "after")}
    evolved = _line("evolved team", sides["after"])
    progress("baselines")
    single = await run_single_agent(run, tasks, evolved.calls)
    lines = (
        await measure_trivial_rule(run, tasks),
        _line("single agent with votes", single),
        _line("seed team", sides["before"]),
        evolved,
    )
    return Report(
        before=parts.seed_workflow,
        after=after,
        lines=lines,
        gain=_difference(lines[2], lines[3]),
        over_single=_difference(lines[1], lines[3]),
        critic=await _agreement(run, [done for side in sides.values() for done in side]),
    )


async def _agreement(run: EvolutionRun, tested: Sequence[Trajectory]) -> tuple[int, int]:
    """(agreed, judged) of the team's opinions of its own answers, over the whole run and the tests."""
    history = await run.parts.library.history(run.parts.config.name)
    notes = [v.facts.get("notes", {}) for v in history.versions if v.run == run.parts.run]
    told = [(get_own_opinion(done), done.feedback.solved) for done in tested if done.feedback]
    right = [judged == solved for judged, solved in told if judged is not None]
    return sum(n.get("agreed", 0) for n in notes) + sum(right), sum(n.get("judged", 0) for n in notes) + len(right)


async def get_test_trajectories(run: EvolutionRun, side: str, tasks: Sequence[Task]) -> list[Trajectory]:
    """The test trajectories of a side, in the order of the tasks."""
    bodies = await run.parts.journal.get_note(get_trajectories_note(0, "test", side))
    return [Trajectory.model_validate(await run.parts.journal.get_body(bodies[task.id])) for task in tasks]


async def run_single_agent(run: EvolutionRun, tasks: Sequence[Task], calls: float) -> list[Trajectory]:
    """One agent with the seed team's tools that spends up to `calls` per task on samples and votes."""
    act = make_agent_runner(run.model, run.toolbox, temperature=1.0)
    tools = sorted({tool for agent in run.parts.seed_workflow.agents for tool in agent.tools})
    play = to_rollout_fn(SingleAgent(act, calls=max(calls, 1.0)))
    scope = Scope(run=f"{run.parts.run}/single", seed=run.parts.config.seed, phase="baseline")
    return await collect_rollouts(
        run.parts.ground, play, make_single_workflow(tools), tasks, scope, lambda trajectory: None
    )


async def measure_trivial_rule(run: EvolutionRun, tasks: Sequence[Task]) -> Line:
    """The benchmark's trivial baseline, assessed by the real environment."""
    baseline = run.benchmark.baseline
    scope = Scope(run=f"{run.parts.run}/trivial", seed=run.parts.config.seed, phase="baseline")

    async def graded(task: Task) -> Feedback | None:
        with suppress(GradingError):
            return await grade_answer(run.parts.ground, task, baseline.answer(task.input), scope.at(task=task.id))
        return None

    found = await asyncio.gather(*map(graded, tasks))
    feedback = [one for one in found if one is not None]
    solved = compute_wilson_interval(sum(one.solved for one in feedback), len(feedback)) if feedback else None
    scores = tuple(one and one.score for one in found)
    return Line(name=baseline.name, solved=solved, scores=scores, calls=0, tokens=0, dollars=0)


def _line(name: str, found: Sequence[Trajectory]) -> Line:
    graded = [one.feedback for one in found if one.feedback is not None]
    cost, n = compute_spent(found), max(len(found), 1)
    return Line(
        name=name,
        solved=compute_wilson_interval(sum(one.solved for one in graded), len(graded)) if graded else None,
        scores=tuple(one.feedback.score if one.feedback else None for one in found),
        calls=cost.calls / n,
        tokens=cost.tokens / n,
        dollars=None if cost.dollars is None else cost.dollars / n,
    )


def _difference(before: Line, after: Line) -> IntervalEstimate | None:
    pairs = [(b, a) for b, a in zip(before.scores, after.scores, strict=True) if b is not None and a is not None]
    return compute_paired_interval([b for b, _ in pairs], [a for _, a in pairs]) if len(pairs) > 1 else None

"""The result of an evolution: the seed and the evolved workflow on the test split, beside baselines."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines.single import SingleAgent, make_single_workflow
from selfwire.evals.evaluation.rows import TRIVIAL
from selfwire.evals.evaluation.table import SystemSummary, compute_difference, summarise_trajectories
from selfwire.evals.statistics import IntervalEstimate
from selfwire.graphs.evolution.nodes import EvolutionState
from selfwire.graphs.own_tools import add_own_tools
from selfwire.graphs.rollouts import SolverRollouts, collect_rollouts, grade_answer
from selfwire.graphs.trajectory_notes import get_trajectories_note
from selfwire.nodes.agent import make_agent_runner
from selfwire.runs.evolution import EvolutionRun
from selfwire.runs.lifecycle import track_status

STAMP = "offline stand-in model: shows the machinery, not a method's accuracy"
SEED, EVOLVED, SINGLE = "seed team", "evolved team", "single agent with votes"
"""Names of the contestants."""


class Report(NamedTuple):
    """The result of an evolution.

    Attributes:
        before, after: seed and evolved workflow.
        lines: trivial baseline, single agent with as many calls as the evolved team may need, before, after.
        gain: after - before, paired over test tasks; None if fewer than two tasks can be compared.
        over_single: after - single agent, likewise.
        critic: (agreed, judged): how often the team's own opinion, where it was asked for, was the environment's.
    """

    before: Workflow
    after: Workflow
    lines: tuple[SystemSummary, ...]
    gain: IntervalEstimate | None
    over_single: IntervalEstimate | None
    critic: tuple[int, int]


async def make_report(run: EvolutionRun, final: EvolutionState) -> Report:
    """Run the baselines through the run's journal and compare.

    Raises:
        BudgetError, ModelError: as an evolution; what was paid for is not lost.
    """
    async with track_status(run):
        context, tasks = run.context, run.context.splits.test
        before = summarise_trajectories(SEED, await get_test_trajectories(run, "before", tasks))
        after = summarise_trajectories(EVOLVED, await get_test_trajectories(run, "after", tasks))
        calls = after.spend.calls / max(after.tasks, 1)
        single = summarise_trajectories(SINGLE, await run_single_agent(run, tasks, calls))
        report = Report(
            before=context.seed_workflow,
            after=Workflow.model_validate(await context.journal.get_body(final["incumbent"])),
            lines=(await measure_trivial_baseline(run, tasks), single, before, after),
            gain=compute_difference(after, before),
            over_single=compute_difference(after, single),
            critic=await _agreement(run, before, after),
        )
    await run.note_end(final)
    return report


async def _agreement(run: EvolutionRun, *tested: SystemSummary) -> tuple[int, int]:
    """(agreed, judged) of the team's opinions of its own answers, over the whole run and the tests."""
    history = await run.context.library.history(run.context.config.name)
    notes = [v.facts.get("notes", {}) for v in history.versions if v.run == run.context.run]
    agreed = sum(n.get("agreed", 0) for n in notes) + sum(one.agreed for one in tested)
    return agreed, sum(n.get("judged", 0) for n in notes) + sum(one.judged for one in tested)


async def get_test_trajectories(run: EvolutionRun, side: str, tasks: Sequence[Task]) -> list[Trajectory]:
    """The test trajectories of a side, in the order of the tasks."""
    bodies = await run.context.journal.get_note(get_trajectories_note(0, "test", side))
    return [Trajectory.model_validate(await run.context.journal.get_body(bodies[task.id])) for task in tasks]


async def run_single_agent(run: EvolutionRun, tasks: Sequence[Task], calls: float) -> list[Trajectory]:
    """One agent with the seed team's tools that spends up to `calls` per task on samples and votes."""
    seed = run.context.seed_workflow
    act = make_agent_runner(run.model, add_own_tools(run.toolbox, seed), temperature=1.0)
    tools = sorted({tool for agent in seed.agents for tool in agent.tools})
    rollout_fn = SolverRollouts(SingleAgent(act, calls=max(calls, 1.0)))
    scope = Scope(run=f"{run.context.run}/single", seed=run.context.config.seed, phase="baseline")
    return await collect_rollouts(
        run.context.rollout_context, rollout_fn, make_single_workflow(tools), tasks, scope, lambda trajectory: None
    )


async def measure_trivial_baseline(run: EvolutionRun, tasks: Sequence[Task]) -> SystemSummary:
    """The benchmark's trivial baseline, graded by the real environment."""
    baseline = run.benchmark.baseline
    scope = Scope(run=f"{run.context.run}/trivial", seed=run.context.config.seed, phase="baseline")

    async def answer(task: Task) -> Trajectory:
        done = Trajectory(question=task.question, workflow="", answer=baseline.answer(task.input))
        with suppress(GradingError):
            return done.with_feedback(
                await grade_answer(run.context.rollout_context, task, done.answer or "", scope.at(task=task.id))
            )
        return done

    return summarise_trajectories(TRIVIAL, await asyncio.gather(*map(answer, tasks)))

"""Tests of your teams with pytest: a saved team, method or baseline on the questions of a benchmark.

    TEAM = make_system_under_test("hiva-archive", benchmark="archive", tasks=20)

    @pytest.mark.langsmith
    @pytest.mark.parametrize("question", TEAM.questions, ids=lambda question: question.id)
    def test_it_answers(question):
        assert TEAM.answer(question).feedback.solved

`pytest.mark.langsmith` is langsmith's own mark; with `LANGSMITH_TEST_TRACKING=false` it does nothing. Tests take
questions and never tasks, as the mark uploads what a test takes.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langsmith import get_current_run_tree, testing

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Question, Task
from selfwire.core.trajectory import Trajectory
from selfwire.evals.langsmith import make_feedback
from selfwire.graphs.rollouts import RolloutContext, grade_trajectory, run_rollout
from selfwire.models.budget import Ledger
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import PHASE, validate_request
from selfwire.runs.inputs import SystemParts
from selfwire.runs.spec import EvaluateSpec, Models, SystemSpec
from selfwire.runs.systems import MeasuredSystem, make_system
from selfwire.store.journal import Journal
from selfwire.tools.own import JournalledTools

NAME = "subject"


@dataclass(frozen=True)
class SystemUnderTest:
    """A team under test.

    Attributes:
        context: where answers are graded.
    """

    system: MeasuredSystem
    context: RolloutContext
    tasks: dict[str, Task]
    scope: Scope

    @property
    def questions(self) -> tuple[Question, ...]:
        """The tasks without their references, for `pytest.mark.parametrize`."""
        return tuple(task.question for task in self.tasks.values())

    def answer(self, question: Question) -> Trajectory:
        """Call `aanswer`, for tests that are not coroutines."""
        return run_sync(self.aanswer(question))

    async def aanswer(self, question: Question) -> Trajectory:
        """Put a question to the team and grade the answer; under the mark, both are logged to LangSmith.

        Returns:
            What the team did, with the environment's `feedback`; `error` says why there is none.

        Raises:
            ConfigError: the question is not one of the tasks.
            OutageError: the provider is down.
        """
        if question.id not in self.tasks:
            raise ConfigError(f"there is no question {question.id!r}; ask one of `questions`")
        task, system = self.tasks[question.id], self.system
        ctx = system.ctx.where(self.scope, task=question.id)
        found = await run_rollout(system.rollout_fn, system.workflow, task.question, ctx)
        done = await grade_trajectory(self.context, task, found[0], ctx.scope)
        _tell(done)
        return done


def make_system_under_test(
    target: str,
    *,
    benchmark: str,
    tasks: int = 10,
    model: str = "offline",
    home: Path | None = None,
    **request: Any,
) -> SystemUnderTest:
    """Make a test subject: a saved team, method or baseline on the tasks of a benchmark.

    Args:
        target: as `selfwire eval` takes it: a name in the library, `name@version`, a fingerprint, a .json file, or
            the name of a method or baseline; `team:name` where a team is saved under such a name.
        model: plays all roles.
        home: folder of saved teams; SELFWIRE_HOME or ./.selfwire if None.
        request: further fields of `EvaluateSpec`, such as `grader`, `split` and `seed`.

    Raises:
        ConfigError, LibraryError: a name or file cannot be used.
        ValueError: a field is unknown or out of bounds.
    """
    entry = SystemSpec(name=NAME, target=target)
    fields = {"models": Models(agent=model), **request}
    evaluation = EvaluateSpec(benchmark=benchmark, entries=(entry,), tasks=tasks, **fields)
    plan, journal, ledger = validate_request(evaluation, home), Journal.memory(NAME), Ledger(evaluation.budget)
    team = plan.workflows[NAME]
    wired = plan.models.meter(journal, ledger)
    bench = plan.benchmark.with_model(wired)
    toolbox = JournalledTools(bench.toolbox, journal)
    parts = SystemParts(wired, toolbox, plan.models.embedder, evaluation.calls_per_task)
    context = RolloutContext(
        environment=bench.environment,
        journal=journal,
        ledger=ledger,
        concurrency=evaluation.concurrency,
        calls_per_task=evaluation.calls_per_task,
        keep_errors_below=1.0,
    )
    by_id = {task.id: task for task in plan.tasks}
    return SystemUnderTest(
        make_system(entry, team, parts), context, by_id, Scope(run=NAME, seed=evaluation.seed, phase=PHASE)
    )


def _tell(done: Trajectory) -> None:
    if get_current_run_tree() is None:
        return
    with suppress(ValueError):  # traced by something else than the mark
        testing.log_inputs({"question": done.question.input})
        testing.log_outputs({"answer": done.answer})
        for feedback in make_feedback(done):
            testing.log_feedback(key=feedback.key, score=feedback.score)

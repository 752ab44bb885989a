"""Tests of one's own teams: a saved workflow, method or baseline put to a benchmark's questions inside a pytest test.

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
from selfwire.evals.langsmith.measures import make_feedback
from selfwire.graphs.rollout_context import RolloutContext
from selfwire.graphs.rollouts import grade_trajectory, run_rollout
from selfwire.runs.evaluation.lifecycle import validate_request
from selfwire.runs.evaluation.request import EvaluationRequest, SystemSpec
from selfwire.runs.evaluation.run import DEFAULT_SHARE, PHASE
from selfwire.runs.evaluation.systems import SolverFactory, System, make_system
from selfwire.runs.models import make_metered_model
from selfwire.runs.requests import ModelNames
from selfwire.runtime.journal import Journal
from selfwire.runtime.journalled_tools import JournalledTools
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.sync import run_sync

NAME = "subject"


@dataclass(frozen=True)
class SystemUnderTest:
    """A team under test.

    Attributes:
        context: where answers are graded.
    """

    system: System
    context: RolloutContext
    tasks: dict[str, Task]
    scope: Scope

    @property
    def questions(self) -> tuple[Question, ...]:
        """The tasks without their references, for `pytest.mark.parametrize`."""
        return tuple(task.question for task in self.tasks.values())

    def answer(self, question: Question) -> Trajectory:
        """As `aanswer`, for tests that are not coroutines."""
        return run_sync(self.aanswer(question))

    async def aanswer(self, question: Question) -> Trajectory:
        """Put a question to the workflow and grade the answer; under the mark, both are logged to LangSmith.

        Returns:
            What the team did, with the environment's `feedback`; `error` says why there is none.

        Raises:
            ConfigError: the question is not one of the tasks.
            OutageError: the provider is down.
        """
        if question.id not in self.tasks:
            raise ConfigError(f"there is no question {question.id!r}; ask one of `questions`")
        task, at, workflow = self.tasks[question.id], self.scope.at(task=question.id), self.system.workflow
        found = await run_rollout(self.system.rollout_fn, workflow, task.question, at)
        done = await grade_trajectory(self.context, task, found[0], at)
        _tell(done)
        return done


def make_system_under_test(
    target: str,
    *,
    benchmark: str,
    tasks: int = 10,
    split: str = "test",
    seed: int = 0,
    model: str = "offline",
    home: Path | None = None,
    **request: Any,
) -> SystemUnderTest:
    """A saved workflow, method or baseline on the tasks of a benchmark.

    Args:
        target: as `selfwire eval` takes it: a name in the library, `name@version`, a fingerprint, a .json file, or
            the name of a method or baseline; `team:name` where a team is saved under such a name.
        split: train, gate or test.
        seed: of the tasks and of everything drawn.
        model: plays all roles.
        home: folder of saved workflows; SELFWIRE_HOME or ./.selfwire if None.
        request: further fields of `EvaluationRequest`, such as `grader`.

    Raises:
        ConfigError, LibraryError: a name or file cannot be used.
        ValueError: a field is unknown or out of bounds.
    """
    entry = SystemSpec(name=NAME, target=target)
    evaluation = EvaluationRequest(
        benchmark=benchmark, entries=(entry,), tasks=tasks, split=split, seed=seed,
        **{"models": ModelNames(agent=model), **request},
    )  # fmt: skip
    plan, journal, ledger = validate_request(evaluation, home), Journal.memory(NAME), Ledger(evaluation.budget)
    workflow = plan.workflows[NAME]
    wired = make_metered_model(evaluation.models, journal=journal, ledger=ledger, home=home)
    labelled = wired.with_labels(method=workflow.workflow.method, workflow=workflow.workflow.fingerprint)
    bench = plan.benchmark.with_model(wired)
    factory = SolverFactory(labelled, JournalledTools(bench.toolbox, journal), plan.embedder, evaluation.calls_per_task)
    context = RolloutContext(
        environment=bench.environment,
        journal=journal,
        ledger=ledger,
        concurrency=evaluation.concurrency,
        calls_per_task=evaluation.calls_per_task or DEFAULT_SHARE,
        keep_errors_below=1.0,
    )
    by_id = {task.id: task for task in plan.tasks}
    return SystemUnderTest(
        make_system(entry, workflow, factory), context, by_id, Scope(run=NAME, seed=seed, phase=PHASE)
    )


def _tell(done: Trajectory) -> None:
    if get_current_run_tree() is None:
        return
    with suppress(ValueError):  # traced by something else than the mark
        testing.log_inputs({"question": done.question.input})
        testing.log_outputs({"answer": done.answer})
        for one in make_feedback(done):
            testing.log_feedback(key=one.key, score=one.score)

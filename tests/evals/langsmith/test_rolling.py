"""An experiment's machinery: concurrency, stops, and what ends with it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from selfwire.core.errors import BudgetError, GradingError, JournalError, OutageError, UngradedError
from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question, Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evals.baselines import Single
from selfwire.evals.langsmith import Experiment, TaskSet, open_uploads, upload_examples
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.machine import Ctx
from selfwire.graphs.rollouts import UNGRADED, RolloutContext
from selfwire.models.budget import Ledger
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import Journal
from tests.wire.langsmith_server import LangSmithServer

pytestmark = pytest.mark.usefixtures("langsmith_server")
TASKS = tuple(Task(id=f"t{n}", input=f"What is {n}?", reference=str(n)) for n in range(12))


class Lenient:
    name = "lenient"

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        return Feedback(score=1.0, solved=True, text="Right.")


class Failing(Lenient):
    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        raise GradingError(f"no grade for {task.id}")


@dataclass
class Player:
    pause: float = 0.01
    faults: dict[str, Exception] = field(default_factory=dict)
    active: int = 0
    most: int = 0
    begun: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    full: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, team: Team, question: Question, ctx: Ctx[Any], /) -> Sequence[Trajectory]:
        self.begun.append(question.id)
        self.active += 1
        self.most = max(self.most, self.active)
        if self.active == 3:
            self.full.set()
        try:
            await asyncio.sleep(self.pause)
            if fault := self.faults.get(question.id):
                raise fault
            return [Trajectory(question=question, workflow=team.fingerprint, answer="yes")]
        finally:
            self.active -= 1
            self.ended.append(question.id)


async def rolled(
    player: Player, kept: dict[str, Trajectory], unkept: str = "", environment: Environment = Lenient()
) -> None:
    async def keep(task: Task, found: Sequence[Trajectory]) -> None:
        if task.id == unkept:
            raise JournalError("the disk is full")
        kept[task.id] = found[0]

    rollout_context = RolloutContext(environment, Journal.memory(), Ledger(), 3, 60, 1.0)
    with open_uploads() as client:
        examples = upload_examples(client, TaskSet(benchmark="own", split="test", seed=0, tasks=TASKS))
        experiment = Experiment(client, "e", examples)
        single = Single()
        ctx = single.make_ctx(MeteredModel(OfflineChat()), {}, HashingEmbedder(), scope=Scope(phase="eval"))
        await experiment.roll_through(rollout_context, player, single.seed(), TASKS, ctx, keep)


async def test_every_task_is_kept_and_no_more_are_at_work_than_may_be(capfd: pytest.CaptureFixture[str]) -> None:
    kept: dict[str, Trajectory] = {}
    player = Player()
    await rolled(player, kept)
    assert set(kept) == set(player.begun) == {task.id for task in TASKS}
    assert player.most <= 3  # and all three of them in the last test
    assert all(done.feedback and done.feedback.score == 1.0 for done in kept.values())
    assert capfd.readouterr() == ("", "")


async def test_a_fault_of_one_task_costs_that_task(caplog: pytest.LogCaptureFixture) -> None:
    kept: dict[str, Trajectory] = {}
    await rolled(Player(faults={"t3": ValueError("no")}), kept)
    assert len(kept) == len(TASKS)
    assert (kept["t3"].error, kept["t3"].feedback) == ("ValueError: no", None)
    assert caplog.records == []


@pytest.mark.parametrize("fault", [BudgetError("spent"), OutageError("down")])
async def test_what_must_stop_the_run_stops_it_and_what_was_graded_is_kept(
    fault: Exception, caplog: pytest.LogCaptureFixture, langsmith_server: LangSmithServer
) -> None:
    kept: dict[str, Trajectory] = {}
    player = Player(faults={"t3": fault})
    with pytest.raises(type(fault), match=str(fault)):
        await rolled(player, kept)
    assert {"t0", "t1", "t2"} <= set(kept) <= set(player.begun) - {"t3"}
    assert len(player.begun) < len(TASKS)
    assert player.active == 0
    assert caplog.records == []
    assert [bool(session["end_time"]) for session in langsmith_server.sessions.values()] == [True]


async def test_a_grader_that_fails_on_all_first_answers_stops_the_run_and_what_was_answered_is_kept() -> None:
    kept: dict[str, Trajectory] = {}
    player = Player()
    with pytest.raises(UngradedError, match=r"failed on all of the first \d+ answers.*no grade for t\d"):
        await rolled(player, kept, environment=Failing())
    assert UNGRADED <= len(kept) < len(TASKS)
    assert set(kept) == set(player.begun)


async def test_a_result_that_cannot_be_kept_stops_the_run(caplog: pytest.LogCaptureFixture) -> None:
    kept: dict[str, Trajectory] = {}
    player = Player()
    with pytest.raises(JournalError, match="the disk is full"):
        await rolled(player, kept, unkept="t3")
    assert set(kept) <= set(player.begun) - {"t3"}
    assert len(player.begun) < len(TASKS)
    assert caplog.records == []


async def test_a_cancelled_experiment_leaves_nothing_at_work() -> None:
    player = Player(pause=30)
    running = asyncio.create_task(rolled(player, {}))
    await player.full.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert player.active == 0
    assert len(player.ended) == 3

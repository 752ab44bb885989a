"""Some tasks of a run, in a journal of their own, which is merged into the run's when they are done.

A worker keeps the trajectories of every task in the shard as soon as they are graded, and an evaluation its row too. So
tasks that were graded before a worker died are not run again. Where the run itself is killed, what the shard holds is
merged when the run is resumed: calls and rows, and of an evolution the trajectories, which it takes where its method
does not replay all that a task does, as that of a graph of the user's own.
"""

import asyncio
import math
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from platform import node
from threading import Event
from typing import Any, TypeVar

from selfwire.core.errors import ConfigError, JournalError, SelfwireError
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.extras.cluster.jobs import DEATHS, Executor, Job, run_jobs, try_again
from selfwire.graphs.machine import Ctx
from selfwire.graphs.rollouts import (
    DONE,
    GRADED,
    GraderCheck,
    Keep,
    RolloutContext,
    RolloutFn,
    RolloutRunner,
    keep_done,
)
from selfwire.models.budget import enforce_deadline
from selfwire.models.metered_chat import INVALID_NOTE
from selfwire.models.structured import MODE_NOTE
from selfwire.models.sync import run_in_thread
from selfwire.runs.record import JOURNAL, PARTS, ROWS, get_runs_folder
from selfwire.store.journal import Journal
from selfwire.store.journal_file import JournalReader, Lease, copy_rows, read_header, read_spend

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds for which the end of a worker is waited for that has lost its parent or its node."""
SLICES = 3
"""Slices per worker, so that none waits long for the last one."""


@dataclass(frozen=True)
class Shard:
    """Some tasks of a run.

    Attributes:
        name: of what they are a part: a system, or a phase.
        number: counts the shards of the run, and has not been that of an earlier one.
        scope: run of the scopes of its calls; None for all.
    """

    run: str
    name: str
    number: int
    home: Path | None
    scope: str | None = None

    @property
    def job(self) -> str:
        """The name of the job that works on it."""
        return f"{self.name}/{self.number}"

    @property
    def whole(self) -> Path:
        """The journal of the run."""
        return get_runs_folder(self.home) / self.run / JOURNAL

    @property
    def own(self) -> Path:
        """The journal of the shard."""
        return self.whole.parent / PARTS / f"{self.number}-{self.name}" / JOURNAL

    def copy_from_run(self, tasks: Sequence[str]) -> Usage:
        """Copy the calls that the run has made for these tasks into the shard's journal, which must not be open.

        Returns:
            Their cost.
        """
        copy_rows(self.whole, self.own, runs=self.scope and [self.scope], tasks=tasks, notes=[MODE_NOTE])
        return read_spend(self.own)

    def read_done(self) -> dict[str, list[Trajectory]]:
        """Read the trajectories of the tasks that are done, by task."""
        with JournalReader(self.own) as journal:
            texts = journal.notes(DONE)
        graded = [GRADED.validate_json(text) for text in texts.values()]
        return {found[0].question.id: found for found in graded}

    def merge_into_run(
        self, before: Usage | None = None, journal: Journal | None = None, *, keeps_done: bool = False
    ) -> Usage:
        """Copy the shard's calls and rows of results into the run's journal, and remove the shard.

        Args:
            before: what `copy_from_run` has returned.
            journal: the run's, if it is open and has to know the calls at once.
            keeps_done: whether trajectories are copied too, since no process has read them.

        Returns:
            The cost of what the shard has done since then.

        Raises:
            JournalError: a process is at work on it.
        """
        lease = Lease(self.own, patience=PATIENCE)
        try:
            spent = read_spend(self.own).subtract(before or Usage())
            notes = (INVALID_NOTE, MODE_NOTE, f"{ROWS}/", *([DONE] if keeps_done else ()))
            copy_rows(self.own, self.whole, runs=None, notes=notes, bodies=True)
            if journal:
                journal.merge(self.own, spent)
            shutil.rmtree(self.own.parent)
        finally:
            lease.release()
        return spent


async def _save_nothing(task: Task, found: Sequence[Trajectory]) -> None:
    """Save no row, as evolutions have none."""


async def roll_out_shard(
    runner: RolloutRunner,
    context: RolloutContext,
    rollout_fn: RolloutFn,
    team: Team,
    tasks: Sequence[Task],
    ctx: Ctx[Any],
    save: Keep = _save_nothing,
) -> None:
    """Run the tasks of a shard; its journal keeps the trajectories of each right after their grading.

    Args:
        save: saves the row of a task, before the trajectories are kept.
    """

    async def keep(task: Task, found: Sequence[Trajectory]) -> None:
        await save(task, found)
        await keep_done(context.journal, ctx.scope, task.id, found)

    async with enforce_deadline(context.ledger):
        await runner(context, rollout_fn, team, tasks, ctx, keep)


MakeJob = Callable[[int, Sequence[Task]], tuple[Shard, Job]]
"""Makes the shard of a number and some tasks, and the job that works on it."""
GiveUp = Callable[[Job, Task], Trajectory]
"""Makes the trajectory of a task at which too many workers have died."""


@dataclass
class ShardedTasks:
    """Tasks of a run that go to workers in slices, each a shard whose work is merged when its job ends.

    Attributes:
        journal: the run's.
        settle: gets the cost of each shard that is merged.
        slices: per worker; a slice costs a journal, so one is enough where many systems follow each other.
        keeps_done: whether the run keeps trajectories of tasks that were done when it was stopped.
        numbers: of shards; their start is random, as workers of a killed run may still look for shards of theirs.
    """

    journal: Journal
    settle: Callable[[Usage], None]
    slices: int = SLICES
    keeps_done: bool = False
    executor: Executor = field(init=False)
    numbers: Iterator[int] = field(default_factory=lambda: count(secrets.randbelow(10**6)))
    _open: dict[str, tuple[Shard, Sequence[Task], Usage]] = field(default_factory=dict)
    _ready: list[tuple[Task, Sequence[Trajectory]]] = field(default_factory=list)

    async def run(
        self,
        context: RolloutContext,
        tasks: Sequence[Task],
        make_job: MakeJob,
        keep: Keep,
        give_up: GiveUp | None = None,
    ) -> None:
        """Run tasks on the workers; keep each with its trajectories when its slice has ended, however it did.

        Args:
            give_up: without it the run stops where too many workers have died at a task.

        Raises:
            StoppedError, WorkerError: of a job, or workers die again and again.
            UngradedError: the grader fails on all answers of the first slices; no further slice begins.
        """
        slices, cancelled = cut_tasks(tasks, self.slices * self.executor.workers), Event()
        waiting = deque(await run_in_thread(lambda: [self._start(make_job, some) for some in slices]))
        give_back = partial(self._give_back, make_job, give_up)
        ended = run_jobs(waiting, self.executor, give_back=give_back, cancelled=cancelled)
        grader = GraderCheck(context.ungraded)

        def wait() -> bool:
            """Merge the next slice that ends; False after the last one."""
            job = next(ended, None)
            if job is not None:
                self._merge(job.job.name)
            return job is not None

        async def keep_ready() -> None:
            while self._ready:
                task, found = self._ready.pop(0)
                await keep(task, found)
                grader.add(found)

        try:
            while await _wait_in_thread(wait, cancelled):
                await keep_ready()
                if grader.fault:
                    waiting.clear()  # the slices that have begun end
            if grader.fault:
                raise grader.fault
        except (SelfwireError, ValueError, RuntimeError):  # all jobs have ended
            await run_in_thread(self.merge_all)
            raise
        finally:
            await keep_ready()

    def merge_all(self) -> None:
        """Merge the work of jobs that did not end."""
        for job in [*self._open]:
            with suppress(JournalError):  # a worker that still ends; whoever resumes merges it
                self._merge(job, keeps_done=self.keeps_done)

    def _start(self, make_job: MakeJob, tasks: Sequence[Task], deaths: int = 0) -> Job:
        """Make the job of some tasks, with the calls that the run has made for them."""
        shard, job = make_job(next(self.numbers), tasks)
        self._open[job.name] = shard, tasks, shard.copy_from_run([task.id for task in tasks])
        return replace(job, deaths=deaths)

    def _give_back(self, make_job: MakeJob, give_up: GiveUp | None, job: Job) -> Sequence[Job]:
        """Make jobs of the tasks of a worker that has died, each by itself."""
        left = self._merge(job.name)
        if len(left) == 1 and job.deaths >= DEATHS and give_up:
            self._ready.append((left[0], [give_up(job, left[0])]))
            return ()
        if len(left) == 1:
            try_again(job)  # refuses it after too many deaths
        return [self._start(make_job, [task], job.deaths) for task in left]

    def _merge(self, job: str, *, keeps_done: bool = False) -> list[Task]:
        """Merge a shard into the run; returns its tasks that are not done."""
        shard, tasks, before = self._open[job]
        done = shard.read_done()
        self.settle(shard.merge_into_run(before, self.journal, keeps_done=keeps_done))
        del self._open[job]  # not before, as another process may hold the shard, which is then merged at the end
        self._ready.extend((task, done[task.id]) for task in tasks if task.id in done)
        return [task for task in tasks if task.id not in done]


async def _wait_in_thread(wait: Callable[[], T], cancelled: Event) -> T:
    """Call a function in a thread, which is told of a cancellation while it waits for workers."""
    step = asyncio.ensure_future(run_in_thread(wait))
    try:
        return await asyncio.shield(step)
    except asyncio.CancelledError:
        cancelled.set()
        with suppress(Exception):
            await step
        raise


def cut_tasks(tasks: Sequence[Task], parts: float) -> list[Sequence[Task]]:
    """Cut tasks into as many parts, or fewer where they are few."""
    size = max(1, math.ceil(len(tasks) / parts))
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


def refuse_missing_shard(path: Path) -> None:
    """Raise a ConfigError where a worker does not see a shard, as on a machine without the folder."""
    if not path.exists():
        raise ConfigError(f"{path} is not there on {node()}; name a folder with --home that all machines share")


def merge_leftover_shards(run: str, home: Path | None, *, keeps_done: bool = False) -> None:
    """Merge the shards that a stopped run has left, before its journal is opened; remove those that are not begun.

    Args:
        keeps_done: whether trajectories are merged too, as an evolution has no rows.

    Raises:
        JournalError: the run or one of them is at work.
    """
    folder = get_runs_folder(home) / run
    parts = sorted(part for part in (folder / PARTS).glob("[0-9]*-*") if part.name.partition("-")[0].isdecimal())
    if not parts:
        return
    whole = folder / JOURNAL
    lease = Lease(whole, holder=read_header(whole).holder)  # a run that is at work may be about to open them
    try:
        for part in parts:
            if not (part / JOURNAL).exists():  # the run was killed while it made it
                shutil.rmtree(part)
                continue
            number, _, name = part.name.partition("-")
            Shard(run, name, int(number), home).merge_into_run(keeps_done=keeps_done)
    finally:
        lease.release()

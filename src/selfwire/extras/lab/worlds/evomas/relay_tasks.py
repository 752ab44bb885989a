"""Relays: errands that one helper begins and another ends; who fits depends on subtask, earlier results and layers.

A task begins with a notice that was read at the gate: an ordinary day or a festival. An errand is settled in a stage if
its first layer hands on the word of the right opener, and its second that of the right closer; each layer hands on the
word of one of its agents, chosen at random. The opener follows from the situation and the day together, the closer from
the opener alone.
"""

from functools import lru_cache
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from selfwire.core.scope import Scope
from selfwire.evals.benchmarks.errands import POOL, RIGHT, Errand, generate_errands
from selfwire.evolvers.evomas.state import Assessment, Subtask, TaskState, to_rows
from selfwire.evolvers.router.config import SamplingConfig

KINDS = 4
"""Situations; number `KINDS * day + situation` is one on a day."""
MASTERS = 2
"""Agents who settle these on ordinary days, two each."""
HELPERS = POOL[: 2 * MASTERS]
IDS = tuple(helper.id for helper in HELPERS)
SAMPLING = SamplingConfig(layers=2)
STAGES = {1: 1, 2: 3}
"""Most stages, by errands of a task."""
NOTICES = (
    (
        "An ordinary working day; every guild is open.",
        "Nothing special is announced, all workshops are open as usual.",
        "The town goes about its usual business today.",
        "Offices and guilds keep their normal hours.",
    ),
    (
        "The great festival has begun, and the guilds are closed.",
        "Today the town celebrates; masters are at the parade.",
        "Feast day: workshops stay shut, other people stand in.",
        "Music and dancing everywhere; the masters have the day off.",
    ),
)
"""Wordings by day."""
View = Literal["all", "no results", "objective"]
StandIns = Literal["others", "each other"]
Integers = npt.NDArray[np.int64]
Switches = npt.NDArray[np.bool_]


class RelayTask(Errand):
    """A task; its `situations` are numbers of situations on the task's day.

    Args:
        view: what the router reads: all rows, those without results of earlier stages, or the objective alone.
    """

    notice: str
    view: View = "all"

    def rows(self, settled: int, failed: bool) -> tuple[str, ...]:
        """The rows of the task state as EvoMAS writes them for its router."""
        return _write_rows(self, settled, failed)


@lru_cache(maxsize=10_000)
def _write_rows(task: RelayTask, settled: int, failed: bool) -> tuple[str, ...]:
    before = (
        Subtask(id="s1", goal="Read the notice at the gate.", status="completed", artifact=task.notice),
        Subtask(id="s2", goal="Fetch the list of errands.", status="completed", artifact="Fetched."),
    )
    errands = [
        Subtask(
            id=f"s{place + 3}",
            goal=text,
            status="completed" if place < settled else "pending",
            artifact="Settled." if place < settled else "",
            refinements=int(failed and place == settled),
            trouble=task.complaint if failed and place == settled else "",
        )
        for place, text in enumerate(task.texts)
    ]
    verdict = Assessment(verdict="refine", feedback=task.complaint) if failed else Assessment(verdict="success")
    state = TaskState(
        objective=f"Run errands for {task.name}.",
        subtasks=(*before, *errands),
        active=f"s{settled + 3}",
        assessment=verdict,
    )
    rows = to_rows(state, whole=task.view != "objective")
    return tuple(row for row in rows if task.view == "all" or not row.startswith("Completed subtasks:"))


def generate_relays(count: int, *, length: int, seed: int, held_out: bool = False) -> tuple[RelayTask, ...]:
    """Generate tasks; held-out ones are others in the same wordings."""
    found = generate_errands(count, length=length, seed=2 * seed + held_out, kinds=KINDS)
    days = Scope(seed=seed, task=str(held_out)).random("days").integers(len(NOTICES), size=count)
    return tuple(
        RelayTask(
            **{**dict(task), "situations": tuple(KINDS * int(day) + kind for kind in task.situations)},
            notice=NOTICES[day][word % len(NOTICES[day])],
        )
        for task, day, word in zip(found, days.tolist(), range(count), strict=True)
    )


def draw_pairs(seed: int, stand_ins: StandIns) -> Integers:
    """(2 * KINDS, 2) opener and closer of each situation, on an ordinary day and at the festival.

    At the festival others open in place of the masters, or masters do each other's work.
    """
    random = np.random.default_rng([seed, 6])
    ring, closers = random.permutation(len(HELPERS)), np.empty(len(HELPERS), dtype=np.int64)
    closers[ring] = np.roll(ring, 1)
    masters = RIGHT[:KINDS]
    others = random.permutation(np.arange(MASTERS, len(HELPERS)))
    openers = np.concatenate([masters, others[masters] if stand_ins == "others" else (masters + 1) % MASTERS])
    return np.stack([openers, closers[openers]], axis=1)


def settle_relays(pairs: Integers, situations: Integers, order: Integers, random: np.random.Generator) -> Switches:
    """Whether two layers settle situations: (B,) for (B,) situations and orders (B, 2, K), padded with -1."""
    sizes = (order >= 0).sum(axis=2)
    heard = np.take_along_axis(order, (random.random(sizes.shape) * sizes).astype(np.int64)[..., None], axis=2)[..., 0]
    settled: Switches = (heard == pairs[situations]).all(axis=1)
    return settled


def list_layers() -> list[tuple[int, ...]]:
    """All sets of agents that a layer may hold."""
    count = len(HELPERS)
    width = min(SAMPLING.width or count, count)
    return [chosen for size in range(1, width + 1) for chosen in combinations(range(count), size)]


def compute_stage_chances(pairs: Integers) -> list[npt.NDArray[np.float64]]:
    """Probability that a stage settles each situation, (W, situations), for all workflows by their first layer."""
    members = np.array([[helper in layer for helper in range(len(HELPERS))] for layer in list_layers()])
    shares = members / members.sum(axis=1, keepdims=True)
    return [first[pairs[:, 0]] * shares[:, pairs[:, 1]] for first in shares]

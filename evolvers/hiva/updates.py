"""Learning from a batch: a lesson per trajectory, then one update of HiVA's memory (Alg. 1)."""

from collections.abc import Sequence
from math import log1p

from selfwire.core.team import Workflow
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import Id
from selfwire.evolvers.hiva.config import KabbConfig
from selfwire.evolvers.hiva.distance import WeightSample
from selfwire.evolvers.hiva.gradients import Backward, Loss
from selfwire.evolvers.hiva.kabb import TaskMatch, count_left_out
from selfwire.evolvers.hiva.memory import HivaMemory, TrajectoryLesson
from selfwire.evolvers.trajectory_text import get_fault


def make_lesson(
    trajectory: Trajectory, judged: Loss, passed: Backward | None = None, match: TaskMatch | None = None
) -> TrajectoryLesson | None:
    """A trajectory's lesson on agents and edges; None after an infrastructure error (D13).

    On success every agent that ran has r = 1 (D2); else r is the sentiment of its own gradient, and an agent at several
    nodes has the lowest.
    """
    if judged.solved is None or get_fault(trajectory) is not None or (passed is not None and passed.error is not None):
        return None
    rewards: dict[Id, int] = {step.agent: 1 for step in trajectory.steps} if judged.solved else {}
    for gradient in passed.gradients if passed is not None and not judged.solved else ():
        rewards[gradient.agent] = min(gradient.reward, rewards.get(gradient.agent, 1))
    return TrajectoryLesson(
        task=trajectory.question.id,
        solved=judged.solved,
        rewards=dict(sorted(rewards.items())),
        edges=tuple(dict.fromkeys(trajectory.edges)),
        receivers={step.node: step.agent for step in trajectory.steps},
        matches={agent: match.matches.get(agent, 0.0) for agent in rewards} if match else {},
        concepts=match.concepts if match else None,
        left_out=sum(count_left_out(step.routing) for step in trajectory.steps if step.routing),
    )


def learn_lessons(workflow: Workflow, outcomes: Sequence[TrajectoryLesson | None], *, config: KabbConfig) -> Workflow:
    """Update the memory once per iteration; lessons on lost agents and edges are set aside (D19)."""
    lessons = [o for o in outcomes if o is not None]
    return fit_memory(HivaMemory.of(workflow).update(lessons, config=config).save_to(workflow))


def fit_memory(workflow: Workflow) -> Workflow:
    """The workflow whose memory sets aside what concerns agents and edges that it has lost (D19)."""
    return HivaMemory.of(workflow).adapt_to(workflow).save_to(workflow)


def carry_over_learning(kept: Workflow, candidate: Workflow) -> Workflow:
    """The kept agents and topology with a rejected candidate's beliefs about them."""
    old, new = HivaMemory.of(kept), HivaMemory.of(candidate)
    both = new.replace(
        beliefs={**old.beliefs, **new.retired.beliefs, **new.beliefs},
        edges={**old.edges, **new.retired.edges, **new.edges},
    )
    return both.restrict_to(kept).save_to(kept)


def make_weight_sample(trajectory: Trajectory, workflow: Workflow, match: TaskMatch) -> WeightSample | None:
    """Evidence of a held-out run on the weights: the terms of Dist, averaged over its agents without the aggregator."""
    if get_fault(trajectory) is not None or trajectory.feedback is None:
        return None
    sink = workflow.topology.sink
    ran = [match.of(step.agent) for step in trajectory.steps if step.node != sink]
    if not ran:
        return None
    first, second, third, fourth = (log1p(match.depth) * sum(psi) / len(ran) for psi in zip(*ran, strict=True))
    return WeightSample(terms=(first, second, third, fourth), solved=trajectory.feedback.solved)


def refit_weights(workflow: Workflow, held_out: Sequence[WeightSample | None]) -> Workflow:
    """The weights omega fitted to held-out tasks, where there are enough of mixed outcome (D14)."""
    return HivaMemory.of(workflow).refit(e for e in held_out if e is not None).save_to(workflow)

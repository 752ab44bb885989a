"""What a finished run counts for: its score, its cost, and whether it teaches anything. Method-free."""

from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import sum_usages


def get_score(trajectory: Trajectory) -> float | None:
    """The environment's score; None after an infrastructure error, which teaches nothing."""
    return trajectory.feedback.score if trajectory.feedback is not None and trajectory.error is None else None


def count_agent_tokens(trajectory: Trajectory) -> int:
    """Tokens sent and received by all agents; those of planning and coaching are left out."""
    return sum_usages(step.usage for step in trajectory.steps).tokens


def get_fault(trajectory: Trajectory) -> str | None:
    """The infrastructure error because of which a trajectory teaches nothing; None if there is none."""
    if trajectory.error is not None:
        return trajectory.error
    if trajectory.answer is None:
        return "the run has no answer"
    return next((f"{step.node}: {step.error}" for step in trajectory.steps if step.error is not None), None)

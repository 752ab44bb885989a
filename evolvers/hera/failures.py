"""Failures: the agent that caused each, and the last ones of every agent (Sec. 3.4.1)."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.values import FrozenModel, to_plain_json
from selfwire.evolvers.trajectory_text import find_name, format_inbox, format_step, render_feedback

MEMORY = "failures"  # name of the buffers in a team's memory
TASK_LENGTH = 4_000
WORK_LENGTH = 2_000
ANSWER_LENGTH = 600
SHORT_LENGTH = 500


class Blame(FrozenModel):
    """The primary cause of a failure; `place` is the index of the trajectory in the batch."""

    agent: str
    cause: str = ""
    place: int = Field(ge=0)


class Failure(FrozenModel):
    """A failed trajectory in an agent's buffer.

    Args:
        asked: the question.
        received: what the agent was handed; "" in buffers of earlier versions.
        ran: the nodes that ran, in their order; "" in buffers of earlier versions.
        did: what the agent did, and the team's answer.
        cause: why the agent is to blame.
    """

    question: str
    asked: str
    received: str = ""
    ran: str = ""
    did: str
    feedback: str = ""
    cause: str = ""

    @property
    def case(self) -> str:
        """The question, what the agent was handed and what it is blamed for, as models read it."""
        handed = f"it was handed:\n{self.received}\n" if self.received else ""
        return f"task: {self.asked}\n{handed}blamed for: {self.cause or '(not said)'}"

    @property
    def text(self) -> str:
        """The failure as models read it."""
        ran = f"\nwho ran: {self.ran}" if self.ran else ""
        return f"{self.case}{ran}\nit did:\n{self.did}\nfeedback: {self.feedback}"

    @property
    def short(self) -> "Failure":
        """The failure with less of the task and of what was handed over; what the agent did stays whole."""
        asked, received = (
            excerpt(text, SHORT_LENGTH, f"{self.cause}\n{self.did}") for text in (self.asked, self.received)
        )
        return self.replace(asked=asked, received=received)


def render_failures(failures: Sequence[Failure]) -> str:
    """Failures, oldest first: the last one whole, those before it in short."""
    return "\n\n".join([*(failure.short.text for failure in failures[:-1]), *(last.text for last in failures[-1:])])


def resolve_blame(index: int, trajectory: Trajectory, name: str, cause: str) -> Blame | None:
    """The blame for a failed trajectory; None where no agent that ran, and no node of one, has that name."""
    agents = {name: step.agent for step in trajectory.steps for name in (step.node, step.agent)}
    agent = agents.get(find_name(name, agents) or "")
    return Blame(agent=agent, cause=" ".join(cause.split())[:300], place=index) if agent else None


def choose_blames(blames: Sequence[Blame], most: int) -> tuple[Blame, ...]:
    """The last blame of each of the agents that are blamed most; ties by id."""
    last = {blame.agent: blame for blame in blames}
    counts = {agent: sum(blame.agent == agent for blame in blames) for agent in last}
    order = sorted(last, key=lambda agent: (-counts[agent], agent))
    return tuple(last[agent] for agent in order[:most])


def make_failure(trajectory: Trajectory, blame: Blame) -> Failure:
    """A failed trajectory for the buffer of the agent that is to blame.

    Long texts are cut to what concerns the cause, the agent's own words and the answer.
    """
    own = [step for step in trajectory.steps if step.agent == blame.agent]
    answer = (trajectory.answer or "").strip()
    about = "\n".join([blame.cause, *(step.output for step in own), answer])
    work = "\n".join(f"[{step.node}] {format_step(step, WORK_LENGTH, about=about)}" for step in own)
    ran = ", ".join(step.node for step in trajectory.steps)
    return Failure(
        question=trajectory.question.id,
        asked=excerpt(trajectory.question.input, TASK_LENGTH, about),
        received="\n\n".join(format_inbox(step, WORK_LENGTH, about=about) for step in own),
        ran=ran,
        did=f"{work}\n{render_answer(answer, own, ANSWER_LENGTH)}",
        feedback=excerpt(render_feedback(trajectory), ANSWER_LENGTH),
        cause=blame.cause,
    )


def render_answer(answer: str, own: Sequence[Step], length: int) -> str:
    """The line with a run's answer below an agent's own steps: where one of them wrote it, its name stands for it."""
    if not answer.strip():
        return "final answer: (there is none)"
    writer = next((step.node for step in own if step.output.strip() == answer.strip()), None)
    return f"final answer: {excerpt(answer.strip(), length) if writer is None else f'(the text of [{writer}])'}"


def get_buffers(team: Team) -> dict[str, tuple[Failure, ...]]:
    """Recent failures by agent, oldest first."""
    kept = team.memory.get(MEMORY, {})
    return {
        agent: tuple(Failure.model_validate(to_plain_json(entry)) for entry in entries)
        for agent, entries in kept.items()
    }


def add_failure(
    buffers: Mapping[str, Sequence[Failure]], agent: str, new: Failure, size: int
) -> dict[str, tuple[Failure, ...]]:
    """The buffers with one more failure, which replaces the agent's failure of the same question, else the oldest."""
    others = [failure for failure in buffers.get(agent, ()) if failure.question != new.question]
    return {**{name: tuple(some) for name, some in buffers.items()}, agent: (*others, new)[-size:]}


def with_buffers(team: Team, buffers: Mapping[str, Sequence[Failure]]) -> Team:
    """The team with other buffers; empty buffers are written only over others."""
    if not buffers and MEMORY not in team.memory:
        return team
    kept = {agent: [failure.model_dump(mode="json") for failure in some] for agent, some in sorted(buffers.items())}
    return team.with_memory(**{MEMORY: kept})

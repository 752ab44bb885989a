"""Blame for a failure, and each agent's recent failures (after HERA, Alg. 1 and 5, Sec. 3.4.1). Method-free."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel, to_plain_json
from selfwire.core.workflow import Workflow
from selfwire.evolvers.trace_text import format_step, shorten, to_plain_name

MEMORY = "failures"  # name of the buffers in a workflow's memory
TEXT_LENGTH = 1200


class Blame(FrozenModel):
    """The primary cause of a failure; `place` is that of the trajectory in the batch."""

    agent: str
    cause: str = ""
    place: int = Field(ge=0)


class Failure(FrozenModel):
    """A failed trajectory in an agent's buffer; `asked` is the question, `cause` is why the agent is to blame."""

    question: str
    asked: str
    did: str
    feedback: str = ""
    cause: str = ""

    @property
    def text(self) -> str:
        """The failure as models read it."""
        return f"task: {self.asked}\n{self.did}\nfeedback: {self.feedback}\nblamed for: {self.cause or '(not said)'}"


def resolve_blame(place: int, done: Trajectory, name: str, cause: str) -> Blame | None:
    """The blame for a failed trajectory; None where no agent that ran, and no node of one, has that name."""
    nodes = {to_plain_name(step.node): step.agent for step in done.steps}
    agents = {to_plain_name(step.agent): step.agent for step in done.steps}
    agent = {**nodes, **agents}.get(to_plain_name(name))
    return Blame(agent=agent, cause=" ".join(cause.split())[:300], place=place) if agent else None


def choose_blames(blames: Sequence[Blame], most: int) -> tuple[Blame, ...]:
    """The last blame of each of the agents that are blamed most; ties by id."""
    last = {blame.agent: blame for blame in blames}
    counts = {agent: sum(blame.agent == agent for blame in blames) for agent in last}
    order = sorted(last, key=lambda agent: (-counts[agent], agent))
    return tuple(last[agent] for agent in order[:most])


def render_feedback(done: Trajectory) -> str:
    """The environment's feedback on an answer, with its score, as models read it."""
    return f"score {done.feedback.score:.2f}: {done.feedback.text}" if done.feedback else "(nothing)"


def make_failure(done: Trajectory, blame: Blame) -> Failure:
    """A failed trajectory for the buffer of the agent that is to blame."""
    own = "\n".join(f"[{s.node}] {format_step(s, TEXT_LENGTH // 2)}" for s in done.steps if s.agent == blame.agent)
    others = ", ".join(step.node for step in done.steps)
    answer = shorten((done.answer or "").strip(), TEXT_LENGTH // 4)
    return Failure(
        question=done.question.id,
        asked=shorten(done.question.input, TEXT_LENGTH // 2),
        did=shorten(f"who ran: {others}\n{own}\nfinal answer: {answer}", TEXT_LENGTH),
        feedback=shorten(render_feedback(done), TEXT_LENGTH // 4),
        cause=blame.cause,
    )


def get_buffers(workflow: Workflow) -> dict[str, tuple[Failure, ...]]:
    """Recent failures by agent, oldest first."""
    kept = workflow.memory.get(MEMORY, {})
    return {agent: tuple(Failure.model_validate(to_plain_json(one)) for one in some) for agent, some in kept.items()}


def add_failure(
    buffers: Mapping[str, Sequence[Failure]], agent: str, new: Failure, size: int
) -> dict[str, tuple[Failure, ...]]:
    """The buffers with one more failure; the agent's oldest failure is dropped where its buffer is full."""
    return {**{name: tuple(some) for name, some in buffers.items()}, agent: (*buffers.get(agent, ()), new)[-size:]}


def with_buffers(workflow: Workflow, buffers: Mapping[str, Sequence[Failure]]) -> Workflow:
    """The workflow with other buffers; empty buffers are written only over others."""
    if not buffers and MEMORY not in workflow.memory:
        return workflow
    kept = {agent: [one.model_dump(mode="json") for one in some] for agent, some in sorted(buffers.items())}
    return workflow.with_memory(**{MEMORY: kept})

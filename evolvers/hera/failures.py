"""Who is to blame for a failure, and the buffer of an agent's recent failures (Alg. 1 and 5; Sec. 3.4.1)."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel, to_plain_json
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hera.planning import render_topology
from selfwire.evolvers.hera.reflection import get_topology
from selfwire.evolvers.hera.schemas import FailedAgent
from selfwire.evolvers.hera.steps import to_plain_name
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trace_text import format_step, format_trace, shorten

MEMORY = "failures"
"""Name of the buffers in a workflow's memory."""
TEXT_LENGTH = 1200


class Blame(FrozenModel):
    """The primary cause of a failure.

    Args:
        agent: who ran and is to blame.
        cause: why, in the orchestrator's words.
        place: of the trajectory in the batch.
    """

    agent: str
    cause: str = ""
    place: int = Field(ge=0)


class Failure(FrozenModel):
    """A failed trajectory as an agent's buffer keeps it.

    Args:
        question: id of the question.
        asked: its text.
        did: what the agent did, and who did what around it.
        feedback: what the environment said.
        cause: why the agent is to blame.
    """

    question: str
    asked: str
    did: str
    feedback: str = ""
    cause: str = ""

    @property
    def text(self) -> str:
        """The failure as models read it."""
        return f"task: {self.asked}\n{self.did}\nfeedback: {self.feedback}\nblamed for: {self.cause or '(not said)'}"


async def identify_failed_agent(
    place: int, done: Trajectory, workflow: Workflow, orchestrator: PromptedModel, *, scope: Scope
) -> tuple[Blame | None, Usage]:
    """IdentifyFailedAgents: the one agent that is the primary cause; None where no valid name comes.

    Args:
        place: of the trajectory in the batch.
        done: it, failed.
        workflow: whose agents ran.
        orchestrator: judges, by the trace and the feedback.
        scope: of the step.

    Raises:
        BudgetError: the run must stop.
    """
    ran = list(dict.fromkeys(step.agent for step in done.steps))
    topology = get_topology(done)
    try:
        found, usage = await orchestrator.ask(
            FailedAgent,
            "blame",
            scope=scope.at(task=done.question.id, node="blame", sample=done.sample),
            task=done.question.input,
            plan=render_topology(topology) if topology else ", ".join(ran),
            agents="\n".join(
                f"{name}: {workflow.agents_by_id[name].role}" for name in ran if name in workflow.agents_by_id
            ),
            trace=format_trace(done),
            feedback=render_feedback(done),
        )
    except ModelError as error:
        return None, get_error_cost(error)
    names = {to_plain_name(step.node): step.agent for step in done.steps} | {to_plain_name(name): name for name in ran}
    agent = names.get(to_plain_name(found.agent))  # of an agent, or of one of its nodes
    if agent is None:
        return None, usage
    return Blame(agent=agent, cause=" ".join(found.cause.split())[:300], place=place), usage


def render_feedback(done: Trajectory) -> str:
    """What the environment said of an answer, and its score."""
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
    buffers: Mapping[str, Sequence[Failure]], agent: str, fresh: Failure, size: int
) -> dict[str, tuple[Failure, ...]]:
    """The buffers with one more failure; the agent's oldest goes where there are too many."""
    return {**{name: tuple(some) for name, some in buffers.items()}, agent: (*buffers.get(agent, ()), fresh)[-size:]}


def with_buffers(workflow: Workflow, buffers: Mapping[str, Sequence[Failure]]) -> Workflow:
    """The workflow with other buffers; empty ones that were never there leave no trace."""
    if not buffers and MEMORY not in workflow.memory:
        return workflow
    kept = {agent: [one.model_dump(mode="json") for one in some] for agent, some in sorted(buffers.items())}
    return workflow.with_memory(**{MEMORY: kept})

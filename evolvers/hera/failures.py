"""Who is to blame for a failure, and the buffer of an agent's recent failures (Alg. 1 and 5; Sec. 3.4.1)."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from selfwire.core.budget import cost_of
from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import Value, thawed
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hera.planning import written
from selfwire.evolvers.hera.reflection import topology_of
from selfwire.evolvers.hera.schemas import FailedAgent
from selfwire.evolvers.hera.steps import plain_name
from selfwire.evolvers.prompted_model import Coach
from selfwire.evolvers.trace_text import shortened, trace, work

MEMORY = "failures"
"""Name of the buffers in a workflow's memory."""
TEXT_LENGTH = 1200


class Blame(Value):
    """The primary cause of a failure.

    Args:
        agent: who ran and is to blame.
        cause: why, in the orchestrator's words.
        place: of the trajectory in the batch.
    """

    agent: str
    cause: str = ""
    place: int = Field(ge=0)


class Failure(Value):
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


async def blamed(
    place: int, done: Trajectory, workflow: Workflow, orchestrator: Coach, *, scope: Scope
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
    topology = topology_of(done)
    try:
        found, usage = await orchestrator.ask(
            FailedAgent,
            "blame",
            scope=scope.at(task=done.question.id, node="blame", sample=done.sample),
            task=done.question.input,
            plan=written(topology) if topology else ", ".join(ran),
            agents="\n".join(f"{name}: {workflow.pool[name].role}" for name in ran if name in workflow.pool),
            trace=trace(done),
            feedback=told(done),
        )
    except ModelError as error:
        return None, cost_of(error)
    names = {plain_name(step.node): step.agent for step in done.steps} | {plain_name(name): name for name in ran}
    agent = names.get(plain_name(found.agent))  # of an agent, or of one of its nodes
    if agent is None:
        return None, usage
    return Blame(agent=agent, cause=" ".join(found.cause.split())[:300], place=place), usage


def told(done: Trajectory) -> str:
    """What the environment said of an answer, and its score."""
    return f"score {done.feedback.score:.2f}: {done.feedback.text}" if done.feedback else "(nothing)"


def failure(done: Trajectory, blame: Blame) -> Failure:
    """A failed trajectory for the buffer of the agent that is to blame."""
    own = "\n".join(f"[{s.node}] {work(s, TEXT_LENGTH // 2)}" for s in done.steps if s.agent == blame.agent)
    others = ", ".join(step.node for step in done.steps)
    answer = shortened((done.answer or "").strip(), TEXT_LENGTH // 4)
    return Failure(
        question=done.question.id,
        asked=shortened(done.question.input, TEXT_LENGTH // 2),
        did=shortened(f"who ran: {others}\n{own}\nfinal answer: {answer}", TEXT_LENGTH),
        feedback=shortened(told(done), TEXT_LENGTH // 4),
        cause=blame.cause,
    )


def buffers_of(workflow: Workflow) -> dict[str, tuple[Failure, ...]]:
    """Recent failures by agent, oldest first."""
    kept = workflow.memory.get(MEMORY, {})
    return {agent: tuple(Failure.model_validate(thawed(one)) for one in some) for agent, some in kept.items()}


def buffered(
    buffers: Mapping[str, Sequence[Failure]], agent: str, fresh: Failure, size: int
) -> dict[str, tuple[Failure, ...]]:
    """The buffers with one more failure; the agent's oldest goes where there are too many."""
    return {**{name: tuple(some) for name, some in buffers.items()}, agent: (*buffers.get(agent, ()), fresh)[-size:]}


def with_buffers(workflow: Workflow, buffers: Mapping[str, Sequence[Failure]]) -> Workflow:
    """The workflow with other buffers; empty ones that were never there leave no trace."""
    if not buffers and MEMORY not in workflow.memory:
        return workflow
    kept = {agent: [one.model_dump(mode="json") for one in some] for agent, some in sorted(buffers.items())}
    return workflow.learned(**{MEMORY: kept})

"""The textual loss, its gradient at the aggregator, and the backward pass (Sec. 3.1-3.3, Alg. 1, App. D.4)."""

from collections.abc import Awaitable, Sequence
from typing import Literal

from selfwire.core.budget import add_cost_on_error, get_error_cost
from selfwire.core.errors import ModelError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenModel, Id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.schemas import AgentGradient, GlobalGradient, ParsedGradient, SelfCriticism, Sentiment
from selfwire.evolvers.outcomes import get_fault
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trace_text import format_step, format_trace, gather_all


class Gradient(FrozenModel):
    """The textual gradient dL/dv at one node for one task.

    Args:
        system_prompt: how the agent's role or prompt should change; "" if it should not.
        tool: how its use of tools should change; "" if it should not.
        overall: what its predecessors and the team around it should change.
        sentiment: the model's judgement of the agent's contribution.
        concerns: the parser's verdict; gates f_P and f_G.
    """

    task: str
    node: Id
    agent: Id
    system_prompt: str = ""
    tool: str = ""
    overall: str = ""
    sentiment: Sentiment
    concerns: Literal["semantics", "topology", "both", "none"] = "none"

    @property
    def reward(self) -> int:
        """r: 1 for positive or neutral, 0 for critical (App. D.4)."""
        return 0 if self.sentiment == "critical" else 1

    @property
    def text(self) -> str:
        """The gradient for people and models, one line per part that is not empty."""
        parts = (("role", self.system_prompt), ("tools", self.tool), ("team", self.overall))
        return "\n".join(f"{name}: {part.strip()}" for name, part in parts if part.strip())


class Loss(FrozenModel):
    """The loss of an answer.

    Args:
        solved: whether nothing must change; None where the trajectory teaches nothing.
        gradient: the global gradient at the aggregator; None if solved, or if there is no loss.
        error: why the trajectory teaches nothing; None if it does.
    """

    solved: bool | None
    gradient: Gradient | None = None
    usage: Usage = Usage()
    error: str | None = None


class Backward(FrozenModel):
    """The gradients of one trajectory, aggregator first, then in reverse topological order.

    A node that ran has one if an executed successor has one. An infrastructure `error` leaves no gradients.
    """

    gradients: tuple[Gradient, ...] = ()
    usage: Usage = Usage()
    error: str | None = None


async def compute_loss(
    trajectory: Trajectory, workflow: Workflow, meta_model: PromptedModel, *, environment: bool, scope: Scope
) -> Loss:
    """L(E_env(y)) as text, and its gradient at the aggregator; a solved task needs no ask.

    Without `environment` ("w/o Env") the aggregator criticises its own answer. A trajectory teaches nothing where the
    model fails.
    """
    if (error := get_fault(trajectory)) is not None:
        return Loss(solved=None, error=error)
    if environment and trajectory.feedback is None:
        return Loss(solved=None, error="the environment gave no feedback")
    if environment and trajectory.feedback is not None and trajectory.feedback.solved:
        return Loss(solved=True)
    place = _place(scope, trajectory, "loss").at(node=workflow.topology.sink)
    try:
        if environment:
            return await _diagnose(trajectory, workflow, meta_model, place)
        return await _criticise(trajectory, workflow, meta_model, place)
    except ModelError as failure:
        return Loss(solved=None, usage=get_error_cost(failure), error=f"no gradient at the aggregator: {failure}")


async def _diagnose(trajectory: Trajectory, workflow: Workflow, meta_model: PromptedModel, scope: Scope) -> Loss:
    feedback = trajectory.feedback
    asked, usage = await meta_model.ask(
        GlobalGradient,
        "global_gradient",
        scope=scope,
        task=trajectory.question.input,
        answer=trajectory.answer or "",
        trace=format_trace(trajectory),
        feedback=f"score {feedback.score:.2f} of 1\n{feedback.text}" if feedback else "",
        role=workflow.agent_at(workflow.topology.sink).prompt,
    )
    return await _make_loss(trajectory, workflow, asked.feedback, asked.sentiment, usage, meta_model, scope)


async def _criticise(trajectory: Trajectory, workflow: Workflow, meta_model: PromptedModel, scope: Scope) -> Loss:
    asked, usage = await meta_model.ask(
        SelfCriticism,
        "criticism",
        scope=scope,
        task=trajectory.question.input,
        answer=trajectory.answer or "",
        trace=format_trace(trajectory),
    )
    if asked.good_enough:
        return Loss(solved=True, usage=usage)
    criticism = asked.criticism.strip() or "The answer was not good enough."
    return await _make_loss(trajectory, workflow, criticism, "critical", usage, meta_model, scope)


async def _make_loss(
    trajectory: Trajectory,
    workflow: Workflow,
    feedback: str,
    sentiment: Sentiment,
    spent: Usage,
    meta_model: PromptedModel,
    scope: Scope,
) -> Loss:
    sink = workflow.topology.sink
    found = Gradient(
        task=trajectory.question.id,
        node=sink,
        agent=workflow.agent_at(sink).id,
        system_prompt=feedback if sentiment == "critical" else "",
        overall=feedback,
        sentiment=sentiment,
    )
    with add_cost_on_error(spent):
        gradient, usage = await _parse(found, meta_model, scope)
    return Loss(solved=False, gradient=gradient, usage=spent + usage)


def count_agreement(trajectories: Sequence[Trajectory], losses: Sequence[Loss]) -> dict[str, int]:
    """How often the aggregator agreed with the environment: `judged` answers, `agreed` among them."""
    pairs = [
        (judged.solved, done.feedback.solved)
        for done, judged in zip(trajectories, losses, strict=True)
        if judged.solved is not None and done.feedback is not None
    ]
    return {"judged": len(pairs), "agreed": sum(mine == its for mine, its in pairs)}


async def propagate_gradients(
    trajectory: Trajectory, workflow: Workflow, at_sink: Gradient, meta_model: PromptedModel, *, scope: Scope
) -> Backward:
    """The textual chain rule: dL/dv_i = LLM({dL/dv_j of executed successors j}, y_i), level by level.

    A node without a valid reply has no gradient: it is neither rewritten nor rewarded, and passes nothing on to its
    predecessors.
    """
    topology = workflow.topology
    steps = {step.node: step for step in trajectory.steps}
    gradients = {topology.sink: at_sink}
    spent: list[Usage] = []
    for level in reversed(topology.levels()):
        ready = [n for n in level if n in steps and n not in gradients and _get_received(steps[n], gradients)]
        found = await gather_all(
            _settle(_localise(trajectory, steps[n], workflow, _get_received(steps[n], gradients), meta_model, scope))
            for n in ready
        )
        spent += (usage for _, usage in found)
        for gradient, _ in found:
            if isinstance(gradient, ModelError):
                return Backward(usage=sum_usages(spent), error=str(gradient))
            if gradient is not None:
                gradients[gradient.node] = gradient
    return Backward(gradients=tuple(gradients.values()), usage=sum_usages(spent))


def _get_received(step: Step, gradients: dict[Id, Gradient]) -> list[Gradient]:
    return [gradients[m.target] for m in step.sent if m.target in gradients]


async def _settle(asked: Awaitable[tuple[Gradient, Usage]]) -> tuple[Gradient | ModelError | None, Usage]:
    """The gradient, None where no valid reply came, or the model's error; with the cost in each case."""
    try:
        return await asked
    except ModelError as error:
        return None if isinstance(error, ReplyError) else error, get_error_cost(error)


async def _localise(
    trajectory: Trajectory,
    step: Step,
    workflow: Workflow,
    received: Sequence[Gradient],
    meta_model: PromptedModel,
    scope: Scope,
) -> tuple[Gradient, Usage]:
    agent, place = workflow.agent_at(step.node), _place(scope, trajectory, "backward").at(node=step.node)
    asked, usage = await meta_model.ask(
        AgentGradient,
        "agent_gradient",
        scope=place,
        task=trajectory.question.input,
        role=agent.prompt,
        tools="\n".join(agent.tools),
        output=format_step(step),
        successor_feedback="\n".join(f"[{g.node}] {g.overall.strip() or g.text}" for g in received),
    )
    found = Gradient(
        task=trajectory.question.id,
        node=step.node,
        agent=agent.id,
        system_prompt=asked.system_prompt_feedback,
        tool=asked.tool_feedback,
        overall=asked.overall_feedback,
        sentiment=asked.sentiment,
    )
    with add_cost_on_error(usage):
        gradient, more = await _parse(found, meta_model, place)
    return gradient, usage + more


async def _parse(gradient: Gradient, meta_model: PromptedModel, scope: Scope) -> tuple[Gradient, Usage]:
    """The textual gradient parser; praise concerns nothing (D18), as does an invalid reply."""
    if gradient.sentiment == "positive" or not gradient.text:
        return gradient, Usage()
    default = ParsedGradient(concerns=gradient.concerns)
    place = scope.at(phase=f"{scope.phase}/parse")
    verdict, usage = await meta_model.ask_or(default, ParsedGradient, "parse", scope=place, gradient=gradient.text)
    return gradient.replace(concerns=verdict.concerns), usage


def _place(scope: Scope, trajectory: Trajectory, phase: str) -> Scope:
    return scope.at(phase=phase, task=trajectory.question.id, sample=trajectory.sample)

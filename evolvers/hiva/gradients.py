"""The textual loss, its gradient at the aggregator, and the backward pass (Sec. 3.1-3.3, Alg. 1, App. D.4)."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from selfwire.core.errors import ModelError, ReplyError, get_error_cost
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.hiva.schemas import AgentGradient, Concern, GlobalGradient, SelfCriticism, Sentiment
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trajectory_text import (
    TASK_LENGTH,
    Described,
    describe_held_tools,
    describe_tools,
    format_inbox,
    format_step,
    format_trace,
    gather_all,
    get_fault,
    render_feedback,
)

PURPOSE_LENGTH = 160
"""Characters of a prompt by which a colleague is known."""


class Gradient(FrozenModel):
    """The textual gradient dL/dv at one node for one task.

    Args:
        system_prompt: how the agent's role or prompt should change; "" if it should not.
        tool: how its use of tools should change; "" if it should not.
        overall: what its predecessors and the team around it should change.
        sentiment: the model's judgement of the agent's contribution.
        concerns: the critic's own verdict on what has to change; gates f_P and f_G (D18).
    """

    task: str
    node: Id
    agent: Id
    system_prompt: str = ""
    tool: str = ""
    overall: str = ""
    sentiment: Sentiment
    concerns: Concern = "none"

    @property
    def reward(self) -> int:
        """r: 1 for positive or neutral, 0 for critical (App. D.4)."""
        return 0 if self.sentiment == "critical" else 1

    @property
    def text(self) -> str:
        """The gradient for people and models, one line per part that is not empty."""
        team = "" if self.overall.strip() == self.system_prompt.strip() else self.overall
        parts = (("role", self.system_prompt), ("tools", self.tool), ("team", team))
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
    trajectory: Trajectory,
    team: Team,
    meta_model: PromptedModel,
    *,
    environment: bool,
    toolbox: Mapping[str, Described],
    scope: Scope,
) -> Loss:
    """L(E_env(y)) as text, and its gradient at the aggregator; a solved task needs no ask.

    Without `environment` ("w/o Env") the aggregator criticises its own answer. A trajectory teaches nothing where the
    model fails.

    Args:
        toolbox: the run's tools, the team's own included, whose descriptions are shown.
    """
    if (error := get_fault(trajectory)) is not None:
        return Loss(solved=None, error=error)
    if environment and trajectory.feedback is None:
        return Loss(solved=None, error="the environment gave no feedback")
    if environment and trajectory.feedback is not None and trajectory.feedback.solved:
        return Loss(solved=True)
    here = _make_scope(scope, trajectory, "loss").at(node=team.topology.sink)
    try:
        if environment:
            tools = describe_held_tools(team.agents, team, toolbox)
            return await _diagnose(trajectory, team, meta_model, tools, here)
        return await _criticise(trajectory, team, meta_model, here)
    except ModelError as failure:
        return Loss(solved=None, usage=get_error_cost(failure), error=f"no gradient at the aggregator: {failure}")


async def _diagnose(trajectory: Trajectory, team: Team, meta_model: PromptedModel, tools: str, scope: Scope) -> Loss:
    asked, usage = await meta_model.ask(
        GlobalGradient,
        "global_gradient",
        scope=scope,
        task=trajectory.question.input,
        answer=trajectory.answer or "",
        trace=format_trace(trajectory, answer="(the final answer above)"),
        tools=tools,
        feedback=render_feedback(trajectory),
        role=team.agent_at(team.topology.sink).prompt,
    )
    return _make_loss(trajectory, team, asked.feedback, asked.own_feedback, asked.sentiment, usage)


async def _criticise(trajectory: Trajectory, team: Team, meta_model: PromptedModel, scope: Scope) -> Loss:
    asked, usage = await meta_model.ask(
        SelfCriticism,
        "criticism",
        scope=scope,
        task=trajectory.question.input,
        answer=trajectory.answer or "",
        trace=format_trace(trajectory, answer="(the final answer above)"),
    )
    if asked.good_enough:
        return Loss(solved=True, usage=usage)
    criticism = asked.criticism.strip() or "The answer was not good enough."
    return _make_loss(trajectory, team, criticism, "", asked.sentiment, usage)


def _make_loss(trajectory: Trajectory, team: Team, feedback: str, own: str, sentiment: Sentiment, usage: Usage) -> Loss:
    """The loss with its gradient at the aggregator, whose own prompt it concerns only where it is critical.

    Args:
        feedback: for those before the aggregator.
        own: for the aggregator itself; where it is blank, the feedback.
    """
    sink, critical = team.topology.sink, sentiment == "critical"
    gradient = Gradient(
        task=trajectory.question.id,
        node=sink,
        agent=team.agent_at(sink).id,
        system_prompt=(own.strip() or feedback) if critical else "",
        overall=feedback,
        sentiment=sentiment,
        concerns="semantics" if critical else "none",
    )
    return Loss(solved=False, gradient=gradient, usage=usage)


def count_agreement(trajectories: Sequence[Trajectory], losses: Sequence[Loss]) -> dict[str, int]:
    """How often the aggregator agreed with the environment: `judged` answers, `agreed` among them."""
    pairs = [
        (judged.solved, done.feedback.solved)
        for done, judged in zip(trajectories, losses, strict=True)
        if judged.solved is not None and done.feedback is not None
    ]
    return {"judged": len(pairs), "agreed": sum(mine == its for mine, its in pairs)}


async def propagate_gradients(
    trajectory: Trajectory,
    team: Team,
    at_sink: Gradient,
    meta_model: PromptedModel,
    *,
    toolbox: Mapping[str, Described],
    scope: Scope,
    taken: Topology | None = None,
) -> Backward:
    """The textual chain rule: dL/dv_i = LLM({dL/dv_j of executed successors j}, y_i), level by level.

    A node without a valid reply has no gradient: it is neither rewritten nor rewarded, and passes nothing on to its
    predecessors.

    Args:
        trajectory: its feedback is what critics read of the environment, none in "w/o Env" (D34).
        toolbox: the run's tools, the team's own included, whose descriptions are shown.
        taken: the ways that the run has taken, without cycles, where the team's topology has others too.
    """
    topology = taken or team.topology
    steps = {step.node: step for step in trajectory.steps}
    gradients = {topology.sink: at_sink}
    spent: list[Usage] = []
    for level in reversed(topology.levels()):
        open_nodes = [n for n in level if n in steps and n not in gradients]
        ready = {n: said for n in open_nodes if (said := _get_received(steps[n], gradients))}
        found = await gather_all(
            _localise(trajectory, steps[n], team, said, meta_model, toolbox, scope) for n, said in ready.items()
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


async def _localise(
    trajectory: Trajectory,
    step: Step,
    team: Team,
    received: Sequence[Gradient],
    meta_model: PromptedModel,
    toolbox: Mapping[str, Described],
    scope: Scope,
) -> tuple[Gradient | ModelError | None, Usage]:
    """The gradient at one node, None where no valid reply came, or the model's error; with the cost in each case.

    Praise of an agent concerns neither its prompt nor its tools (D18).
    """
    agent = team.agent_at(step.node)
    said = "\n".join(f"[{g.node}] {words}" for g in received if (words := g.overall.strip() or g.text.strip()))
    asked, usage = await meta_model.try_ask(
        AgentGradient,
        "agent_gradient",
        scope=_make_scope(scope, trajectory, "backward").at(node=step.node),
        task=excerpt(trajectory.question.input, TASK_LENGTH, f"{step.output}\n{said}"),
        agent=step.node,
        role=agent.prompt,
        tools=describe_tools(agent.tools, team, toolbox),
        team=describe_team(team, _find_passed_over(trajectory, team)),
        input=format_inbox(step, about=step.output),
        output=format_step(step, about=trajectory.answer or ""),
        feedback=render_feedback(trajectory),
        successor_feedback=said,
    )
    if isinstance(asked, ModelError):
        return None if isinstance(asked, ReplyError) else asked, usage
    concerns = asked.concerns
    if asked.sentiment == "positive":
        concerns = "topology" if concerns in ("topology", "both") else "none"
    gradient = Gradient(
        task=trajectory.question.id,
        node=step.node,
        agent=agent.id,
        system_prompt=asked.system_prompt_feedback,
        tool=asked.tool_feedback,
        overall=asked.overall_feedback,
        sentiment=asked.sentiment,
        concerns=concerns,
    )
    return gradient, usage


def _find_passed_over(trajectory: Trajectory, team: Team) -> set[Id]:
    """The nodes that did not run as a router chose others; a critic may hold that the team lacks them."""
    is_routed = any(step.routing is not None for step in trajectory.steps)
    return team.topology.agents.keys() - {step.node for step in trajectory.steps} if is_routed else set()


def describe_team(team: Team, passed_over: Collection[Id] = ()) -> str:
    """The team as critics read it, one node per line: how its prompt begins, and who gets its output."""
    topology = team.topology
    lines = []
    for node in topology.order():
        purpose = excerpt(" ".join(team.agent_at(node).prompt.split()), PURPOSE_LENGTH)
        targets = ", ".join(topology.successors[node])
        name = f"{node} (not asked for this task)" if node in passed_over else node
        lines.append(f"{name} -> {targets}: {purpose}" if targets else f"{name} gives the answer: {purpose}")
    return "\n".join(lines)


def number_tasks(gradients: Iterable[Gradient]) -> dict[str, str]:
    """Names for tasks in a prompt, by id: an id says nothing to a reader, and may hold what no prompt should."""
    return {task: f"task {number}" for number, task in enumerate(dict.fromkeys(g.task for g in gradients), 1)}


def _make_scope(scope: Scope, trajectory: Trajectory, phase: str) -> Scope:
    return scope.at(phase=phase, task=trajectory.question.id, sample=trajectory.sample)

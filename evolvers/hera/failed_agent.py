"""IdentifyFailedAgents: which agent is the primary cause of a failure (Alg. 1; Sec. 3.4.1)."""

from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.blame import Blame, render_feedback, resolve_blame
from selfwire.evolvers.hera.reflection import get_topology
from selfwire.evolvers.hera.schemas import FailedAgent
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trace_text import format_trace, render_agents, render_topology


async def identify_failed_agent(
    index: int, trajectory: Trajectory, workflow: Workflow, orchestrator: PromptedModel, *, scope: Scope
) -> tuple[Blame | None, Usage]:
    """The blame for a failed trajectory; None where the reply names no agent that ran."""
    ran = list(dict.fromkeys(step.agent for step in trajectory.steps))
    topology = get_topology(trajectory)
    reply, usage = await orchestrator.ask_or(
        None,
        FailedAgent,
        "blame",
        scope=scope.at(task=trajectory.question.id, node="blame", sample=trajectory.sample),
        catch=ModelError,
        task=trajectory.question.input,
        plan=render_topology(topology) if topology else ", ".join(ran),
        agents=render_agents([workflow.agents_by_id[name] for name in ran if name in workflow.agents_by_id]),
        trace=format_trace(trajectory),
        feedback=render_feedback(trajectory),
    )
    return resolve_blame(index, trajectory, reply.agent, reply.cause) if reply else None, usage

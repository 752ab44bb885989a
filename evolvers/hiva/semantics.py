"""Semantic evolution f_P: agents' prompts are rewritten from their gradients (Sec. 3.6, App. B.3, Fig. 9)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from selfwire.core.agent import Agent
from selfwire.core.edits import Rewiring
from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.text import excerpt
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenMap, FrozenModel, Id
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.gradients import Gradient, number_tasks
from selfwire.evolvers.hiva.schemas import PromptRewrite
from selfwire.evolvers.prompted_model import DeclinedProposal, PromptedModel, propose_rewrite
from selfwire.evolvers.trajectory_text import Described, describe_tools, gather_all

ROLE_WEIGHT, TOOL_WEIGHT = 0.7, 0.3
GRADIENTS_LENGTH = 8_000


class RewriteResult(FrozenModel):
    """Result of f_P: one RewritePrompt per agent, in order of the agents' ids, and proposals that the guard refused."""

    rewirings: tuple[Rewiring, ...] = ()
    declined: tuple[DeclinedProposal, ...] = ()
    usage: Usage = Usage()

    @classmethod
    def of(cls, found: Sequence[tuple[Rewiring | DeclinedProposal, Usage]]) -> "RewriteResult":
        """Collect what was proposed, each with its cost."""
        return cls(
            rewirings=tuple(result for result, _ in found if isinstance(result, Rewiring)),
            declined=tuple(result for result, _ in found if isinstance(result, DeclinedProposal)),
            usage=sum_usages(usage for _, usage in found),
        )


async def propose_rewrites(
    team: Team,
    gradients: Sequence[Gradient],
    meta_model: PromptedModel,
    config: HivaConfig,
    *,
    toolbox: Mapping[str, Described],
    scope: Scope,
    placeholders: Mapping[Id, str] = FrozenMap(),
) -> RewriteResult:
    """f_P: one call per agent, the aggregator included, over all its gradients on semantics (D11).

    Feedback on the role weighs 0.7, on tools 0.3; the prompt says so. An agent keeps its prompt where no valid rewrite
    comes back.

    Args:
        team: with the tools that were written and granted in this step.
        toolbox: the run's tools, the team's own included, whose descriptions are shown.
        placeholders: of agents whose prompts are templates of a program, which must keep them.
    """
    if not config.semantic_evolution:
        return RewriteResult()
    critical = [g for g in gradients if g.system_prompt.strip() or g.tool.strip()]
    concerns = [g for g in critical if g.concerns in ("semantics", "both")]
    mine = [(agent, [g for g in concerns if g.agent == agent.id]) for agent in team.agents]
    found = await gather_all(
        ask_rewrite(
            agent,
            meta_model,
            "rewrite",
            scope=scope,
            length=config.prompt_length,
            why=" ".join(dict.fromkeys(g.system_prompt or g.tool for g in some)),
            gradients=render_gradients(some, _weigh),
            tools=describe_tools(agent.tools, team, toolbox),
            placeholders=placeholders.get(agent.id, ""),
        )
        for agent, some in mine
        if some
    )
    return RewriteResult.of(found)


async def ask_rewrite(
    agent: Agent, meta_model: PromptedModel, prompt: str, *, scope: Scope, length: int, why: str, **sections: Any
) -> tuple[Rewiring | DeclinedProposal, Usage]:
    """Ask for another text in place of an agent's prompt.

    Args:
        prompt: name of the critic's prompt.
        length: most characters of the new text.
        why: reason of the rewiring.
        sections: of the critic's prompt, beside the agent's prompt and the length.
    """
    reply, usage = await meta_model.try_ask(
        PromptRewrite,
        prompt,
        scope=scope.at(phase="rewrite", node=agent.id),
        prompt=agent.prompt,
        length=str(length),
        **sections,
    )
    if isinstance(reply, ModelError):
        return DeclinedProposal(by=agent.id, operation="REWRITE_PROMPT", reason=str(reply)), usage
    return propose_rewrite(agent, reply.prompt, length=length, why=why), usage


def render_gradients(gradients: Iterable[Gradient], render: Callable[[Gradient], str]) -> str:
    """Gradients of an agent or a node, one block per remark, with the tasks that it comes from; bounded evenly."""
    mine = list(gradients)
    names = number_tasks(mine)
    tasks: dict[tuple[str, str], dict[str, None]] = {}
    for gradient in mine:
        tasks.setdefault((gradient.sentiment, render(gradient)), {})[names[gradient.task]] = None
    share = max(GRADIENTS_LENGTH // max(len(tasks), 1), 200)
    return "\n".join(f"[{', '.join(some)}, {said}]\n{excerpt(text, share)}" for (said, text), some in tasks.items())


def _weigh(gradient: Gradient) -> str:
    """The parts that concern the prompt, each with its weight."""
    parts = ((f"role (weight {ROLE_WEIGHT})", gradient.system_prompt), (f"tools (weight {TOOL_WEIGHT})", gradient.tool))
    return "\n".join(f"{name}: {text.strip()}" for name, text in parts if text.strip())

"""Checks of a prompt that a model rewrote."""

from selfwire.core.agent import Agent
from selfwire.core.edits import RefusedRewiring, Rewiring, RewritePrompt
from selfwire.core.values import FrozenModel
from selfwire.evolvers.trajectory_text import shorten

WHY_LENGTH = 300


class DeclinedProposal(FrozenModel):
    """A model's proposal that became no rewiring, or a rewiring that was refused, and why."""

    by: str
    operation: str
    reason: str

    @classmethod
    def of(cls, refused: RefusedRewiring) -> "DeclinedProposal":
        """The record of a refused rewiring."""
        return cls(by=refused.rewiring.by, operation=refused.rewiring.operation, reason=refused.reason)


def propose_rewrite(agent: Agent, prompt: str, *, length: int, why: str) -> Rewiring | DeclinedProposal:
    """The rewiring that gives an agent a new prompt; declined if that is blank, too long or the old one."""
    prompt = prompt.strip()
    if reason := _find_objection(prompt, agent, length):
        return DeclinedProposal(by=agent.id, operation="REWRITE_PROMPT", reason=reason)
    edit = RewritePrompt(agent.id, prompt)
    return Rewiring(edit, why=shorten(why, WHY_LENGTH), operation="REWRITE_PROMPT", by=agent.id)


def _find_objection(prompt: str, agent: Agent, length: int) -> str:
    if not prompt:
        return "the new prompt is blank"
    if len(prompt) > length:
        return f"the new prompt has {len(prompt)} characters; at most {length} are allowed"
    return "the new prompt equals the old one" if prompt == agent.prompt.strip() else ""

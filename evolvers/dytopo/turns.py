"""What a worker said in a round, and what the manager made of it, as values."""

from typing import Literal

from selfwire.core.trajectory import ToolUse
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.dytopo.induction import Descriptors


class Private(FrozenModel):
    """One entry of the private channel; `to` is a role or an agent, blank for whoever is connected."""

    to: str = ""
    text: str


class WorkerTurn(FrozenModel):
    """One worker in one round.

    Args:
        worker: its id.
        round: t, from 0.
        public: m_pub, what the manager reads.
        private: m_priv, what travels along edges.
        descriptors: what it needs and offers.
        answer: the final answer, if it gave one.
        verdict: pass, fail or open, if it checks solutions; else blank.
        tools: its tool uses.
        error: why it said nothing, if it failed.
        usage: what the call cost.
    """

    worker: Id
    round: int = 0
    public: str = ""
    private: tuple[Private, ...] = ()
    descriptors: Descriptors = Descriptors()
    answer: str = ""
    verdict: Literal["", "pass", "fail", "open"] = ""
    tools: tuple[ToolUse, ...] = ()
    error: str | None = None
    usage: Usage = Usage()

    def message_to(self, recipient: Id, role: str = "") -> str:
        """m_priv as it arrives: the recipient's own entries if there are any, else all of them (D2)."""
        names = {recipient.casefold(), role.casefold()} - {""}
        own = [note.text for note in self.private if note.to.strip().casefold() in names]
        return "\n".join(own or [_addressed(note) for note in self.private]).strip()


class ManagerTurn(FrozenModel):
    """The manager in one round.

    Args:
        complete: y, as it takes effect.
        goal: of the next round.
        claimed: whether the manager said that the task is complete.
        why: why the claim was not believed, or why the manager said nothing.
        public: its account of where the team stands.
        usage: what the call cost.
    """

    complete: bool = False
    goal: str
    claimed: bool = False
    why: str = ""
    public: str = ""
    usage: Usage = Usage()


def _addressed(note: Private) -> str:
    return f"(to {note.to.strip()}) {note.text}" if note.to.strip() else note.text

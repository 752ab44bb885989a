"""Turns of workers and of the manager in a round, as values."""

from typing import Literal

from selfwire.core.trajectory import ToolUse
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.dytopo.induction import Descriptors


class Private(FrozenModel):
    """An entry of the private channel; `to` is a role or an agent, blank for all recipients."""

    to: str = ""
    text: str


class WorkerTurn(FrozenModel):
    """Turn of a worker in a round.

    Args:
        round: t, from 0.
        public: m_pub, for the manager.
        private: m_priv, for recipients along edges.
        verdict: pass, fail or open, if it checks solutions; else blank.
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
        """m_priv as it arrives: the entries to the recipient if there are any, else all of them (D2)."""
        names = {recipient.casefold(), role.casefold()} - {""}
        own = [note.text for note in self.private if note.to.strip().casefold() in names]
        every = (f"(to {note.to.strip()}) {note.text}" if note.to.strip() else note.text for note in self.private)
        return "\n".join(own or every).strip()


class ManagerTurn(FrozenModel):
    """The manager in one round.

    Args:
        complete: y, as it takes effect.
        claimed: whether the manager called the task complete.
        why: why the claim was rejected, or why the manager failed.
    """

    complete: bool = False
    goal: str
    claimed: bool = False
    why: str = ""
    public: str = ""
    usage: Usage = Usage()

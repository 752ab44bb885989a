"""Turns of workers and of the manager in a round, as values."""

from typing import Literal

from selfwire.core.trajectory import ToolUse
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.dytopo.induction import Descriptors


class WorkerTurn(FrozenModel):
    """Turn of a worker in a round.

    Args:
        round: t, from 0.
        public: m_pub, for the manager.
        private: m_priv, for recipients along edges.
        verdict: pass, fail or open, if it checks solutions; else blank.
        asked: whether it was asked to speak; a worker who was not says nothing, at no cost.
    """

    worker: Id
    round: int = 0
    public: str = ""
    private: str = ""
    descriptors: Descriptors = Descriptors()
    answer: str = ""
    verdict: Literal["", "pass", "fail", "open"] = ""
    tools: tuple[ToolUse, ...] = ()
    error: str | None = None
    asked: bool = True
    usage: Usage = Usage()

    @property
    def spoke(self) -> bool:
        """Whether the worker was asked and did not fail."""
        return self.asked and self.error is None


class ManagerTurn(FrozenModel):
    """The manager in one round.

    Args:
        complete: y, as it takes effect.
        claimed: whether the manager called the task complete.
        why: why the claim was rejected, or why the manager failed.
        speakers: who speaks in the next round; () for all.
    """

    complete: bool = False
    goal: str
    claimed: bool = False
    why: str = ""
    speakers: tuple[Id, ...] = ()
    public: str = ""
    usage: Usage = Usage()

"""What flows through TacoMAS's graph, and what can be chosen per run; nothing that a reference could be part of."""

from collections.abc import Mapping

from pydantic import Field

from selfwire.core.trajectory import Message, Trajectory
from selfwire.core.values import FrozenMap
from selfwire.core.workflow import Workflow
from selfwire.evolvers.tacomas.judge import Item
from selfwire.evolvers.tacomas.rounds import Figures, Round
from selfwire.graphs.run_context import RunContext
from selfwire.graphs.typed_state import State


class TacomasContext(RunContext):
    """What can be chosen per run; each field's description says what it does."""

    rounds: int | None = Field(default=None, ge=1, le=100, description="Most rounds; empty for the graph's own.")


class TacomasState(State):
    """What flows through the graph, beside what every state has.

    Attributes:
        answer: of the best round so far; None if none has one.
        error: why there is no answer; None if there is.
        tools: what the team held at first, and so what newborns may hold.
        weights: w_v by agent.
        figures: what the run came to; set when it ends.
        oracle: whether labels were used; always False.
    """

    error: str | None = None
    workflow: Workflow
    tools: tuple[str, ...] = ()
    checklist: tuple[Item, ...] = ()
    weights: Mapping[str, float] = FrozenMap()
    notes: Mapping[str, tuple[str, ...]] = FrozenMap()
    carried: tuple[Message, ...] = ()
    rounds: tuple[Round, ...] = ()
    done: Trajectory | None = None
    best: Trajectory | None = None
    figures: Figures | None = None
    oracle: bool = False

"""State and context of DyTopo's graph."""

from collections.abc import Mapping

from pydantic import Field

from selfwire.core.scope import Scope
from selfwire.core.values import FrozenMap, Id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.delivery import Memory
from selfwire.evolvers.dytopo.domain import Domain, DytopoMemory
from selfwire.evolvers.dytopo.induction import RoundGraph
from selfwire.evolvers.dytopo.rounds import Round
from selfwire.evolvers.dytopo.turns import WorkerTurn
from selfwire.graphs.run_context import RunContext
from selfwire.graphs.typed_state import State


class DytopoContext(RunContext):
    """What can be chosen per run; each field's description says what it does."""

    rounds: int | None = Field(default=None, ge=1, le=100, description="Most rounds; empty for the graph's own.")
    domain: str | None = Field(
        default=None, min_length=1, description="Team for a kind of task: general, code or math; a workflow goes first."
    )


class SolveContext(DytopoContext):
    """What `solve` passes per run, so that one compiled graph serves all teams and questions."""

    place: Scope
    start: Workflow


class DytopoState(State):
    """What flows through the graph, beside what every state has; attempts that raised are not in `usage`.

    Attributes:
        error: why there is no answer; None if there is one.
        workflow: the team.
        goal: C_task of the current round.
        memories: H_i of every worker.
        said: what everybody said in this round, in agent order.
        graph: G of this round.
        rounds: the finished rounds.
        stopped: "complete", "failed" if all workers of a round failed, "rounds" if there were no more; "" until then.
    """

    error: str | None = None
    workflow: Workflow
    goal: str = ""
    memories: Mapping[Id, Memory] = FrozenMap()
    said: tuple[WorkerTurn, ...] = ()
    graph: RoundGraph = RoundGraph()
    rounds: tuple[Round, ...] = ()
    stopped: str = ""

    @property
    def round(self) -> int:
        """Number of the current round, from 0, without decoding the finished ones."""
        return len(self.channels["rounds"])

    @property
    def domain(self) -> Domain:
        """Who answers and who checks."""
        return DytopoMemory.of(self.workflow).domain

"""The workers of a round as a LangGraph: every worker is a node, and all of them start at once."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from operator import or_
from typing import Annotated, Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.errors import SelfwireError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.values import FrozenMap, Id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.delivery import Memory
from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.initial_team import get_members
from selfwire.evolvers.dytopo.team import Team, render_roster
from selfwire.graphs.interrupts import get_interrupts
from selfwire.runtime.sync import run_sync


@dataclass
class _ActiveWorkers:
    """Workers whose turn is running: LangGraph cancels them when one worker stops the run."""

    busy: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold an error back until the other turns end, so that these are paid for once and kept."""
        self.busy += 1
        self.idle.clear()
        await asyncio.sleep(0)  # all workers are counted before the first one ends
        try:
            yield
        except SelfwireError:
            self._leave()
            await self.idle.wait()
            await asyncio.sleep(0)  # LangGraph writes down their turns
            raise
        self._leave()

    def _leave(self) -> None:
        self.busy -= 1
        if not self.busy:
            self.idle.set()


@dataclass(frozen=True)
class RoundRun:
    """Input of a round; the visit of its scope is the round's number, and the needs are those of the round before."""

    team: Team
    workflow: Workflow
    question: Question
    goal: str
    memories: Mapping[Id, Memory]
    domain: Domain
    scope: Scope
    needs: Mapping[Id, str] = FrozenMap()
    active: _ActiveWorkers = field(default_factory=_ActiveWorkers, repr=False)


class RoundState(TypedDict):
    """Turns as JSON by worker; the underscore keeps the name apart from workers' ids."""

    _said: Annotated[dict[str, Any], or_]


Workers = CompiledStateGraph[RoundState, RoundRun, RoundState, RoundState]


@lru_cache(maxsize=64)
def compile_workers(names: tuple[Id, ...]) -> Workers:
    """The graph of workers with these ids."""
    graph = StateGraph[RoundState, RoundRun, RoundState, RoundState](RoundState)
    for name in names:
        graph.add_node(name, _Worker(name))
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph.compile(name="workers")


async def run_workers(run: RoundRun) -> list[dict[str, Any]]:
    """Run one turn of every worker, all at the same time: each `WorkerTurn` in agent order, as JSON.

    Raises:
        BudgetError, OutageError: the run must stop; a resume repeats no finished turn.
    """
    names = tuple(agent.id for agent in get_members(run.workflow))
    state = await compile_workers(names).ainvoke({"_said": {}}, context=run, **get_interrupts())
    return [state["_said"][name] for name in names]


class _Worker(Runnable[RoundState, dict[str, Any]]):
    """A worker in both forms; a RunnableLambda would open a traced run inside the node's own."""

    def __init__(self, name: Id) -> None:
        self.worker = name

    def invoke(self, input: RoundState, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        return run_sync(self.ainvoke(input, config))

    async def ainvoke(self, input: RoundState, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        run = get_runtime(RoundRun).context
        async with run.active.turn():
            turn = await run.team.turn(
                run.workflow.agents_by_id[self.worker],
                run.question,
                run.goal,
                run.memories.get(self.worker, ()),
                render_roster([agent for agent in get_members(run.workflow) if agent.id != self.worker]),
                run.domain,
                needs=run.needs,
                scope=run.scope.at(node=self.worker),
            )
        return {"_said": {self.worker: turn.model_dump(mode="json")}}

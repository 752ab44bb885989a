"""The workers of a round as a LangGraph: every worker is a node, and all of them start at once."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import get_runtime

from selfwire.core.errors import ConfigError, SelfwireError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.values import Id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.delivery import Memory
from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.initial_team import get_members
from selfwire.evolvers.dytopo.team import Team, render_roster
from selfwire.runtime.sync import run_sync

CACHED = 64


@dataclass
class _ActiveWorkers:
    """Those who speak at this moment: LangGraph cancels the others when one worker stops the run."""

    busy: int = 0
    silent: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def speaking(self) -> AsyncIterator[None]:
        """Hold an error back until the others are done, so that what they say is paid for once and kept."""
        self.busy += 1
        self.silent.clear()
        await asyncio.sleep(0)  # everybody is counted before anybody is done
        try:
            yield
        except SelfwireError:
            self._done()
            await self.silent.wait()
            await asyncio.sleep(0)  # LangGraph notes down what they said
            raise
        self._done()

    def _done(self) -> None:
        self.busy -= 1
        if not self.busy:
            self.silent.set()


@dataclass(frozen=True)
class RoundRun:
    """What a round runs with.

    Attributes:
        team: asks the models.
        workflow: the workers and their prompts.
        question: the user's task.
        goal: of this round.
        memories: by worker.
        domain: who answers and who checks.
        scope: place of the round; its visit is the round's number.
        fellows: who speaks at this moment.
    """

    team: Team
    workflow: Workflow
    question: Question
    goal: str
    memories: Mapping[Id, Memory]
    domain: Domain
    scope: Scope
    fellows: _ActiveWorkers = field(default_factory=_ActiveWorkers, repr=False)

    @cached_property
    def _roster(self) -> dict[Id, str]:
        return {agent.id: render_roster([agent]) for agent in get_members(self.workflow)}

    def others(self, worker: Id) -> str:
        """The rest of the team, one line per member."""
        return "\n".join(line for name, line in self._roster.items() if name != worker)


def _joined(said: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {**said, **more}


class RoundState(TypedDict):
    """What workers said as JSON, by worker; the underscore keeps the name apart from theirs."""

    _said: Annotated[dict[str, Any], _joined]


Workers = CompiledStateGraph[RoundState, RoundRun, RoundState, RoundState]


@lru_cache(maxsize=CACHED)
def compile_workers(names: tuple[Id, ...]) -> Workers:
    """The graph of workers with these ids."""
    graph = StateGraph(RoundState, context_schema=RoundRun)
    for name in names:
        graph.add_node(name, _Worker(name))
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph.compile(name="workers")


async def run_workers(run: RoundRun, config: RunnableConfig | None = None) -> list[dict[str, Any]]:
    """Let every worker speak once, all at the same moment: what they `Said`, in agent order and as JSON.

    Args:
        run: what the round runs with.
        config: LangGraph's; inside a node of another graph it is taken over by itself.

    Raises:
        BudgetError, OutageError: the run must stop; workers that are done are not asked again on resume.
    """
    names = tuple(agent.id for agent in get_members(run.workflow))
    state = await compile_workers(names).ainvoke({"_said": {}}, config, context=run)
    return [state["_said"][name] for name in names]


class _Worker(Runnable[RoundState, dict[str, Any]]):
    """A worker in both forms; a RunnableLambda would open a traced run inside the node's own."""

    def __init__(self, name: Id) -> None:
        self.worker = name

    def invoke(self, input: RoundState, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        return run_sync(self.ainvoke(input, config))

    async def ainvoke(self, input: RoundState, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        run = get_runtime(RoundRun).context
        if not isinstance(run, RoundRun):
            raise ConfigError("workers run in a context; call run_workers")
        async with run.fellows.speaking():
            said = await run.team.turn(
                run.workflow.agents_by_id[self.worker],
                run.question,
                run.goal,
                run.memories.get(self.worker, ()),
                run.others(self.worker),
                run.domain,
                scope=run.scope.at(node=self.worker),
            )
        return {"_said": {self.worker: said.model_dump(mode="json")}}

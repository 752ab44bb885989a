"""The simplest method: a team that runs once per question and is rewritten between runs.

A method of this kind defines its initial workflow and `evolve`; the rest is here, or inherited from `Method`.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from langchain_core.runnables import RunnableConfig

from selfwire.core.errors import TaskError
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.method_graph import END, START, Graph, MethodGraph
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.own_tools import add_own_tools
from selfwire.graphs.run_context import apply_prompt_edits, get_run_context
from selfwire.graphs.run_start import RunStart, add_usage
from selfwire.graphs.team import run_team
from selfwire.graphs.typed_state import State, Update
from selfwire.nodes.agent import make_agent_runner
from selfwire.runtime.ledger import Ledger

Config = TypeVar("Config", bound=FrozenModel)


@dataclass(frozen=True)
class SingleRunMethod(Method, Generic[Config]):
    """A team that runs once per question; a subclass has a `NAME`, `make_initial_workflow` and `evolve`."""

    NAME = ""

    model: Model
    toolbox: Toolbox
    embedder: Embedder
    config: Config

    @property
    def name(self) -> str:
        """The method's name."""
        return self.NAME

    async def solve(
        self, workflow: Workflow, question: Question, *, scope: Scope, graph_config: RunnableConfig | None = DETACHED
    ) -> Trajectory:
        """Run the team once; every agent hands on to all its successors.

        Args:
            graph_config: config of the team's graph; None makes it part of the running graph, checkpoints and all.
        """
        act = make_agent_runner(self.model, add_own_tools(self.toolbox, workflow))
        run = TeamContext.of(workflow, question, scope.at(task=question.id), act)
        return await run_team(workflow.topology, run, config=graph_config)


class SingleRunState(State):
    """The workflow that runs and its trajectory, beside the fields of every state."""

    workflow: Workflow
    trajectory: Trajectory | None = None


@dataclass(frozen=True)
class SingleRunNodes:
    """The nodes: START -> begin -> team -> END."""

    method: Any
    start: RunStart
    ledger: Ledger | None = None

    async def begin(self, state: SingleRunState) -> Update:
        """Take a new question."""
        question, context = self.start.get_question(state), get_run_context(self.start.context)
        workflow = apply_prompt_edits(await self.start.choose_workflow(context), context)
        scope = self.start.make_scope(question, context)
        fresh = {"answer": None, "trajectory": None, "usage": Usage()}
        return state.update(id=question.id, kind=question.kind, scope=scope, workflow=workflow, **fresh)

    async def team(self, state: SingleRunState) -> Update:
        """Run the team.

        Raises:
            TaskError: it has no answer.
        """
        done = await self.method.solve(state.workflow, state.get_question(), scope=state.scope, graph_config=None)
        if done.answer is None:
            raise TaskError(f"{done.error}; invoke the thread again with None to retry")
        usage = add_usage(state.usage, done.usage, self.ledger)
        return state.update(trajectory=done, answer=done.answer, usage=usage)


def build_single_run_graph(config: Any, start: RunStart, provide: Any) -> Graph:
    """The state graph of a team that runs once."""

    async def make_nodes(spent: Usage) -> SingleRunNodes:
        method, ledger = await provide(get_run_context(start.context), spent)
        return SingleRunNodes(method, start, ledger)

    graph = MethodGraph(SingleRunState, make_nodes, start.context, start.initial_workflow)
    graph.node("begin", SingleRunNodes.begin, first=True)
    graph.team("team", SingleRunNodes.team, start.initial_workflow.topology)
    graph.edges(START, "begin", "team", END)
    return graph.graph

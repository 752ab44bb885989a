"""The nodes of DyTopo's graph: begin, the five phases of a round in the order of Alg. 1, and conclude."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from selfwire.core.errors import TaskError
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.core.values import Id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.delivery import deliver, describe_needs
from selfwire.evolvers.dytopo.domain import MANAGER, MEMORY, Domain, get_workers
from selfwire.evolvers.dytopo.halting import choose_answer
from selfwire.evolvers.dytopo.rounds import Round, induce_round_graph
from selfwire.evolvers.dytopo.team import Team
from selfwire.evolvers.dytopo.tuning import get_current_setting
from selfwire.graphs.dytopo.state import DytopoContext, DytopoState, SolveContext
from selfwire.graphs.dytopo.worker_graph import RoundRun, run_workers
from selfwire.graphs.own_tools import add_own_tools
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.run_context import apply_prompt_edits, get_run_context
from selfwire.graphs.run_start import RunStart, new_question
from selfwire.graphs.typed_state import Update
from selfwire.runtime.ledger import Ledger


@dataclass(frozen=True)
class DytopoActions:
    """DyTopo wired to a model (in the roles agent, for workers, and meta, for the manager), tools and an embedder."""

    model: Model
    toolbox: Toolbox
    embedder: Embedder
    config: DytopoConfig = field(default_factory=DytopoConfig)

    def make_team(self, workflow: Workflow) -> Team:
        """The models with DyTopo's prompts and the tools of a team."""
        tools = add_own_tools(self.toolbox, workflow)
        return Team(self.model, load_prompts("evolvers", MEMORY), tools, self.config)


@dataclass(frozen=True)
class DytopoNodes:
    """The graph's nodes.

    Attributes:
        start: what a run starts with; None where every run has a `SolveContext`.
        ledger: pays; None where somebody else counts.
    """

    dytopo: DytopoActions
    start: RunStart | None = None
    ledger: Ledger | None = None

    async def begin(self, state: DytopoState) -> Update:
        """Take a new question; the task is the goal of round 0."""
        question, context = new_question(state.channels), get_run_context(DytopoContext)
        if isinstance(context, SolveContext):
            workflow, scope = context.start, context.place
        else:
            assert self.start is not None, "a graph for users is built with a team"
            workflow = apply_prompt_edits(await self.start.choose_workflow(context), context)
            scope = self.start.make_scope(question, context).at(phase="run")
        return state.update(
            answer=None,
            error=None,
            usage=Usage(),
            scope=scope,
            workflow=workflow,
            goal=question.input,
            memories={},
            rounds=(),
            stopped="",
        )

    async def workers(self, state: DytopoState) -> Update:
        """Every worker speaks once (phase 1)."""
        run = RoundRun(
            team=self.dytopo.make_team(state.workflow),
            workflow=state.workflow,
            question=state.get_question(),
            goal=state.goal,
            memories=state.memories,
            domain=state.domain,
            scope=_place(state),
            needs=self._describe_needs(state),
        )
        return {"said": await run_workers(run)}

    async def induce_topology(self, state: DytopoState) -> Update:
        """Induce the graph of the round (phases 2 and 3)."""
        config, embedder = self.dytopo.config, self.dytopo.embedder
        setting, scope = get_current_setting(state.workflow, config), _place(state).at(node="topology")
        return state.update(graph=await induce_round_graph(state.said, config, setting, embedder, scope=scope))

    async def deliver(self, state: DytopoState) -> Update:
        """The barrier: private messages along the graph, memories for the next round (phase 4)."""
        roles = {name: state.workflow.agents_by_id[name].role for name in get_workers(state.workflow)}
        limit = self.dytopo.config.memory
        done = deliver(state.memories, state.said, state.graph, roles=roles, limit=limit)
        finished = Round(
            number=state.round,
            goal=state.goal,
            said=state.said,
            graph=state.graph,
            messages=done.messages,
            dropped=done.dropped,
        )
        rounds = (*state.rounds, finished)
        stopped = "" if len(rounds) < self.dytopo.config.rounds else "rounds"
        if len(finished.failed) == len(finished.said):
            stopped = "failed"  # another round would hardly go better (D6)
        return state.update(memories=done.memories, rounds=rounds, stopped=stopped)

    async def manager(self, state: DytopoState) -> Update:
        """Halt, or set the next goal (phase 5)."""
        *before, last = state.rounds
        managed = await self.dytopo.make_team(state.workflow).manage(
            state.workflow.agents_by_id[MANAGER],
            state.get_question(),
            state.goal,
            [one.in_order for one in state.rounds],
            state.domain,
            needs=self._describe_needs(state),
            scope=state.scope.at(node=MANAGER, visit=last.number),
        )
        if managed.complete and not self.dytopo.config.halting:
            managed = managed.replace(complete=False, why="this run does not halt")
        rounds = (*before, last.replace(managed=managed))
        stopped = "complete" if managed.complete else state.stopped
        return state.update(goal=managed.goal, rounds=rounds, stopped=stopped)

    async def conclude(self, state: DytopoState) -> Update:
        """Take the answer from the last global state.

        Raises:
            TaskError: there is none, in a graph for users; `solve` notes it in its trajectory.
        """
        answer = choose_answer(state.domain, [one.in_order for one in state.rounds])
        error = None if answer else _explain_no_answer(state.domain, state.rounds)
        if error and not isinstance(get_run_context(DytopoContext), SolveContext):
            raise TaskError(f"{error}; ask again, allow more rounds or choose another model")
        return state.update(answer=answer, error=error)

    def _describe_needs(self, state: DytopoState) -> Mapping[Id, str]:
        """The needs of the last finished round (D12), where anything is delivered at all."""
        topology = self.dytopo.config.topology
        if not state.rounds or topology == "none":
            return {}
        last = state.rounds[-1]
        return describe_needs(last.said, last.graph, matched=topology == "semantic")


def _place(state: DytopoState) -> Scope:
    return state.scope.at(visit=state.round)


def _explain_no_answer(domain: Domain, rounds: Sequence[Round]) -> str:
    failed = {worker: why for one in rounds for worker, why in one.failed.items() if worker in domain.answerers}
    causes = "; ".join(f"{worker!r} failed: {why}" for worker, why in failed.items())
    return f"no answer after {len(rounds)} round(s): {causes or 'none from ' + ' or '.join(domain.answerers)}"

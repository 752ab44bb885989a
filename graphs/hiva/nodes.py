"""The nodes of HiVA's graph: the forward pass, the textual loss and its gradients, and what they change (Alg. 1)."""

from dataclasses import dataclass

from langgraph.config import get_config

from selfwire.core.errors import TaskError
from selfwire.core.tool_calls import record_tool_calls
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.evolvers.hiva.gradients import Backward, Loss, compute_loss, propagate_gradients
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.evolvers.hiva.repair import repair
from selfwire.evolvers.hiva.semantics import evolve_semantics
from selfwire.evolvers.hiva.structure import count_traffic, evolve_topology, list_parallel_tasks
from selfwire.evolvers.hiva.tools import evolve_tools
from selfwire.evolvers.hiva.updates import fit_memory, make_lesson, update_beliefs
from selfwire.evolvers.rewriting import DeclinedProposal
from selfwire.evolvers.trace_text import gather_all
from selfwire.graphs.hiva.actions import HivaActions, get_concepts
from selfwire.graphs.hiva.state import HivaContext, HivaState, with_prompt_edits
from selfwire.graphs.own_tools import ToolTrial
from selfwire.graphs.run_context import get_run_context
from selfwire.graphs.run_start import RunStart, add_usage
from selfwire.graphs.typed_state import Update
from selfwire.runtime.ledger import Ledger


@dataclass(frozen=True)
class HivaNodes:
    """The graph's nodes; `ledger` pays for them, None where somebody else counts."""

    hiva: HivaActions
    start: RunStart
    ledger: Ledger | None = None

    async def begin(self, state: HivaState) -> Update:
        """Take a new question."""
        question, context = self.start.get_question(state), get_run_context(HivaContext)
        workflow = await self.start.choose_workflow(context, state.workflow if "workflow" in state else None)
        with_prompt_edits(workflow, context)  # refused before anything is paid
        scope = self.start.make_scope(question, context)
        return state.update(
            iteration=0,
            solved=None,
            oracle=False,
            concepts=None,
            overhead=Usage(),
            usage=Usage(),
            saved="",
            workflow=workflow,
            scope=scope.at(iteration=HivaMemory.of(workflow).iteration + 1, phase="forward"),
        )

    async def characterize(self, state: HivaState) -> Update:
        """The concepts of the task, once per question."""
        concepts, usage = await self.hiva.characterize_task(state.get_question(), state.workflow, state.round_scope)
        return state.update(concepts=concepts, overhead=usage)

    async def forward(self, state: HivaState) -> Update:
        """Run the current team, which may differ from the drawn one by now."""
        workflow = with_prompt_edits(state.workflow, get_run_context(HivaContext))
        done = await self.hiva.solve(
            workflow, state.get_question(), scope=state.round_scope, concepts=state.concepts, graph_config=None
        )
        if done.answer is None:
            raise TaskError(f"{done.error}; invoke the thread again with None to retry")
        usage = add_usage(state.usage, done.usage, self.ledger)
        done = done.replace(overhead=done.overhead + state.overhead)
        return state.update(trajectories=[done], answer=done.answer, overhead=Usage(), usage=usage)

    async def environment(self, state: HivaState) -> Update:
        """Have the answer graded; without a grader, and in "w/o Env", the aggregator criticises itself later."""
        called = record_tool_calls(state.workflow, state.trajectories)
        if self.start.grader is None or not self.hiva.config.environment:
            return state.update(solved=None, workflow=called)
        [done] = state.trajectories
        feedback = await self.start.grader(done.question, done.answer or "", state.round_scope)
        return state.update(
            trajectories=[done.with_feedback(feedback)], solved=feedback.solved, oracle=True, workflow=called
        )

    async def loss(self, state: HivaState) -> Update:
        """The textual loss of every trajectory, and its gradient at the aggregator."""
        meta_model, graded, scope = self.hiva.meta_model, self.hiva.config.environment, state.round_scope
        losses = await gather_all(
            compute_loss(
                done, state.workflow, meta_model, environment=graded and done.feedback is not None, scope=scope
            )
            for done in state.trajectories
        )
        judged = [loss.solved for loss in losses if loss.solved is not None]
        return state.update(
            ran=state.workflow,
            passes=(),
            applied=(),
            declined=(),
            reflection=sum_usages(loss.usage for loss in losses),
            losses=losses,
            solved=all(judged) if judged else None,
        )

    async def backward(self, state: HivaState) -> Update:
        """The textual chain rule, in every trajectory that was not solved."""

        async def propagate(trajectory: Trajectory, loss: Loss) -> Backward | None:
            if loss.gradient is None:
                return None
            return await propagate_gradients(
                trajectory, state.workflow, loss.gradient, self.hiva.meta_model, scope=state.round_scope
            )

        pairs = zip(state.trajectories, state.losses, strict=True)
        passes = await gather_all(propagate(done, loss) for done, loss in pairs)
        usage = sum_usages([state.reflection, *(one.usage for one in passes if one)])
        return state.update(passes=passes, reflection=usage)

    async def evolve_semantics(self, state: HivaState) -> Update:
        """f_P: tools from feedback on them, then one rewritten prompt per agent over what is left of its gradients."""
        hiva, place = self.hiva, state.round_scope
        tools = await evolve_tools(
            state.workflow,
            state.gradients,
            state.trajectories,
            hiva.meta_model,
            hiva.config,
            lent=hiva.toolbox,
            trial=ToolTrial(hiva.toolbox),
            scope=place,
        )
        left = [g.replace(tool="") if g.agent in tools.handled else g for g in state.gradients]
        found = await evolve_semantics(state.workflow, left, hiva.meta_model, hiva.config, scope=place)
        proposed = (*tools.rewirings, *found.rewirings)
        now, refused = state.workflow.apply_legal(proposed)
        out = {one.rewiring for one in refused}
        return state.update(
            workflow=now,
            reflection=sum_usages([state.reflection, tools.usage, found.usage]),
            applied=[one for one in proposed if one not in out],
            declined=[*tools.declined, *found.declined, *map(DeclinedProposal.of, refused)],
        )

    async def evolve_topology(self, state: HivaState) -> Update:
        """f_G: one decision per node, applied in reverse topological order."""
        hiva, workflow, scope = self.hiva, state.workflow, state.round_scope
        tasks = list_parallel_tasks(workflow, state.gradients, hiva.config)
        done, usage = await hiva.note_concepts(state.trajectories, tasks, workflow, scope)
        found = await evolve_topology(
            workflow,
            state.gradients,
            hiva.meta_model,
            hiva.config,
            used=count_traffic(done),
            parallelizability={t.question.id: c.parallelizability for t in done if (c := get_concepts(t)) is not None},
            scope=scope,
        )
        return state.update(
            workflow=found.workflow,
            trajectories=done,
            reflection=sum_usages([state.reflection, usage, found.usage]),
            applied=[*state.applied, *found.applied],
            declined=[*state.declined, *found.declined],
        )

    async def update_beliefs(self, state: HivaState) -> Update:
        """One update of everything that is learned."""
        passes = state.passes or [None] * len(state.losses)
        lessons = [
            make_lesson(done, loss, backward, await self.hiva.match_noted(done, state.ran))
            for done, loss, backward in zip(state.trajectories, state.losses, passes, strict=True)
        ]
        return state.update(workflow=update_beliefs(state.workflow, lessons, config=self.hiva.config.routing))

    async def repair(self, state: HivaState) -> Update:
        """RepairTopology, whose changes are recorded as rewirings; then the lineage from the workflow that ran."""
        found = repair(state.workflow, self.hiva.config)
        now, applied, saved = fit_memory(found.workflow), [*state.applied, *found.rewirings], state.saved
        if now.fingerprint != state.ran.fingerprint:
            now = now.with_lineage(state.ran, applied)
            if self.start.save is not None:
                step = int(get_config()["metadata"]["langgraph_step"])
                saved = (await self.start.save(now, state.round_scope, step)).ref
        return state.update(workflow=now, applied=applied, iteration=state.iteration + 1, saved=saved)

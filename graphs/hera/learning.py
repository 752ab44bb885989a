"""The nodes of HERA's graph that learn, from rank to keep, on the groups of one question or of a whole batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from selfwire.core.agent import Agent
from selfwire.core.edits import RefusedRewiring, Rewiring
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.workflow import Workflow
from selfwire.evolvers.blame import Blame, Failure, add_failure, choose_blames, get_buffers, make_failure, with_buffers
from selfwire.evolvers.experience.library import get_library, update_utilities, with_library
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.failed_agent import identify_failed_agent
from selfwire.evolvers.hera.groups import Group, count_uses, make_groups
from selfwire.evolvers.hera.mutation import get_mutated, propose_joining, propose_mutations, with_mutated
from selfwire.evolvers.hera.reflection import consolidate_insights, get_profile, get_topology, reflect
from selfwire.evolvers.hera.rope import Lesson, Rope, extract_lesson, generate_variant, integrate_lesson
from selfwire.evolvers.outcomes import get_score
from selfwire.evolvers.trace_text import gather_all
from selfwire.graphs.hera.actions import HeraActions
from selfwire.graphs.hera.state import HeraState, PlannedQuestion, TriedMutation
from selfwire.graphs.method_protocol import TrajectoryGrader
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.typed_state import Update
from selfwire.runtime.ledger import Ledger

REPLAY_TEMPERATURE = 0.0  # so that the prompt makes the difference
CONTROL = "original"  # names the replay with the prompt as it is, beside the axes


@dataclass(frozen=True)
class LearningNodes:
    """The nodes that learn.

    Attributes:
        ledger: pays for the nodes; None where somebody else counts.
        grader: grades further runs; None has the environment of `start` do so.
    """

    hera: HeraActions
    start: RunStart
    ledger: Ledger | None = None
    grader: TrajectoryGrader | None = None

    async def grade(self, trajectory: Trajectory, scope: Scope) -> Trajectory:
        """The trajectory with the environment's feedback; one without an answer stays as it is."""
        if self.grader is not None:
            return await self.grader(trajectory, scope)
        if self.start.grader is None or trajectory.answer is None or trajectory.error is not None:
            return trajectory
        return trajectory.with_feedback(await self.start.grader(trajectory.question, trajectory.answer, scope))

    async def rollout(self, state: HeraState) -> Update:
        """Execute the planned runs side by side, and have them graded."""
        done = await gather_all(self.run_planned(one, state.workflow, state.scope) for one in state.planned)
        first = len(state.trajectories)
        tried = [
            TriedMutation(place=index, candidate=one.candidate)
            for index, one in enumerate(state.planned, first)
            if one.candidate
        ]
        return state.update(planned=(), trajectories=[*state.trajectories, *done], tried=[*state.tried, *tried])

    async def run_planned(self, planned: PlannedQuestion, workflow: Workflow, scope: Scope) -> Trajectory:
        """Execute a planned run, and have it graded."""
        newcomer = planned.candidate.newcomer if planned.candidate else None
        agents = {**workflow.agents_by_id, newcomer.id: newcomer} if newcomer else None
        here = scope.at(task=planned.question.id, sample=planned.sample)
        heat = self.hera.config.explore_temperature
        done = await self.hera.execute(workflow, planned.question, planned.topology, heat, scope=here, agents=agents)
        return await self.grade(done.replace(notes=planned.notes, overhead=planned.overhead), here)

    async def rank(self, state: HeraState) -> Update:
        """Rank the groups, update utilities of the insights that were shown, take in newcomers that helped."""
        config, workflow, done = self.hera.config, state.workflow, state.trajectories
        if config.library:
            counts = count_uses(done[state.counted :], config.success_at)
            workflow = with_library(workflow, update_utilities(get_library(workflow), counts))
        new = [one for one in state.tried if one.place >= state.counted]
        workflow, joined, refused = take_in(workflow, new, done, config.success_at)
        return state.update(
            groups=make_groups(done, config.success_at),
            counted=len(done),
            workflow=workflow,
            applied=[*state.applied, *joined],
            refused=[*state.refused, *refused],
        )

    async def mutate_topology(self, state: HeraState) -> Update:
        """Plan candidates for every group that scored nothing and had no second chance yet."""
        due = list_due(state, self.hera.config)
        found = await gather_all(self._mutate(group, state) for group in due)
        return state.update(
            planned=[one for planned, _, _ in found for one in planned],
            mutated=[*state.mutated, *(group.question for group in due)],
            blames=[*state.blames, *(blame for _, blame, _ in found if blame)],
            reflection=sum_usages([state.reflection, *(usage for *_, usage in found)]),
        )

    async def _mutate(self, group: Group, state: HeraState) -> tuple[list[PlannedQuestion], Blame | None, Usage]:
        index = group.order[0]
        best, workflow, scope = state.trajectories[index], state.workflow, state.scope.at(task=group.question)
        topology = get_topology(best)
        blame, usage = await identify_failed_agent(index, best, workflow, self.hera.orchestrator, scope=scope)
        if blame is None or topology is None:
            return [], blame, usage
        tools, pool = self.hera.get_held_tools(workflow), self.hera.config.pool
        candidates, more = await propose_mutations(
            best,
            topology,
            blame,
            workflow,
            self.hera.orchestrator,
            group=[state.trajectories[index] for index in group.order],
            tools=tools,
            pool=pool,
            scope=scope,
        )
        sample = 1 + max(state.trajectories[at].sample for at in group.order)
        planned = [
            PlannedQuestion(
                question=best.question,
                topology=one.topology,
                sample=number,
                notes={
                    "profile": get_profile(best).model_dump(mode="json"),
                    "insights": [],  # none of them shaped this topology
                    "topology": one.topology.model_dump(mode="json"),
                    "mutation": one.why,
                },
                candidate=one,
            )
            for number, one in enumerate(candidates[: self.hera.config.group], sample)
        ]
        return planned, blame, usage + more

    async def reflect(self, state: HeraState) -> Update:
        """Draw insights from every group with success and failure."""
        mixed = [group for group in state.groups if group.outcome == "mixed"]
        iteration = state.scope.iteration
        found = await gather_all(
            reflect(group, state.trajectories, self.hera.orchestrator, iteration=iteration, scope=state.scope)
            for group in mixed
        )
        return state.update(
            insights=[insights for insights, _ in found],
            reflection=sum_usages([state.reflection, *(usage for _, usage in found)]),
        )

    async def consolidate_experience(self, state: HeraState) -> Update:
        """Update the library by every group's insights, one group after the other."""
        library, changes, spent = get_library(state.workflow), list(state.changes), state.reflection
        for number, new in enumerate(state.insights):
            hera, scope = self.hera, state.scope.at(visit=number)
            library, more, usage = await consolidate_insights(
                library, new, hera.orchestrator, hera.embedder, hera.config.experience, scope=scope
            )
            changes += more
            spent += usage
        return state.update(workflow=with_library(state.workflow, library), changes=changes, reflection=spent)

    async def identify_failed_agent(self, state: HeraState) -> Update:
        """Find who is to blame for the best-ranked failed trajectory of each group."""
        blames = {blame.place: blame for blame in state.blames}
        indices = [group.failed for group in state.groups if group.failed is not None]
        workflow, orchestrator = state.workflow, self.hera.orchestrator
        found = await gather_all(
            identify_failed_agent(index, state.trajectories[index], workflow, orchestrator, scope=state.scope)
            for index in indices
            if index not in blames
        )
        blames |= {blame.place: blame for blame, _ in found if blame}
        return state.update(
            blames=[blames[index] for index in indices if index in blames],
            reflection=sum_usages([state.reflection, *(usage for _, usage in found)]),
        )

    async def rope(self, state: HeraState) -> Update:
        """Vary the prompts of the agents that are blamed most, replay their failures and contrast the results."""
        workflow, config = state.workflow, self.hera.config.prompts
        buffers = get_buffers(workflow)
        blames = [one for one in state.blames if one.agent in workflow.agents_by_id]  # newcomers may be out again
        for blame in blames:
            failure = make_failure(state.trajectories[blame.place], blame)
            buffers = add_failure(buffers, blame.agent, failure, config.buffer)
        newcomers = [one.candidate.newcomer for one in state.tried]
        pool = {**{one.id: one for one in newcomers if one}, **workflow.agents_by_id}
        found = await gather_all(
            self._vary(blame, buffers[blame.agent], pool, state) for blame in choose_blames(blames, config.agents)
        )
        return state.update(
            workflow=with_buffers(workflow, buffers),
            ropes=[rope for rope, _ in found],
            reflection=sum_usages([state.reflection, *(usage for _, usage in found)]),
        )

    async def _vary(
        self, blame: Blame, failures: tuple[Failure, ...], pool: Mapping[str, Agent], state: HeraState
    ) -> tuple[Rope, Usage]:
        agent, failed, scope = pool[blame.agent], state.trajectories[blame.place], state.scope
        asked = await gather_all(
            generate_variant(agent, axis, failures, self.hera.orchestrator, scope=scope)
            for axis in self.hera.config.prompts.axes
        )
        variants = [variant for variant, _ in asked if variant]
        prompts = [(CONTROL, agent.prompt), *((one.axis, one.prompt) for one in variants)] if variants else []
        replays = await gather_all(
            self._replay(name, agent.replace(prompt=text), failed, pool, state) for name, text in prompts
        )
        lesson, usage = Lesson(), Usage()
        if replays:
            pairs = list(zip(variants, replays[1:], strict=True))
            lesson, usage = await extract_lesson(
                agent, failed, replays[0], pairs, failures, self.hera.orchestrator, scope=scope
            )
        rope = Rope(
            blame=blame,
            failures=failures,
            variants=tuple(variants),
            scores=tuple(get_score(one) for one in replays[1:]),
            control=get_score(replays[0]) if replays else None,
            lesson=lesson,
        )
        return rope, sum_usages([*(cost for _, cost in asked), *(one.usage for one in replays), usage])

    async def _replay(
        self, name: str, agent: Agent, failed: Trajectory, pool: Mapping[str, Agent], state: HeraState
    ) -> Trajectory:
        topology = get_topology(failed) or state.workflow.topology
        phase = f"{state.scope.phase}/rope {agent.id} {name}"
        here = state.scope.at(phase=phase, task=failed.question.id, sample=failed.sample)
        agents = {**pool, agent.id: agent}
        done = await self.hera.execute(
            state.workflow, failed.question, topology, REPLAY_TEMPERATURE, scope=here, agents=agents
        )
        return await self.grade(done, here)

    async def consolidate_prompt(self, state: HeraState) -> Update:
        """Pi_C: apply the lessons of the contrasts as prompt diffs."""
        agents, hera = state.workflow.agents_by_id, self.hera
        found = await gather_all(
            integrate_lesson(
                agents[rope.blame.agent], rope.lesson, hera.orchestrator, hera.config.prompts, scope=state.scope
            )
            for rope in state.ropes
        )
        now, applied, refused = _apply(state.workflow, [rewiring for rewiring, _, _ in found if rewiring])
        return state.update(
            workflow=now,
            applied=[*state.applied, *applied],
            refused=[*state.refused, *refused],
            reflection=sum_usages([state.reflection, *(usage for *_, usage in found)]),
        )

    async def keep(self, state: HeraState) -> Update:
        """Set the lineage from the workflow that ran, and save what differs from it."""
        runs = [state.trajectories[one.place] for one in state.tried]
        graded = {done.question.id for done in runs if get_score(done) is not None}
        second = [question for question in state.mutated if question in graded]  # an outage takes nobody's chance
        now = with_mutated(state.workflow, second)
        if now.fingerprint != state.ran.fingerprint:
            now = now.with_lineage(state.ran, state.applied)
            if self.start.save is not None:
                await self.start.save(now, state.scope, state.scope.iteration)
        return state.update(workflow=now)


def list_due(state: HeraState, config: HeraConfig) -> list[Group]:
    """Groups that scored nothing and were never mutated."""
    if not config.mutation:
        return []
    mutated = {*get_mutated(state.ran), *state.mutated}
    return [group for group in state.groups if group.outcome == "zero" and group.question not in mutated]


def take_in(
    workflow: Workflow, tried: Sequence[TriedMutation], done: Sequence[Trajectory], success_at: float
) -> tuple[Workflow, list[Rewiring], Sequence[RefusedRewiring]]:
    """The pool with the newcomers whose trajectories succeeded (D8)."""
    scored = [(one.candidate, get_score(done[one.place]) or 0.0) for one in tried]
    joining = [propose_joining(candidate, score) for candidate, score in scored if score >= success_at]
    return _apply(workflow, [one for one in joining if one])


def _apply(
    workflow: Workflow, wanted: Sequence[Rewiring]
) -> tuple[Workflow, list[Rewiring], Sequence[RefusedRewiring]]:
    now, refused = workflow.apply_legal(wanted)
    out = {one.rewiring for one in refused}
    return now, [one for one in wanted if one not in out], refused

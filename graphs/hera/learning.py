"""The nodes of HERA's machine that learn, from rank to keep, on the groups of one question or of a whole batch."""

from collections.abc import Sequence
from dataclasses import dataclass

from selfwire.core.agent import Agent
from selfwire.core.edits import Rewiring
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenJson, FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.blame import (
    Blame,
    Failure,
    add_failure,
    choose_blames,
    get_buffers,
    make_failure,
    with_buffers,
)
from selfwire.evolvers.experience.library import Insight, get_library, update_utilities, with_library
from selfwire.evolvers.hera.failed_agent import identify_failed_agent
from selfwire.evolvers.hera.groups import Group, count_uses, make_groups
from selfwire.evolvers.hera.mutation import get_mutated, propose_joining, propose_mutations, with_mutated
from selfwire.evolvers.hera.reflection import consolidate_insights, get_profile, get_topology, reflect
from selfwire.evolvers.hera.rope import (
    Lesson,
    Variant,
    extract_lesson,
    generate_variant,
    integrate_lesson,
)
from selfwire.evolvers.outcomes import get_score
from selfwire.evolvers.trace_text import gather_all
from selfwire.graphs.hera.actions import HeraActions
from selfwire.graphs.hera.state import (
    HeraState,
    PlannedQuestion,
    TriedMutation,
    get_applied,
    get_blames,
    get_groups,
    get_plans,
    get_scope,
    get_source_workflow,
    get_trajectories,
    get_trials,
    get_workflow,
    to_json,
)
from selfwire.graphs.method_protocol import TrajectoryGrader
from selfwire.graphs.version_saver import Saver

REPLAY_TEMPERATURE = 0.0
"""Of replays with prompt variants, so that the prompt makes the difference."""
CONTROL = "original"
"""Names the replay with the prompt as it is, beside the axes."""


class Rope(FrozenModel):
    """What one agent's prompt variants came to.

    Args:
        blame: the failure that was replayed.
        failures: the agent's buffer.
        variants: by axis.
        scores: of their replays, in the same order; None where a replay ended as an error.
        control: score of the replay with the original prompt; None as well.
        lesson: what the contrast teaches.
    """

    blame: Blame
    failures: tuple[Failure, ...]
    variants: tuple[Variant, ...] = ()
    scores: tuple[float | None, ...] = ()
    control: float | None = None
    lesson: Lesson = Lesson()


@dataclass(frozen=True)
class Learning:
    """The nodes that learn.

    Attributes:
        hera: the wired method.
        grade: has further runs graded.
        save: keeps what was learned, if anything does.
    """

    hera: HeraActions
    grade: TrajectoryGrader
    save: Saver | None = None

    async def rollout(self, state: HeraState) -> HeraState:
        """Execute what is planned, side by side, and have it graded."""
        planned, workflow, scope = get_plans(state), get_workflow(state), get_scope(state)
        done = await gather_all(self._run(one, workflow, scope) for one in planned)
        first = len(state["trajectories"])
        tried = [
            TriedMutation(place=first + at, candidate=one.candidate) for at, one in enumerate(planned) if one.candidate
        ]
        return {
            "planned": [],
            "trajectories": [*state["trajectories"], *to_json(done)],
            "tried": [*state["tried"], *to_json(tried)],
        }

    async def _run(self, one: PlannedQuestion, workflow: Workflow, scope: Scope) -> Trajectory:
        newcomer = one.candidate.newcomer if one.candidate else None
        agents = {**workflow.agents_by_id, newcomer.id: newcomer} if newcomer else None
        place = scope.at(task=one.question.id, sample=one.sample)
        heat = self.hera.config.explore_temperature
        done = await self.hera.execute(workflow, one.question, one.topology, heat, scope=place, agents=agents)
        return await self.grade(done.replace(notes=one.notes, overhead=one.overhead), place)

    async def rank(self, state: HeraState) -> HeraState:
        """Groups in order, utilities of the insights that were shown, and newcomers that have helped."""
        done, config = get_trajectories(state), self.hera.config
        workflow, applied = get_workflow(state), get_applied(state)
        if config.library:
            counts = count_uses(done[state["counted"] :], config.success_at)
            workflow = with_library(workflow, update_utilities(get_library(workflow), counts))
        fresh = [one for one in get_trials(state) if one.place >= state["counted"]]
        workflow, joined, refused = _joined(workflow, fresh, done, config.success_at)
        return {
            "groups": to_json(make_groups(done, config.success_at)),
            "counted": len(done),
            "workflow": workflow.model_dump(mode="json"),
            "applied": to_json([*applied, *joined]),
            "refused": [*state["refused"], *refused],
        }

    async def mutate_topology(self, state: HeraState) -> HeraState:
        """Candidates for every group that scored nothing and had no second chance yet."""
        done, due = get_trajectories(state), self.due(state)
        found = await gather_all(self._mutated(group, state, done) for group in due)
        return {
            "planned": to_json([one for planned, _, _ in found for one in planned]),
            "mutated": [*state["mutated"], *(group.question for group in due)],
            "blames": [*state["blames"], *to_json([blame for _, blame, _ in found if blame])],
            "reflection": _spent(state, *(usage for *_, usage in found)),
        }

    def due(self, state: HeraState) -> list[Group]:
        """Groups that scored nothing and were never mutated."""
        if not self.hera.config.mutation:
            return []
        known = {*get_mutated(get_source_workflow(state)), *state["mutated"]}
        return [one for one in get_groups(state) if one.outcome == "zero" and one.question not in known]

    async def _mutated(
        self, group: Group, state: HeraState, done: Sequence[Trajectory]
    ) -> tuple[list[PlannedQuestion], Blame | None, Usage]:
        place = group.order[0]
        best, workflow, scope = done[place], get_workflow(state), get_scope(state).at(task=group.question)
        topology = get_topology(best)
        blame, usage = await identify_failed_agent(place, best, workflow, self.hera.orchestrator, scope=scope)
        if blame is None or topology is None:
            return [], blame, usage
        found, more = await propose_mutations(
            best,
            topology,
            blame,
            workflow,
            self.hera.orchestrator,
            tools=self.hera.tools(workflow),
            pool=self.hera.config.pool,
            scope=scope,
        )
        sample = 1 + max(done[at].sample for at in group.order)
        planned = [
            PlannedQuestion(
                question=best.question,
                topology=one.topology,
                sample=sample + at,
                notes={
                    "profile": get_profile(best).model_dump(mode="json"),
                    "insights": [],  # none of them shaped this topology
                    "topology": one.topology.model_dump(mode="json"),
                    "mutation": one.why,
                },
                candidate=one,
            )
            for at, one in enumerate(found[: self.hera.config.group])
        ]
        return planned, blame, usage + more

    async def reflect(self, state: HeraState) -> HeraState:
        """The insights of every group with success and failure."""
        done, scope = get_trajectories(state), get_scope(state)
        mixed = [group for group in get_groups(state) if group.outcome == "mixed"]
        found = await gather_all(
            reflect(group, done, self.hera.orchestrator, iteration=scope.iteration, scope=scope) for group in mixed
        )
        return {
            "insights": [to_json(insights) for insights, _ in found],
            "reflection": _spent(state, *(usage for _, usage in found)),
        }

    async def consolidate_experience(self, state: HeraState) -> HeraState:
        """The library after every group's insights, one group after the other."""
        workflow, scope = get_workflow(state), get_scope(state)
        library, changes, spent = get_library(workflow), list(state["changes"]), Usage()
        for number, some in enumerate(state["insights"]):
            new = [Insight.model_validate(one) for one in some]
            place = scope.at(visit=number)
            library, made, usage = await consolidate_insights(
                library, new, self.hera.orchestrator, self.hera.embedder, self.hera.config.experience, scope=place
            )
            changes += to_json(made)
            spent += usage
        return {
            "workflow": with_library(workflow, library).model_dump(mode="json"),
            "changes": changes,
            "reflection": _spent(state, spent),
        }

    async def identify_failed_agent(self, state: HeraState) -> HeraState:
        """Who is to blame for the best-ranked failed trajectory of each group."""
        done, workflow, scope = get_trajectories(state), get_workflow(state), get_scope(state)
        known = {blame.place: blame for blame in get_blames(state)}
        places = [group.failed for group in get_groups(state) if group.failed is not None]
        asked = [place for place in places if place not in known]
        found = await gather_all(
            identify_failed_agent(place, done[place], workflow, self.hera.orchestrator, scope=scope) for place in asked
        )
        known |= {blame.place: blame for blame, _ in found if blame}
        return {
            "blames": to_json([known[place] for place in places if place in known]),
            "reflection": _spent(state, *(usage for _, usage in found)),
        }

    async def rope(self, state: HeraState) -> HeraState:
        """Prompt variants of the agents that are blamed most, replayed and contrasted."""
        done, workflow = get_trajectories(state), get_workflow(state)
        config, buffers = self.hera.config.prompts, get_buffers(workflow)
        blames = [
            blame for blame in get_blames(state) if blame.agent in workflow.agents_by_id
        ]  # a newcomer may be out again
        for blame in blames:
            buffers = add_failure(buffers, blame.agent, make_failure(done[blame.place], blame), config.buffer)
        newcomers = [one.candidate.newcomer for one in get_trials(state)]
        pool = {**{one.id: one for one in newcomers if one}, **workflow.agents_by_id}
        found = await gather_all(
            self._roped(blame, done[blame.place], pool, buffers[blame.agent], workflow, get_scope(state))
            for blame in choose_blames(blames, config.agents)
        )
        return {
            "workflow": with_buffers(workflow, buffers).model_dump(mode="json"),
            "ropes": to_json([rope for rope, _ in found]),
            "reflection": _spent(state, *(usage for _, usage in found)),
        }

    async def _roped(
        self,
        blame: Blame,
        failed: Trajectory,
        pool: dict[str, Agent],
        failures: tuple[Failure, ...],
        workflow: Workflow,
        scope: Scope,
    ) -> tuple[Rope, Usage]:
        agent, axes = pool[blame.agent], self.hera.config.prompts.axes
        made = await gather_all(
            generate_variant(agent, axis, failures, self.hera.orchestrator, scope=scope) for axis in axes
        )
        variants = [varied for varied, _ in made if varied]
        prompts = [(CONTROL, agent.prompt), *((one.axis, one.prompt) for one in variants)] if variants else []
        replays = await gather_all(
            self._replayed(name, agent.replace(prompt=text), failed, pool, workflow, scope) for name, text in prompts
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
        ran = sum_usages(one.usage for one in replays)
        return rope, sum_usages([*(usage for _, usage in made), ran, usage])

    async def _replayed(
        self, name: str, varied: Agent, failed: Trajectory, pool: dict[str, Agent], workflow: Workflow, scope: Scope
    ) -> Trajectory:
        """ReExecute: the whole trajectory's topology with one prompt varied and the others frozen."""
        topology = get_topology(failed) or workflow.topology
        phase = f"{scope.phase}/rope {varied.id} {name}"
        place = scope.at(phase=phase, task=failed.question.id, sample=failed.sample)
        agents = {**pool, varied.id: varied}
        done = await self.hera.execute(
            workflow, failed.question, topology, REPLAY_TEMPERATURE, scope=place, agents=agents
        )
        return await self.grade(done, place)

    async def consolidate_prompt(self, state: HeraState) -> HeraState:
        """Pi_C: what the contrasts teach as prompt diffs, applied as edits."""
        workflow, scope, config = get_workflow(state), get_scope(state), self.hera.config.prompts
        ropes = [Rope.model_validate(one) for one in state["ropes"]]
        found = await gather_all(
            integrate_lesson(
                workflow.agents_by_id[one.blame.agent], one.lesson, self.hera.orchestrator, config, scope=scope
            )
            for one in ropes
        )
        wanted = [rewiring for rewiring, _, _ in found if rewiring]
        now, refused = workflow.apply_legal(wanted)
        out = {one.rewiring for one in refused}
        return {
            "workflow": now.model_dump(mode="json"),
            "applied": [*state["applied"], *to_json([one for one in wanted if one not in out])],
            "refused": [*state["refused"], *to_json(refused)],
            "reflection": _spent(state, *(usage for *_, usage in found)),
        }

    async def keep(self, state: HeraState) -> HeraState:
        """The lineage from the workflow that ran; saved where it is another one now."""
        done = get_trajectories(state)
        had = {done[one.place].question.id for one in get_trials(state) if get_score(done[one.place]) is not None}
        second = [question for question in state["mutated"] if question in had]  # an outage takes nobody's chance
        ran, now = get_source_workflow(state), with_mutated(get_workflow(state), second)
        if now.fingerprint != ran.fingerprint:
            now = now.with_lineage(ran, get_applied(state))
            if self.save is not None:
                await self.save(now, get_scope(state), get_scope(state).iteration)
        return {"workflow": now.model_dump(mode="json")}


def _joined(
    workflow: Workflow, tried: Sequence[TriedMutation], done: Sequence[Trajectory], success_at: float
) -> tuple[Workflow, list[Rewiring], list[dict[str, FrozenJson]]]:
    """The pool with the newcomers whose trajectories succeeded (D8)."""
    wanted = []
    for one in tried:
        reached = get_score(done[one.place])
        if reached is not None and reached >= success_at and (found := propose_joining(one.candidate, reached)):
            wanted.append(found)
    now, refused = workflow.apply_legal(wanted)
    out = {one.rewiring for one in refused}
    return now, [one for one in wanted if one not in out], to_json(refused)


def _spent(state: HeraState, *usages: Usage) -> dict[str, FrozenJson]:
    return sum_usages([Usage.model_validate(state["reflection"]), *usages]).model_dump(mode="json")

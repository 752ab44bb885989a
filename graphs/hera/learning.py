"""The nodes of HERA's machine that learn, from rank to keep, on the groups of one question or of a whole batch."""

from collections.abc import Sequence
from dataclasses import dataclass

from selfwire.core.agent import Agent
from selfwire.core.edits import Rewiring
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, total
from selfwire.core.values import FrozenJson, Value
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hera.experience_library import Insight, evidenced, library_of, with_library
from selfwire.evolvers.hera.failures import (
    Blame,
    Failure,
    blamed,
    buffered,
    buffers_of,
    failure,
    with_buffers,
)
from selfwire.evolvers.hera.groups import Group, groups, score, uses
from selfwire.evolvers.hera.mutation import joining, mutated_of, mutations, with_mutated
from selfwire.evolvers.hera.reflection import consolidated, profile_of, reflect, topology_of
from selfwire.evolvers.hera.rope import Lesson, Variant, chosen, contrast, integrated, variant
from selfwire.evolvers.trace_text import together
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.hera.state import (
    HeraState,
    Planned,
    Tried,
    applied_in,
    as_json,
    blames_in,
    groups_in,
    planned_in,
    ran_in,
    scope_in,
    trajectories_in,
    tried_in,
    workflow_in,
)
from selfwire.graphs.method_protocol import Grade
from selfwire.graphs.version_saver import Saver

REPLAY_TEMPERATURE = 0.0
"""Of replays with prompt variants, so that the prompt makes the difference."""
CONTROL = "original"
"""Names the replay with the prompt as it is, beside the axes."""


class Rope(Value):
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

    hera: Hera
    grade: Grade
    save: Saver | None = None

    async def rollout(self, state: HeraState) -> HeraState:
        """Execute what is planned, side by side, and have it graded."""
        planned, workflow, scope = planned_in(state), workflow_in(state), scope_in(state)
        done = await together(self._run(one, workflow, scope) for one in planned)
        first = len(state["trajectories"])
        tried = [
            Tried(place=first + at, candidate=one.candidate) for at, one in enumerate(planned) if one.candidate
        ]
        return {
            "planned": [],
            "trajectories": [*state["trajectories"], *as_json(done)],
            "tried": [*state["tried"], *as_json(tried)],
        }

    async def _run(self, one: Planned, workflow: Workflow, scope: Scope) -> Trajectory:
        newcomer = one.candidate.newcomer if one.candidate else None
        agents = {**workflow.pool, newcomer.id: newcomer} if newcomer else None
        place = scope.at(task=one.question.id, sample=one.sample)
        heat = self.hera.config.explore_temperature
        done = await self.hera.execute(workflow, one.question, one.topology, heat, scope=place, agents=agents)
        return await self.grade(done.replace(notes=one.notes, overhead=one.overhead), place)

    async def rank(self, state: HeraState) -> HeraState:
        """Groups in order, utilities of the insights that were shown, and newcomers that have helped."""
        done, config = trajectories_in(state), self.hera.config
        workflow, applied = workflow_in(state), applied_in(state)
        if config.library:
            counts = uses(done[state["counted"] :], config.success_at)
            workflow = with_library(workflow, evidenced(library_of(workflow), counts))
        fresh = [one for one in tried_in(state) if one.place >= state["counted"]]
        workflow, joined, refused = _joined(workflow, fresh, done, config.success_at)
        return {
            "groups": as_json(groups(done, config.success_at)),
            "counted": len(done),
            "workflow": workflow.model_dump(mode="json"),
            "applied": as_json([*applied, *joined]),
            "refused": [*state["refused"], *refused],
        }

    async def mutate_topology(self, state: HeraState) -> HeraState:
        """Candidates for every group that scored nothing and had no second chance yet."""
        done, due = trajectories_in(state), self.due(state)
        found = await together(self._mutated(group, state, done) for group in due)
        return {
            "planned": as_json([one for planned, _, _ in found for one in planned]),
            "mutated": [*state["mutated"], *(group.question for group in due)],
            "blames": [*state["blames"], *as_json([blame for _, blame, _ in found if blame])],
            "reflection": _spent(state, *(usage for *_, usage in found)),
        }

    def due(self, state: HeraState) -> list[Group]:
        """Groups that scored nothing and were never mutated."""
        if not self.hera.config.mutation:
            return []
        known = {*mutated_of(ran_in(state)), *state["mutated"]}
        return [one for one in groups_in(state) if one.outcome == "zero" and one.question not in known]

    async def _mutated(
        self, group: Group, state: HeraState, done: Sequence[Trajectory]
    ) -> tuple[list[Planned], Blame | None, Usage]:
        place = group.order[0]
        best, workflow, scope = done[place], workflow_in(state), scope_in(state).at(task=group.question)
        topology = topology_of(best)
        blame, usage = await blamed(place, best, workflow, self.hera.orchestrator, scope=scope)
        if blame is None or topology is None:
            return [], blame, usage
        found, more = await mutations(
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
            Planned(
                question=best.question,
                topology=one.topology,
                sample=sample + at,
                notes={
                    "profile": profile_of(best).model_dump(mode="json"),
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
        done, scope = trajectories_in(state), scope_in(state)
        mixed = [group for group in groups_in(state) if group.outcome == "mixed"]
        found = await together(
            reflect(group, done, self.hera.orchestrator, iteration=scope.iteration, scope=scope) for group in mixed
        )
        return {
            "insights": [as_json(insights) for insights, _ in found],
            "reflection": _spent(state, *(usage for _, usage in found)),
        }

    async def consolidate_experience(self, state: HeraState) -> HeraState:
        """The library after every group's insights, one group after the other."""
        workflow, scope = workflow_in(state), scope_in(state)
        library, changes, spent = library_of(workflow), list(state["changes"]), Usage()
        for number, some in enumerate(state["insights"]):
            new = [Insight.model_validate(one) for one in some]
            place = scope.at(visit=number)
            library, made, usage = await consolidated(
                library, new, self.hera.orchestrator, self.hera.embedder, self.hera.config.experience, scope=place
            )
            changes += as_json(made)
            spent += usage
        return {
            "workflow": with_library(workflow, library).model_dump(mode="json"),
            "changes": changes,
            "reflection": _spent(state, spent),
        }

    async def identify_failed_agent(self, state: HeraState) -> HeraState:
        """Who is to blame for the best-ranked failed trajectory of each group."""
        done, workflow, scope = trajectories_in(state), workflow_in(state), scope_in(state)
        known = {blame.place: blame for blame in blames_in(state)}
        places = [group.failed for group in groups_in(state) if group.failed is not None]
        asked = [place for place in places if place not in known]
        found = await together(
            blamed(place, done[place], workflow, self.hera.orchestrator, scope=scope) for place in asked
        )
        known |= {blame.place: blame for blame, _ in found if blame}
        return {
            "blames": as_json([known[place] for place in places if place in known]),
            "reflection": _spent(state, *(usage for _, usage in found)),
        }

    async def rope(self, state: HeraState) -> HeraState:
        """Prompt variants of the agents that are blamed most, replayed and contrasted."""
        done, workflow = trajectories_in(state), workflow_in(state)
        config, buffers = self.hera.config.prompts, buffers_of(workflow)
        blames = [blame for blame in blames_in(state) if blame.agent in workflow.pool]  # a newcomer may be out again
        for blame in blames:
            buffers = buffered(buffers, blame.agent, failure(done[blame.place], blame), config.buffer)
        newcomers = [one.candidate.newcomer for one in tried_in(state)]
        pool = {**{one.id: one for one in newcomers if one}, **workflow.pool}
        found = await together(
            self._roped(blame, done[blame.place], pool, buffers[blame.agent], workflow, scope_in(state))
            for blame in chosen(blames, config.agents)
        )
        return {
            "workflow": with_buffers(workflow, buffers).model_dump(mode="json"),
            "ropes": as_json([rope for rope, _ in found]),
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
        made = await together(
            variant(agent, axis, failures, self.hera.orchestrator, scope=scope) for axis in axes
        )
        variants = [varied for varied, _ in made if varied]
        prompts = [(CONTROL, agent.prompt), *((one.axis, one.prompt) for one in variants)] if variants else []
        replays = await together(
            self._replayed(name, agent.replace(prompt=text), failed, pool, workflow, scope) for name, text in prompts
        )
        lesson, usage = Lesson(), Usage()
        if replays:
            pairs = list(zip(variants, replays[1:], strict=True))
            lesson, usage = await contrast(
                agent, failed, replays[0], pairs, failures, self.hera.orchestrator, scope=scope
            )
        rope = Rope(
            blame=blame,
            failures=failures,
            variants=tuple(variants),
            scores=tuple(score(one) for one in replays[1:]),
            control=score(replays[0]) if replays else None,
            lesson=lesson,
        )
        ran = total(one.usage for one in replays)
        return rope, total([*(usage for _, usage in made), ran, usage])

    async def _replayed(
        self, name: str, varied: Agent, failed: Trajectory, pool: dict[str, Agent], workflow: Workflow, scope: Scope
    ) -> Trajectory:
        """ReExecute: the whole trajectory's topology with one prompt varied and the others frozen."""
        topology = topology_of(failed) or workflow.topology
        phase = f"{scope.phase}/rope {varied.id} {name}"
        place = scope.at(phase=phase, task=failed.question.id, sample=failed.sample)
        agents = {**pool, varied.id: varied}
        done = await self.hera.execute(
            workflow, failed.question, topology, REPLAY_TEMPERATURE, scope=place, agents=agents
        )
        return await self.grade(done, place)

    async def consolidate_prompt(self, state: HeraState) -> HeraState:
        """Pi_C: what the contrasts teach as prompt diffs, applied as edits."""
        workflow, scope, config = workflow_in(state), scope_in(state), self.hera.config.prompts
        ropes = [Rope.model_validate(one) for one in state["ropes"]]
        found = await together(
            integrated(workflow.pool[one.blame.agent], one.lesson, self.hera.orchestrator, config, scope=scope)
            for one in ropes
        )
        wanted = [rewiring for rewiring, _, _ in found if rewiring]
        now, refused = workflow.apply_legal(wanted)
        out = {one.rewiring for one in refused}
        return {
            "workflow": now.model_dump(mode="json"),
            "applied": [*state["applied"], *as_json([one for one in wanted if one not in out])],
            "refused": [*state["refused"], *as_json(refused)],
            "reflection": _spent(state, *(usage for *_, usage in found)),
        }

    async def keep(self, state: HeraState) -> HeraState:
        """The lineage from the workflow that ran; saved where it is another one now."""
        done = trajectories_in(state)
        had = {done[one.place].question.id for one in tried_in(state) if score(done[one.place]) is not None}
        second = [question for question in state["mutated"] if question in had]  # an outage takes nobody's chance
        ran, now = ran_in(state), with_mutated(workflow_in(state), second)
        if now.fingerprint != ran.fingerprint:
            now = now.descended_from(ran, applied_in(state))
            if self.save is not None:
                await self.save(now, scope_in(state), scope_in(state).iteration)
        return {"workflow": now.model_dump(mode="json")}


def _joined(
    workflow: Workflow, tried: Sequence[Tried], done: Sequence[Trajectory], success_at: float
) -> tuple[Workflow, list[Rewiring], list[dict[str, FrozenJson]]]:
    """The pool with the newcomers whose trajectories succeeded (D8)."""
    wanted = []
    for one in tried:
        reached = score(done[one.place])
        if reached is not None and reached >= success_at and (found := joining(one.candidate, reached)):
            wanted.append(found)
    now, refused = workflow.apply_legal(wanted)
    out = {one.rewiring for one in refused}
    return now, [one for one in wanted if one not in out], as_json(refused)


def _spent(state: HeraState, *usages: Usage) -> dict[str, FrozenJson]:
    return total([Usage.model_validate(state["reflection"]), *usages]).model_dump(mode="json")

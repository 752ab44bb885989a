"""HERA with random edits of its pool: its gain beyond this control comes from comparing groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selfwire.core.agent import Agent
from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import Id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hera.groups import make_groups
from selfwire.evolvers.hera.mutation import JOIN, Candidate, get_mutated, insert_agent, with_mutated
from selfwire.evolvers.hera.reflection import get_topology
from selfwire.evolvers.hera.rope import OPERATION
from selfwire.evolvers.hera.rules import Prompt, apply_prompt_diff
from selfwire.evolvers.hera.schemas import PromptDiff
from selfwire.evolvers.operations import ROLE_LENGTH, make_fresh_id
from selfwire.evolvers.random_edits import WHY, RandomControl, RandomEdits, RandomOperation, apply_at_random, draw
from selfwire.graphs.hera.learning import LearningNodes, take_in
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.hera.state import PlannedQuestion, TriedMutation
from selfwire.graphs.method_protocol import EvolveResult, TrajectoryGrader
from selfwire.graphs.run_start import RunStart

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class RandomHera(RandomControl, Hera):
    """HERA whose pool is edited at random; questions are planned for as before, and groups teach nothing."""

    @property
    def kinds(self) -> dict[str, RandomOperation]:
        """The edits of prompts; newcomers are tried first, in `evolve`."""
        return {OPERATION: RandomOperation("prompt", lambda workflow: list(workflow.agents_by_id), self._add_rule)}

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """The iteration's random edits: newcomers that helped as the method's must, and rules below prompts."""
        wanted, random = self.get_operations(scope), scope.random("random edits")
        nodes = LearningNodes(self, RunStart(workflow), grader=grade)
        joined = await self._try_newcomers(workflow, trajectories, wanted.count(JOIN), nodes, random, scope)
        found = apply_at_random(joined.workflow, [one for one in wanted if one != JOIN], self.kinds, random)
        applied = (*joined.applied, *found.applied)
        now = found.workflow.with_lineage(workflow, applied) if found.workflow != workflow else workflow
        tried = [JOIN] * (wanted.count(JOIN) - len(joined.applied) - len(joined.left_out))
        notes = {"tried": tried, "not_drawn": [*joined.left_out, *found.left_out]}
        return EvolveResult(workflow=now, applied=applied, notes=notes)

    async def _try_newcomers(
        self,
        workflow: Workflow,
        trajectories: Sequence[Trajectory],
        count: int,
        nodes: LearningNodes,
        random: "np.random.Generator",
        scope: Scope,
    ) -> RandomEdits:
        """Insert drawn agents into teams that scored nothing, once per question; those that help join the pool."""
        zero = [group for group in make_groups(trajectories, self.config.success_at) if group.outcome == "zero"]
        groups = [group for group in zero if group.question not in get_mutated(workflow)]
        due = [groups[int(place)] for place in random.permutation(len(groups))[:count]]
        plans = [
            plan
            for group in due
            if (plan := self._insert(trajectories[group.order[0]], len(group.order), workflow, random)) is not None
        ]
        done = [await nodes.run_planned(plan, workflow, scope) for plan in plans]
        tried = [
            TriedMutation(place=place, candidate=one.candidate) for place, one in enumerate(plans) if one.candidate
        ]
        now, applied, _ = take_in(workflow, tried, done, self.config.success_at)
        now = with_mutated(now, [plan.question.id for plan in plans])
        return RandomEdits(now, tuple(applied), (JOIN,) * (count - len(plans)))

    def _insert(
        self, best: Trajectory, sample: int, workflow: Workflow, random: "np.random.Generator"
    ) -> PlannedQuestion | None:
        topology = get_topology(best)
        if topology is None or len(workflow.agents) >= self.config.pool:
            return None
        agent = draw(sorted(set(topology.agents.values())), random)
        text, tools = draw(self.instructions, random), workflow.agents_by_id[agent].tools
        newcomer = Agent(id=make_fresh_id(workflow, text), role=text[:ROLE_LENGTH], prompt=text, tools=tools)
        inside = insert_agent(topology, agent, newcomer.id)
        candidate = Candidate(kind="insert", topology=inside, newcomer=newcomer, why=WHY)
        return PlannedQuestion(
            question=best.question, topology=inside, sample=sample, notes=best.notes, candidate=candidate
        )

    def _add_rule(self, workflow: Workflow, agent: Id, random: "np.random.Generator") -> Rewiring:
        prompt, limits = Prompt.of(workflow.agents_by_id[agent].prompt), self.config.prompts
        new = draw([text for text in self.instructions if text not in prompt.rules], random)
        after, _ = apply_prompt_diff(prompt, PromptDiff(added_rules=[new]), rules=limits.rules, length=limits.length)
        return Rewiring(RewritePrompt(agent, after.text), why=WHY, operation=OPERATION, by=agent)

"""HERA with random edits of its pool: its gain beyond this control comes from comparing groups."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from selfwire.core.agent import Agent
from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import Id
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.groups import make_groups
from selfwire.evolvers.hera.mutation import (
    JOIN,
    MutatedTopology,
    TriedMutation,
    find_hopeless,
    get_mutated,
    insert_agent,
    join_pool,
    with_mutated,
)
from selfwire.evolvers.hera.planning import PlannedRun
from selfwire.evolvers.hera.reflection import get_topology
from selfwire.evolvers.hera.rope import OPERATION
from selfwire.evolvers.hera.rules import Prompt, apply_prompt_diff
from selfwire.evolvers.hera.schemas import PromptDiff
from selfwire.evolvers.random_edits import WHY, RandomControl, RandomOperation, apply_at_random, draw
from selfwire.evolvers.topology_ops import ROLE_LENGTH, make_fresh_id
from selfwire.graphs.hera import Hera, run_planned
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import EvolveResult

if TYPE_CHECKING:
    import numpy as np


class RandomHera(RandomControl, Hera):
    """HERA whose pool is edited at random; questions are planned for as before, and groups teach nothing."""

    @property
    def kinds(self) -> dict[str, RandomOperation]:
        """The edits of prompts; newcomers are tried first, in `propose`."""
        return {OPERATION: RandomOperation("prompt", lambda team: list(team.agents_by_id), self._add_rule)}

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[HeraConfig]) -> EvolveResult:
        """Make the iteration's random edits: newcomers that helped as the method's must, and rules below prompts."""
        wanted, random = self.get_operations(ctx.scope), ctx.scope.random("random edits")
        count = wanted.count(JOIN)
        groups = find_hopeless(make_groups(runs, self.config.success_at), get_mutated(team))
        due = [groups[int(place)] for place in random.permutation(len(groups))[:count]]
        plans = [
            plan
            for group in due
            if (plan := self._insert(runs[group.order[0]], len(group.order), team, random)) is not None
        ]
        done = [await run_planned(plan, team, ctx) for plan in plans]
        tried = [
            TriedMutation(place=place, candidate=plan.candidate) for place, plan in enumerate(plans) if plan.candidate
        ]
        larger, joined, _ = join_pool(team, tried, done, self.config.success_at)
        larger = with_mutated(larger, [plan.question.id for plan in plans])
        rewrites = [operation for operation in wanted if operation != JOIN]
        found = apply_at_random(larger, rewrites, self.kinds, random)
        applied = (*joined, *found.applied)
        now = found.workflow.with_lineage(team, applied) if found.workflow != team else team
        not_drawn = [*[JOIN] * (count - len(plans)), *found.left_out]
        notes = {"tried": [JOIN] * (len(plans) - len(joined)), "not_drawn": not_drawn}
        return EvolveResult(workflow=now, applied=applied, notes=notes)

    def _insert(self, best: Trajectory, sample: int, team: Team, random: "np.random.Generator") -> PlannedRun | None:
        topology = get_topology(best)
        if topology is None or len(team.agents) >= self.config.pool:
            return None
        agent = draw(sorted(set(topology.agents.values())), random)
        text, tools = draw(self.instructions, random), team.agents_by_id[agent].tools
        newcomer = Agent(id=make_fresh_id(team, text), role=text[:ROLE_LENGTH], prompt=text, tools=tools)
        inside = insert_agent(topology, agent, newcomer.id)
        candidate = MutatedTopology(kind="insert", topology=inside, newcomer=newcomer, why=WHY)
        return PlannedRun(question=best.question, topology=inside, sample=sample, notes=best.notes, candidate=candidate)

    def _add_rule(self, team: Team, agent: Id, random: "np.random.Generator") -> Rewiring:
        prompt, limits = Prompt.of(team.agents_by_id[agent].prompt), self.config.prompts
        new = draw([text for text in self.instructions if text not in prompt.rules], random)
        after, _ = apply_prompt_diff(prompt, PromptDiff(added_rules=[new]), rules=limits.rules, length=limits.length)
        return Rewiring(RewritePrompt(agent, after.text), why=WHY, operation=OPERATION, by=agent)

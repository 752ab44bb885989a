"""HiVA with random edits: its gain beyond this control comes from its critics."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from selfwire.core.edits import AddTool, Edit, Grant, RemoveTool, Rewiring, RewriteTool
from selfwire.core.own_tool import OwnTool
from selfwire.core.protocols import Embedder, Toolbox
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import Id
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.forward import match_noted
from selfwire.evolvers.hiva.gradients import Loss
from selfwire.evolvers.hiva.kabb import fit_memory, learn_lessons, make_lesson
from selfwire.evolvers.hiva.memory import TrajectoryLesson
from selfwire.evolvers.hiva.structure import repair_topology
from selfwire.evolvers.hiva.tools import CREATE, GRANT, REWRITE, ToolWriter, list_spare_tools
from selfwire.evolvers.random_edits import (
    WHY,
    RandomControl,
    RandomEdits,
    RandomOperation,
    apply_at_random,
    draw,
    list_team_operations,
)
from selfwire.evolvers.topology_ops import find_free_name
from selfwire.graphs.hiva import Hiva, get_critic
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import EvolveResult
from selfwire.tools.own import ToolTrial

if TYPE_CHECKING:
    import numpy as np

ECHO = "def tool_function(text: str) -> str:\n    return text\n"
"""The source of a new tool: no code can be drawn where there is none to change."""


class RandomHiva(RandomControl, Hiva):
    """HiVA whose rewirings are drawn at random; its runs, its router's learning, its repair and its gate stay."""

    def list_kinds(self, tools: Toolbox) -> dict[str, RandomOperation]:
        """Every kind of edit that HiVA makes and that is drawn at a place; `propose` mends tools before.

        Args:
            tools: of the run, whose names no new tool may have.
        """
        return {
            **list_team_operations(self.instructions, self.config.prompt_length),
            CREATE: RandomOperation("tools", self._list_creators, partial(self._create_tool, tools)),
            GRANT: RandomOperation("tools", _list_grantable, _grant_tool),
        }

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[HivaConfig]) -> EvolveResult:
        """Make the iteration's random rewirings, then update beliefs and repair the topology.

        Without a critic, r is 1 for all agents that ran in a solved task, else 0.
        """
        wanted, random = self.get_operations(ctx.scope), ctx.scope.random("random edits")
        mended = await self._mend_tools(team, wanted.count(REWRITE), random, ctx)
        rest = [operation for operation in wanted if operation != REWRITE]
        found = apply_at_random(mended.workflow, rest, self.list_kinds(ctx.tools), random)
        lessons = [await _make_lesson(done, team, ctx.embed) for done in runs]
        repaired = repair_topology(learn_lessons(found.workflow, lessons, config=self.config.routing), self.config)
        applied = (*mended.applied, *found.applied, *repaired.rewirings)
        final = fit_memory(repaired.workflow).with_lineage(team, applied)
        return EvolveResult(workflow=final, applied=applied, notes={"not_drawn": [*mended.left_out, *found.left_out]})

    async def _mend_tools(
        self, team: Team, count: int, random: "np.random.Generator", ctx: Ctx[HivaConfig]
    ) -> RandomEdits:
        """Change tools' code in one place each, tried on their known results as the code of a model is."""
        trial, applied, left = ToolTrial(ctx.tools), list[Rewiring](), Counter({REWRITE: count})
        for number in range(count if team.tools else 0):
            tool = team.tools_by_name[draw(list(team.tools_by_name), random)]
            place = ctx.scope.at(phase="tool", visit=number)
            writer = ToolWriter(get_critic(ctx), trial, self.config.tool_length, place, random=True)
            made, _ = await writer.refine(tool, tool.examples, "")
            if isinstance(made, OwnTool):
                edit = RewriteTool(tool.name, made.source, examples=tool.examples)
                applied.append(Rewiring(edit, why=WHY, operation=REWRITE, by=tool.name))
                team = team.apply(applied[-1])
                left[REWRITE] -= 1
        return RandomEdits(team, tuple(applied), tuple(left.elements()))

    def _list_creators(self, team: Team) -> Sequence[Id]:
        has_room = len(team.tools) < self.config.own_tools or list_spare_tools(team)
        return list(team.agents_by_id) if has_room else ()

    def _create_tool(self, tools: Toolbox, team: Team, agent: Id, random: "np.random.Generator") -> Rewiring:
        full = len(team.tools) >= self.config.own_tools
        room: list[Edit] = [RemoveTool(list_spare_tools(team)[0])] if full else []
        name = find_free_name("drawn_tool", {*tools, *team.tools_by_name})
        text = draw(self.instructions, random)
        tool = OwnTool(name=name, description=text, source=ECHO, by=agent, why=WHY)
        return Rewiring(*room, AddTool(tool), Grant(agent, name), why=WHY, operation=CREATE, by=agent)


async def _make_lesson(trajectory: Trajectory, team: Team, embedder: Embedder) -> TrajectoryLesson | None:
    if trajectory.feedback is None:
        return None
    match = await match_noted(trajectory, team, embedder)
    as_if = Loss(solved=True)  # so that all that ran are judged
    lesson = make_lesson(trajectory, as_if, None, match, team)
    if lesson is None or trajectory.feedback.solved:
        return lesson
    sample = lesson.sample and lesson.sample.replace(solved=False)
    return lesson.replace(solved=False, rewards=dict.fromkeys(lesson.rewards, 0), sample=sample)


def _list_grantable(team: Team) -> list[Id]:
    return [agent.id for agent in team.agents if team.tools_by_name.keys() - set(agent.tools)]


def _grant_tool(team: Team, agent: Id, random: "np.random.Generator") -> Rewiring:
    tool = draw(sorted(team.tools_by_name.keys() - set(team.agents_by_id[agent].tools)), random)
    return Rewiring(Grant(agent, tool), why=WHY, operation=GRANT, by=agent)

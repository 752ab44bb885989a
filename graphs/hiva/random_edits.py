"""HiVA with random edits: its gain beyond this control comes from its critics."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selfwire.core.edits import AddTool, Edit, Grant, RemoveTool, Rewiring, RewriteTool
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import Id
from selfwire.core.workflow import Workflow
from selfwire.core.workflow_tool import WorkflowTool
from selfwire.evolvers.hiva.gradients import Loss
from selfwire.evolvers.hiva.memory import TrajectoryLesson
from selfwire.evolvers.hiva.repair import repair
from selfwire.evolvers.hiva.tool_writing import ToolWriter
from selfwire.evolvers.hiva.tools import CREATE, GRANT, REWRITE, list_spare_tools
from selfwire.evolvers.hiva.updates import fit_memory, make_lesson, update_beliefs
from selfwire.evolvers.operations import find_free_name
from selfwire.evolvers.random_edits import (
    WHY,
    RandomControl,
    RandomEdits,
    RandomOperation,
    apply_at_random,
    draw,
    list_team_operations,
)
from selfwire.graphs.hiva.method import Hiva
from selfwire.graphs.method_protocol import EvolveResult, TrajectoryGrader
from selfwire.graphs.own_tools import ToolTrial

if TYPE_CHECKING:
    import numpy as np

ECHO = "def tool_function(text: str) -> str:\n    return text\n"
"""The source of a new tool: no code can be drawn where there is none to change."""


@dataclass(frozen=True)
class RandomHiva(RandomControl, Hiva):
    """HiVA whose rewirings are drawn at random; its runs, its router's learning, its repair and its gate stay."""

    @property
    def kinds(self) -> dict[str, RandomOperation]:
        """Every kind of edit that HiVA makes, as it is drawn here; mended tools are tried first, in `evolve`."""
        return {
            **list_team_operations(self.instructions, self.config.prompt_length),
            CREATE: RandomOperation("tools", self._list_creators, self._create_tool),
            GRANT: RandomOperation("tools", _list_grantable, _grant_tool),
        }

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """The iteration's random rewirings, then the update of beliefs and repair.

        Without a critic, r is 1 for all agents that ran in a solved task, else 0.
        """
        wanted, random = self.get_operations(scope), scope.random("random edits")
        mended = await self._mend_tools(workflow, wanted.count(REWRITE), random, scope)
        rest = [one for one in wanted if one != REWRITE]
        found = apply_at_random(mended.workflow, rest, self.kinds, random)
        lessons = [await self._lesson(done, workflow) for done in trajectories]
        repaired = repair(update_beliefs(found.workflow, lessons, config=self.config.routing), self.config)
        applied = (*mended.applied, *found.applied, *repaired.rewirings)
        final = fit_memory(repaired.workflow).with_lineage(workflow, applied)
        return EvolveResult(workflow=final, applied=applied, notes={"not_drawn": [*mended.left_out, *found.left_out]})

    async def _mend_tools(
        self, workflow: Workflow, count: int, random: "np.random.Generator", scope: Scope
    ) -> RandomEdits:
        """Single changes of tools' code, tried on their known results as those of a model."""
        trial, applied, left = ToolTrial(self.toolbox), list[Rewiring](), Counter({REWRITE: count})
        for number in range(count if workflow.tools else 0):
            tool = workflow.tools_by_name[draw(list(workflow.tools_by_name), random)]
            place = scope.at(phase="tool", visit=number)
            writer = ToolWriter(self.meta_model, trial, self.config.tool_length, place, random=True)
            made, _ = await writer.refine(tool, tool.examples, "")
            if isinstance(made, WorkflowTool):
                edit = RewriteTool(tool.name, made.source, examples=tool.examples)
                applied.append(Rewiring(edit, why=WHY, operation=REWRITE, by=tool.name))
                workflow = workflow.apply(applied[-1])
                left[REWRITE] -= 1
        return RandomEdits(workflow, tuple(applied), tuple(left.elements()))

    def _list_creators(self, workflow: Workflow) -> Sequence[Id]:
        has_room = len(workflow.tools) < self.config.own_tools or list_spare_tools(workflow)
        return list(workflow.agents_by_id) if has_room else ()

    def _create_tool(self, workflow: Workflow, agent: Id, random: "np.random.Generator") -> Rewiring:
        full = len(workflow.tools) >= self.config.own_tools
        room: list[Edit] = [RemoveTool(list_spare_tools(workflow)[0])] if full else []
        name = find_free_name("drawn_tool", {*self.toolbox, *workflow.tools_by_name})
        text = draw(self.instructions, random)
        tool = WorkflowTool(name=name, description=text, source=ECHO, by=agent, why=WHY)
        return Rewiring(*room, AddTool(tool), Grant(agent, name), why=WHY, operation=CREATE, by=agent)

    async def _lesson(self, trajectory: Trajectory, workflow: Workflow) -> TrajectoryLesson | None:
        if trajectory.feedback is None:
            return None
        match = await self.match_noted(trajectory, workflow)
        lesson = make_lesson(trajectory, Loss(solved=True), None, match)  # as if solved: everybody who ran is judged
        if lesson is None or trajectory.feedback.solved:
            return lesson
        return lesson.replace(solved=False, rewards=dict.fromkeys(lesson.rewards, 0))


def _list_grantable(workflow: Workflow) -> list[Id]:
    return [agent.id for agent in workflow.agents if workflow.tools_by_name.keys() - set(agent.tools)]


def _grant_tool(workflow: Workflow, agent: Id, random: "np.random.Generator") -> Rewiring:
    tool = draw(sorted(workflow.tools_by_name.keys() - set(workflow.agents_by_id[agent].tools)), random)
    return Rewiring(Grant(agent, tool), why=WHY, operation=GRANT, by=agent)

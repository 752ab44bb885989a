"""Tree search as a method: select a team, ask for one edit of it, measure it, keep what the edit has brought.

As in AFlow: the selection (a uniform share of 0.2, scores in hundredths raised by 0.4), one edit per expansion by a
model that sees failures and the experience with the parent, scores on validation questions. Other than there: teams are
our workflows and not programs, a team is measured once and not five times, and the search ends with its calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from langchain_core.runnables import RunnableConfig
from pydantic import Field

from selfwire.core.errors import EditError, ModelError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines import teams
from selfwire.evals.baselines.aflow.tree import Candidate, TeamEdit, choose_parent, render_experience, to_rewiring
from selfwire.evolvers.blame import render_feedback
from selfwire.evolvers.outcomes import get_score
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.evolvers.trace_text import format_trace, gather_all, render_topology
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.call_estimates import CallEstimate, count_turn_calls
from selfwire.graphs.descriptor import MethodDescriptor
from selfwire.graphs.method_protocol import EvolveResult, TrajectoryGrader
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.own_tools import add_own_tools
from selfwire.graphs.prompts import load_prompts
from selfwire.graphs.single_run import SingleRunMethod
from selfwire.graphs.team import run_team
from selfwire.graphs.variants import FULL, Variant
from selfwire.nodes.agent import make_agent_runner


class AflowConfig(FrozenModel):
    """Config of the search.

    Args:
        calls: model calls per question of the batch, runs and proposals together; the last step may exceed them.
        validation: questions that teams are measured on, the first ones of the batch.
        uniform: lambda, the share of the selection that is uniform. AFlow and ours: 0.2.
        sharpness: alpha, per hundredth of a score. AFlow and ours: 0.4.
        agents: most agents of a team.
        prompt_length: most characters of a prompt, as for other methods.
        temperature: of every call, as for the baselines.
    """

    calls: int = Field(default=90, ge=1)
    validation: int = Field(default=20, ge=1)
    uniform: float = Field(default=0.2, ge=0, le=1)
    sharpness: float = Field(default=0.4, ge=0, le=10)
    agents: int = Field(default=12, ge=2, le=100)
    prompt_length: int = Field(default=4000, ge=100, le=100_000)
    temperature: float = Field(default=1.0, ge=0, le=2)


@dataclass(frozen=True)
class Aflow(SingleRunMethod[AflowConfig]):
    """A team that is found by a tree search."""

    NAME = "aflow"

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The pair of a worker and one who sums up, from which random rewiring starts too."""
        return teams.make_pair(tools).replace(method=self.name)

    async def solve(
        self, workflow: Workflow, question: Question, *, scope: Scope, graph_config: RunnableConfig | None = DETACHED
    ) -> Trajectory:
        """Run the team once, at the temperature of the baselines."""
        act = make_agent_runner(self.model, add_own_tools(self.toolbox, workflow), temperature=self.config.temperature)
        run = TeamContext.of(workflow, question, scope.at(task=question.id), act)
        return await run_team(workflow.topology, run, config=graph_config)

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """Search from the team until the calls are spent; the team with the highest score on validation replaces it."""
        given = [done for done in trajectories if get_score(done) is not None][: self.config.validation]
        if not given:
            return EvolveResult.of(workflow, notes={"why": "no graded run to learn from"})
        tree = [Candidate(workflow, given, compute_score(given))]
        spent, tries, refused = Usage(), 0, 0
        while spent.calls < self.config.calls * len(trajectories):
            at = scope.at(sample=(tries := tries + 1))
            scores = [one.score for one in tree]
            chosen = choose_parent(
                scores, uniform=self.config.uniform, sharpness=self.config.sharpness, random=at.random("select")
            )
            found, cost = await self._expand(tree, chosen, at, grade)
            spent += cost
            if found is None:
                refused += 1
            else:
                tree.append(found)
        best = max(tree, key=lambda one: one.score)
        notes = {"teams": len(tree), "refused": refused, "validation": {"before": tree[0].score, "after": best.score}}
        return EvolveResult.of(workflow, best.rewirings, notes=notes, cost=spent)

    async def _expand(
        self, tree: Sequence[Candidate], chosen: int, scope: Scope, grade: TrajectoryGrader
    ) -> tuple[Candidate | None, Usage]:
        """A new team, one edit from a chosen one, and the cost; None if the edit cannot be made."""
        parent = tree[chosen]
        proposal, cost = await self._propose(tree, chosen, scope)
        cost = cost if cost.calls else cost + Usage(calls=1)  # a failed call counts, so that the search ends
        tools = sorted({tool for agent in parent.team.agents for tool in agent.tools})
        try:
            if isinstance(proposal, ModelError):
                raise ValueError(str(proposal))
            rewiring = to_rewiring(parent.team, proposal, tools=tools, length=self.config.prompt_length)
            team = parent.team.apply(rewiring)
        except (ValueError, EditError):
            return None, cost
        if team.topology.problems() or len(team.agents) > self.config.agents or team == parent.team:
            return None, cost
        runs = await gather_all(self._run(team, done.question, scope, grade) for done in parent.runs)
        cost += sum_usages(done.usage for done in runs)
        return Candidate(team, runs, compute_score(runs), (*parent.rewirings, rewiring), chosen), cost

    async def _run(self, team: Workflow, question: Question, scope: Scope, grade: TrajectoryGrader) -> Trajectory:
        place = scope.at(task=question.id)
        return await grade((await self.solve(team, question, scope=place)).replace(sample=place.sample), place)

    async def _propose(
        self, tree: Sequence[Candidate], chosen: int, scope: Scope
    ) -> tuple[TeamEdit | ModelError, Usage]:
        parent = tree[chosen]
        failed = [done for done in parent.runs if (get_score(done) or 0.0) < 1] or list(parent.runs)
        shown = failed[int(scope.random("example").integers(len(failed)))]
        asks = PromptedModel(self.model, load_prompts("evals", "aflow"), self.config.temperature)
        return await asks.try_ask(
            TeamEdit,
            "edit",
            scope=scope.at(node="edit"),
            team=render_topology(parent.team.topology),
            prompts="\n\n".join(f"[{one.id}] {one.prompt}" for one in parent.team.agents),
            experience=render_experience(tree, chosen),
            task=shown.question.input,
            trace=format_trace(shown),
            answer=shown.answer or "",
            feedback=render_feedback(shown),
        )


def compute_score(runs: Sequence[Trajectory]) -> float:
    """The mean score; a run that ended as an error counts 0, as equal questions are compared."""
    return mean(get_score(done) or 0.0 for done in runs)


def estimate_calls(config: AflowConfig, team: Workflow, batch: int, added_agents: float) -> CallEstimate:
    """A turn of every node, and the calls that an iteration may spend."""
    most = config.calls * batch
    return CallEstimate({"agent": count_turn_calls(team) + added_agents}, learning={"agent": most})


DESCRIPTOR: MethodDescriptor[Aflow, AflowConfig] = MethodDescriptor(
    name=Aflow.NAME,
    summary="finds a team by a tree search over single edits, in the manner of AFlow",
    make=Aflow,
    config=AflowConfig,
    build_options=frozenset(),
    estimate_calls=estimate_calls,
    one_batch=True,
    variants={FULL: Variant(title="full"), "no-gate": Variant(title="no gate", gate="off")},
    paper="Zhang et al., *AFlow: Automating Agentic Workflow Generation*",
)
build = DESCRIPTOR.build

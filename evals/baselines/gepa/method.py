"""GEPA as a method: its library runs whole in one iteration, on half of the batch for reflection and half for choice.

Candidates are the prompts of a team that does not change. The library's defaults stand: Pareto selection, a minibatch
of three, agents in turn, no merge, its own words for reflection.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gepa.api import optimize
from gepa.core.result import GEPAResult
from langchain_core.runnables import RunnableConfig
from pydantic import Field

from selfwire.core.edits import Rewiring
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines import teams
from selfwire.evals.baselines.config import RefineConfig, TeamConfig
from selfwire.evals.baselines.gepa.adapter import TeamAdapter, get_prompts
from selfwire.evals.baselines.gepa.calls import StoppedCallError
from selfwire.evals.baselines.single import make_single_workflow
from selfwire.evolvers.outcomes import get_score
from selfwire.evolvers.rewriting import propose_rewrite
from selfwire.graphs.agent_node import TeamContext
from selfwire.graphs.call_estimates import CallEstimate, count_turn_calls
from selfwire.graphs.descriptor import MethodDescriptor
from selfwire.graphs.method_protocol import EvolveResult, TrajectoryGrader
from selfwire.graphs.node_wrappers import DETACHED
from selfwire.graphs.own_tools import add_own_tools
from selfwire.graphs.single_run import SingleRunMethod
from selfwire.graphs.team import run_team
from selfwire.graphs.variants import FULL, Variant
from selfwire.nodes.agent import make_agent_runner

Team = Literal["single", "self-refine", "centralised", "hybrid"]

TEAMS: Mapping[Team, Callable[[Sequence[str]], Workflow]] = {
    "single": make_single_workflow,
    "self-refine": lambda tools: teams.with_tools(teams.self_refine(RefineConfig()), tools),
    "centralised": lambda tools: teams.with_tools(teams.centralised(TeamConfig()), tools),
    "hybrid": lambda tools: teams.with_tools(teams.hybrid(TeamConfig()), tools),
}
"""Teams whose prompts can be optimised: the baselines of these names."""


class GepaConfig(FrozenModel):
    """Config of GEPA; what is not here is as its library has it.

    Args:
        team: the baseline whose prompts are optimised.
        calls: model calls per question of the batch, rollouts and reflection together; the last step may exceed them.
        minibatch: runs that a proposal is made from and tried on.
        prompt_length: most characters of a prompt, as for other methods; a candidate with a longer one scores 0.
        temperature: of the agents, as for the baselines.
    """

    team: Team = "self-refine"
    calls: int = Field(default=90, ge=1)
    minibatch: int = Field(default=3, ge=1)
    prompt_length: int = Field(default=4000, ge=100, le=100_000)
    temperature: float = Field(default=1.0, ge=0, le=2)


@dataclass(frozen=True)
class Gepa(SingleRunMethod[GepaConfig]):
    """A fixed team whose prompts GEPA rewrites."""

    NAME = "gepa"

    def make_initial_workflow(self, tools: Sequence[str] = ()) -> Workflow:
        """The baseline's team."""
        return TEAMS[self.config.team](tools).replace(method=self.name)

    async def solve(
        self, workflow: Workflow, question: Question, *, scope: Scope, graph_config: RunnableConfig | None = DETACHED
    ) -> Trajectory:
        """Run the team once, at the temperature of the baselines."""
        toolbox = add_own_tools(self.toolbox, workflow)
        act = make_agent_runner(self.model, toolbox, temperature=self.config.temperature)
        run = TeamContext.of(workflow, question, scope.at(task=question.id), act)
        return await run_team(workflow.topology, run, config=graph_config)

    async def evolve(
        self, workflow: Workflow, trajectories: Sequence[Trajectory], *, scope: Scope, grade: TrajectoryGrader
    ) -> EvolveResult:
        """One run of the library; the candidate that is best on its validation half replaces the team's prompts.

        Every call is in the journal, so a run that was stopped takes the same course again and pays for nothing twice.
        """
        given = [done for done in trajectories if get_score(done) is not None]
        if len(given) < 2:
            return EvolveResult.of(workflow, notes={"why": f"{len(given)} graded runs are too few to learn from"})
        length = self.config.prompt_length
        adapter = TeamAdapter(self, self.model, workflow, scope, grade, given, length)
        try:
            result = await asyncio.to_thread(self._optimize, adapter, len(given))
        except StoppedCallError as error:  # pragma: no cover - this version of the library catches it
            raise adapter.calls.fault or error from None
        finally:
            adapter.calls.end()
        if adapter.calls.fault is not None:  # the library caught it
            raise adapter.calls.fault
        best, scores = result.candidates[result.best_idx], result.val_aggregate_scores
        why = f"best of {result.num_candidates} candidates on {len(given[1::2])} questions: {max(scores):.2f}"
        offers = [propose_rewrite(agent, best[agent.id], length=length, why=why) for agent in workflow.agents]
        notes = {
            "candidates": result.num_candidates,
            "proposals": adapter.proposals,
            "validation": {"before": scores[0], "after": max(scores)},
        }
        rewirings = [one for one in offers if isinstance(one, Rewiring)]
        return EvolveResult.of(workflow, rewirings, notes=notes, cost=adapter.spent)

    def _optimize(self, adapter: TeamAdapter, questions: int) -> GEPAResult[str, int]:
        most = self.config.calls * questions
        asked = [done.question for done in adapter.given]
        return optimize(
            seed_candidate=get_prompts(adapter.workflow),
            trainset=asked[::2],
            valset=asked[1::2],
            adapter=adapter,
            reflection_lm=adapter.propose,
            reflection_minibatch_size=min(self.config.minibatch, len(asked[::2])),
            max_metric_calls=2 * most,  # runs on record cost no call, and yet must end
            stop_callbacks=lambda state: adapter.spent.calls >= most or adapter.calls.ended,
            logger=Silent(),
            seed=int(adapter.scope.random("gepa").integers(2**31)),
        )


class Silent:
    """A logger that writes nothing."""

    def log(self, message: str) -> None:
        """Write nothing."""


def estimate_calls(config: GepaConfig, team: Workflow, batch: int, added_agents: float) -> CallEstimate:
    """A turn of every node; an iteration spends about half of the calls that it may, one in thirty on reflection."""
    spent = config.calls * batch / 2
    return CallEstimate({"agent": count_turn_calls(team)}, learning={"agent": spent * 29 / 30, "meta": spent / 30})


DESCRIPTOR: MethodDescriptor[Gepa, GepaConfig] = MethodDescriptor(
    name=Gepa.NAME,
    summary="rewrites the prompts of a fixed team by reflection and Pareto selection, with the library gepa",
    make=Gepa,
    config=GepaConfig,
    build_options=frozenset(),
    estimate_calls=estimate_calls,
    one_batch=True,
    variants={
        FULL: Variant(title="full"),
        "no-gate": Variant(title="no gate", gate="off"),
        **{team: Variant(title=f"prompts of {team}", config={"team": team}) for team in TEAMS},
    },
    paper="Agrawal et al., *GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning*",
)
build = DESCRIPTOR.build

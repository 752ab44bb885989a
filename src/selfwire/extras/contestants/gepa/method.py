"""GEPA as a method: its library runs whole in one iteration, on half of the batch for reflection and half for choice.

Candidates are the prompts of a team that does not change. The library's defaults stand: Pareto selection, a minibatch
of three, agents in turn, no merge, its own words for reflection.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gepa.api import optimize
from gepa.core.result import GEPAResult
from pydantic import Field

from selfwire.core.edits import Rewiring
from selfwire.core.protocols import AgentRunner, Embedder, Model, Toolbox
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenMap, FrozenModel
from selfwire.evals.baselines import make_baseline, make_led_runner, make_refining_runner
from selfwire.evolvers.prompted_model import propose_rewrite
from selfwire.evolvers.trajectory_text import get_score
from selfwire.extras.contestants.gepa.adapter import StoppedCallError, TeamAdapter
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import FULL, CallEstimate, EvolveResult, Method, Variant, count_turn_calls

SeedTeam = Literal["single", "self-refine", "centralised", "hybrid"]
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

    team: SeedTeam = "self-refine"
    calls: int = Field(default=90, ge=1)
    minibatch: int = Field(default=3, ge=1)
    prompt_length: int = Field(default=4000, ge=100, le=100_000)
    temperature: float = Field(default=1.0, ge=0, le=2)


@dataclass(frozen=True)
class GepaCtx(Ctx[GepaConfig]):
    """The context of runs that a critic or a leader ends early, as they end those of the baselines."""

    def make_runner(self, team: Team) -> AgentRunner:
        """Make the runner of a team's agents, which is for one run."""
        return make_refining_runner(make_led_runner(super().make_runner(team)))


class Gepa(Method[GepaConfig]):
    """A fixed team whose prompts GEPA rewrites."""

    name = "gepa"
    summary = "rewrites the prompts of a fixed team by reflection and Pareto selection, with the library gepa"
    config_type = GepaConfig
    build_options = frozenset()
    one_batch = True
    variants = FrozenMap(
        {
            FULL: Variant(title="full"),
            "no-gate": Variant(title="no gate", gate="off"),
            **{team: Variant(title=f"prompts of {team}", config={"team": team}) for team in get_args(SeedTeam)},
        }
    )
    paper = "Agrawal et al., *GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning*"

    @staticmethod
    def estimate_calls(config: GepaConfig, team: Team, batch: int, added_agents: float) -> CallEstimate:
        """A turn of every node; an iteration spends about half of its calls, one in thirty of them on reflection."""
        spent = config.calls * batch / 2
        return CallEstimate({"agent": count_turn_calls(team)}, learning={"agent": spent * 29 / 30, "meta": spent / 30})

    def make_ctx(self, model: Model, tools: Toolbox, embed: Embedder, **more: Any) -> Ctx[GepaConfig]:
        """Make the context of a run."""
        return GepaCtx(model, tools, embed, self.config, self.prompts, **more)

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """The baseline's team."""
        return make_baseline(self.config.team).seed(tools).replace(method=self.name)

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[GepaConfig]) -> EvolveResult:
        """Run the library once; the candidate that is best on its validation half replaces the team's prompts.

        Every call is in the journal, so a run that was stopped takes the same course again and pays for nothing twice.
        """
        given = [done for done in runs if get_score(done) is not None]
        if len(given) < 2:
            return EvolveResult.of(team, notes={"why": f"{len(given)} graded runs are too few to learn from"})
        length = self.config.prompt_length
        adapter = TeamAdapter(self, ctx, team, given, length)
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
        offers = [propose_rewrite(agent, best[agent.id], length=length, why=why) for agent in team.agents]
        notes = {
            "candidates": result.num_candidates,
            "proposals": adapter.proposals,
            "validation": {"before": scores[0], "after": max(scores)},
        }
        rewirings = [offer for offer in offers if isinstance(offer, Rewiring)]
        return EvolveResult.of(team, rewirings, notes=notes, cost=adapter.spent)

    def _optimize(self, adapter: TeamAdapter, questions: int) -> GEPAResult[str, int]:
        most = self.config.calls * questions
        asked = [done.question for done in adapter.given]
        return optimize(
            seed_candidate={agent.id: agent.prompt for agent in adapter.team.agents},
            trainset=asked[::2],
            valset=asked[1::2],
            adapter=adapter,
            reflection_lm=adapter.propose,
            reflection_minibatch_size=min(self.config.minibatch, len(asked[::2])),
            max_metric_calls=2 * most,  # runs on record cost no call, and yet must end
            stop_callbacks=lambda state: adapter.spent.calls >= most or adapter.calls.ended,
            logger=Silent(),
            seed=int(adapter.ctx.scope.random("gepa").integers(2**31)),
        )


class Silent:
    """A logger that writes nothing."""

    def log(self, message: str) -> None:
        """Write nothing."""

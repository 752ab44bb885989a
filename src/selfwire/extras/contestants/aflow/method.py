"""Tree search as a method: select a team, ask for one edit of it, measure it, keep what the edit has brought.

As in AFlow: the selection (a uniform share of 0.2, scores in hundredths raised by 0.4), one edit per expansion by a
model that sees failures and the experience with the parent, scores on validation questions. Other than there: teams are
our workflows and not programs, a team is measured once and not five times, and the search ends with its calls.
"""

from collections.abc import Collection, Sequence
from statistics import mean

from pydantic import Field

from selfwire.core.chat import Prompts, load_prompts
from selfwire.core.errors import EditError, ModelError
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenMap, FrozenModel
from selfwire.evals.baselines import make_pair
from selfwire.evolvers.trajectory_text import format_trace, gather_all, get_score, render_feedback, render_topology
from selfwire.extras.contestants.aflow.tree import SearchedTeam, TeamEdit, choose_parent, render_experience, to_rewiring
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import FULL, CallEstimate, EvolveResult, Method, Variant, count_turn_calls


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


class Aflow(Method[AflowConfig]):
    """A team that is found by a tree search."""

    name = "aflow"
    summary = "finds a team by a tree search over single edits, in the manner of AFlow"
    config_type = AflowConfig
    build_options = frozenset()
    one_batch = True
    variants = FrozenMap({FULL: Variant(title="full"), "no-gate": Variant(title="no gate", gate="off")})
    paper = "Zhang et al., *AFlow: Automating Agentic Workflow Generation*"

    @staticmethod
    def estimate_calls(config: AflowConfig, team: Team, batch: int, added_agents: float) -> CallEstimate:
        """A turn of every node, and the calls that an iteration may spend."""
        most = config.calls * batch
        return CallEstimate({"agent": count_turn_calls(team) + added_agents}, learning={"agent": most})

    @property
    def prompts(self) -> Prompts:
        """The request for an edit."""
        return load_prompts("evals", "aflow")

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """The pair of a worker and one who sums up, from which random rewiring starts too."""
        return make_pair(tools).replace(method=self.name)

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[AflowConfig]) -> EvolveResult:
        """Search from the team until the calls are spent; the team with the highest score on validation replaces it."""
        given = [done for done in runs if get_score(done) is not None][: self.config.validation]
        if not given:
            return EvolveResult.of(team, notes={"why": "no graded run to learn from"})
        tree = [SearchedTeam(team, given, compute_score(given))]
        spent, tries, refused = Usage(), 0, 0
        while spent.calls < self.config.calls * len(runs):
            here = ctx.where(sample=(tries := tries + 1))
            scores = [candidate.score for candidate in tree]
            chosen = choose_parent(
                scores, uniform=self.config.uniform, sharpness=self.config.sharpness, random=here.at.random("select")
            )
            found, cost = await self._expand(tree, chosen, here)
            spent += cost
            if found is None:
                refused += 1
            else:
                tree.append(found)
        best = max(tree, key=lambda candidate: candidate.score)
        notes = {"teams": len(tree), "refused": refused, "validation": {"before": tree[0].score, "after": best.score}}
        return EvolveResult.of(team, best.rewirings, notes=notes, cost=spent)

    async def _expand(
        self, tree: Sequence[SearchedTeam], chosen: int, ctx: Ctx[AflowConfig]
    ) -> tuple[SearchedTeam | None, Usage]:
        """A new team, one edit from a chosen one, and the cost; None if the edit cannot be made."""
        parent = tree[chosen]
        proposal, cost = await self._ask_edit(tree, chosen, ctx)
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
        runs = await gather_all(self._run(team, done.question, ctx) for done in parent.runs)
        cost += sum_usages(done.usage for done in runs)
        return SearchedTeam(team, runs, compute_score(runs), (*parent.rewirings, rewiring), chosen), cost

    async def _run(self, team: Team, question: Question, ctx: Ctx[AflowConfig]) -> Trajectory:
        assert ctx.grade_run is not None, "the outer evolution grades"
        here = ctx.where(task=question.id)
        done = await self.answer(team, question, here)
        return await ctx.grade_run(done.replace(sample=here.at.sample), here.at)

    async def _ask_edit(
        self, tree: Sequence[SearchedTeam], chosen: int, ctx: Ctx[AflowConfig]
    ) -> tuple[TeamEdit | ModelError, Usage]:
        parent = tree[chosen]
        failed = [done for done in parent.runs if (get_score(done) or 0.0) < 1] or list(parent.runs)
        shown = failed[int(ctx.at.random("example").integers(len(failed)))]
        return await ctx.critic.try_ask(
            TeamEdit,
            "edit",
            scope=ctx.at.at(node="edit"),
            team=render_topology(parent.team.topology),
            prompts="\n\n".join(f"[{agent.id}] {agent.prompt}" for agent in parent.team.agents),
            experience=render_experience(tree, chosen),
            task=shown.question.input,
            trace=format_trace(shown),
            answer=shown.answer or "",
            feedback=render_feedback(shown),
        )


def compute_score(runs: Sequence[Trajectory]) -> float:
    """The mean score; a run that ended as an error counts 0, as equal questions are compared."""
    return mean(get_score(done) or 0.0 for done in runs)

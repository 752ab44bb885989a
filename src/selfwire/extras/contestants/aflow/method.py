"""Tree search as a method: select a team, ask for one edit of it, measure it, keep what the edit has brought.

As in AFlow: the selection (a uniform share of 0.2, scores in hundredths raised by 0.4), one edit per expansion by a
model that sees failures and the experience with the parent, scores on validation questions. Other than there: teams are
our workflows and not programs, a team is measured once and not five times, and the search ends with its calls.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Literal

import numpy as np
from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.chat import Prompts, ReplySchema, load_prompts
from selfwire.core.edits import (
    AddAgent,
    AddEdge,
    AddNode,
    Edit,
    RemoveAgent,
    RemoveNode,
    Rewiring,
    RewritePrompt,
)
from selfwire.core.errors import EditError, ModelError
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import Edge
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage, sum_usages
from selfwire.core.values import FrozenMap, FrozenModel
from selfwire.evals.baselines import make_pair
from selfwire.evolvers.trajectory_text import (
    describe_held_tools,
    format_trace,
    gather_all,
    get_score,
    render_feedback,
    render_topology,
    shorten,
)
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import FULL, CallEstimate, EvolveResult, Method, Variant, count_turn_calls

Operation = Literal["ADD_AGENT", "REWRITE_PROMPT", "ADD_EDGE", "REMOVE_AGENT"]


class TeamEdit(ReplySchema):
    """An edit of a team."""

    operation: Operation
    agent: str = Field(description="Id of the agent that the edit is about, as the team lists it.")
    target: str = Field(description="ADD_EDGE: id of the agent that shall also read it; else empty.")
    role: str = Field(description="ADD_AGENT: the new agent's purpose in one line; else empty.")
    prompt: str = Field(description="ADD_AGENT, REWRITE_PROMPT: the whole prompt; else empty.")
    reason: str = Field(description="What the feedback shows, in one sentence.")


@dataclass(frozen=True)
class SearchedTeam:
    """A team in the tree.

    Attributes:
        runs: on the validation questions.
        score: mean of their scores.
        rewirings: from the first team on.
        parent: its place in the tree; None for the first team.
    """

    team: Team
    runs: Sequence[Trajectory]
    score: float
    rewirings: tuple[Rewiring, ...] = ()
    parent: int | None = None


def choose_parent(scores: Sequence[float], *, uniform: float, sharpness: float, random: np.random.Generator) -> int:
    """Soft mixture of a uniform draw and one by score; `sharpness` is per hundredth of a score."""
    raised = np.exp(sharpness * 100 * (np.array(scores) - max(scores)))
    shares = uniform / len(scores) + (1 - uniform) * raised / raised.sum()
    return int(random.choice(len(scores), p=shares))


def to_rewiring(team: Team, edit: TeamEdit, *, tools: Sequence[str], length: int) -> Rewiring:
    """The rewiring that an edit means.

    Raises:
        ValueError: it means none: an unknown agent, a prompt that is blank or too long.
    """
    nodes = {agent: node for node, agent in team.topology.agents.items()}
    agent, prompt = edit.agent.strip(), edit.prompt.strip()
    if agent not in nodes:
        raise ValueError(f"there is no agent {agent!r}; agents are {', '.join(nodes)}")
    if edit.operation in ("ADD_AGENT", "REWRITE_PROMPT") and not 0 < len(prompt) <= length:
        raise ValueError(f"the prompt has {len(prompt)} characters; 1 to {length} are allowed")
    edits: Sequence[Edit]
    if edit.operation == "ADD_AGENT":
        edits = _add_agent(team, nodes[agent], edit.role, prompt, tools)
    elif edit.operation == "REMOVE_AGENT":
        edits = _remove_agent(team, nodes[agent])
    elif edit.operation == "REWRITE_PROMPT":
        edits = [RewritePrompt(agent, prompt)]
    else:
        edits = [AddEdge(nodes[agent], nodes.get(edit.target.strip(), edit.target.strip()))]
    return Rewiring(*edits, why=shorten(edit.reason, 300), operation=edit.operation, by=agent)


def _add_agent(team: Team, beside: str, role: str, prompt: str, tools: Sequence[str]) -> list[Edit]:
    """A new agent between a node and its readers; between the sink and those that it reads, if it is the sink."""
    last = beside == team.topology.sink
    sources = team.topology.predecessors[beside] if last else (beside,)
    targets = (beside,) if last else team.topology.successors[beside]
    name = next(name for number in range(1, 1000) if (name := f"agent-{number}") not in team.agents_by_id)
    agent = Agent(id=name, role=shorten(role.strip(), 200) or "works on the task", prompt=prompt, tools=tuple(tools))
    ins, outs = [AddEdge(node, name) for node in sources], [AddEdge(name, node) for node in targets]
    return [AddAgent(agent), AddNode(name, name), *ins, *outs]


def _remove_agent(team: Team, node: str) -> list[Edit]:
    topology = team.topology
    missing = [
        AddEdge(source, target)
        for source in topology.predecessors[node]
        for target in topology.successors[node]
        if Edge(source=source, target=target) not in topology.edges
    ]
    return [*missing, RemoveNode(node), RemoveAgent(topology.agents[node])]


REFUSED = 20
"""Most refused edits of a team that a request shows, the newest."""


def render_experience(tree: Sequence[SearchedTeam], parent: int, refused: Iterable[str] = ()) -> str:
    """The edits of a team that were tried, with how each changed its score, and those that were refused, with why."""
    tried = [
        f"{child.score - tree[parent].score:+.2f}: {child.rewirings[-1].operation} {child.rewirings[-1].by}: "
        f"{child.rewirings[-1].why}"
        for child in tree
        if child.parent == parent
    ]
    return "\n".join([*tried, *[*dict.fromkeys(refused)][-REFUSED:]])


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
        """Search from the team until the calls are spent or one has no failure; the best on validation replaces it."""
        given = [done for done in runs if get_score(done) is not None][: self.config.validation]
        if not given:
            return EvolveResult.of(team, notes={"why": "no graded run to learn from"})
        tree = [SearchedTeam(team, given, compute_score(given))]
        spent, tries, refused = Usage(), 0, defaultdict[int, list[str]](list)
        while spent.calls < self.config.calls * len(runs) and tree[-1].score < 1:
            here = ctx.where(sample=(tries := tries + 1))
            scores = [candidate.score for candidate in tree]
            chosen = choose_parent(
                scores, uniform=self.config.uniform, sharpness=self.config.sharpness, random=here.scope.random("select")
            )
            found, cost = await self._expand(tree, chosen, refused[chosen], here)
            spent += cost
            if isinstance(found, str):
                refused[chosen].append(shorten(found, 300))
            else:
                tree.append(found)
        best = max(tree, key=lambda candidate: candidate.score)
        count = sum(map(len, refused.values()))
        notes = {"teams": len(tree), "refused": count, "validation": {"before": tree[0].score, "after": best.score}}
        return EvolveResult.of(team, best.rewirings, notes=notes, cost=spent)

    async def _expand(
        self, tree: Sequence[SearchedTeam], chosen: int, refused: Sequence[str], ctx: Ctx[AflowConfig]
    ) -> tuple[SearchedTeam | str, Usage]:
        """A new team, one edit from a chosen one, and the cost; why it is refused if the edit cannot be made."""
        parent = tree[chosen]
        failed = [done for done in parent.runs if (get_score(done) or 0.0) < 1]
        shown = failed[int(ctx.scope.random("example").integers(len(failed)))]
        proposal, cost = await ctx.critic.try_ask(
            TeamEdit,
            "edit",
            scope=ctx.scope.at(node="edit"),
            team=render_topology(parent.team.topology),
            prompts="\n\n".join(f"[{agent.id}] {agent.prompt}" for agent in parent.team.agents),
            tools=describe_held_tools(parent.team.agents, parent.team, ctx.get_tools(parent.team)),
            experience=render_experience(tree, chosen, filter(None, refused)),
            task=shown.question.input,
            trace=format_trace(shown),
            answer=shown.answer or "",
            feedback=render_feedback(shown),
        )
        cost = cost if cost.calls else cost + Usage(calls=1)  # a failed call counts, so that the search ends
        tools = sorted({tool for agent in parent.team.agents for tool in agent.tools})
        if isinstance(proposal, ModelError):
            return "", cost
        tried = f"refused: {proposal.operation} {proposal.agent.strip()}"
        try:
            rewiring = to_rewiring(parent.team, proposal, tools=tools, length=self.config.prompt_length)
            team = parent.team.apply(rewiring)
        except (ValueError, EditError) as error:
            return f"{tried}: {error}", cost
        if problems := team.topology.problems():
            return f"{tried}: {problems[0]}", cost
        if len(team.agents) > self.config.agents:
            return f"{tried}: a team has at most {self.config.agents} agents", cost
        if team.fingerprint in {known.team.fingerprint for known in tree}:
            return f"{tried}: it makes a team that was measured before", cost
        runs = await gather_all(self._run(team, done.question, ctx) for done in parent.runs)
        cost += sum_usages(done.usage for done in runs)
        return SearchedTeam(team, runs, compute_score(runs), (*parent.rewirings, rewiring), chosen), cost

    async def _run(self, team: Team, question: Question, ctx: Ctx[AflowConfig]) -> Trajectory:
        assert ctx.grade_run is not None, "the outer evolution grades"
        here = ctx.where(task=question.id)
        done = await self.answer(team, question, here)
        return await ctx.grade_run(done.replace(sample=here.scope.sample), here.scope)


def compute_score(runs: Sequence[Trajectory]) -> float:
    """The mean score; a run that ended as an error counts 0, as equal questions are compared."""
    return mean(get_score(done) or 0.0 for done in runs)

"""The knowledge-aware Bayesian bandit: it chooses the successors of a node and learns from runs (Sec. 3.4)."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import exp, log, log1p

from pydantic import Field

from selfwire.core.protocols import Router, RouterInput
from selfwire.core.team import Team
from selfwire.core.topology import Topology
from selfwire.core.trajectory import DecisionCount, Routing, Step, Trajectory
from selfwire.core.usage import ZERO_USAGE, Objective, sum_usages
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.hiva.config import HivaConfig, KabbConfig
from selfwire.evolvers.hiva.gradients import Backward, Loss
from selfwire.evolvers.hiva.knowledge import (
    Indicators,
    ScoreSample,
    TaskConcepts,
    WeightSample,
    distance,
    mismatch,
)
from selfwire.evolvers.hiva.memory import HivaMemory, TrajectoryLesson
from selfwire.evolvers.router.config import ROUTER
from selfwire.evolvers.trajectory_text import get_fault

_BEYOND = "beyond mismatch"


class TaskMatch(FrozenModel):
    """How a task matches the team's agents; computed once per task, before the team runs.

    Args:
        depth: d_I >= 1 (D8).
        indicators: Psi_1 to Psi_4 by agent.
        matches: KM by agent, in [0, 1].
    """

    concepts: TaskConcepts = TaskConcepts()
    depth: int = Field(default=1, ge=1)
    indicators: Mapping[Id, Indicators] = Field(default_factory=dict)
    matches: Mapping[Id, float] = Field(default_factory=dict)

    def of(self, agent: Id) -> Indicators:
        """The agent's indicators; 0.5 each for an agent that was not matched."""
        return self.indicators.get(agent, (0.5, 0.5, 0.5, 0.5))


def score(theta: float, dist: float, zeta: float, *, distance_weight: float, synergy_weight: float) -> float:
    """Equation `score`: P = theta * exp(-lambda * Dist) * zeta^eta, before it is normalised."""
    return float(theta * exp(-distance_weight * dist) * zeta**synergy_weight)


def make_kabb_router(team: Team, learned: HivaMemory, match: TaskMatch, config: KabbConfig) -> Router:
    """A pure router that chooses the k best arms of a node, less those whose belief is far below the best (D32).

    Its draws are keyed by node and candidate, so that decisions do not depend on each other. The sink is no arm, unless
    the config makes it one: it always receives the output (D6).
    """
    sink, agents = team.topology.sink, team.topology.agents
    given = () if config.sink_is_arm else (sink,)
    distance_weight, synergy_weight = learned.get_score_weights(config)

    def weigh(arm: Id, node: Id, known: RouterInput, theta: float) -> float:
        members = [member for member in (*known.selected, node, arm) if member != sink]
        return score(
            theta,
            distance(match.depth, match.of(agents[arm]), learned.weights),
            learned.zeta(members),
            distance_weight=distance_weight,
            synergy_weight=synergy_weight,
        )

    def route(node: Id, successors: tuple[Id, ...], known: RouterInput) -> Routing:
        arms = [successor for successor in successors if successor not in given]
        limit = config.mismatch_limit + 1e-9
        fit = [arm for arm in arms if mismatch(match.of(agents[arm]), learned.weights) <= limit] or arms
        beliefs, scope = {arm: learned.belief(agents[arm]) for arm in fit}, known.scope.at(node=node)
        believed = {arm: beliefs[arm].mean for arm in fit}
        means = {arm: weigh(arm, node, known, believed[arm]) for arm in fit}
        if config.exploration == "gumbel":
            draws = {arm: float(scope.random(f"kabb/{arm}").gumbel()) for arm in fit}
            scores = {arm: log(max(means[arm], 1e-300)) + draws[arm] for arm in fit}
        else:
            drawn = {arm: scope.random(f"kabb/{arm}").beta(beliefs[arm].alpha, beliefs[arm].beta) for arm in fit}
            scores = {arm: weigh(arm, node, known, float(drawn[arm])) for arm in fit}
        first = sorted(fit, key=lambda arm: (-scores[arm], arm))[: config.k]
        compared = believed if config.compares == "beliefs" else _to_factors(scores, config)
        least = config.within * max((compared[arm] for arm in first), default=0.0)
        best = {arm for arm in first if compared[arm] >= least}
        free = len(fit) > (1 if config.within else config.k)
        return Routing(
            chosen=tuple(s for s in successors if s in best or s in given),
            scores=_round_scores(scores, config),
            why=_format_reason(len(arms), len(fit), len(best), config),
            free=free,
            regret=compute_regret(means, best) if free else None,
        )

    return route


def compute_regret(means: Mapping[Id, float], chosen: Collection[Id]) -> float:
    """Share of the score at the mean of beliefs that the best arms, as many as were chosen, have more than these."""
    best = sum(sorted(means.values(), reverse=True)[: len(chosen)])
    return round(max(0.0, 1 - sum(means[arm] for arm in chosen) / best), 6) if best > 0 else 0.0


def route_to_all(node: Id, successors: tuple[Id, ...], known: RouterInput) -> Routing:
    """The router without KABB: every successor is activated (App. F.1)."""
    return Routing(chosen=successors, why="every successor is activated")


def has_choice(topology: Topology, config: KabbConfig) -> bool:
    """Whether the bandit has anything to choose: two arms at some node."""
    given = () if config.sink_is_arm else (topology.sink,)
    return any(len([s for s in some if s not in given]) > 1 for some in topology.successors.values())


def has_learned_router(team: Team, config: HivaConfig) -> bool:
    """Whether a trained router chooses successors instead of the bandit; never in "w/o KABB"."""
    return config.kabb and (config.router == "learned" or (config.router == "auto" and ROUTER in team.memory))


def needs_concepts(team: Team, config: HivaConfig) -> bool:
    """Whether the bandit has a choice to make, which goes by the task's concepts (D21)."""
    return config.kabb and not has_learned_router(team, config) and has_choice(team.topology, config.routing)


def estimate_turns(team: Team, config: HivaConfig) -> tuple[dict[Id, float], float]:
    """Estimate in what share of the questions each node has a turn, and the instructions to successors of a question.

    Of the arms that the beliefs leave to the bandit each is taken to be as likely as the others.
    """
    topology, learned, instructions = team.topology, HivaMemory.of(team), 0.0
    chooses = config.kabb and not has_learned_router(team, config)
    idle = dict.fromkeys(topology.agents, 1.0) | {topology.entry: 0.0, topology.sink: 0.0}
    for node in topology.order():
        arms = [successor for successor in topology.successors[node] if successor != topology.sink]
        beliefs = {arm: learned.belief(topology.agents[arm]).mean for arm in arms}
        least = config.routing.within * max(beliefs.values(), default=0.0) if chooses else 0.0
        fit = [arm for arm in arms if beliefs[arm] >= least]
        chosen = min(len(fit), config.routing.k) if chooses else len(fit)
        for arm in fit:
            idle[arm] *= 1 - (1 - idle[node]) * chosen / len(fit)
        instructions += (1 - idle[node]) * chosen * (len(arms) > 1)
    return {node: 1 - share for node, share in idle.items()}, instructions


def make_router(team: Team, match: TaskMatch, config: HivaConfig) -> Router:
    """The router of a run: KABB over what the team has learned, or every successor without it."""
    return make_kabb_router(team, HivaMemory.of(team), match, config.routing) if config.kabb else route_to_all


def count_left_out(routing: Routing) -> int:
    """Number of arms that the mismatch limit left out of a decision, read from its reason."""
    found = re.search(rf"(\d+) {_BEYOND}", routing.why)
    return int(found[1]) if found else 0


def count_decisions(steps: Iterable[Step]) -> DecisionCount | None:
    """The decisions of a run; None where no router that learns decided."""
    made = [step.routing for step in steps if step.routing is not None and step.routing.free is not None]
    filtered = sum(not routing.free and count_left_out(routing) > 0 for routing in made)
    free = sum(bool(routing.free) for routing in made)
    regrets = [routing.regret for routing in made if routing.regret is not None]
    regret = sum(regrets) if regrets else None
    return DecisionCount(made=len(made), free=free, filtered=filtered, regret=regret) if made else None


def _to_factors(scores: Mapping[Id, float], config: KabbConfig) -> Mapping[Id, float]:
    """Scores as products; those that were perturbed are logarithms."""
    return {arm: exp(value) for arm, value in scores.items()} if config.exploration == "gumbel" else scores


def _round_scores(scores: Mapping[Id, float], config: KabbConfig) -> dict[Id, float]:
    together = sum(scores.values())
    whole = 1.0 if config.exploration == "gumbel" or together <= 0 else together
    return {arm: round(value / whole, 6) for arm, value in scores.items()}


def _format_reason(arms: int, fit: int, best: int, config: KabbConfig) -> str:
    if not arms:
        return "only the aggregator follows"
    limit = f"; {arms - fit} {_BEYOND} {config.mismatch_limit}" if fit < arms else ""
    return f"KABB, best {best} of {fit}{limit}"


def make_lesson(
    trajectory: Trajectory,
    judged: Loss,
    passed: Backward | None = None,
    match: TaskMatch | None = None,
    team: Team | None = None,
    objective: Objective = Objective(),
) -> TrajectoryLesson | None:
    """A trajectory's lesson on agents and edges; None after an infrastructure error (D13).

    On success every agent that ran has r = 1 (D2); else r is the sentiment of its own gradient, and an agent at several
    nodes has the lowest.

    Args:
        team: the team that ran; without it the lesson says nothing about lambda and eta.
        objective: the price of an agent's calls (D35); none by default.

    Raises:
        ValueError: dollars count, and the price of a model is not known.
    """
    if judged.solved is None or get_fault(trajectory) is not None or (passed is not None and passed.error is not None):
        return None
    rewards: dict[Id, int] = {step.agent: 1 for step in trajectory.steps} if judged.solved else {}
    for gradient in passed.gradients if passed is not None and not judged.solved else ():
        rewards[gradient.agent] = min(gradient.reward, rewards.get(gradient.agent, 1))
    return TrajectoryLesson(
        task=trajectory.question.id,
        solved=judged.solved,
        rewards=dict(sorted(rewards.items())),
        prices=compute_prices(trajectory, rewards, objective),
        edges=tuple(dict.fromkeys(trajectory.edges)),
        receivers={step.node: step.agent for step in trajectory.steps},
        matches={agent: match.matches.get(agent, 0.0) for agent in rewards} if match else {},
        concepts=match.concepts if match else None,
        left_out=sum(count_left_out(step.routing) for step in trajectory.steps if step.routing),
        sample=make_score_sample(trajectory, team, match, judged.solved) if match and team else None,
    )


def compute_prices(trajectory: Trajectory, agents: Iterable[Id], objective: Objective) -> dict[Id, float]:
    """Score that the calls of each agent cost in a run; nothing without a price."""
    if not objective.prices:
        return {}
    costs = {agent: sum_usages(s.usage for s in trajectory.steps if s.agent == agent) for agent in sorted(agents)}
    return {agent: objective.compute_price(ZERO_USAGE, cost) for agent, cost in costs.items()}


def learn_lessons(team: Team, outcomes: Sequence[TrajectoryLesson | None], *, config: KabbConfig) -> Team:
    """Update the memory once per iteration; lessons on lost agents and edges are set aside (D19)."""
    lessons = [o for o in outcomes if o is not None]
    return fit_memory(HivaMemory.of(team).update(lessons, config=config).save_to(team))


def fit_memory(team: Team) -> Team:
    """The team whose memory sets aside what concerns agents and edges that it has lost (D19)."""
    return HivaMemory.of(team).adapt_to(team).save_to(team)


def carry_over_learning(kept: Team, candidate: Team) -> Team:
    """The kept agents and topology with a rejected candidate's beliefs about them."""
    old, new = HivaMemory.of(kept), HivaMemory.of(candidate)
    both = new.replace(
        beliefs={**old.beliefs, **new.retired.beliefs, **new.beliefs},
        edges={**old.edges, **new.retired.edges, **new.edges},
    )
    return both.restrict_to(kept).save_to(kept)


def make_weight_sample(trajectory: Trajectory, team: Team, match: TaskMatch) -> WeightSample | None:
    """Evidence of a held-out run on the weights: the terms of Dist, averaged over its agents without the aggregator."""
    if get_fault(trajectory) is not None or trajectory.feedback is None:
        return None
    sink = team.topology.sink
    ran = [step.agent for step in trajectory.steps if step.node != sink]
    return WeightSample(terms=_average_terms(match, ran), solved=trajectory.feedback.solved) if ran else None


def make_score_sample(trajectory: Trajectory, team: Team, match: TaskMatch, solved: bool) -> ScoreSample | None:
    """Evidence of a graded run of a team on lambda and eta; None where no agent was chosen."""
    topology = team.topology
    ran = [step.node for step in trajectory.steps if step.node != topology.sink]
    chosen = [topology.agents[node] for node in ran if node != topology.entry]
    if not chosen:
        return None
    arms = [node.agent for node in topology.nodes if node.id not in (topology.entry, topology.sink)]
    nearer = [
        every - here for every, here in zip(_average_terms(match, arms), _average_terms(match, chosen), strict=True)
    ]
    return ScoreSample(
        nearer=(nearer[0], nearer[1], nearer[2], nearer[3]), synergy=log(HivaMemory.of(team).zeta(ran)), solved=solved
    )


def _average_terms(match: TaskMatch, agents: Sequence[Id]) -> Indicators:
    """log(1 + d_I) * Psi_k, averaged over agents."""
    rows = [match.of(agent) for agent in agents]
    first, second, third, fourth = (log1p(match.depth) * sum(psi) / len(rows) for psi in zip(*rows, strict=True))
    return first, second, third, fourth


def refit_weights(team: Team, held_out: Sequence[WeightSample | None]) -> Team:
    """The weights omega fitted to held-out tasks, where there are enough of mixed outcome (D14)."""
    return HivaMemory.of(team).refit(e for e in held_out if e is not None).save_to(team)

"""HiVA's memory, one frozen value in `workflow.memory["hiva"]`, and its beliefs and synergy (Sec. 3.4, 3.5, App. J)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations
from typing import Any

from pydantic import Field

from selfwire.core.team import Team
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.hiva.config import KabbConfig
from selfwire.evolvers.hiva.knowledge import (
    UNIFORM,
    Indicators,
    Knowledge,
    ScoreSample,
    TaskConcepts,
    WeightSample,
    fit_score_weights,
    fit_weights,
)

SYNERGY_BOUNDS = (1.0, 2.0)
"""At 0 nobody could ever be chosen; without an upper bound no newcomer would beat an incumbent (D5)."""


class Belief(FrozenModel):
    """Beta(alpha, beta) over an agent's or edge's success; (1, 1) is the prior."""

    alpha: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    beta: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    @property
    def mean(self) -> float:
        """Posterior mean of the success rate, in (0, 1)."""
        return self.alpha / (self.alpha + self.beta)


class Observation(FrozenModel):
    """A run of a selected agent: r less the price of its calls (D35), and KM, how its concepts overlap with the task's.

    Without a match, as the task was not characterised, only r moves the belief (D21).
    """

    reward: float = Field(ge=0, le=1)
    match: float | None = Field(default=0.0, ge=0, le=1)


def decay_belief(belief: Belief, *, decay: float, iterations: int) -> Belief:
    """The belief after some iterations without observations: it keeps gamma^dt of its distance from the prior (D1)."""
    kept = decay**iterations
    return Belief(alpha=1 + kept * (belief.alpha - 1), beta=1 + kept * (belief.beta - 1))


def update_belief(
    belief: Belief, observations: Sequence[Observation], *, decay: float, match_weight: float, iterations: int = 1
) -> Belief:
    """Equation `belief`: one update per iteration, the increments of a batch summed (D1).

    Args:
        observations: one per run of the batch that selected the agent; none if it was never selected.
        decay: gamma in (0, 1].
        match_weight: delta >= 0.
        iterations: dt, iterations since the last update (D9).
    """
    old = decay_belief(belief, decay=decay, iterations=iterations)
    matches = [o.match for o in observations if o.match is not None]
    return Belief(
        alpha=old.alpha + sum(o.reward for o in observations) + match_weight * sum(matches),
        beta=old.beta + sum(1 - o.reward for o in observations) + match_weight * sum(1 - m for m in matches),
    )


def update_synergy(synergy: float, edge: Belief, *, traffic: int, rate: float) -> float:
    """Equation `synergy`: C' = C + gamma' * mean(edge) * R, kept within the bounds (D5).

    Args:
        synergy, edge: C in [1, 2] and the edge's belief before the batch.
        traffic: R, runs of the batch that used the edge.
        rate: gamma' >= 0.
    """
    low, high = SYNERGY_BOUNDS
    return min(max(synergy + rate * edge.mean * traffic, low), high)


def team_synergy(members: Sequence[str], synergy: Callable[[str, str], float]) -> float:
    """Equation `zeta`: mean synergy over the ordered pairs of distinct members; 1 for fewer than two."""
    pairs = list(permutations(dict.fromkeys(members), 2))
    return sum(synergy(a, b) for a, b in pairs) / len(pairs) if pairs else 1.0


MEMORY_KEY = "hiva"
HISTORY = 200
"""Past tasks, and pieces of evidence for the weights, that are kept; the oldest are dropped first."""

CONCEPTS = 500
"""Most concepts of the graph; beyond that, a task's own concepts are used for its run only."""

SIMILAR = 0.5  # overlap of concepts at which two tasks count as similar


class EdgeRecord(FrozenModel):
    """Statistics of an edge.

    Args:
        belief: without decay, from the receiving agent's rewards less the price of its calls.
        synergy: C_syn in [1, 2].
        solved, runs: runs that used the edge, and how many of them solved their task.
        solved_before, runs_before: of the team, before the edge was first used.
    """

    belief: Belief = Belief()
    synergy: float = Field(default=1.0, ge=1, le=2)
    solved: int = Field(default=0, ge=0)
    runs: int = Field(default=0, ge=0)
    solved_before: int = Field(default=0, ge=0)
    runs_before: int = Field(default=0, ge=0)

    @property
    def rate(self) -> float:
        """Smoothed success rate (s + 1)/(n + 2)."""
        return (self.solved + 1) / (self.runs + 2)


class PastTask(FrozenModel):
    """A past task: its concepts, and the reward of each agent that ran."""

    main: str
    concepts: tuple[str, ...]
    rewards: Mapping[Id, int]


class TrajectoryLesson(FrozenModel):
    """Lesson of one trajectory; infrastructure errors teach nothing (D13).

    Args:
        solved: whether the task was solved (without an environment: in the aggregator's own opinion).
        rewards: r in {0, 1} of each agent that ran and was judged.
        prices: score that the calls of each of them cost; none without a price.
        edges: the (source, target) pairs of nodes that were used.
        receivers: agent by node, for the nodes that ran.
        matches: KM of the agents, in [0, 1]; none where the task was not characterised.
        concepts: of the task; None where it was not characterised.
        left_out: candidates that the mismatch limit left out.
        sample: evidence for lambda and eta; None where the task was not characterised.
    """

    task: str
    solved: bool
    rewards: Mapping[Id, int]
    prices: Mapping[Id, float] = Field(default_factory=dict)
    edges: tuple[tuple[Id, Id], ...] = ()
    receivers: Mapping[Id, Id] = Field(default_factory=dict)
    matches: Mapping[Id, float] = Field(default_factory=dict)
    concepts: TaskConcepts | None = None
    left_out: int = Field(default=0, ge=0)
    sample: ScoreSample | None = None

    @property
    def net_rewards(self) -> dict[Id, float]:
        """R of each agent less the price of its calls, in [0, 1] (D35)."""
        return {agent: max(0.0, reward - self.prices.get(agent, 0.0)) for agent, reward in self.rewards.items()}


class Retired(FrozenModel):
    """Beliefs about agents and records of edges that a team no longer has."""

    beliefs: Mapping[Id, Belief] = Field(default_factory=dict)
    edges: Mapping[str, EdgeRecord] = Field(default_factory=dict)


class HivaMemory(FrozenModel):
    """Everything that HiVA has learned.

    Args:
        iteration: number of updates, less one; -1 before the first.
        beliefs: by agent; an agent without an entry has the prior.
        edges: by `source->target`, nodes.
        weights: omega on the simplex.
        history: past tasks, for Psi_3.
        evidence: held-out tasks, for the fit of the weights.
        graded: runs that taught, for the fit of lambda and eta.
        score_weights: lambda and eta as fitted; None before the first run with a choice.
        solved, runs: of the team.
        left_out: candidates that the mismatch limit left out.
        retired: lessons of the last update on agents and edges that its rewirings removed; restored if the gate rejects
            the rewirings, forgotten by the next update (D19).
    """

    iteration: int = Field(default=-1, ge=-1)
    beliefs: Mapping[Id, Belief] = Field(default_factory=dict)
    edges: Mapping[str, EdgeRecord] = Field(default_factory=dict)
    knowledge: Knowledge = Knowledge()
    weights: Indicators = UNIFORM
    history: tuple[PastTask, ...] = ()
    evidence: tuple[WeightSample, ...] = ()
    graded: tuple[ScoreSample, ...] = ()
    score_weights: tuple[float, float] | None = None
    solved: int = Field(default=0, ge=0)
    runs: int = Field(default=0, ge=0)
    left_out: int = Field(default=0, ge=0)
    retired: Retired = Retired()

    @staticmethod
    def of(team: Team) -> "HivaMemory":
        """The memory of a team; empty if HiVA has taught it nothing."""
        return _load(_Memory(team.fingerprint, team.memory.get(MEMORY_KEY, {})))

    def save_to(self, team: Team) -> Team:
        """The team with this as HiVA's memory."""
        return team.with_memory(**{MEMORY_KEY: self.model_dump(mode="json")})

    def belief(self, agent: Id) -> Belief:
        """The belief about an agent; the prior for a new one."""
        return self.beliefs.get(agent, Belief())

    def edge(self, source: Id, target: Id) -> EdgeRecord:
        """The record of an edge; an empty one for a new edge."""
        return self.edges.get(edge_key(source, target), EdgeRecord())

    def zeta(self, members: Sequence[Id]) -> float:
        """Equation `zeta` over nodes; ordered pairs, a missing pair counts 1."""
        return team_synergy(members, lambda source, target: self.edge(source, target).synergy)

    def get_rate_beside(self, record: EdgeRecord) -> float:
        """The team's own smoothed success rate since an edge was first used, over all runs."""
        return (self.solved - record.solved_before + 1) / (self.runs - record.runs_before + 2)

    def get_score_weights(self, config: KabbConfig) -> tuple[float, float]:
        """Lambda and eta: as fitted, or the config's before there is anything to fit, and where it fixes them."""
        given = (config.distance_weight, config.synergy_weight)
        return (self.score_weights or given) if config.fits_weights else given

    def similar_runs(self, agent: Id, task: TaskConcepts) -> tuple[int, int]:
        """Successes and runs of an agent on similar past tasks."""
        rewards = [past.rewards[agent] for past in self.history if agent in past.rewards and _similar(past, task)]
        return sum(rewards), len(rewards)

    def get_familiar_concepts(self, most: int) -> tuple[str, ...]:
        """At most `most` known concepts: those of the most past tasks first, then by name."""
        tasks = Counter(concept for past in self.history for concept in past.concepts)
        return tuple(sorted(self.knowledge.concepts, key=lambda name: (-tasks[name], name))[:most])

    def update(self, outcomes: Sequence[TrajectoryLesson], *, config: KabbConfig) -> "HivaMemory":
        """The memory after one batch; beliefs about agents that did not run decay (D1, D9)."""
        if not outcomes:
            return self.replace(retired=Retired())
        past = [
            PastTask(main=o.concepts.main, concepts=tuple(sorted(o.concepts.all)), rewards=o.rewards)
            for o in outcomes
            if o.concepts
        ]
        iteration = self.iteration + 1
        samples = [o.sample.replace(batch=iteration) for o in outcomes if o.sample]
        graded, start = (*self.graded, *samples)[-HISTORY:], (config.distance_weight, config.synergy_weight)
        fits = bool(samples) and config.fits_weights
        return self.replace(
            iteration=iteration,
            graded=graded,
            score_weights=fit_score_weights(graded, self.weights, start) if fits else self.score_weights,
            beliefs=self._beliefs_after(outcomes, config),
            edges=self._edges_after(outcomes, config),
            knowledge=self._knowledge_after(outcomes),
            history=(*self.history, *past)[-HISTORY:],
            solved=self.solved + sum(o.solved for o in outcomes),
            runs=self.runs + len(outcomes),
            left_out=self.left_out + sum(o.left_out for o in outcomes),
            retired=Retired(),
        )

    def _beliefs_after(self, outcomes: Sequence[TrajectoryLesson], config: KabbConfig) -> dict[Id, Belief]:
        seen: dict[Id, list[Observation]] = {agent: [] for agent in self.beliefs}
        for outcome in outcomes:
            for agent, reward in outcome.net_rewards.items():
                observed = Observation(reward=reward, match=outcome.matches.get(agent))
                seen.setdefault(agent, []).append(observed)
        return {
            agent: update_belief(self.belief(agent), observed, decay=config.decay, match_weight=config.match_weight)
            for agent, observed in sorted(seen.items())
        }

    def _edges_after(self, outcomes: Sequence[TrajectoryLesson], config: KabbConfig) -> dict[str, EdgeRecord]:
        used: dict[tuple[Id, Id], list[TrajectoryLesson]] = {}
        for outcome in outcomes:
            for pair in dict.fromkeys(outcome.edges):
                used.setdefault(pair, []).append(outcome)
        changed = dict[str, EdgeRecord]()
        for pair, runs in used.items():
            record = self.edge(*pair)
            if not record.runs:
                record = record.replace(solved_before=self.solved, runs_before=self.runs)
            changed[edge_key(*pair)] = _edge_after(record, pair[1], runs, config)
        return dict(sorted({**self.edges, **changed}.items()))

    def _knowledge_after(self, outcomes: Sequence[TrajectoryLesson]) -> Knowledge:
        known = self.knowledge
        for outcome in outcomes:
            grown = known.with_task(outcome.concepts) if outcome.concepts else known
            known = grown if len(grown.parent) <= CONCEPTS else known
        return known

    def restrict_to(self, team: Team) -> "HivaMemory":
        """The memory for a rewired team: entries of removed agents and edges go, newcomers get their start (D5)."""
        edges = {}
        for edge in team.topology.edges:
            key = edge_key(edge.source, edge.target)
            siblings = [self.edges.get(edge_key(edge.source, t)) for t in team.topology.successors[edge.source]]
            known = [record.synergy for record in siblings if record is not None]
            edges[key] = self.edges.get(key) or EdgeRecord(synergy=sum(known) / len(known) if known else 1.0)
        return self.replace(
            beliefs={agent.id: self.belief(agent.id) for agent in team.agents},
            edges=dict(sorted(edges.items())),
            knowledge=self.knowledge.with_agents(team.agents, team.tools),
            retired=Retired(),
        )

    def adapt_to(self, team: Team) -> "HivaMemory":
        """As `restrict_to`, with the removed entries set aside until the gate has decided (D19)."""
        fitted, aside = self.restrict_to(team), self.retired
        beliefs = {agent: belief for agent, belief in self.beliefs.items() if agent not in fitted.beliefs}
        edges = {key: record for key, record in self.edges.items() if key not in fitted.edges}
        return fitted.replace(retired=Retired(beliefs={**aside.beliefs, **beliefs}, edges={**aside.edges, **edges}))

    def refit(self, evidence: Iterable[WeightSample]) -> "HivaMemory":
        """The memory with weights refitted to held-out tasks, where these are enough (D14, D20)."""
        kept = (*self.evidence, *(sample.replace(batch=self.iteration) for sample in evidence))[-HISTORY:]
        fit = fit_weights(kept, self.weights)
        return self.replace(evidence=kept, weights=fit.weights if fit else self.weights)


def edge_key(source: Id, target: Id) -> str:
    """The name of an edge in JSON."""
    return f"{source}->{target}"


def _edge_after(record: EdgeRecord, target: Id, runs: Sequence[TrajectoryLesson], config: KabbConfig) -> EdgeRecord:
    judged = [o.net_rewards.get(o.receivers.get(target, target)) for o in runs]
    seen = [Observation(reward=reward, match=0.0) for reward in judged if reward is not None]
    return record.replace(
        belief=update_belief(record.belief, seen, decay=1.0, match_weight=0.0),
        synergy=update_synergy(record.synergy, record.belief, traffic=len(runs), rate=config.synergy_rate),
        solved=record.solved + sum(o.solved for o in runs),
        runs=record.runs + len(runs),
    )


def _similar(past: PastTask, task: TaskConcepts) -> bool:
    union = task.all | set(past.concepts)
    overlap = len(task.all & set(past.concepts)) / len(union) if union else 0.0
    return (bool(past.main) and past.main == task.main) or overlap >= SIMILAR


@dataclass(frozen=True)
class _Memory:
    """A team's memory as a cache key: compared by the team's fingerprint."""

    fingerprint: str
    body: Mapping[str, Any] = field(compare=False)


@lru_cache(maxsize=64)
def _load(memory: _Memory) -> HivaMemory:
    return HivaMemory.model_validate(memory.body)

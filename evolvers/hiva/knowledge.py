"""The knowledge graph, and the knowledge distance between an agent and a task (App. D).

The graph has concepts, agents and tools, joined by is_a, requires_skill and has_tool.
It is semi-automatic: a model names the concepts of each task, and an agent is joined to the concepts that its
role and prompt name. Concepts form a tree under the root "Task".
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import log1p, sqrt
from typing import TYPE_CHECKING, TypeAlias

from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.own_tool import OwnTool
from selfwire.core.values import FrozenMap, FrozenModel, Id

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    import numpy.typing as npt

ROOT = "Task"
NAME_LENGTH = 60

_Pair = tuple[str, str]


class TaskConcepts(FrozenModel):
    """A task's concepts, by normalised names.

    Args:
        main: its primary concept; "" if nothing is known.
        broader: concepts above the main one, nearest first.
        skills: further concepts that it needs.
        parallelizability: 0 for strictly serial to 1 for fully parallel.
    """

    main: str = ""
    broader: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    parallelizability: float = Field(default=0.5, ge=0, le=1)

    @cached_property
    def all(self) -> frozenset[str]:
        """concepts(I): the main concept and the skills."""
        return frozenset(concept for concept in (self.main, *self.skills) if concept)

    def without_copies(self, find_copy: Callable[[str], str]) -> "TaskConcepts":
        """The concepts without those in which a passage of a task is found."""
        main = "" if find_copy(self.main) else self.main
        broader, skills = (tuple(c for c in some if not find_copy(c)) for some in (self.broader, self.skills))
        return self.replace(main=main, broader=broader, skills=skills)


class Knowledge(FrozenModel):
    """The graph as three sets of (from, to) pairs over names `concept:x`, `agent:x`, `tool:x` and the root.

    Args:
        is_a: concept to its broader concept or the root; one per concept, so concepts form a tree.
        requires_skill: agent or concept to a concept that it needs.
        has_tool: agent to a tool that it holds.
    """

    is_a: tuple[_Pair, ...] = ()
    requires_skill: tuple[_Pair, ...] = ()
    has_tool: tuple[_Pair, ...] = ()

    @cached_property
    def graph(self) -> "nx.DiGraph":
        """The typed, directed graph; each edge carries its `kind`."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_node(ROOT)
        for kind in ("is_a", "requires_skill", "has_tool"):
            graph.add_edges_from(getattr(self, kind), kind=kind)
        return graph

    @cached_property
    def parent(self) -> dict[str, str]:
        """Concept node to the concept node above it."""
        return dict(self.is_a)

    @cached_property
    def concepts(self) -> tuple[str, ...]:
        """Names of all concepts, sorted."""
        return tuple(sorted(node.partition(":")[2] for node in self.parent))

    def with_task(self, task: TaskConcepts) -> "Knowledge":
        """The graph with a task's concepts; known concepts keep their place in the tree."""
        parent = dict(self.parent)
        chain = [_concept(name) for name in dict.fromkeys((task.main, *task.broader)) if name]
        new = [node for i, node in enumerate(chain) if not any(c in parent for c in chain[: i + 1])]
        for node, above in zip(new, [*chain[1 : len(new) + 1], ROOT], strict=False):
            parent[node] = above
        for skill in task.skills:
            parent.setdefault(_concept(skill), ROOT)
        needs = [(_concept(task.main), _concept(skill)) for skill in task.skills if task.main and skill != task.main]
        return self.replace(
            is_a=tuple(sorted(parent.items())), requires_skill=tuple(sorted({*self.requires_skill, *needs}))
        )

    def with_agents(self, agents: Iterable[Agent], own: Iterable[OwnTool] = ()) -> "Knowledge":
        """The graph with exactly these agents, joined to the concepts that they name and the tools that they hold.

        Args:
            own: the team's own tools; what they are for is part of their holders' skills.
        """
        texts = {tool.name: tool.description for tool in own}
        skills = [pair for pair in self.requires_skill if not pair[0].startswith("agent:")]
        tools: list[_Pair] = []
        for agent in agents:
            skills += [(f"agent:{agent.id}", _concept(name)) for name in self.find_named(expertise(agent, texts))]
            tools += [(f"agent:{agent.id}", f"tool:{tool}") for tool in agent.tools]
        return self.replace(requires_skill=tuple(sorted(set(skills))), has_tool=tuple(sorted(set(tools))))

    def find_named(self, text: str) -> tuple[str, ...]:
        """Known concepts all of whose words occur in a text."""
        words = set(_words(text))
        return tuple(name for name, needed in self._words.items() if words >= needed)

    @cached_property
    def _words(self) -> dict[str, frozenset[str]]:
        return {name: frozenset(_words(name)) for name in self.concepts}

    def get_concepts(self, agent: Id) -> frozenset[str]:
        """concepts(A): the concepts that the agent is joined to."""
        return frozenset(
            concept.partition(":")[2] for owner, concept in self.requires_skill if owner == f"agent:{agent}"
        )

    def depth(self, main: str) -> int:
        """d_I: steps from the root to a task's main concept; 1 where it is unknown (D8)."""
        node, steps = _concept(main), 1
        while self.parent.get(node, ROOT) != ROOT:
            node, steps = self.parent[node], steps + 1
        return steps

    def path(self, agent: Id, main: str) -> int | None:
        """Length of the shortest dependency path from an agent to a concept; None if there is none.

        Direction is ignored; a path leads neither through the root nor through other agents (D15).
        """
        import networkx as nx

        if _concept(main) not in self._between_concepts:
            return None
        steps = nx.single_source_shortest_path_length(self._between_concepts, _concept(main))
        known = [steps[node] for name in self.get_concepts(agent) if (node := _concept(name)) in steps]
        return 1 + min(known) if known else None

    @cached_property
    def _between_concepts(self) -> "nx.Graph":
        concepts = [node for node in self.graph if node.startswith("concept:")]
        return self.graph.subgraph(concepts).to_undirected()


def expertise(agent: Agent, tools: Mapping[Id, str] = FrozenMap()) -> str:
    """An agent's role, its prompt and what its tools are for, where that is known, as the text of its skills."""
    return "\n".join([agent.role, agent.prompt, *(tools[name] for name in agent.tools if name in tools)]).strip()


def concept_name(text: str) -> str:
    """A normalised concept name: singular words in lower case, at most 60 characters; "" if nothing is left."""
    return " ".join(_words(text))[:NAME_LENGTH].strip()


def concept_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Normalised names without blanks, duplicates and the root's own name."""
    names = (concept_name(text) for text in texts)
    return tuple(dict.fromkeys(name for name in names if name and name != ROOT.lower()))


def _words(text: str) -> list[str]:
    found = re.findall(r"[^\W_]+", text.lower())
    return [w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith("ss") else w for w in found]


def _concept(name: str) -> str:
    return f"concept:{name}"


Indicators = tuple[float, float, float, float]
"""Psi_1 to Psi_4, each in [0, 1]: semantic, dependency, history and tool mismatch."""

UNIFORM: Indicators = (0.25, 0.25, 0.25, 0.25)
LONGEST_PATH = 6


class WeightSample(FrozenModel):
    """Evidence of one held-out task: log(1 + d_I) * Psi_k, averaged over the agents that ran.

    Args:
        batch: the iteration in which it was run; the tasks of a batch had the same team.
    """

    terms: Indicators
    solved: bool
    batch: int = -1


def semantic_mismatch(agent: Iterable[str], task: Iterable[str], cosine: float) -> float:
    """Psi_1: mean of the Jaccard distance of concepts(A) and concepts(I) and the cosine distance of embeddings."""
    ours, theirs = set(agent), set(task)
    union = ours | theirs
    jaccard = 1 - len(ours & theirs) / len(union) if union else 1.0
    return (jaccard + min(max(1 - cosine, 0.0), 1.0)) / 2


def dependency_mismatch(path: int | None) -> float:
    """Psi_2: length of the dependency path over 6; 1 where there is none."""
    return 1.0 if path is None else min(path, LONGEST_PATH) / LONGEST_PATH


def history_mismatch(successes: int, runs: int) -> float:
    """Psi_3: 1 - (s + 1)/(n + 2) over similar past tasks; a half where there were none."""
    return 1 - (successes + 1) / (runs + 2)


def tool_mismatch(held: Iterable[str], required: Iterable[str]) -> float:
    """Psi_4: share of the required tools that are missing; 0 where none is required."""
    needed = set(required)
    return len(needed - set(held)) / len(needed) if needed else 0.0


def knowledge_match(agent: Iterable[str], task: Iterable[str]) -> float:
    """KM = |concepts(A) & concepts(I)| / |concepts(I)|, in [0, 1]; 0 where the task has none (D4)."""
    needed = set(task)
    return len(needed & set(agent)) / len(needed) if needed else 0.0


def mismatch(indicators: Indicators, weights: Indicators) -> float:
    """The weighted mismatch, sum of omega_k * Psi_k, in [0, 1]."""
    return sum(weight * indicator for weight, indicator in zip(weights, indicators, strict=True))


def distance(depth: int, indicators: Indicators, weights: Indicators) -> float:
    """Equation `distance`: Dist = log(1 + d_I) * sum of omega_k * Psi_k."""
    return log1p(depth) * mismatch(indicators, weights)


FEWEST_TASKS = 20
NOISE = 2.5
"""Standard errors of a correlation of 0, 1/sqrt(n), that fitted weights must exceed (D20)."""

_Array: TypeAlias = "npt.NDArray[np.float64]"


class Fit(FrozenModel):
    """Fitted weights and the correlation of -Dist with success that they reach."""

    weights: Indicators
    correlation: float = Field(ge=-1.000001, le=1.000001)


def fit_weights(evidence: Sequence[WeightSample], weights: Indicators = UNIFORM) -> Fit | None:
    """Weights half way to those on the simplex that maximise the correlation of -Dist with success (App. D.5).

    An indicator that is equal in all tasks keeps its share. The best of many weights correlates with pure noise too, so
    it counts only from 2.5/sqrt(n) on, and only if it beats the weights so far (D20). Tasks are compared with those of
    their own batch (D28).

    Returns:
        None with fewer than 20 tasks in batches of mixed outcome (D14), and where the weights should stay.
    """
    import numpy as np  # needed by a fit alone

    batches = [batch for batch in _by_batch(evidence) if len({e.solved for e in batch}) == 2]
    if sum(map(len, batches)) < FEWEST_TASKS:
        return None
    solved = np.concatenate([_centre([float(e.solved) for e in batch]) for batch in batches])
    terms, old = np.concatenate([_centre([e.terms for e in batch]) for batch in batches]), np.asarray(weights)
    varying = terms.std(axis=0) > 1e-9
    share = old[varying].sum()
    if varying.sum() < 2 or share <= 0:
        return None
    best = _best(terms[:, varying], solved, old[varying] / share)
    free = len(solved) - len(batches) + 1  # each further mean takes a degree of freedom
    if _correlation(best, terms[:, varying], solved) < NOISE / sqrt(free):
        return None
    halfway = old.copy()
    halfway[varying] = (old[varying] + share * best) / 2
    fit = Fit(weights=_on_simplex(halfway), correlation=_correlation(halfway, terms, solved))
    return fit if fit.correlation > _correlation(old, terms, solved) + 1e-6 else None


def _by_batch(evidence: Sequence[WeightSample]) -> list[list[WeightSample]]:
    found: dict[int, list[WeightSample]] = {}
    for sample in evidence:
        found.setdefault(sample.batch, []).append(sample)
    return list(found.values())


def _centre(values: Sequence[float] | Sequence[Indicators]) -> _Array:
    import numpy as np  # needed by a fit alone

    rows = np.array(values, dtype=float)
    return np.asarray(rows - rows.mean(axis=0))


def _best(terms: _Array, solved: _Array, old: _Array) -> _Array:
    import numpy as np  # needed by a fit alone

    n = terms.shape[1]
    starts = [old, np.full(n, 1 / n), *(0.85 * row + 0.15 / n for row in np.eye(n)), *np.eye(n)]
    found = [old, *(_climb(start, terms, solved) for start in starts)]  # ties change nothing
    best = max(found, key=lambda omega: round(_correlation(omega, terms, solved), 9))
    return np.asarray(best / best.sum())


def _on_simplex(weights: _Array) -> Indicators:
    import numpy as np  # needed by a fit alone

    first, second, third, _ = (float(weight) for weight in np.round(weights / weights.sum(), 6))
    return first, second, third, max(round(1 - first - second - third, 6), 0.0)


def _climb(start: _Array, terms: _Array, solved: _Array) -> _Array:
    import numpy as np
    from scipy.optimize import minimize  # 0.3 s to import

    result = minimize(
        lambda omega: -_correlation(omega, terms, solved),
        start,
        method="SLSQP",
        bounds=[(0, 1)] * len(start),
        constraints=[{"type": "eq", "fun": lambda omega: omega.sum() - 1}],
    )
    result_weights = np.clip(result.x, 0, 1)
    return result_weights if np.isfinite(result_weights).all() and result_weights.sum() > 0 else start


def _correlation(omega: _Array, terms: _Array, solved: _Array) -> float:
    import numpy as np  # needed by a fit alone

    nearness = -(terms @ omega)
    if nearness.std() < 1e-9:
        return 0.0
    return float(np.corrcoef(nearness, solved)[0, 1])


STEEPEST = (30.0, 5.0)
"""Upper bounds of lambda and eta."""
SPREAD = (10.0, 2.0, 4.0)
"""Standard deviations, before any run, of lambda, of eta, and of the log odds of a batch."""


class ScoreSample(FrozenModel):
    """Evidence of one graded run for lambda and eta.

    Args:
        nearer: log(1 + d_I) * Psi_k, averaged over all agents that could have been chosen, less the average over those
            that were.
        synergy: log of zeta over the agents that ran.
        batch: the iteration in which it was run; the tasks of a batch had the same team.
    """

    nearer: Indicators
    synergy: float
    solved: bool
    batch: int = -1


def fit_score_weights(
    evidence: Sequence[ScoreSample], omega: Indicators, start: tuple[float, float]
) -> tuple[float, float]:
    """Fit lambda and eta of equation `score` by a penalised logistic regression of success on its terms (D33).

        log odds of success = level of the batch + lambda * (Dist by chance - Dist) + eta * log zeta

    Dist is the mean over the agents that were chosen, as the product of their scores decides on a team. The penalty is
    least at the start, so that a weight on which the runs say nothing stays there.

    Args:
        evidence: at least one run.
        omega: the weights of Dist.
        start: lambda and eta to begin with; a weight of 0 is switched off and stays.

    Returns:
        lambda in [0, 30] and eta in [0, 5].
    """
    import numpy as np
    from scipy.optimize import minimize  # 0.3 s to import

    numbers, batch = np.unique([sample.batch for sample in evidence], return_inverse=True)
    terms = np.array([(mismatch(sample.nearer, omega), sample.synergy) for sample in evidence])
    sign = np.array([1.0 if sample.solved else -1.0 for sample in evidence])
    signed = np.hstack([terms, np.eye(len(numbers))[batch]]) * sign[:, None]  # (runs, 2 + batches)
    centre = np.array([*start, *np.zeros(len(numbers))])
    spread = np.array([*SPREAD[:2], *np.full(len(numbers), SPREAD[2])])

    def lose(weights: _Array) -> tuple[float, _Array]:
        odds, away = signed @ weights, (weights - centre) / spread
        loss = np.logaddexp(0, -odds).sum() + (away**2).sum() / 2
        return float(loss), away / spread - signed.T @ np.exp(-np.logaddexp(0, odds))

    most = [bound if begin else 0.0 for bound, begin in zip(STEEPEST, start, strict=True)]
    bounds = [*((0.0, bound) for bound in most), *[(None, None)] * len(numbers)]
    found = minimize(lose, np.minimum(centre, [*most, *np.zeros(len(numbers))]), jac=True, bounds=bounds).x
    return round(float(found[0]), 4), round(float(found[1]), 4)

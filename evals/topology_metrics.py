"""Topology metrics of a run (HERA, Sec. 5.4): how a team's paths change while it learns.

A trajectory is a graph whose vertices V are agents and whose edges are the messages between them; nodes of one agent
are one vertex. In the paper's order:

    transition entropy   H = -sum p_ij ln p_ij       over joint shares of transitions i -> j in a window of queries
    agents               |V|                         agents that acted
    node efficiency      F1 / |V|
    self-loops           transitions i -> i
    cycles               closed paths through two agents or more, each counted once
    diameter             longest shortest path       directed, over pairs of which the second can be reached

The paper writes H with conditional probabilities without their weights; joint shares weight each transition alike. Any
method's trajectories can be measured.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise

import networkx as nx
from pydantic import Field

from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel
from selfwire.evals.table import ResultTable

WINDOW = 20  # queries of a window of the transition entropy
MOST_CYCLES = 1000
"""Most cycles that are counted: twenty agents who all write to each other make more than 10^17."""

PHASES = ("initial", "exploration", "refinement", "optimization")  # the paper's quarters of training

_MEANS = ("agents", "efficiency", "self_loops", "cycles", "diameter", "f1", "tokens")
Transition = tuple[str, str]
"""The agents that sent and received a message."""


class TrajectoryMetrics(FrozenModel):
    """The metrics of a trajectory.

    Args:
        question: id of the question.
        kind: sort of the question, see `get_query_kind`.
        cycles: at most `MOST_CYCLES`.
        diameter: 0 if no agent reaches another.
        f1: the environment's F1, or its score where it has no F1; None if the trajectory ended as an error.
    """

    question: str
    kind: str
    transitions: tuple[Transition, ...]
    agents: int = Field(ge=0)
    steps: int = Field(ge=0)
    self_loops: int = Field(ge=0)
    cycles: int = Field(ge=0)
    diameter: int = Field(ge=0)
    f1: float | None
    tokens: int = Field(ge=0)

    @property
    def efficiency(self) -> float | None:
        """F1 / |V|; None where there is no F1, or no agent acted."""
        return None if self.f1 is None or not self.agents else self.f1 / self.agents


class MetricsRow(FrozenModel):
    """Means over the trajectories of a phase of training or a sort of question; None where nothing can be averaged.

    Args:
        queries: number of questions; each may have several trajectories.
        entropy: for a phase the mean over the windows that end in it, if a window ends in every phase; else over all
            transitions of the group.
    """

    name: str
    queries: int
    trajectories: int
    entropy: float | None
    agents: float | None
    efficiency: float | None
    self_loops: float | None
    cycles: float | None
    diameter: float | None
    f1: float | None
    tokens: float | None


class RunMetrics(FrozenModel):
    """A run's metrics: by quarter of training (empty ones are left out), by sort of question, and as a whole.

    Args:
        crossed: each quarter by sort of question.
        window: queries of a window.
        entropies: transition entropy of each full window, by the query that ends it; one value if none is full.
    """

    window: int
    entropies: tuple[float, ...]
    phases: tuple[MetricsRow, ...]
    kinds: tuple[MetricsRow, ...]
    crossed: tuple[MetricsRow, ...]
    whole: MetricsRow


def compute_metrics(trajectory: Trajectory) -> TrajectoryMetrics:
    """The metrics of a trajectory."""
    found = list_transitions(trajectory)
    acted = {step.agent for step in trajectory.steps}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(sorted(acted))
    graph.add_edges_from((a, b) for a, b in found if a != b)
    return TrajectoryMetrics(
        question=trajectory.question.id,
        kind=get_query_kind(trajectory),
        transitions=found,
        agents=len(acted),
        steps=len(trajectory.steps),
        self_loops=sum(a == b for a, b in found),
        cycles=sum(1 for _ in islice(nx.simple_cycles(graph), MOST_CYCLES)),
        diameter=diameter(graph),
        f1=_f1(trajectory),
        tokens=trajectory.usage.tokens,
    )


def list_transitions(trajectory: Trajectory) -> tuple[Transition, ...]:
    """List messages as pairs of agents, in order, without nodes that never acted."""
    agents = {step.node: step.agent for step in trajectory.steps}
    return tuple((agents[a], agents[b]) for a, b in trajectory.edges if a in agents and b in agents)


def entropy(found: Iterable[Transition]) -> float | None:
    """H over the joint shares of the transitions, in nats; None if there are none."""
    counts = Counter(found)
    n = counts.total()
    return math.fsum(count / n * math.log(n / count) for count in counts.values()) if n else None


def diameter(graph: "nx.DiGraph[str]") -> int:
    """Compute the longest shortest path over reachable pairs of agents; 0 without any."""
    return max((max(lengths.values()) for _, lengths in nx.all_pairs_shortest_path_length(graph)), default=0)


def get_query_kind(trajectory: Trajectory) -> str:
    """Name the kind of a question: the method's profile of it, else the benchmark's kind, else "any"."""
    profile = trajectory.notes.get("profile")
    if isinstance(profile, dict) and profile.get("type"):
        return ", ".join(str(profile[name]) for name in ("type", "difficulty") if profile.get(name))
    return trajectory.question.kind or "any"


def compute_run_metrics(trajectories: Sequence[Trajectory], window: int = WINDOW) -> RunMetrics:
    """A run's metrics, by quarter of training and by sort of question.

    The trajectories come in the order of training, those of one query side by side; a window has at least 1 query.
    """
    if window < 1:
        raise ValueError(f"a window has at least 1 query, not {window}")
    queries = [tuple(map(compute_metrics, some)) for some in split_by_query(trajectories)]
    windows = sliding_entropies(queries, window)
    crossed = [
        _group(f"{phase}, {kind}", found)
        for phase, first, last in _list_quarters(len(queries))
        for kind, found in _split_by_kind(queries[first:last])
    ]
    entropies = tuple(value for value in windows.values() if value is not None)
    whole = _group("all", queries)
    return RunMetrics(
        window=window,
        entropies=entropies or (() if whole.entropy is None else (whole.entropy,)),
        phases=_phases(queries, windows),
        kinds=tuple(_group(kind, found) for kind, found in _split_by_kind(queries)),
        crossed=tuple(crossed),
        whole=whole,
    )


def split_by_query(trajectories: Iterable[Trajectory]) -> list[list[Trajectory]]:
    """Group trajectories by query, in order; another question or a sample that does not rise starts a new query."""
    found: list[list[Trajectory]] = []
    for trajectory in trajectories:
        last = found[-1][-1] if found else None
        if last is not None and last.question.id == trajectory.question.id and last.sample < trajectory.sample:
            found[-1].append(trajectory)
        else:
            found.append([trajectory])
    return found


def sliding_entropies(queries: Sequence[Sequence[TrajectoryMetrics]], window: int) -> dict[int, float | None]:
    """Compute the transition entropy of each full window, by the place of its last query."""
    ends = range(window - 1, len(queries))
    return {end: entropy(_transitions(queries[end - window + 1 : end + 1])) for end in ends}


def build_metrics_table(found: RunMetrics, *, crossed: bool = False) -> ResultTable:
    """Build a table with a row per phase and sort of question, or with one for each of both together."""
    head = ("", "queries", "entropy", "agents", "F1/|V|", "self-loops", "cycles", "diameter", "F1", "tokens")
    groups = found.crossed if crossed else (*found.phases, *found.kinds, found.whole)
    rows = tuple(map(_row, groups))
    note = f"entropy: of agent-to-agent transitions in nats, over windows of {found.window} queries"
    return ResultTable(head, rows, (note,))


def _phases(
    queries: Sequence[Sequence[TrajectoryMetrics]], windows: Mapping[int, float | None]
) -> tuple[MetricsRow, ...]:
    """Compute the metrics by quarter; entropies are those of windows if a window ends in every quarter."""
    quarters = _list_quarters(len(queries))
    ended = [compute_known_mean([windows.get(end) for end in range(first, last)]) for _, first, last in quarters]
    full = all(value is not None for value in ended)
    return tuple(
        _group(name, queries[first:last], value if full else None)
        for (name, first, last), value in zip(quarters, ended, strict=True)
    )


def _split_by_kind(
    queries: Sequence[Sequence[TrajectoryMetrics]],
) -> Iterator[tuple[str, list[list[TrajectoryMetrics]]]]:
    """Each sort of question, with its part of the queries."""
    for kind in sorted({metrics.kind for some in queries for metrics in some}):
        found = [[metrics for metrics in some if metrics.kind == kind] for some in queries]
        yield kind, [some for some in found if some]


def _list_quarters(queries: int) -> list[tuple[str, int, int]]:
    """List the quarters of training that have queries, each with its first query and the one after its last."""
    bounds = [queries * quarter // len(PHASES) for quarter in range(len(PHASES) + 1)]
    return [(name, *ends) for name, ends in zip(PHASES, pairwise(bounds), strict=True) if ends[0] < ends[1]]


def _group(name: str, queries: Sequence[Sequence[TrajectoryMetrics]], windowed: float | None = None) -> MetricsRow:
    every = [metrics for some in queries for metrics in some]
    return MetricsRow(
        name=name,
        queries=len(queries),
        trajectories=len(every),
        entropy=entropy(_transitions(queries)) if windowed is None else windowed,
        **{name: compute_known_mean([getattr(metrics, name) for metrics in every]) for name in _MEANS},
    )


def _transitions(queries: Iterable[Sequence[TrajectoryMetrics]]) -> list[Transition]:
    return [pair for some in queries for metrics in some for pair in metrics.transitions]


def compute_known_mean(values: Sequence[float | None]) -> float | None:
    """Compute the mean without unknown values; None if all are unknown."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _f1(trajectory: Trajectory) -> float | None:
    if trajectory.feedback is None:
        return None
    return float(trajectory.feedback.details.get("f1", trajectory.feedback.score))


def _row(group: MetricsRow) -> tuple[str, ...]:
    *means, tokens = (getattr(group, name) for name in ("entropy", *_MEANS))
    shown = (format_known(mean, ".3f") for mean in means)
    return (group.name, str(group.queries), *shown, format_known(tokens, ",.0f"))


def format_known(value: float | None, form: str) -> str:
    """Format a value for a table by a format specification; "-" if it is unknown."""
    return "-" if value is None else format(value, form)

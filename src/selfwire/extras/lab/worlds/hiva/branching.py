"""A team that branches, its tasks, and what each choice is worth; no language model acts in it.

The team is the widest that HiVA allows by default: a source, two layers of five agents, and an aggregator. Every agent
succeeds at a task of a kind with a probability of its own, drawn per seed; in each layer one agent is a specialist for
each kind. Some pairs across the layers go well together: the second succeeds more often if the first handed on to it.
A task is solved if an agent of the second layer succeeds on what an agent of the first layer got right.

An agent's prompt claims kinds of tasks, mostly those that it is good at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from selfwire.core.agent import Agent
from selfwire.core.protocols import Router, RouterInput
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.topology import make_layers
from selfwire.core.trajectory import Message, Routing, Step, Trajectory
from selfwire.core.values import FrozenModel
from selfwire.evolvers.hiva.gradients import Backward, Gradient
from selfwire.evolvers.hiva.knowledge import TaskConcepts, concept_names
from selfwire.evolvers.hiva.memory import HivaMemory

SOURCE, SINK = "source", "aggregator"
LAYERS = (("a1", "a2", "a3", "a4", "a5"), ("b1", "b2", "b3", "b4", "b5"))
AGENTS = tuple(name for layer in LAYERS for name in layer)
PLACE = {name: place for layer in LAYERS for place, name in enumerate(layer)}
K = 2
"""Successors that are chosen at a node."""
KINDS = (
    ("invoice audit", "accounting", ("arithmetic", "tax law")),
    ("budget forecast", "accounting", ("arithmetic", "trend fitting")),
    ("route planning", "logistics", ("map reading", "scheduling")),
    ("stock keeping", "logistics", ("map reading", "counting")),
    ("drug dosage", "medicine", ("pharmacology", "unit conversion")),
    ("scan reading", "medicine", ("pharmacology", "anatomy")),
)
"""Kinds of tasks: main concept, broader concept, skills; the kinds of one broader concept share a skill."""
PAIRS = tuple(combinations(range(len(LAYERS[0])), K))

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class BranchingParameters(FrozenModel):
    """Sizes and probabilities from which worlds are drawn.

    Args:
        special, other: bounds of a specialist's and of any other agent's probability of success.
        honest: probability that an agent claims a kind that it is a specialist for.
        boastful: probability that it claims any other.
        claims: whether each agent makes its own claims, or by chance those of an agent of its layer.
        paired: probability that a pair across the layers goes well together.
        synergy: what this adds to the second agent's probability.
        ceiling: the greatest probability of success.
        critic: probability that an agent's gradient of a failed task is right about its contribution.
        batch: tasks between two updates of what is learned.
        known, new: tasks of the four kinds that come first, then of two new kinds.
    """

    special: tuple[float, float] = (0.65, 0.9)
    other: tuple[float, float] = (0.1, 0.4)
    honest: float = 0.8
    boastful: float = 0.1
    claims: bool = True
    paired: float = 0.3
    synergy: float = 0.2
    ceiling: float = 0.95
    critic: float = 0.9
    batch: int = 10
    known: int = 150
    new: int = 30

    @property
    def tasks(self) -> int:
        """All tasks."""
        return self.known + self.new


@dataclass(frozen=True)
class BranchingWorld:
    """The world of a seed.

    Attributes:
        workflow: the team, with an empty memory.
        kinds: of each task, as an index of `KINDS`.
        skill: (agents, kinds) probabilities of success.
        synergy: (5, 5) what a pair across the layers adds.
        luck: (tasks, agents) draws; an agent succeeds where its probability exceeds its draw.
        fair: (tasks, agents) whether the critic would be right about an agent.
        values: (kinds, pairs, pairs, pairs) probability that a task is solved, by the pair of the first layer, and the
            pairs that its first and its second agent choose.
    """

    workflow: Team
    kinds: npt.NDArray[np.int64]
    skill: Floats
    synergy: Floats
    luck: Floats
    fair: Bools
    values: Floats


@dataclass(frozen=True)
class Run:
    """A task as the team did it: the decisions' probability of solving it, the record, and the gradients."""

    value: float
    trajectory: Trajectory
    passed: Backward


def make_world(given: BranchingParameters, seed: int) -> BranchingWorld:
    """Draw the world of a seed."""
    random = np.random.default_rng([seed, 0])
    agents, kinds, width = len(AGENTS), len(KINDS), len(LAYERS[0])
    special = np.zeros((agents, kinds), dtype=np.bool_)
    for layer, kind in product(range(len(LAYERS)), range(kinds)):
        special[layer * width + random.integers(width), kind] = True
    skill = np.where(
        special, random.uniform(*given.special, special.shape), random.uniform(*given.other, special.shape)
    )
    synergy = np.where(random.random((width, width)) < given.paired, given.synergy, 0.0)
    claims = random.random(special.shape) < np.where(special, given.honest, given.boastful)
    mixed = np.concatenate([layer * width + random.permutation(width) for layer in range(len(LAYERS))])
    order = random.permutation(kinds)
    sequence = np.concatenate([random.choice(order[:-2], given.known), random.choice(order[-2:], given.new)])
    return BranchingWorld(
        workflow=make_team(claims if given.claims else claims[mixed]),
        kinds=sequence,
        skill=skill,
        synergy=synergy,
        luck=random.random((given.tasks, agents)),
        fair=random.random((given.tasks, agents)) < given.critic,
        values=compute_values(skill, synergy, given.ceiling),
    )


def make_team(claims: Bools) -> Team:
    """The team of agents that claim kinds of tasks, (agents, kinds)."""
    ends = (
        Agent(id=SOURCE, prompt="Hands the task on."),
        Agent(id=SINK, prompt="Gives the answer.", kind="aggregator"),
    )
    agents = [Agent(id=name, prompt=_make_prompt(row)) for name, row in zip(AGENTS, claims, strict=True)]
    team = Team(method="hiva", agents=(*agents, *ends), topology=make_layers((SOURCE,), *LAYERS, (SINK,)))
    return HivaMemory().restrict_to(team).save_to(team)


def _make_prompt(claims: Bools) -> str:
    known = [", ".join((KINDS[kind][0], *KINDS[kind][2])) for kind in np.flatnonzero(claims)]
    return f"Works on a part of the task. Good at {'; '.join(known)}." if known else "Works on a part of the task."


def get_concepts(kind: int) -> TaskConcepts:
    """The concepts of a kind of task."""
    main, *rest = concept_names([KINDS[kind][0], KINDS[kind][1], *KINDS[kind][2]])
    return TaskConcepts(main=main, broader=tuple(rest[:1]), skills=tuple(rest[1:]))


def compute_values(skill: Floats, synergy: Floats, ceiling: float) -> Floats:
    """The probability of solving a task, exact, by kind and by all choices; see `BranchingWorld.values`."""
    width, kinds = len(LAYERS[0]), skill.shape[1]
    values = np.empty((kinds, len(PAIRS), len(PAIRS), len(PAIRS)))
    for (c0, firsts), (c1, left), (c2, right) in product(*(list(enumerate(PAIRS)) for _ in range(3))):
        sent = np.zeros((K, width), dtype=np.bool_)
        sent[0, list(left)] = sent[1, list(right)] = True
        more = (sent * synergy[list(firsts)]).max(axis=0)
        missed = 1 - np.minimum(skill[width:] + more[:, None], ceiling)  # (width, kinds)
        values[:, c0, c1, c2] = _combine(skill[list(firsts)], missed, sent)
    return values


def compute_value(world: BranchingWorld, kind: int, decided: Mapping[str, Sequence[str]], ceiling: float) -> float:
    """The probability, exact, that decisions by node solve a task of a kind."""
    firsts = [name for name in LAYERS[0] if name in decided[SOURCE]]
    chosen, width = [PLACE[name] for name in firsts], len(LAYERS[1])
    sent = np.array([[name in decided[first] for name in LAYERS[1]] for first in firsts])
    more = (sent * world.synergy[chosen]).max(axis=0)
    missed = 1 - np.minimum(world.skill[width:, kind] + more, ceiling)
    return float(_combine(world.skill[chosen][:, [kind]], missed[:, None], sent)[0])


def _combine(first: Floats, missed: Floats, sent: Bools) -> Floats:
    """Sum over which agents of the first layer succeed, of what the second layer then makes of it.

    Args:
        first: (chosen, kinds) probabilities of the chosen agents of the first layer.
        missed: (width, kinds) probabilities that an agent of the second layer fails.
        sent: (chosen, width) who hands on to whom.
    """
    total = np.zeros(first.shape[1])
    for right in product((False, True), repeat=len(first)):
        reached = sent[list(right)].any(axis=0) if any(right) else np.zeros(sent.shape[1], dtype=np.bool_)
        chance = np.where(np.array(right)[:, None], first, 1 - first).prod(axis=0)
        total += chance * (1 - missed[reached].prod(axis=0))
    return total


def route_task(team: Team, router: Router, question: Question, scope: Scope) -> dict[str, Routing]:
    """The decisions of a router for a task, by node, one after another as in a team's run."""
    topology = team.topology
    decided: dict[str, Routing] = {}
    selected = dict.fromkeys((topology.entry,))
    for node in (node for level in topology.levels() for node in level if node != topology.sink):
        if node in selected:
            known = RouterInput(question, scope.at(node=node), "", topology.sink, selected=tuple(selected))
            decided[node] = router(node, topology.successors[node], known)
            selected.update(dict.fromkeys(decided[node].chosen))
    return decided


def run_task(world: BranchingWorld, router: Router, number: int, scope: Scope, *, ceiling: float) -> Run:
    """Let a router decide on a task, and the world say what came of it."""
    kind = int(world.kinds[number])
    question = Question(id=f"t{number}", input=KINDS[kind][0])
    routed = route_task(world.workflow, router, question, scope.at(task=question.id))
    decided = {node: routing.chosen for node, routing in routed.items()}
    firsts = [name for name in LAYERS[0] if name in decided[SOURCE]]
    right = {name: bool(world.luck[number, place] < world.skill[place, kind]) for place, name in enumerate(LAYERS[0])}
    for place, name in enumerate(LAYERS[1]):
        more = max((world.synergy[PLACE[first], place] for first in firsts if name in decided[first]), default=0.0)
        chance = min(world.skill[len(LAYERS[0]) + place, kind] + more, ceiling)
        right[name] = bool(world.luck[number, len(LAYERS[0]) + place] < chance)
    solved = any(right[first] and right[second] for first in firsts for second in decided[first])
    fair = {name: bool(world.fair[number, place]) for place, name in enumerate(AGENTS)}
    gradients = [judge_agent(question.id, name, right[name] == fair[name]) for name in decided if name in PLACE]
    return Run(
        value=compute_value(world, kind, decided, ceiling),
        trajectory=record_run(world.workflow, question, routed, solved),
        passed=Backward(gradients=() if solved else tuple(gradients)),
    )


def judge_agent(task: str, name: str, right: bool) -> Gradient:
    """The gradient by which a critic says that an agent was right or not."""
    return Gradient(task=task, node=name, agent=name, sentiment="neutral" if right else "critical")


def record_run(team: Team, question: Question, routed: Mapping[str, Routing], solved: bool) -> Trajectory:
    """The record of a task, graded."""

    def send(node: str, routing: Routing) -> tuple[Message, ...]:
        return tuple(Message(source=node, target=target, text="") for target in routing.chosen)

    steps = [Step(node=node, agent=node, routing=routing, sent=send(node, routing)) for node, routing in routed.items()]
    return Trajectory(
        question=question,
        workflow=team.fingerprint,
        steps=(*steps, Step(node=SINK, agent=SINK)),
        answer="",
        feedback=Feedback(score=float(solved), solved=solved, text=""),
    )

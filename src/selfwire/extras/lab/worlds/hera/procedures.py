"""The worth of HERA's library, prompts and mutations, on questions of six types, each with a procedure to find out.

A procedure is an ordered pair of skills, drawn per seed. Half of them need a skill that nobody of the pool has. Every
skill has a check of its own that no prompt asks for at first. So the library has the procedures to gain, RoPE the
checks, and mutation the skills that are missing. Everything but the language model is HERA's own; see `orchestrator`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel
from selfwire.evolvers.gate import decide
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.library import QueryType
from selfwire.evolvers.trajectory_text import get_score
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.crafts import (
    ANSWERER,
    CHECKS,
    SKILLS,
    Needs,
    ScriptedModel,
    describe_skill,
    draw_needs,
    grade,
    work,
)
from selfwire.extras.lab.worlds.gains import Scale, WorldResult
from selfwire.extras.lab.worlds.hera.orchestrator import SCRIPT
from selfwire.graphs.hera import Hera
from selfwire.graphs.machine import Ctx
from selfwire.models.embeddings import HashingEmbedder

KINDS: tuple[str, ...] = tuple(kind for kind in get_args(QueryType) if kind != "other")
POOL = SKILLS[:5]
SINK = "answerer"
MAIN, START, ORACLE = "HERA", "untrained", "oracle"


class ProceduresStudy(FrozenModel):
    """Sizes and probabilities from which the world is drawn.

    Args:
        iterations, batch: questions to learn from.
        gate, test: questions that decide on prompts and pool after each iteration, and those in the end.
        checked: probability that a part of a question has to be checked.
        right: probability that the orchestrator reads rightly.
        steps: most steps of a plan.
    """

    iterations: int = 12
    batch: int = 6
    gate: int = 8
    test: int = 48
    checked: float = 0.4
    right: float = 0.8
    steps: int = 4


SYSTEMS: Mapping[str, tuple[Mapping[str, Any], frozenset[str]]] = {
    MAIN: ({}, frozenset()),
    "w/o library": ({"library": False}, frozenset()),
    "w/o RoPE": ({"rope": False}, frozenset()),
    "w/o mutation": ({"mutation": False}, frozenset()),
    "insights from random runs": ({}, frozenset({"Reflection"})),
    "random rules": ({}, frozenset({"PromptVariant", "Contrast"})),
    "random mutations": ({}, frozenset({"Mutation"})),
    "all by chance": ({}, frozenset(SCRIPT) - {"QueryProfile", "TopologyPlan", "PromptDiff"}),
}
"""Switches of the method, and replies that are drawn by chance at the same calls."""


@dataclass(frozen=True)
class Procedures:
    """A world.

    Attributes:
        workflow: the pool, as it starts.
        procedures: parts in order, by type.
        needs: the checks that each question's parts need, by id.
        train, gate, test: questions, train and gate by iteration.
    """

    workflow: Team
    procedures: Mapping[str, tuple[str, ...]]
    needs: Mapping[str, Needs]
    train: Sequence[Sequence[Question]]
    gate: Sequence[Sequence[Question]]
    test: Sequence[Question]

    def work(self, prompt: str, handed: str, task: str) -> str:
        """An agent's output."""
        return work(prompt, handed, self.needs[task])

    async def grade(self, done: Trajectory, at: Scope) -> Trajectory:
        """The trajectory with the environment's feedback."""
        kind = done.question.input.split()[1]
        return done.with_feedback(grade(done.answer or "", self.procedures[kind]))


def make_world(given: ProceduresStudy, seed: int) -> Procedures:
    """Draw a world."""
    random = np.random.default_rng(seed)
    missing = [skill for skill in SKILLS if skill not in POOL]
    procedures = {}
    for place, kind in enumerate(random.permutation(KINDS)):
        pair = [str(skill) for skill in random.permutation(POOL)[:2]]
        if place % 2:
            pair[int(random.integers(2))] = str(random.choice(missing))
        procedures[str(kind)] = tuple(pair)
    checks = dict(zip(SKILLS, map(str, random.permutation(CHECKS)), strict=False))
    total = given.iterations * (given.batch + given.gate) + given.test
    kinds = [str(kind) for _ in range(-(-total // len(KINDS))) for kind in random.permutation(KINDS)]
    questions = [Question(id=f"q{n}", input=f"A {kinds[n]} question, number {n}.") for n in range(total)]
    train, gate, test = np.cumsum([given.iterations * given.batch, given.iterations * given.gate, given.test])
    return Procedures(
        workflow=make_pool(POOL),
        procedures=procedures,
        needs=draw_needs(random, questions, checks, given.checked),
        train=_batch(questions[:train], given.batch),
        gate=_batch(questions[train:gate], given.gate),
        test=questions[gate:test],
    )


def _batch(questions: Sequence[Question], size: int) -> list[Sequence[Question]]:
    return [questions[start : start + size] for start in range(0, len(questions), size)]


def make_pool(skills: Sequence[str]) -> Team:
    """Make a pool of an agent per skill and an agent that answers; by default the first of them works alone."""
    agents = [Agent(id=skill, role=f"Can {skill}.", prompt=describe_skill(skill)) for skill in skills]
    sink = Agent(id=SINK, role="Gives the answer.", prompt=ANSWERER, kind="aggregator")
    return Team(method="hera", agents=(*agents, sink), topology=make_chain(skills[0], SINK))


async def train(method: Hera, ctx: Ctx[HeraConfig], world: Procedures, seed: int) -> Team:
    """Learn from all train questions, group by group, with a gate after each batch as in the outer evolution."""
    workflow = world.workflow
    for iteration, (batch, held_out) in enumerate(zip(world.train, world.gate, strict=True)):
        here = replace(ctx, at=Scope(seed=seed, iteration=iteration, phase="rollout"))
        groups = [await method.explore(workflow, question, here) for question in batch]
        graded = [await world.grade(done, here.at) for group in groups for done in group]
        found = await method.propose(workflow, graded, replace(here.where(phase="evolve"), grade_run=world.grade))
        candidate = found.workflow
        if candidate.agents != workflow.agents:
            gate = here.where(phase="gate")
            before, after = [await solve(method, gate, world, team, held_out) for team in (workflow, candidate)]
            scores, calls = [[get_score(done) for done in side] for side in (before, after)], [0.0] * len(held_out)
            if not decide(scores[0], scores[1], calls, calls, 0).accepted:
                candidate = method.keep_memory(workflow, candidate)
        workflow = candidate
    return workflow


async def solve(
    method: Hera, ctx: Ctx[HeraConfig], world: Procedures, team: Team, questions: Sequence[Question]
) -> list[Trajectory]:
    """Answer questions, without learning."""
    return [await world.grade(await method.answer(team, question, ctx), ctx.at) for question in questions]


async def run_seed(given: ProceduresStudy, seed: int) -> WorldResult:
    """All systems in the world of one seed."""
    world = make_world(given, seed)
    figures = {ORACLE: {"score": 1.0}}
    for name, (switches, blind) in {START: ({}, frozenset[str]()), **SYSTEMS}.items():
        model = ScriptedModel(SCRIPT, world.work, given.right, blind)
        method = Hera(HeraConfig(steps=given.steps, **switches))
        ctx = method.make_ctx(model, {}, HashingEmbedder(), at=Scope(seed=seed, phase="test"))
        team = world.workflow if name == START else await train(method, ctx, world, seed)
        calls = model.calls
        done = await solve(method, ctx, world, team, world.test)
        score = sum(get_score(trajectory) or 0.0 for trajectory in done) / len(done)
        figures[name] = {"score": score, "calls": calls}
    return WorldResult(seed=seed, figures=figures)


STUDY = ProceduresStudy()
SCALE = Scale("score", START, ORACLE, MAIN)
WORLD = World(
    STUDY,
    run_seed,
    scale=SCALE,
    claims=(
        SCALE.claim("HERA, against the same calls without what they say", "all by chance"),
        SCALE.claim("experience library", "w/o library"),
        SCALE.claim("what the insights say", "insights from random runs"),
        SCALE.claim("RoPE", "w/o RoPE"),
        SCALE.claim("what the variants say", "random rules"),
        SCALE.claim("topology mutation", "w/o mutation"),
        SCALE.claim("what the mutations say", "random mutations"),
    ),
)

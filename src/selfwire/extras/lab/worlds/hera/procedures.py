"""The worth of HERA's library, prompts and mutations, on questions of six types, each with a procedure to find out.

A procedure is an ordered pair of skills, drawn per seed. Half of them need a skill that nobody of the pool has. Every
skill has a check of its own that no prompt asks for at first. So the library has the procedures to gain, RoPE the
checks, and mutation the skills that are missing. Everything but the language model is HERA's own.
"""

import re
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
    Reader,
    Reading,
    ScriptedModel,
    describe_check,
    describe_skill,
    draw_needs,
    find_skills,
    find_slips,
    grade,
    work,
)
from selfwire.extras.lab.worlds.gains import Scale, WorldResult
from selfwire.graphs.hera import Hera
from selfwire.graphs.machine import Ctx
from selfwire.models.embeddings import HashingEmbedder

FOLLOWED = 0.7
"""Probability that a plan of a group follows an insight; a plan at temperature 0 always does."""
TRUSTED = 0.2
"""Utility from which an insight is followed."""


def characterize(given: Reading) -> dict[str, Any]:
    """The type of a question, which its text names."""
    kind = given.sections["task"].split()[1]
    return {"query_type": kind, "difficulty": "medium", "summary": f"{kind} {kind} {kind}"}


def plan(given: Reading) -> dict[str, Any]:
    """A chain: the one that the best insight for this type names, else a random one of the greatest length."""
    roles = dict(re.findall(r"^([\w-]+): (.*)$", given.sections["agents"], re.MULTILINE))
    answering = [name for name, role in roles.items() if not find_skills(role)]
    workers = [name for name in roles if name not in answering]
    if not given.warm or given.random.random() < FOLLOWED:
        chain = _find_advice(given, workers)
    else:
        chain = []
    if not chain:
        most = int(re.findall(r"\d+", given.sections["limits"])[0]) - 1
        chain = [str(name) for name in given.random.permutation(workers)[:most]]
    steps = [{"step": n, "agent": name, "depends_on": [n - 1] if n > 1 else []} for n, name in enumerate(chain, 1)]
    last = len(steps) + 1
    return {"execution_order": [*steps, {"step": last, "agent": answering[0], "depends_on": [last - 1]}]}


def _find_advice(given: Reading, workers: list[str]) -> list[str]:
    kind = given.sections.get("profile", " ").split(" ")[0]
    found = re.findall(r"^- \((\w+), utility ([\d.]+)\) (.*)$", given.sections.get("insights", ""), re.MULTILINE)
    fitting = [(float(utility), text) for of, utility, text in found if of == kind and float(utility) >= TRUSTED]
    for _, text in sorted(fitting, reverse=True):
        if named := [name for name in re.findall(r"[\w-]+", text) if name in workers]:
            return named
    return []


def reflect(given: Reading) -> dict[str, Any]:
    """Recommends the topology of the best run; of a random one where it reads wrongly."""
    kind = given.sections["profile"].split()[0]
    topologies = re.findall(r"^topology: (.*)$", given.sections["group"], re.MULTILINE)
    chosen = topologies[0] if given.right else given.draw(topologies)
    names = [re.sub(r"^\S+ \(agent (\S+)\)", r"\1", part).split()[0] for part in chosen.split("; ")]
    return {"insights": [{"query_type": kind, "insight": f"For {kind} questions run {', then '.join(names)}."}]}


def consolidate(given: Reading) -> dict[str, Any]:
    """A new insight takes the place of entries for its type with a poor record; otherwise it is added."""
    entries = re.findall(r"^\[(\w+)\] \((\w+), utility ([\d.]+) over (\d+) uses\)", given.sections["library"], re.M)
    operations = []
    for kind, text in re.findall(r"^- \((\w+)\) (.*)$", given.sections["new"], re.MULTILINE):
        poor = [id for id, of, utility, uses in entries if of == kind and float(utility) < TRUSTED and int(uses) >= 3]
        operation = "PRUNE" if poor and given.right else "ADD"
        operations.append({"operation": operation, "new_insight": text, "target_entry_ids": poor})
    return {"operations": operations}


def blame(given: Reading) -> dict[str, Any]:
    """The first agent whose own line has a slip, else the last one before the answer."""
    parts = re.split(r"^\[([\w-]+)\] ", given.sections["trace"], flags=re.MULTILINE)[1:]
    ran = [(name, text.strip().splitlines() or [""]) for name, text in zip(parts[::2], parts[1::2], strict=True)]
    workers = [name for name, _ in ran[:-1]] or [ran[-1][0]]
    slipped = [name for name, lines in ran[:-1] if find_slips(lines[-1])]
    right = slipped[0] if slipped else workers[-1]
    return {"agent": right if given.right else given.draw(workers), "cause": given.sections["feedback"]}


def mutate(given: Reading) -> dict[str, Any]:
    """An agent that has what the feedback says is missing, of the pool and a new one."""
    roles = dict(re.findall(r"^([\w-]+): (.*)$", given.sections["agents"], re.MULTILINE))
    missing = find_skills(given.sections["feedback"])
    skill = missing[0] if missing and given.right else given.draw(SKILLS)
    able = [name for name, role in roles.items() if skill in find_skills(role)]
    return {
        "alternative": able[0] if able else given.draw(list(roles)),
        "name": skill,
        "role": f"Can {skill}.",
        "instruction": describe_skill(skill),
    }


def vary(given: Reading) -> dict[str, Any]:
    """The check that the agent's last failure shows to be missing."""
    seen = find_slips(given.sections["failures"].rpartition("it did:")[2])
    check = seen[-1] if seen and given.right else given.draw(CHECKS)
    return {"instructions": [describe_check(check)]}


def contrast(given: Reading) -> dict[str, Any]:
    """The instructions of variants that score better than the original prompt repeated."""
    blocks = re.split(r"\n\n(?=variant |original )", given.sections["variants"])
    scored = [(block, float(re.findall(r"score ([\d.]+)", block)[0])) for block in blocks]
    control = next((score for block, score in scored if block.startswith("original prompt, repeated")), 0.0)
    varied = [(re.findall(r"adds: (.*)", block)[0], score) for block, score in scored if block.startswith("variant")]
    better = [text for text, score in varied if score > control]
    rules = better if given.right else [given.draw([text for text, _ in varied])]
    return {"operational_rules": [{"rule": text} for text in dict.fromkeys(rules)]}


def integrate(given: Reading) -> dict[str, Any]:
    """All rules that are proposed."""
    return {"added_rules": re.findall(r"^rule: (.*)$", given.sections["proposed"], re.MULTILINE)}


SCRIPT: dict[str, Reader] = {
    "QueryProfile": characterize,
    "TopologyPlan": plan,
    "Reflection": reflect,
    "LibraryOperations": consolidate,
    "FailedAgent": blame,
    "Mutation": mutate,
    "PromptVariant": vary,
    "Contrast": contrast,
    "PromptDiff": integrate,
}


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
        here = replace(ctx, scope=Scope(seed=seed, iteration=iteration, phase="rollout"))
        groups = [await method.explore(workflow, question, here) for question in batch]
        graded = [await world.grade(done, here.scope) for group in groups for done in group]
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
    return [await world.grade(await method.answer(team, question, ctx), ctx.scope) for question in questions]


async def run_seed(given: ProceduresStudy, seed: int) -> WorldResult:
    """All systems in the world of one seed."""
    world = make_world(given, seed)
    figures = {ORACLE: {"score": 1.0}}
    for name, (switches, blind) in {START: ({}, frozenset[str]()), **SYSTEMS}.items():
        model = ScriptedModel(SCRIPT, world.work, given.right, blind)
        method = Hera(HeraConfig(steps=given.steps, **switches))
        ctx = method.make_ctx(model, {}, HashingEmbedder(), scope=Scope(seed=seed, phase="test"))
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

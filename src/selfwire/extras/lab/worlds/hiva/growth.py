"""The worth of better prompts and of more agents to HiVA, in tasks whose parts are found out by failing.

A task has five parts, each for a skill of its own, which build on one another as a tree that is drawn per seed: a part
needs what it builds on, and is spoiled by anything else. The seed team can do the first part. All others need an agent
more, behind the right one, beside or after its present successors; no prompt can take its place, as an agent has one
skill. Every skill has a check of its own that many tasks need, which only a better prompt can bring.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Message, Trajectory
from selfwire.core.values import FrozenModel
from selfwire.evolvers.gate import GateDecision, decide
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.evolvers.trajectory_text import get_score
from selfwire.extras.lab.worlds.catalogue import World
from selfwire.extras.lab.worlds.crafts import (
    ANSWERER,
    CHECKS,
    PARTIAL,
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
    work,
)
from selfwire.extras.lab.worlds.gains import Scale, WorldResult
from selfwire.graphs.hiva import AGGREGATOR, SOURCE, Hiva
from selfwire.graphs.machine import Ctx
from selfwire.models.embeddings import HashingEmbedder

MISSING, USELESS = "Somebody must {} next.", "{} is of no use here."


def diagnose(given: Reading) -> dict[str, Any]:
    """Repeat what the environment says; the fault lies before the aggregator."""
    return {"feedback": given.sections["feedback"].partition("\n")[2], "sentiment": "neutral"}


def localise(given: Reading) -> dict[str, Any]:
    """Find an agent's share: a slip in its own part, a part that is missing after its own, a colleague in the way."""
    skills, said = find_skills(given.sections["role"]), given.sections["feedback"]
    own = re.findall(rf"^{skills[0]}: .*$", given.sections["output"], re.MULTILINE) if skills else []
    slips, team = find_slips("\n".join(own)), []
    if skills:
        team += [MISSING.format(skill) for skill in re.findall(rf"Nobody was there to (\w+) after {skills[0]}\.", said)]
    team += [
        USELESS.format(agent)
        for agent in re.findall(r"^\[([\w-]+)\].*in the way", given.sections.get("successor_feedback", ""), re.M)
    ]
    overall = "This agent is in the way." if any("spoiled" in line for line in own) else ""
    if not given.right:
        slips = [given.draw(CHECKS)] if given.random.random() < 0.5 else []
        team = [MISSING.format(given.draw(SKILLS))] if not slips else []
    concerns = {(True, True): "both", (True, False): "semantics", (False, True): "topology"}
    return {
        "system_prompt_feedback": " ".join(map(describe_check, slips)),
        "tool_feedback": "",
        "overall_feedback": " ".join(filter(None, [overall, *team])),
        "concerns": concerns.get((bool(slips), bool(team)), "none"),
        "sentiment": "critical" if slips or team or overall else "neutral",
    }


def rewrite(given: Reading) -> dict[str, Any]:
    """The prompt with the check that most gradients ask for."""
    wanted = Counter(re.findall(r"Check the (\w+)\.", given.sections["gradients"]))
    check = wanted.most_common(1)[0][0] if wanted and given.right else given.draw(CHECKS)
    return {"prompt": f"{given.sections['prompt']} {describe_check(check)}"}


def decide_change(given: Reading) -> dict[str, Any]:
    """The change that most gradients ask for: a new agent beside the successors there are, or one agent less."""
    said, offered = given.sections["gradients"], given.sections["operations"].splitlines()
    targets = dict(re.findall(r"^([\w-]+): (.*)$", given.sections["successors"], re.MULTILINE))
    if not given.right:
        return _draw_change(given, offered, list(targets))
    wanted = Counter([("add", skill) for skill in re.findall(r"Somebody must (\w+) next", said)])
    wanted += Counter([("remove", agent) for agent in re.findall(r"([\w-]+) is of no use", said)])
    there = {skill for text in targets.values() for skill in find_skills(text)}
    for (change, what), _ in wanted.most_common():
        if change == "remove" and what in targets and "REMOVE_SUCCESSOR" in offered:
            return {"operation": "REMOVE_SUCCESSOR", "successor": what}
        if change == "add" and what not in there:
            alone = not there
            for operation in ("ADD_SERIAL", "ADD_PARALLEL") if alone else ("ADD_PARALLEL", "ADD_SERIAL"):
                if operation in offered:
                    return {"operation": operation, "description": describe_skill(what)}
    return {"operation": "NO_CHANGE"}


def _draw_change(given: Reading, offered: list[str], targets: list[str]) -> dict[str, Any]:
    operation = given.draw([operation for operation in offered if operation != "NO_CHANGE"] or offered)
    if operation.startswith("ADD_"):
        return {"operation": operation, "description": describe_skill(given.draw(SKILLS))}
    return {"operation": operation, "successor": given.draw(targets) if operation == "REMOVE_SUCCESSOR" else ""}


def profile(given: Reading) -> dict[str, Any]:
    """Name the same concept for all tasks, whose parts can partly be worked on side by side."""
    return {
        "main_concept": "piece work", "broader": [], "concepts": [], "required_tools": [], "parallelizability": 0.6,
    }  # fmt: skip


SCRIPT: dict[str, Reader] = {
    "GlobalGradient": diagnose,
    "AgentGradient": localise,
    "PromptRewrite": rewrite,
    "TopologyDecision": decide_change,
    "TaskProfile": profile,
}


MAIN, START, ORACLE = "HiVA", "untrained", "oracle"


class GrowthStudy(FrozenModel):
    """Sizes and probabilities from which the world is drawn.

    Args:
        parts: of a task.
        iterations, batch: tasks to learn from.
        gate, test: tasks that decide on each iteration's changes, and those in the end.
        checked: probability that a part of a task has to be checked.
        right: probability that a critic reads rightly.
        poor: the same for poor critics.
    """

    parts: int = 5
    iterations: int = 12
    batch: int = 8
    gate: int = 12
    test: int = 60
    checked: float = 0.7
    right: float = 0.8
    poor: float = 0.5


POOR = "HiVA, critics right half the time"
SYSTEMS: Mapping[str, tuple[Mapping[str, Any], frozenset[str]]] = {
    MAIN: ({}, frozenset()),
    POOR: ({}, frozenset()),
    "w/o SEV": ({"semantic_evolution": False}, frozenset()),
    "w/o TEV": ({"topology_evolution": False}, frozenset()),
    "random prompts": ({}, frozenset({"PromptRewrite"})),
    "random topology": ({}, frozenset({"TopologyDecision"})),
    "random edits": ({}, frozenset({"PromptRewrite", "TopologyDecision"})),
}
"""Switches of the method, and changes that are drawn by chance where and as often as the method makes some."""


@dataclass(frozen=True)
class GrowthWorld:
    """A world.

    Attributes:
        parents: the part on which each part builds, "" for the first one.
        needs: the checks that each task's parts need, by id.
        train, gate, test: tasks, train and gate by iteration.
    """

    parents: Mapping[str, str]
    needs: Mapping[str, Needs]
    train: Sequence[Sequence[Question]]
    gate: Sequence[Sequence[Question]]
    test: Sequence[Question]

    def find_ancestors(self, skill: str) -> tuple[str, ...]:
        """The parts on which one builds, nearest first."""
        parent = self.parents[skill]
        return (parent, *self.find_ancestors(parent)) if parent else ()

    def work(self, prompt: str, handed: str, task: str) -> str:
        """An agent's output."""
        return work(prompt, handed, self.needs[task], {skill: self.find_ancestors(skill) for skill in self.parents})

    def grade(self, done: Trajectory) -> Trajectory:
        """The trajectory with the environment's feedback: the mean over parts, and the first fault of each."""
        lines = (done.answer or "").splitlines()
        scores, faults = [], []
        for skill, parent in self.parents.items():
            own = [line for line in lines if line.startswith(f"{skill}: done")]
            slips = find_slips(min(own, key=len)) if own else []
            scores.append((PARTIAL if slips else 1.0) if own else 0.0)
            faults += [f"In the part of who can {skill} the {slips[0]} are off."] if slips else []
            if not own and (not parent or any(line.startswith(f"{parent}: done") for line in lines)):
                faults.append(f"Nobody was there to {skill} after {parent}.")
        score = sum(scores) / len(scores)
        return done.with_feedback(Feedback(score=score, solved=score == 1.0, text=" ".join(faults) or "Right."))


def make_world(given: GrowthStudy, seed: int) -> GrowthWorld:
    """Draw a world."""
    random = np.random.default_rng(seed)
    skills = [str(skill) for skill in random.permutation(SKILLS)[: given.parts]]
    parents = {skills[0]: ""} | {skill: skills[int(random.integers(n))] for n, skill in enumerate(skills[1:], 1)}
    checks = dict(zip(skills, map(str, random.permutation(CHECKS)), strict=False))
    total = given.iterations * (given.batch + given.gate) + given.test
    questions = [Question(id=f"t{n}", input=f"A piece of work, number {n}.") for n in range(total)]
    learned = given.iterations * given.batch
    return GrowthWorld(
        parents=parents,
        needs=draw_needs(random, questions, checks, given.checked),
        train=[questions[n : n + given.batch] for n in range(0, learned, given.batch)],
        gate=[questions[n : n + given.gate] for n in range(learned, total - given.test, given.gate)],
        test=questions[total - given.test :],
    )


class SequentialHiva(Hiva):
    """HiVA whose teams run one agent after the other, without a graph of their own or instructions between agents."""

    def start(self, skill: str) -> Team:
        """The seed team, whose source has a skill."""
        seed, prompts = self.seed(), {SOURCE: describe_skill(skill), AGGREGATOR: ANSWERER}
        agents = tuple(agent.replace(prompt=prompts[agent.id]) for agent in seed.agents)
        started = seed.replace(agents=agents)
        return HivaMemory().restrict_to(started).save_to(started)

    async def answer(self, team: Team, question: Question, ctx: Ctx[HivaConfig]) -> Trajectory:
        """Run the team once; every successor is activated."""
        topology, act = team.topology, ctx.make_runner(team)
        inboxes: dict[str, list[Message]] = {node: [] for node in topology.agents}
        steps = []
        for node in topology.order():
            here = ctx.scope.at(task=question.id, node=node)
            step = await act(team.agent_at(node), question, inboxes[node], scope=here)
            targets = topology.successors[node]
            sent = tuple(Message(source=node, target=target, text=step.output) for target in targets)
            for message in sent:
                inboxes[message.target].append(message)
            steps.append(step.replace(sent=sent))
        return Trajectory(question=question, workflow=team.fingerprint, steps=tuple(steps), answer=steps[-1].output)


async def train(hiva: Hiva, world: GrowthWorld, team: Team, ctx: Ctx[HivaConfig]) -> Team:
    """Learn from all train tasks, with a gate after each batch as in the outer evolution."""
    used = 0
    for iteration, (batch, held_out) in enumerate(zip(world.train, world.gate, strict=True)):
        ctx = ctx.where(iteration=iteration, phase="rollout")
        done = await solve(hiva, world, team, batch, ctx)
        candidate = (await hiva.propose(team, done, ctx.where(phase="evolve"))).workflow
        at_gate = ctx.where(phase="gate")
        if (candidate.agents, candidate.topology) == (team.agents, team.topology):
            team = candidate
            continue
        before = await solve(hiva, world, team, held_out, at_gate)
        verdict = compare(before, await solve(hiva, world, candidate, held_out, at_gate), used)
        used = verdict.patience_used
        if not verdict.accepted:
            candidate = hiva.keep_memory(team, candidate)
            removal = hiva.propose_pruning(candidate, {}) if verdict.try_pruning else None
            smaller = candidate.apply(removal) if removal else candidate
            if removal and compare(before, await solve(hiva, world, smaller, held_out, at_gate), used).accepted:
                candidate = hiva.keep_memory(smaller, candidate)
        team = candidate
    return team


def compare(before: Sequence[Trajectory], after: Sequence[Trajectory], used: int) -> GateDecision:
    """The gate's decision on a candidate."""
    scores = [[get_score(done) for done in side] for side in (before, after)]
    calls = [[done.usage.calls for done in side] for side in (before, after)]
    return decide(scores[0], scores[1], calls[0], calls[1], used)


async def solve(
    hiva: Hiva, world: GrowthWorld, team: Team, tasks: Sequence[Question], ctx: Ctx[HivaConfig]
) -> list[Trajectory]:
    """Work on tasks, without learning."""
    return [world.grade(await hiva.answer(team, task, ctx)) for task in tasks]


async def run_seed(given: GrowthStudy, seed: int) -> WorldResult:
    """All systems in the world of one seed."""
    world = make_world(given, seed)
    figures = {ORACLE: {"score": 1.0}}
    for name, (switches, blind) in {START: ({}, frozenset[str]()), **SYSTEMS}.items():
        model = ScriptedModel(SCRIPT, world.work, given.poor if name == POOR else given.right, blind)
        hiva = SequentialHiva(HivaConfig(kabb=False, **switches))
        ctx = hiva.make_ctx(model, {}, HashingEmbedder(), scope=Scope(seed=seed))
        team = hiva.start(next(iter(world.parents)))
        team = team if name == START else await train(hiva, world, team, ctx)
        calls = model.calls
        done = await solve(hiva, world, team, world.test, ctx.where(phase="test"))
        score = sum(get_score(run) or 0.0 for run in done) / len(done)
        figures[name] = {"score": score, "calls": calls, "agents": len(team.agents)}
    return WorldResult(seed=seed, figures=figures)


STUDY = GrowthStudy()
SCALE = Scale("score", START, ORACLE, MAIN)
WORLD = World(
    STUDY,
    run_seed,
    scale=SCALE,
    claims=(
        SCALE.claim("semantic evolution", "w/o SEV"),
        SCALE.claim("what the rewrites say", "random prompts"),
        SCALE.claim("topological evolution", "w/o TEV"),
        SCALE.claim("what the changes of the team are", "random topology"),
        SCALE.claim("both, against random edits at the same places", "random edits"),
    ),
)

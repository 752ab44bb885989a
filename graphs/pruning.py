"""Pruning: how much each part of a team is worth, and what can be taken out of it without a loss.

A part is an agent, an edge, a tool that an agent holds, the model that an agent asks where a cheaper one is named, or a
sentence of an agent's prompt; first, where every question has a plan of its own, these plans. Its worth is measured by
leaving it out, or by asking the cheaper model: the mean paired difference of the scores with and without it, on train
tasks. Then the parts that are worth nothing are taken out, agents first, and the gate compares the smaller team with
the whole on held-out tasks; one with other models must also cost fewer dollars there. Parts that stand in for each
other are each worth nothing and together much, so that a group is measured as a whole before, on further train tasks: a
proof costs far more calls, and one that fails makes the next harder. The entry and the sink of a team stay, and may be
given cheaper models. A run tries a number of sentences, once no other part can go: the longest, which cost most tokens.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.edits import (
    AddEdge,
    Edit,
    RemoveAgent,
    RemoveEdge,
    RemoveNode,
    ReplaceTopology,
    Revoke,
    Rewiring,
    RewritePrompt,
    SetModel,
)
from selfwire.core.errors import EditError
from selfwire.core.plugins import is_graph
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.text import split_sentences
from selfwire.core.topology import Topology, find_dead_nodes, find_reachable
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import ZERO_USAGE, Usage, UsageAccumulator
from selfwire.core.values import FrozenMap, FrozenModel
from selfwire.evolvers.frozen import AGENT, find_frozen_change
from selfwire.evolvers.gate import SIMPLER_PRICE, compute_log_evidence
from selfwire.evolvers.trajectory_text import gather_all
from selfwire.graphs.insertions import list_insertions, list_removals, list_specialists
from selfwire.graphs.method import Ctx, EvolveResult, Method
from selfwire.models.budget import Price

KEY = "pruning"
"""Name of the record in a team's memory."""
SET_MODEL = "SET_MODEL"
"""Operation of the rewirings that give an agent another model."""
LOOK = 5
"""Tasks after which it is looked at whether a part is needed, and so need not be left out again."""
CALL = 0.002
"""Least that taking a part out saves: the price of a call, by the usual objective."""
OWN_CALLS = "(the method)"
"""Row of the calls that no agent made."""

Kind = Literal["plan", "agent", "edge", "tool", "model", "sentence"]
KINDS: tuple[Kind, ...] = ("plan", "agent", "edge", "tool", "model", "sentence")
ModelsByPrice = Mapping[str, Sequence[str]]
"""By agent, names of models for it, from the cheapest to the one that it asks."""
ANSWER_FORM = r"answer\w*|repl(?:y|ies)|respon\w+|returns?|outputs?|form(?:at\w*)?|json|tools?"
"""Words of sentences that stay in a prompt: of the form of the answer, and of tools."""


class PruningConfig(FrozenModel):
    """How parts are taken out of a team.

    Args:
        iterations: most times that parts are taken out.
        batch: train tasks on which every part is left out once.
        checks: further train tasks, on which those that are to go are left out together.
        sentences: most sentences of prompts that are left out on so many train tasks, over all iterations; 0 leaves
            prompts as they are.
        margin: loss of score that does not count.
        gate_size: gate tasks that it has for itself after rewritings; with none it has all.
    """

    iterations: int = Field(default=6, ge=1)
    batch: int = Field(default=20, ge=1)
    checks: int = Field(default=40, ge=0)
    sentences: int = Field(default=8, ge=0)
    margin: float = Field(default=0.05, ge=0, lt=1)
    gate_size: int = Field(default=240, ge=1)


class TeamPart(NamedTuple):
    """A part of a team that can be taken out.

    Attributes:
        name: an agent's id, "agent at node", "source -> target", "agent: tool", "agent asks model", or
            'agent: "sentence"'; or "a plan for each question, not AGENTS".
        removal: the rewiring that takes it out, which is legal in its team.
    """

    kind: Kind
    name: str
    removal: Rewiring


class PartWorth(FrozenModel):
    """The worth of a part.

    Args:
        value: mean score with the part minus the mean without it, over the same tasks; None if none could be compared.
        deviation: standard error of the value; None for fewer than two tasks.
        tasks: tasks that were compared.
    """

    kind: Kind
    name: str
    value: float | None = None
    deviation: float | None = None
    tasks: int = 0

    @property
    def harmless(self) -> bool:
        """Whether the value is not above nothing by more than its standard error."""
        return self.value is not None and self.value <= (self.deviation or 0.0)

    @property
    def needed(self) -> bool:
        """Whether the value is above nothing by more than two standard errors."""
        return self.value is not None and self.deviation is not None and self.value > 2 * self.deviation


class PruningRecord(FrozenModel):
    """The state of a pruning, kept in the team's memory.

    Args:
        run: name of the run that measured it.
        parts: worth of each part of the team, as it was last measured.
        costs: usage of each agent, and of the method's own calls, over all measured runs of the team.
        runs: number of these runs.
        pending: parts of the candidate that the gate compares; those that are still there have been rejected.
        size: most parts of a kind that are taken out at a time, after a rejection; 0 for no limit.
        kept: parts that have been rejected by themselves.
        plans: topologies of which one may take the place of a plan for each question.
    """

    run: str = ""
    parts: tuple[PartWorth, ...] = ()
    costs: Mapping[str, Usage] = Field(default_factory=dict)
    runs: int = 0
    pending: tuple[str, ...] = ()
    size: int = 0
    kept: tuple[str, ...] = ()
    plans: tuple[Topology, ...] = ()

    @classmethod
    def of(cls, team: Team) -> "PruningRecord":
        """The record of a team; an empty one if it was never pruned."""
        return cls.model_validate(team.memory.get(KEY, {}))

    @property
    def agent_values(self) -> dict[str, float]:
        """The value of each agent that has been left out, by id."""
        return {part.name: part.value for part in self.parts if part.kind == "agent" and part.value is not None}

    @property
    def tried_sentences(self) -> frozenset[str]:
        """Names of the sentences that have been left out on train tasks."""
        return frozenset(part.name for part in self.parts if part.kind == "sentence")

    def save_to(self, team: Team) -> Team:
        """The team with this record."""
        return team.with_memory(**{KEY: self.model_dump(mode="json")})

    @staticmethod
    def remove_from(team: Team) -> Team:
        """The team without a record, on which no run of it depends."""
        return team.replace(memory={name: value for name, value in team.memory.items() if name != KEY})


def list_parts(team: Team, frozen: Sequence[str] = (), models: ModelsByPrice = FrozenMap()) -> dict[str, TeamPart]:
    """The parts that can be taken out, by name: plans, agents, edges, tools, models with cheaper ones, and sentences.

    Of an agent that works at several nodes each may go by itself.

    Of a graph of the user's own these are the agents that were inserted, the nodes that its method has noted, and
    models.

    Args:
        frozen: parts that stay (`evolvers.frozen`).
        models: for each agent, as `rank_models` ranks them.
    """
    topology = team.topology
    ends = (
        [topology.sink] if is_graph(team.method) else [topology.entry, topology.sink]
    )  # an inserted agent may be first
    fixed, works = {topology.agents[node] for node in ends}, [*topology.agents.values()]
    repeated = [node for node in topology.nodes if works.count(node.agent) > 1]
    found = [
        *list_planning(team, frozen),
        *(TeamPart("agent", agent.id, remove_agent(team, agent.id)) for agent in team.agents if agent.id not in fixed),
        *(TeamPart("agent", f"{n.agent} at {n.id}", _rewire(*_remove_nodes(topology, [n.id]))) for n in repeated),
        *(TeamPart("edge", str(edge), _rewire(RemoveEdge(edge.source, edge.target))) for edge in topology.edges),
        *(TeamPart("tool", f"{a.id}: {tool}", _rewire(Revoke(a.id, tool))) for a in team.agents for tool in a.tools),
        *(
            _give_model(team, a, m)
            for name in models
            if (a := team.agents_by_id.get(name))
            for m in _list_cheaper(a, models)
        ),
        *list_sentences(team),
    ]
    if is_graph(team.method):
        beside = {place.agent: place.merge for place in list_specialists(team)}
        inserted = {place.agent for place in list_insertions(team)} - {*beside.values()}
        found = [part for part in found if part.kind == "model" or (part.kind == "agent" and part.name in inserted)]
        found += [TeamPart("agent", name, remove_agent(team, name, merge)) for name, merge in beside.items()]
        nodes = list_removals(team, noted=True)
        found += [TeamPart("agent", node.node, remove_agent(team, *node.agents)) for node in nodes]
    return {part.name: part for part in found if _is_legal(team, part, frozen)}


def list_planning(team: Team, frozen: Sequence[str] = ()) -> list[TeamPart]:
    """List the ways to have one plan for all questions, and no agent beside; none where the team has such a plan."""
    plans = PruningRecord.of(team).plans
    if team.topology in plans:
        return []
    found = list[TeamPart]()
    for number, plan in enumerate(plans, 1):
        idle = team.agents_by_id.keys() - {*plan.agents.values(), *(part.removeprefix(AGENT) for part in frozen)}
        name = f"a plan for each question, not {', '.join(plan.agents[node] for node in plan.order())} ({number})"
        why = "one plan for all questions does no worse on the train tasks"
        edits: list[Edit] = [ReplaceTopology(plan), *map(RemoveAgent, sorted(idle))]
        found.append(TeamPart("plan", name, Rewiring(*edits, why=why, operation="FIX_PLAN")))
    return found


def remove_agent(team: Team, *agents: str) -> Rewiring:
    """Make the rewiring that takes agents out; those before them then hand on to those after them.

    Of a graph of the user's own, a prompt that is sent next takes the place of the first.
    """
    topology = team.topology
    nodes = [node.id for node in topology.nodes if node.agent in agents]
    heirs = [node for node in topology.successors[topology.entry] if node not in (*nodes, topology.sink)]
    is_moved = is_graph(team.method) and topology.entry in nodes and heirs
    moved = [ReplaceTopology(topology.replace(entry=heirs[0]))] if is_moved else []
    return _rewire(*moved, *_remove_nodes(topology, nodes), *map(RemoveAgent, agents))


def _remove_nodes(topology: Topology, nodes: Sequence[str]) -> list[Edit]:
    edits, edges = list[Edit](), {(edge.source, edge.target) for edge in topology.edges}
    for node in nodes:
        before = sorted(source for source, target in edges if target == node)
        after = sorted(target for source, target in edges if source == node)
        edits.append(RemoveNode(node))
        edges = {edge for edge in edges if node not in edge}
        bridges = [(s, t) for s in before for t in after if s != t and (s, t) not in edges]
        edits.extend(AddEdge(source, target) for source, target in bridges)
        edges.update(bridges)
    return edits


def _list_cheaper(agent: Agent, models: ModelsByPrice) -> Sequence[str]:
    """List the models that cost an agent less than the one that it asks, the cheapest first."""
    ranked = models.get(agent.id, ())
    return ranked[: ranked.index(agent.model)] if agent.model in ranked else ()


def rank_models(
    team: Team,
    costs: Mapping[str, Usage],
    prices: Mapping[str, Price],
    askable: Mapping[str, Collection[str]] | None = None,
) -> ModelsByPrice:
    """Rank the models that cost each agent less than its own, by the dollars of its tokens; the dearest agent first.

    Args:
        costs: usage of each agent.
        prices: by name; "" is the model of the run, which no graph of the user's own asks.
        askable: names of the models that each agent may ask; None for all.
    """
    found = list[tuple[float, str, Sequence[str]]]()
    for agent in team.agents:
        used = costs.get(agent.id, ZERO_USAGE)
        named = (
            prices if askable is None else {name: prices[name] for name in askable.get(agent.id, ()) if name in prices}
        )
        dollars = {name: price.cost(used.input_tokens, used.output_tokens) for name, price in named.items()}
        if is_graph(team.method) and not agent.model:  # it asks what the program says, at the price of its calls
            dollars[""] = used.dollars or 0.0
        own = dollars.get(agent.model, 0.0)
        cheaper = sorted((cost, name) for name, cost in dollars.items() if cost < own)
        found.append((-own, agent.id, [*(name for _, name in cheaper), agent.model]))
    return {name: ranked for _, name, ranked in sorted(found)}


def list_model_changes(before: Team, after: Team) -> list[str]:
    """List the agents of both teams that ask another model, such as "solve: strong -> cheap"."""
    old, own = before.agents_by_id, after.own_model
    return [
        f"{agent.id}: {old[agent.id].model or own} -> {agent.model or own}"
        for agent in after.agents
        if agent.id in old and agent.model != old[agent.id].model
    ]


def list_sentences(team: Team) -> list[TeamPart]:
    """List the sentences that prompts may lose, the longest first; a prompt's last one stays.

    What names a tool that the agent holds stays too, and what speaks of the form of its answer (`ANSWER_FORM`).
    """
    found = list[tuple[int, TeamPart]]()
    for agent in team.agents:
        kept = re.compile("|".join([rf"\b(?:{ANSWER_FORM})\b", *map(re.escape, agent.tools)]), re.IGNORECASE)
        sentences = [(" ".join(text.split()), text) for text in split_sentences(agent.prompt)]
        for sentence in dict.fromkeys(name for name, _ in sentences):
            rest = "".join(text for name, text in sentences if name != sentence).strip()
            if rest and not kept.search(sentence):
                removal = _rewire(RewritePrompt(agent.id, rest))
                found.append((-len(sentence), TeamPart("sentence", f'{agent.id}: "{sentence}"', removal)))
    return [part for _, part in sorted(found, key=lambda pair: pair[0])]


def _give_model(team: Team, agent: Agent, model: str) -> TeamPart:
    name = f"{agent.id} asks {agent.model or team.own_model}, not {model or team.own_model}"
    why = "a cheaper model does no worse on the train tasks"
    return TeamPart("model", name, Rewiring(SetModel(agent.id, model), why=why, operation=SET_MODEL))


def _rewire(*edits: Edit) -> Rewiring:
    return Rewiring(*edits, why="train tasks do not show that it is needed", operation="PRUNE")


def _is_legal(team: Team, part: TeamPart, frozen: Sequence[str]) -> bool:
    try:
        smaller = team.apply(part.removal)
    except EditError:
        return False
    if find_frozen_change(team, smaller, frozen):
        return False
    topology = smaller.topology
    reached = find_reachable(topology.successors, [topology.entry])
    return topology.sink in reached and {*find_dead_nodes(topology)} <= {*find_dead_nodes(team.topology)}


def compute_worth(part: TeamPart, whole: Mapping[str, float], without: Mapping[str, float]) -> PartWorth:
    """Compute a part's worth from scores by task, with it and without it; tasks that one of them lacks do not count."""
    return compute_part_worth(part.kind, part.name, list_gains(whole, without))


def list_gains(whole: Mapping[str, float], without: Mapping[str, float]) -> list[float]:
    """List scores with a part less those without it; tasks that one of them lacks do not count."""
    return [whole[task] - score for task, score in without.items() if task in whole]


def compute_part_worth(kind: Kind, name: str, gains: Sequence[float]) -> PartWorth:
    """Compute a part's worth from N scores with it less those without it, task by task."""
    mean = math.fsum(gains) / len(gains) if gains else None
    deviation = None
    if mean is not None and len(gains) > 1:
        # a deviation of 1 is counted beside those seen, as a few equal tasks do not show that all are equal
        deviation = math.sqrt(math.fsum((gain - mean) ** 2 for gain in gains) + 1) / len(gains)
    return PartWorth(kind=kind, name=name, value=mean, deviation=deviation, tasks=len(gains))


def expect_evidence(gains: Sequence[float], margin: float, gate_tasks: int) -> float:
    """Estimate the logarithm of the evidence of all gate tasks: what it is if these go as the tasks that were compared.

    Args:
        gains: N scores with some parts less those without them, task by task.
    """
    if not gains:
        return 0.0
    paid, bound = [CALL - gain for gain in gains], 1 + SIMPLER_PRICE
    return compute_log_evidence(paid, least=-margin, bound=bound, times=gate_tasks / len(gains))


def sum_costs(runs: Iterable[Trajectory]) -> dict[str, Usage]:
    """Add up what each agent's calls cost, and those of no agent; all rows together are the cost of the runs."""
    sums: dict[str, UsageAccumulator] = {}
    for run in runs:
        for name, usage in (*((step.agent, step.usage) for step in run.steps), (OWN_CALLS, run.overhead)):
            sums.setdefault(name, UsageAccumulator()).add(usage)
    return {name: cost.usage for name, cost in sorted(sums.items())}


def average_scores(runs: Iterable[Trajectory]) -> dict[str, float]:
    """The mean score of each task, by id, over its graded runs."""
    scores = dict[str, list[float]]()
    for run in runs:
        if run.feedback is not None:
            scores.setdefault(run.question.id, []).append(run.feedback.score)
    return {task: math.fsum(found) / len(found) for task, found in scores.items()}


class Pruning(Method[Any]):
    """Base class of methods that take parts out of a team; it stands before the method among the bases.

    Attributes:
        model_prices: of the models that agents may be given, by name; "" is the run's own.
        pruning: how parts are taken out.
        gate_tasks: that the next proof has at most.
        error: that it may take.
    """

    model_prices: Mapping[str, Price] = FrozenMap()
    pruning: PruningConfig = PruningConfig()
    gate_tasks: int = 240
    error: float = 0.025

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
        """Take out a group of parts that are worth nothing; the evolution is finished when there is none left.

        Every part is left out on each task of the batch, or until it is seen to be needed, in the first iteration and
        after parts have gone: agents first, and each further kind when nothing of those before it can go. Sentences of
        prompts are left out once. Of a group without which a proof is not to be expected, by further tasks, as many
        parts go as let it be expected; a part of which this is not true by itself stays. Where no agent is worth
        nothing, further tasks decide on those that are not seen to be needed, one at a time: a few tasks often show a
        loss by chance. Where fewer tasks are left than measure the parts, groups are checked on all, and a part by
        itself is left to the proof. Of the best plan that was measured plans with a step less are measured too, until
        none of them is better.
        """
        measured, fresh = runs[: self.pruning.batch], runs[self.pruning.batch :]
        enough = len(fresh) >= self.pruning.batch

        given, team = team, self.note_parts(team, runs)
        record = PruningRecord.of(team)
        askable = self.list_askable(team, runs, ctx)
        there = list_parts(team, ctx.frozen, rank_models(team, record.costs, self.model_prices, askable))
        if rejected := [name for name in record.pending if name in there]:
            kept = (*record.kept, *rejected) if len(rejected) == 1 else record.kept
            record = record.replace(kept=kept, size=max(1, len(rejected) // 2))
        elif record.run != ctx.scope.run or not record.tried_sentences.issuperset(record.pending):
            again = record.run == ctx.scope.run
            plans = () if again else self._list_untried(self.list_plans(team, runs), team)
            kept = record.kept if again else ()
            record = PruningRecord(run=ctx.scope.run, costs=sum_costs(runs), runs=len(runs), kept=kept, plans=plans)
            team = record.save_to(team)
        models = rank_models(team, record.costs, self.model_prices, askable)
        while True:
            group = choose_group(record, team, ctx.frozen, models, doubtful=enough)
            while not group and (parts := self._list_unmeasured(record, list_parts(team, ctx.frozen, models))):
                gains = await gather_all(self._leave_out([part], team, measured, ctx) for part in parts)
                worth = [compute_part_worth(p.kind, p.name, found) for p, found in zip(parts, gains, strict=True)]
                record = record.replace(parts=(*record.parts, *worth), size=0)
                if shorter := self._list_shorter(record, team, ctx.frozen) if parts[0].kind == "plan" else ():
                    record = record.replace(plans=(*record.plans, *shorter))
                    team = record.save_to(team)
                else:
                    group = choose_group(record, team, ctx.frozen, models, doubtful=enough)
            # by bisection; where tasks are too few for checks, a part by itself is left to the proof
            passed, failed, size = int(not enough), len(group) + 1, len(group)
            while size > passed:
                passes = await self._check(group[:size], team, fresh if enough else runs, ctx)
                passed, failed = (size, failed) if passes else (passed, size)
                size = (passed + failed) // 2
            if passed or not group:
                group = group[:passed]
                break
            record = record.replace(kept=(*record.kept, group[0].name))
        record = record.replace(pending=tuple(part.name for part in group))
        made = EvolveResult.of(team, [part.removal for part in group])
        smaller = self.note_removals(super().keep_memory(made.workflow, team), team)
        fitted = record.save_to(smaller).with_lineage(given, made.applied)
        return made.replace(workflow=fitted, finished=not group)

    def keep_memory(self, kept: Team, rejected: Team) -> Team:
        """The kept team with what the method keeps of the rejected one, and with the record of the pruning."""
        return PruningRecord.of(rejected).save_to(super().keep_memory(kept, rejected))

    def _list_shorter(self, record: PruningRecord, team: Team, frozen: Sequence[str]) -> tuple[Topology, ...]:
        """List the plans with a step less than the best one that was measured; without those that were measured too."""
        plans = dict(zip((part.name for part in list_planning(team, frozen)), record.plans, strict=True))
        measured = [worth for worth in record.parts if worth.value is not None and worth.name in plans]
        if not measured:
            return ()
        best = plans[min(measured, key=rank_plan).name]
        return self._list_untried(self.list_shorter_plans(best, team), team, record.plans)

    def _list_untried(
        self, plans: Sequence[Topology], team: Team, tried: Sequence[Topology] = ()
    ) -> tuple[Topology, ...]:
        """List the plans whose steps are not those of another one or of one that was tried.

        In place of the team's own topology stand the plans with a step less: a team with its own topology counts as one
        for which a plan has been chosen.
        """
        if team.topology in plans:
            plans = [*plans, *self.list_shorter_plans(team.topology, team)]
        found = {_get_steps(plan): plan for plan in plans if plan != team.topology}
        known = {_get_steps(plan) for plan in tried}
        return tuple(plan for steps, plan in found.items() if steps not in known)

    def _list_unmeasured(self, record: PruningRecord, parts: Mapping[str, TeamPart]) -> list[TeamPart]:
        """List the parts of the first kind that has some whose worth is not known; sentences once, only the longest."""
        known = {*record.kept, *(worth.name for worth in record.parts)}
        for kind in KINDS:
            found = [part for name, part in parts.items() if part.kind == kind and name not in known]
            if kind == "sentence":
                return [] if record.tried_sentences else found[: self.pruning.sentences]
            if found:
                return found
        return []

    async def _leave_out(
        self, group: Sequence[TeamPart], team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]
    ) -> list[float]:
        """List scores of graded runs of the team less those without some parts, until these are seen to be needed."""
        whole, found = average_scores(runs), dict[str, float]()
        questions = [run.question for run in runs if run.question.id in whole]
        while questions and not compute_worth(group[0], whole, found).needed:
            found |= average_scores(await self.run_without(group, team, questions[:LOOK], ctx))
            questions = questions[LOOK:]
        return list_gains(whole, found)

    async def _check(self, group: Sequence[TeamPart], team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> bool:
        """Whether graded runs of the team and runs without some parts let a proof be expected."""
        gains = await self._leave_out(group, team, runs, ctx)
        expected = expect_evidence(gains, self.pruning.margin, self.gate_tasks)
        needed = compute_part_worth(group[0].kind, group[0].name, gains).needed
        return not needed and expected >= -math.log(self.error)

    async def run_without(
        self, group: Sequence[TeamPart], team: Team, questions: Sequence[Question], ctx: Ctx[Any]
    ) -> list[Trajectory]:
        """Run and grade a team without some parts.

        The runs draw the random numbers of the whole team's runs, and stand at the same place in the journal: calls
        that are the same as theirs, as of the agents before a part, are replayed and cost nothing.
        """
        smaller = super().keep_memory(team.apply_legal(part.removal for part in group)[0], team)
        smaller = self.note_removals(smaller, team)

        async def run(question: Question) -> Trajectory:
            here = ctx.where(phase="rollout", task=question.id)
            assert ctx.grade_run is not None, "the outer loop grades"
            return await ctx.grade_run(await self.ask(smaller, question, here), here.scope)

        return await gather_all(map(run, questions))


def choose_group(
    record: PruningRecord,
    team: Team,
    frozen: Sequence[str] = (),
    models: ModelsByPrice = FrozenMap(),
    *,
    doubtful: bool = False,
) -> tuple[TeamPart, ...]:
    """Choose the parts to take out next: of the first kind that has harmless ones, the likeliest to pass the proof.

    These are the parts of the least value, which is nothing where it is below by chance; of those, the parts without
    which the fewest answers change, as each change makes a loss harder to rule out; of those, the ones with the most
    calls. Each is one of the team without the parts before it, so that all of them together can be taken out. Models
    and sentences go in another order, which saves most: the agent with the dearest calls first, and the cheapest model
    for it; the longest sentence first.

    Args:
        doubtful: whether, where no agent is harmless, one that is not seen to be needed is chosen by itself.
    """
    open_parts = [worth for worth in record.parts if worth.value is not None and worth.name not in record.kept]
    harmless = [worth for worth in open_parts if worth.harmless]
    unclear = [worth for worth in open_parts if doubtful and worth.kind == "agent" and not worth.needed]
    parts = list_parts(team, frozen, models)
    place = {name: number for number, name in enumerate(parts)}

    def rank(worth: PartWorth) -> tuple[float, float, int, str]:
        if worth.kind in ("model", "sentence"):
            return place.get(worth.name, 0), 0.0, 0, ""
        value, deviation = worth.value or 0.0, worth.deviation or 0.0
        if worth.kind == "plan":
            return rank_plan(worth), place.get(worth.name, 0), 0, ""
        value = value if value < -2 * deviation else max(0.0, value)
        return value, deviation, -record.costs.get(worth.name, ZERO_USAGE).calls, worth.name

    for kind in KINDS:
        group = list[TeamPart]()
        for worth in sorted(harmless, key=rank):
            if worth.kind == kind and (part := parts.get(worth.name)):
                group.append(part)
                team = team.apply(part.removal)
                parts = list_parts(team, frozen, models)
            if group and len(group) == record.size:
                break
        if not group:
            group = [
                parts[worth.name] for worth in sorted(unclear, key=rank) if worth.kind == kind and worth.name in parts
            ]
            group = group[:1]
        if group:
            return tuple(group)
    return ()


def _get_steps(plan: Topology) -> tuple[tuple[str, ...], frozenset[tuple[int, int]]]:
    """Agents of a plan in order, and who reads whom by place, without the names of nodes."""
    place = {node: number for number, node in enumerate(plan.order())}
    agents = tuple(plan.agents[node] for node in place)
    return agents, frozenset((place[edge.source], place[edge.target]) for edge in plan.edges)


def rank_plan(worth: PartWorth) -> float:
    """Rank one plan for all questions by what it loses and what its steps cost; the least is the best."""
    return (worth.value or 0.0) + CALL * worth.name.count(",")


def make_pruned(method: Method[Any]) -> Pruning:
    """Make a method that prunes the teams of another; they run, learn parameters and are gated as before."""
    given = (method.name, method.config.model_dump()) if is_graph(method.name) else (method.config,)
    made: Pruning = type(f"Pruned{type(method).__name__}", (Pruning, type(method)), {})(*given)
    return made

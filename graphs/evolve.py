"""The outer evolution as a LangGraph: rollout, evolve, gate, save, test.

    START -> begin -> rollout -> evolve -> gate -> [a person has a say] approve -> save -> [iterations are left] rollout
                |                           |                                       ^ |
                |                           +---------------------------------------+ +--> [none is left] test -> END
                +-> [no iteration] test

`build` wires the steps, which are methods of `EvolutionLoop`: rollout runs a batch of train tasks, evolve has the
method propose a team, gate compares both teams on held-out tasks, save keeps a version.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count, filterfalse
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

import numpy as np
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from pydantic import Field, TypeAdapter, ValidationError, field_validator, model_validator
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.edits import Edit, RefusedRewiring, Rewiring, RewritePrompt, SetModel
from selfwire.core.errors import ConfigError, JournalError, format_first_fault
from selfwire.core.protocols import Environment
from selfwire.core.scope import Scope
from selfwire.core.task import Splits, Task
from selfwire.core.team import Team
from selfwire.core.trajectory import OFFERED, Trajectory
from selfwire.core.usage import Objective, Usage, sum_usages
from selfwire.core.values import FrozenMap, FrozenModel, Id, fingerprint, format_count
from selfwire.evolvers.copies import TaskTexts, find_copies, list_own_texts
from selfwire.evolvers.frozen import describe_frozen, drop_frozen, find_frozen_change
from selfwire.evolvers.gate import (
    OUTCOMES,
    EvidenceRule,
    Gate,
    GateDecision,
    compute_row_weight,
    compute_share,
    compute_weight,
    decide,
    decide_by_evidence,
    keep_draft,
    name_outcome,
)
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import EvolveResult, Method, await_result
from selfwire.graphs.pruning import PruningConfig, PruningRecord, list_model_changes, make_pruned
from selfwire.graphs.rollouts import (
    RolloutContext,
    RolloutRunner,
    collect_rollouts,
    get_sample_name,
    get_trajectories_note,
    grade_trajectory,
    load_graded,
    load_trajectories,
    refuse_too_many_errors,
)
from selfwire.models.budget import SHARE_USED_UP, Ledger, Price
from selfwire.models.metered_chat import count_invalid_replies
from selfwire.store.journal import Journal
from selfwire.store.library import Library
from selfwire.tools.own import record_tool_calls

if TYPE_CHECKING:
    from selfwire.graphs.approval import ApprovalQuestion

T = TypeVar("T")
OBJECTIVE = "score - 0.002*calls"
"""Objective of an evolution, unless the user gives another."""


class EvolutionConfig(FrozenModel):
    """Config of an evolution.

    Args:
        iterations: rewritings of the team.
        batch: train tasks per iteration (1 is HiVA's per-sample mode); of better also those that choose what is worth a
            proof, three times as many where it does worse.
        gate: better, no-worse and mean let a held-out comparison decide (`evolvers.gate`); off accepts every candidate,
            as the papers do.
        gate_tasks: gate tasks per comparison, fresh ones first; of better and no-worse per look, up to all gate tasks.
        margin: least difference of a candidate that is accepted; of no-worse the loss that does not count. None for
            0.02 of no-worse and 0 of the others.
        error: chance that a run accepts a change without effect, of better and no-worse; a pruning has half of it, or
            all of it where the rewritings need no proof.
        objective: of better and no-worse, the score less the price of a task's calls, tokens, dollars or seconds; or
            "cheapest", fewest calls at a loss of at most the margin of no-worse (`core.usage.Objective`).
        anyway: whether to run although there are too few gate tasks for any proof before the last iteration.
        pruning: how parts are taken out of the team after the iterations (`graphs.pruning`); None to leave them. A
            smaller team may make as many calls as before.
        patience: most candidates in a row that are accepted with an equal score and more calls, of mean.
        calls_per_task: model calls that are reserved for a task before it starts, under a budget of calls.
        keep_errors_below: share of a phase's tasks that may end as infrastructure errors; above it the
            evolution stops, resumable, instead of learning from the rest.
        freeze: parts of the team that stay as they are: edges, prompts, tools, agent:NAME (`evolvers.frozen`).
        approve: edits has a person asked before a change that the gate has accepted is kept (`graphs.approval`).
        guide: what every critic and rewriter is told beside its prompt, such as "keep the tone formal".
    """

    name: Id
    iterations: int = Field(default=10, ge=0, le=100_000)
    batch: int = Field(default=10, ge=1)
    gate: Gate = "better"
    gate_tasks: int = Field(default=20, ge=1)
    margin: float | None = Field(default=None, ge=0, lt=1)
    error: float = Field(default=0.05, gt=0, lt=1)
    objective: str = OBJECTIVE
    anyway: bool = False
    pruning: PruningConfig | None = None
    patience: int = Field(default=3, ge=0)
    concurrency: int = Field(default=8, ge=1, le=10_000)
    seed: int = Field(default=0, ge=0)
    calls_per_task: int = Field(default=60, ge=1)
    keep_errors_below: float = Field(default=0.5, gt=0, le=1)
    freeze: tuple[str, ...] = Field(default=(), max_length=1000)
    guide: str = Field(default="", max_length=4000)
    approve: Literal["edits"] | None = None

    @field_validator("objective")
    @classmethod
    def _check_objective(cls, given: str) -> str:
        Objective.parse(given)
        return given

    @model_validator(mode="after")
    def _refuse_idle_objective(self) -> Self:
        if self.objective != OBJECTIVE and self.gate in ("mean", "off") and not self.pruning:
            raise ValueError(f"the objective {self.objective!r} would do nothing: the gate {self.gate} proves nothing")
        return self

    @property
    def rewriting_error(self) -> float:
        """The error that all rewritings of a run have together."""
        return self.error / (2 if self.pruning else 1)

    @property
    def rule(self) -> EvidenceRule | None:
        """The proof that a rewriting needs, with the error of a run's first decision; None if it needs none."""
        if self.gate not in ("better", "no-worse"):
            return None
        objective = Objective.parse(self.objective)
        gate: Literal["better", "no-worse"] = "no-worse" if objective.cheapest else self.gate
        margin = (0.0 if gate == "better" else 0.02) if self.margin is None else self.margin
        share = compute_share(0, self.iterations, is_last=False)
        return EvidenceRule(gate=gate, margin=margin, objective=objective, error=self.rewriting_error * share)

    @property
    def screens(self) -> bool:
        """Whether train tasks choose what is worth a proof: where a gain has to be proved."""
        return self.rule is not None and self.rule.gate == "better"

    @property
    def pruning_rule(self) -> EvidenceRule | None:
        """The proof that taking parts out needs, with the error of the first time; None if nothing is taken out."""
        if self.pruning is None:
            return None
        error = self.error / (2 if self.iterations and self.rule else 1)
        objective, margin = Objective.parse(self.objective), self.pruning.margin
        return EvidenceRule(gate="no-worse", margin=margin, objective=objective, error=error / 2, simpler=True)

    @property
    def all_iterations(self) -> int:
        """Most iterations, with those that take parts out."""
        return self.iterations + (self.pruning.iterations if self.pruning else 0)

    def deal_gate_tasks(self, tasks: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
        """Deal gate tasks out to the rewritings and to the pruning, which has the last ones for itself.

        No earlier decision has seen these, so that the pruning's error need not be dealt out to their outcomes.
        """
        if self.pruning is None:
            return tasks, ()
        first = max(0, len(tasks) - self.pruning.gate_size) if self.iterations else 0
        return tasks[:first], tasks[first:]


def deal_questions(config: EvolutionConfig, gate: Sequence[Task]) -> tuple[list[tuple[Task, ...]], ...]:
    """Deal the gate tasks of proofs out, in groups that count as one, and each question where it comes first.

    Their answers are alike, so that several would count a chance several times, or tell a pruning of earlier decisions.

    Returns:
        The groups of the rewritings and those of the pruning; a task without a group is one by itself.
    """
    firsts, groups = {task.input: task for task in reversed(gate)}, dict[tuple[bool, str], list[Task]]()
    for task in gate:
        if firsts[task.input] is task:
            groups.setdefault((bool(task.group), task.group or task.id), []).append(task)
    found = {group[0].id: tuple(group) for group in groups.values()}
    return tuple([*filter(None, part)] for part in config.deal_gate_tasks([found.get(task.id) for task in gate]))


def count_groups(groups: Sequence[Sequence[Task]]) -> str:
    """Count what a proof counts: gate tasks, or the groups that these are in."""
    return format_count(len(groups), "task group" if any(len(group) > 1 for group in groups) else "gate task")


UNDO = "UNDO"
"""The operation that gives an agent its old prompt back."""
ELAPSED = "elapsed"
"""Name of the journal's note with the run's seconds of wall time."""


class EvolutionState(TypedDict, total=False):
    """State of the graph: numbers, and hashes of bodies in the journal.

    Keys:
        iteration: from 0; the number of finished iterations after `save`.
        finished: whether the method has nothing left to propose.
        incumbent, candidate: bodies of teams, by hash.
        trajectories: bodies of this iteration's train trajectories, by hash.
        evolved: applied and refused rewirings and notes of this iteration, by hash.
        verdict: the gate's decision.
        equals: candidates in a row that were accepted with an equal score and more calls.
        draft: body of the team that is rewired, where that is not the incumbent yet; "" if it is.
        drafted: `evolved` of the iterations that the draft has come from.
        decided: comparisons so far.
        outcomes: how often each outcome was had.
        weight: share of a decision's error that belongs to the outcomes of these.
        rejected: the iteration, from 1, in which a comparison or a person rejected a team for good, by `get_structure`.
        pruned_from: the iteration from which on parts are taken out; absent before.
        unpruned: body of the incumbent at that time.
        pruned_calls: calls per gate task of that team and of the one without what has gone; absent if nothing has.
        pruned_dollars: dollars in place of calls; 0 for unknown prices.
        train: mean train score of the incumbent in this iteration, None if every task ended as an error.
        errors: train runs of this iteration that ended as errors.
        fault: the first of these errors, "" if there is none.
        invalid: replies of the run that were no valid objects, before the team is rewritten.
        score: mean gate score of the saved team; None if it was not compared.
        test: the final report.
        replaced: of a run with approvals, body of the incumbent before the gate decided.
        approval: of a run with approvals, the person's answer to this iteration's change.
        always: kinds of edits that a person has approved for the rest of the run.
    """

    iteration: int
    finished: bool
    incumbent: str
    candidate: str
    trajectories: list[str]
    evolved: str
    verdict: dict[str, Any]
    equals: int
    draft: str
    drafted: list[str]
    decided: int
    outcomes: dict[str, int]
    weight: float
    rejected: dict[str, int]
    pruned_from: int
    unpruned: str
    pruned_calls: list[float]
    pruned_dollars: list[float]
    train: float | None
    errors: int
    fault: str
    invalid: int
    score: float | None
    test: dict[str, Any]
    replaced: str
    approval: dict[str, Any]
    always: list[str]


@dataclass(frozen=True, kw_only=True)
class EvolutionLoop:
    """The live objects of an evolution, and its phases.

    Attributes:
        ctx: models, tools and embedder of the run.
        runner: runs tasks; None for this process.
        model_prices: prices of the models that agents may be given, by name, where there are several; "" is the run's
            own.
        facts: of every saved version, beside method and seed: the tools by name, and the models of the agents.
    """

    run: str
    config: EvolutionConfig
    method: Method[Any]
    ctx: Ctx[Any]
    environment: Environment
    splits: Splits
    seed_team: Team
    library: Library
    journal: Journal
    ledger: Ledger
    runner: RolloutRunner | None = None
    model_prices: Mapping[str, Price] = field(default_factory=FrozenMap)
    facts: Mapping[str, str] = field(default_factory=FrozenMap)

    @property
    def rollout_context(self) -> RolloutContext:
        """Environment, journal and limits of the rollouts."""
        return RolloutContext(
            environment=self.environment,
            journal=self.journal,
            ledger=self.ledger,
            concurrency=self.config.concurrency,
            calls_per_task=self.config.calls_per_task,
            keep_errors_below=self.config.keep_errors_below,
            replays=self.method.replays,
            runner=self.runner,
        )

    async def begin(self, state: EvolutionState) -> EvolutionState:
        """Save the seed team as version 0."""
        team = self.seed_team
        await self._save(team, step=0, facts={"why": "seed", "accepted": False})
        begun = EvolutionState(iteration=0, equals=0, incumbent=await self._put(team))
        return {**begun, **self._begin_pruning(begun)}

    def _begin_pruning(self, state: EvolutionState) -> EvolutionState:
        """Begin to take parts out of the incumbent where no rewriting is left; a draft is given up."""
        over = state["iteration"] >= self.config.iterations or state.get("finished")
        if not (self.config.pruning and over) or "pruned_from" in state:
            return {}
        fresh = EvolutionState(finished=False, draft="", drafted=[], decided=0, outcomes={}, weight=1.0, rejected={})
        return {**fresh, "pruned_from": state["iteration"], "unpruned": state["incumbent"]}

    def _make_pruned(self, state: EvolutionState, config: PruningConfig) -> Method[Any]:
        """Make the method that proposes to take parts out."""
        groups, rule = self.draw_proof(state)
        made = make_pruned(self.method)
        made.model_prices, made.pruning = self.model_prices, config
        made.gate_tasks, made.error = len(groups), rule.error
        return made

    def _choose_method(self, state: EvolutionState) -> Method[Any]:
        pruning = self.config.pruning
        return self._make_pruned(state, pruning) if pruning and "pruned_from" in state else self.method

    async def rollout(self, state: EvolutionState) -> EvolutionState:
        """Run the incumbent, or the draft, on the next train batch."""
        team = await self.load_team(state.get("draft") or state["incumbent"])
        tasks, scope = self.draw_train(state), self._scope("rollout", state["iteration"])
        # of a team whose parts are left out there is one answer each, as of the team without them
        found = await self._run(team, tasks, scope, explores="pruned_from" not in state)
        kept = await self.journal.get_note(get_trajectories_note(state["iteration"], "rollout"))
        errors = _sum_errors(found)
        return {
            "trajectories": [kept[get_sample_name(t)] for t in found],
            "train": compute_mean_score(found),
            "errors": errors["errors"],
            "fault": errors["fault"],
            "invalid": await count_invalid_replies(self.journal),
        }

    async def evolve(self, state: EvolutionState) -> EvolutionState:
        """Let the method rewrite the incumbent, or the draft."""
        team = await self.load_team(state.get("draft") or state["incumbent"])
        bodies = [await self.journal.get_body(found) for found in state["trajectories"]]
        trajectories = [Trajectory.model_validate(body) for body in bodies]
        self._report("evolve", state["iteration"])
        tasks = {task.id: task for task in self.draw_train(state)}

        async def grade(done: Trajectory, at: Scope) -> Trajectory:
            return await grade_trajectory(self.rollout_context, tasks[done.question.id], done, at)

        team = record_tool_calls(team, trajectories)
        at = self._scope("evolve", state["iteration"])
        find_copy = partial(self.train_texts.find_copy, known=list_own_texts(team))
        ctx = replace(
            self.ctx,
            scope=at,
            grade_run=grade,
            frozen=self.config.freeze,
            guide=self.guide,
            find_copy=find_copy,
            objective=self.config.rule.objective if self.config.rule else Objective(),
        )
        method = self._choose_method(state)
        proposed = await await_result(method, "propose", method.propose(team, trajectories, ctx), EvolveResult)
        evolved = self._refuse_frozen(method, team, proposed)
        evolved = self._refuse_copies(method, team, evolved)
        evolved = self._refuse_rejected(method, team, evolved, state.get("rejected", {}))
        invalid = await count_invalid_replies(self.journal)
        record = evolved.model_dump(mode="json", exclude={"workflow"})
        record["unusable"] = invalid - state.get("invalid", invalid)  # older checkpoints lack it
        recorded = await self._put(team)
        return {
            **(EvolutionState(draft=recorded) if state.get("draft") else EvolutionState(incumbent=recorded)),
            **self._note_replaced(state["incumbent"] if state.get("draft") else recorded),
            "candidate": await self._put(evolved.workflow),
            "finished": evolved.finished,
            "evolved": await self.journal.put_body(record),
        }

    def _note_replaced(self, incumbent: str) -> EvolutionState:
        return EvolutionState(replaced=incumbent, approval={}) if self.config.approve else EvolutionState()

    @cached_property
    def guide(self) -> str:
        """Text for critics and rewriters beside their prompts: the user's wish, and what is frozen."""
        wish = self.config.guide.strip()
        told = [f"What the owner of the team asks of every change: {wish}"] if wish else []
        return "\n\n".join(filter(None, [*told, describe_frozen(self.config.freeze)]))

    @cached_property
    def train_texts(self) -> TaskTexts:
        """Texts of the train tasks, which must not be copied."""
        return TaskTexts.of(self.splits.train)

    def _refuse_frozen(self, method: Method[Any], team: Team, evolved: EvolveResult) -> EvolveResult:
        """Refuse the edits that change what is frozen; what the team has learned is then as after a rejection."""
        if not self.config.freeze:
            return evolved
        kept, refused = drop_frozen(team, evolved.applied, self.config.freeze, self.seed_team)
        if kept == evolved.applied and not self._changes_frozen(evolved.workflow):
            return evolved
        return self._keep(method, kept, refused, team, evolved)

    def _changes_frozen(self, team: Team) -> bool:
        return bool(find_frozen_change(self.seed_team, team, self.config.freeze))

    def _refuse_copies(self, method: Method[Any], team: Team, evolved: EvolveResult) -> EvolveResult:
        """Refuse the rewirings that copy from a train task; what the team has learned is then as after a rejection."""
        copies = find_copies(evolved.applied, team, self.train_texts)
        if not copies:
            return evolved
        kept = [rewiring for place, rewiring in enumerate(evolved.applied) if place not in copies]
        copied = [
            RefusedRewiring(rewiring=evolved.applied[place], reason=f"it copies from a train task: {passage!r}")
            for place, passage in copies.items()
        ]
        return self._keep(method, kept, copied, team, evolved)

    def _refuse_rejected(
        self, method: Method[Any], team: Team, evolved: EvolveResult, rejected: Mapping[str, int]
    ) -> EvolveResult:
        """Refuse a candidate that a comparison has rejected before: a second one would cost as much and decide nothing.

        A method whose memory decides how the team runs asks for a comparison all the same.
        """
        iteration = rejected.get(get_structure(evolved.workflow))
        if iteration is None or evolved.needs_gate:
            return evolved
        reason = f"it makes the team that was rejected in iteration {iteration}"
        refused = [RefusedRewiring(rewiring=rewiring, reason=reason) for rewiring in evolved.applied]
        return self._keep(method, [], refused, team, evolved)

    def _keep(
        self,
        method: Method[Any],
        kept: Sequence[Rewiring],
        refused: Sequence[RefusedRewiring],
        team: Team,
        evolved: EvolveResult,
    ) -> EvolveResult:
        """Apply only some rewirings to the team; it has learned what it learns from a rejection."""
        rest = EvolveResult.of(team, kept, memory=method.keep_memory(team, evolved.workflow).memory)
        refused = (*evolved.refused, *rest.refused, *refused)
        return evolved.replace(workflow=rest.workflow, applied=rest.applied, refused=refused)

    async def gate(self, state: EvolutionState) -> EvolutionState:
        """Compare candidate and incumbent on fresh gate tasks, paired."""
        incumbent = await self.load_team(state["incumbent"])
        candidate = await self.load_team(state["candidate"])
        evolved = await self.journal.get_body(state["evolved"])
        draft = await self.load_team(state["draft"]) if state.get("draft") else incumbent
        is_last_draft = draft is not incumbent and self._is_last(state)  # which is put to proof, changed or not
        if get_structure(candidate) == get_structure(draft) and not evolved["needs_gate"] and not is_last_draft:
            verdict = _keep_unchanged(evolved, state["equals"])
            if draft is not incumbent:
                update = await self._conclude(verdict, self._choose_method(state).keep_memory(incumbent, candidate))
                return {**update, "draft": await self._put(candidate)}
        elif "pruned_from" not in state and (self.config.gate == "off" or not self.method.sees_labels):
            verdict = GateDecision(accepted=True, why="the gate is off", patience_used=state["equals"])
            if self.method.fits(candidate):
                tasks = self.gate_batch(state["iteration"])
                after = await self._run(candidate, tasks, self._gate_scope(state, "candidate"))
                return await self._conclude(verdict, await self._fit(candidate, after), after)
        else:
            update = await self._compare(incumbent, draft, candidate, state)
            return {"draft": "", "drafted": [], **update, **self._count_outcome(update["verdict"], state)}
        return await self._conclude(verdict, candidate)

    def _count_outcome(self, verdict: Mapping[str, Any], state: EvolutionState) -> EvolutionState:
        """Deal the error out to the outcomes that a comparison on gate tasks may have had."""
        if verdict["difference"] is None and self.config.screens and "pruned_from" not in state:
            return {}
        outcome, before = name_outcome(verdict), state.get("outcomes", {})
        part = 1.0
        if "pruned_from" in state and outcome == "rejected":
            before, part = {}, compute_row_weight(before.get("accepted", 0))
        elif "pruned_from" not in state:
            if self.config.screens and outcome == "rejected":  # the proof of a draft has failed
                outcome = "draft"
            part = compute_weight(before, outcome, OUTCOMES["better" if self.config.screens else "no-worse"])
        return {
            "decided": state.get("decided", 0) + 1,
            "outcomes": {**before, outcome: before.get(outcome, 0) + 1},
            "weight": state.get("weight", 1.0) * part,
        }

    async def approve(self, state: EvolutionState) -> EvolutionState:
        """Ask a person whether the change that the gate has accepted is kept; see `graphs.approval`.

        A rejected change leaves the team as after a rejection by the gate. That a person may answer either way halves
        the error that is left for later decisions, as outcomes do.
        """
        from selfwire.graphs.approval import ApprovalAnswer, apply_answer, ask_person, list_kinds

        before, after = await self.load_team(state["replaced"]), await self.load_team(state["incumbent"])
        decision = GateDecision.model_validate(state["verdict"])
        if not decision.accepted or get_structure(before) == get_structure(after):
            return {}
        evolved = await self.journal.get_body(state["evolved"])
        kinds, always = list_kinds(evolved["applied"]), state.get("always", [])
        if kinds and {*kinds} <= {*always}:
            answer = ApprovalAnswer(answer="approve", by=f"an earlier answer, always for {', '.join(kinds)}")
            verdict = apply_answer(decision, answer).model_dump(mode="json")
            return {"verdict": verdict, "approval": answer.record}
        question = await self._make_question(state, before, after, kinds)
        answer, kept, by_hand = ask_person(question, after, self._check_by_hand)
        update = EvolutionState(
            verdict=apply_answer(decision, answer).model_dump(mode="json"),
            approval=answer.record,
            weight=state.get("weight", 1.0) / 2,
        )
        if answer.answer == "reject":
            scored = compute_mean_score(await self._load_gated(state, "incumbent"))
            kept = self._choose_method(state).keep_memory(before, after)
            kept = kept if kept == before else kept.with_lineage(before, [])
            teams = [after, await self.load_team(state["candidate"])]
            rejected = {**dict.fromkeys(map(get_structure, teams), state["iteration"] + 1), **state.get("rejected", {})}
            return {**update, "incumbent": await self._put(kept), "score": scored, "rejected": rejected}
        if answer.answer == "always":
            return {**update, "always": sorted({*always, *kinds})}
        if not by_hand:
            return update
        kept = kept.with_lineage(before, [*after.lineage.rewirings, *by_hand])
        applied = [*evolved["applied"], *(rewiring.model_dump(mode="json") for rewiring in by_hand)]
        body = await self.journal.put_body({**evolved, "applied": applied})
        return {**update, "incumbent": await self._put(kept), "score": None, "evolved": body}

    async def _make_question(
        self, state: EvolutionState, before: Team, after: Team, kinds: Sequence[str]
    ) -> "ApprovalQuestion":
        from selfwire.graphs.approval import ApprovalQuestion, measure_gain, measure_price

        old = await self._load_gated(state, "incumbent")
        new = await self._load_gated(state, "pruned") or await self._load_gated(state, "candidate")
        groups, is_proof = {t.id: t.group for t in self.splits.gate}, state["verdict"]["evidence"] is not None
        changes = after.diff(before)
        editable = self._choose_method(state).list_rewritable(after, self.config.freeze)
        return ApprovalQuestion(
            run=self.run,
            name=self.config.name,
            iteration=state["iteration"] + 1,
            why=state["verdict"]["why"],
            gain=measure_gain(old, new, is_proof=is_proof, groups=groups if is_proof else {}),
            before=measure_price(old),
            after=measure_price(new),
            kinds=tuple(kinds),
            rewirings=(await self.journal.get_body(state["evolved"]))["applied"],
            diff=changes.model_dump(mode="json", exclude_defaults=True, exclude={"memory"}),
            prompts={name: after.agents_by_id[name].prompt for name in editable},
        )

    async def _load_gated(self, state: EvolutionState, side: str) -> tuple[Trajectory, ...]:
        return tuple(await load_trajectories(self.journal, self._gate_scope(state, side)))

    def _check_by_hand(self, team: Team) -> None:
        """Check that the method can run a team that a person has changed.

        Raises:
            ConfigError: it cannot, or something frozen has changed.
        """
        self.method.adapt(team)
        if self._changes_frozen(team):
            raise ConfigError(f"this changes what is frozen, which is {', '.join(self.config.freeze)}")

    async def save(self, state: EvolutionState) -> EvolutionState:
        """Save the incumbent as a version, with the iteration's verdict and rewirings."""
        team = await self.load_team(state["incumbent"])
        evolved = await self.journal.get_body(state["evolved"])
        # the incumbent is saved even where the candidate was rejected, so the head always moves; see `gate`
        facts = {
            "gate": state["verdict"],
            "why": state["verdict"]["why"],
            "score": state.get("score"),
            "parent_score": state["train"],
            "spend": self.journal.spend().model_dump(mode="json"),
            **({"approval": state["approval"]} if state.get("approval") else {}),
            **{name: evolved[name] for name in ("applied", "refused", "notes", "unusable") if name in evolved},
        }
        await self._save(team, step=state["iteration"] + 1, facts=facts)
        verdict = {"outcome": name_outcome(state["verdict"]), "why": state["verdict"]["why"]}
        errors = {"errors": state.get("errors", 0), "fault": state.get("fault", "")}  # older checkpoints lack them
        self._report("save", state["iteration"], score=state["train"], **errors, **verdict)
        done = EvolutionState(iteration=state["iteration"] + 1)
        if "pruned_from" in state and verdict["outcome"] == "accepted":
            sides = [await self._load_gated(state, side) for side in ("incumbent", "candidate")]
            calls, dollars = (
                [fmean(getattr(run.usage, cost) or 0.0 for run in side) for side in sides]
                for cost in ("calls", "dollars")
            )
            edited = state.get("approval", {}).get("answer") == "edit"
            end = 1 if edited else 2  # an edited team has not run
            done["pruned_calls"] = [state.get("pruned_calls", calls)[0], *calls[1:end]]
            done["pruned_dollars"] = [state.get("pruned_dollars", dollars)[0], *dollars[1:end]]
        return {**done, **self._begin_pruning({**state, **done})}

    async def test(self, state: EvolutionState) -> EvolutionState:
        """Run the seed team and the evolved one on the test split, which is used only here.

        A resumed run repeats only tasks without a grade, and so does the evolved team if it answers as the seed team.
        """
        report: dict[str, Any] = {}
        before: Sequence[Trajectory] = ()
        sides = {"before": self.seed_team, "after": await self.load_team(state["incumbent"])}
        for label, team in sides.items():
            scope = self._scope("test", 0, of=label)
            earlier = await load_graded(self.journal, scope)
            if label == "after" and self._answers_alike(team, self.seed_team):
                tested = await load_graded(self.journal, self._scope("test", 0, of="before"))
                copied = [done.replace(workflow=team.fingerprint) for done in tested]
                if not earlier and len(copied) == len(self.splits.test):
                    event = {"side": label, "done": len(copied), "total": len(copied), "copied": True}
                    self._report("test", 0, score=compute_mean_score(copied), **event)
                earlier = [*copied, *earlier]
            found = await self._run(team, self.splits.test, scope, earlier=earlier, before=before)
            before = before or found
            report[label] = {
                "workflow": team.fingerprint,
                "scores": [t.feedback.score if t.feedback else None for t in found],
                "usage": sum_usages(t.usage for t in found).model_dump(mode="json"),
            }
        return {"test": report}

    def _answers_alike(self, team: Team, other: Team) -> bool:
        """Whether two teams run alike: they differ in records of what was measured, or in what no answer goes by."""
        if PruningRecord.remove_from(team).fingerprint == PruningRecord.remove_from(other).fingerprint:
            return True
        return get_structure(team) == get_structure(other) and not any(map(self.method.reads_memory, (team, other)))

    def draw_train(self, state: EvolutionState) -> tuple[Task, ...]:
        """Draw the train tasks of an iteration: in seeded order, reshuffled at every pass.

        For a pruning the first ones are the same each time, as they measure the parts, and never those that check them.
        """
        scope = self._scope("draw train", 0)
        if (pruning := self.config.pruning) and "pruned_from" in state:
            tasks = _draw_batch(self.splits.train, len(self.splits.train), 0, scope)
            measured, others = tasks[: pruning.batch], tasks[pruning.batch :]
            checks = _draw_batch(others, pruning.checks, state["iteration"] - state["pruned_from"], scope)
            return (*measured, *checks)
        return _draw_batch(self.splits.train, self.config.batch, state["iteration"], scope)

    def gate_batch(self, iteration: int) -> tuple[Task, ...]:
        """Draw the gate tasks of an iteration: fresh ones until the split is used up, then a new shuffle."""
        tasks, _ = self.config.deal_gate_tasks(self.splits.gate)
        return _draw_batch(tasks, self.config.gate_tasks, iteration, self._scope("draw gate", 0))

    def draw_proof(self, state: EvolutionState) -> tuple[tuple[tuple[Task, ...], ...], EvidenceRule]:
        """Draw the groups of gate tasks of a proof, none if they could prove nothing, and its rule.

        They begin a look further on with each decision, so that fresh ones come first. Where they begin depends on
        no score, or a union bound would have to count it.
        """
        prunes, decided = "pruned_from" in state, state.get("decided", 0)
        rule = self.config.pruning_rule if prunes else self.config.rule
        assert rule is not None, "the gate mean proves nothing"
        whole = rule.error
        if not prunes:
            share = compute_share(decided, self.config.iterations, is_last=self._is_last(state))
            whole = self.config.rewriting_error * share
        rule = rule.replace(error=whole * state.get("weight", 1.0))
        split = deal_questions(self.config, self.splits.gate)[prunes]
        groups = _draw_batch(split, len(split), 0, self._scope("draw gate", 0))
        first = decided * self.config.gate_tasks % max(len(groups), 1)
        if not rule.can_prove(len(groups)) and not self.config.anyway:
            return (), rule
        return (*groups[first:], *groups[:first]), rule

    def is_finished(self, state: EvolutionState) -> bool:
        """Whether no iteration is left, or the method or the gate can do nothing in another one."""
        if self.config.pruning is None or "pruned_from" not in state:
            return state["iteration"] >= self.config.iterations or bool(state.get("finished"))
        over = state["iteration"] - state["pruned_from"] >= self.config.pruning.iterations
        return over or bool(state.get("finished")) or not self.draw_proof(state)[0]

    async def _screen(
        self, incumbent: Team, draft: Team, candidate: Team, state: EvolutionState
    ) -> tuple[list[Trajectory], GateDecision]:
        """Run all on train tasks, and decide whether the candidate is the next draft.

        One that does worse on a batch of them has two batches more, as a batch often shows a loss by chance.
        """
        drawn = {task.id for task in self.draw_train(state)}
        others = [task for task in self.splits.train if task.id not in drawn] or self.splits.train
        batch, draw = self.config.batch, partial(_draw_batch, iteration=state["iteration"])
        first = draw(others, batch, scope=self._scope("draw draft", 0))
        asked = {task.id for task in first}
        rest = [task for task in others if task.id not in asked]
        further = draw(rest, 2 * batch, scope=self._scope("draw further draft", 0))
        before, between, after = list[Trajectory](), list[Trajectory](), list[Trajectory]()
        scopes = [self._scope("draft", state["iteration"], of=side) for side in ("incumbent", "draft", "candidate")]
        for tasks in (first, (*first, *further)):
            before = await self._run(incumbent, tasks, scopes[0], earlier=before)
            after = await self._run(candidate, tasks, scopes[2], earlier=after, before=before)
            if draft is not incumbent:
                between = await self._run(draft, tasks, scopes[1], earlier=between, before=before)
            for side in (before, between, after):
                refuse_too_many_errors(side, self.rollout_context, "draft")
            decided = keep_draft(*map(_list_scores, (before, between, after)))
            found = _count_raised(decided, after)
            if decided.draft and not found.draft:  # with errors that its graph has raised it is worse than the draft
                found = found.replace(keeps_draft=draft is not incumbent)
            if found.draft or not further:
                break
        return after, found

    def _is_last(self, state: EvolutionState) -> bool:
        return state["iteration"] + 1 >= self.config.iterations or bool(state.get("finished"))

    def _may_be_proved(self, found: GateDecision, state: EvolutionState) -> bool:
        """Whether the gain is at least half of the least that can be proved, or no iteration is left to add to it."""
        groups, rule = self.draw_proof(state)
        least = rule.find_least_gain(len(groups)) or 0.0
        return self._is_last(state) or (found.difference or 0.0) >= least / 2

    async def _prove(
        self, incumbent: Team, candidate: Team, state: EvolutionState
    ) -> tuple[list[Trajectory], list[Trajectory], GateDecision]:
        """Run both on more and more gate tasks until the proof has succeeded or has no chance any more.

        Tasks that ended as errors are asked again, once, before errors alone reject the candidate. What a model has
        answered is not asked again, so that an error that the candidate itself causes comes back.
        """
        groups, rule = self.draw_proof(state)
        if "pruned_from" in state and list_model_changes(incumbent, candidate):
            rule = rule.replace(saves="dollars")
        before, after = list[Trajectory](), list[Trajectory]()
        why = f"no gate tasks are left that could prove a gain at an error of {rule.error:.2g}; raise --gate-size"
        verdict = None if groups else GateDecision(accepted=False, why=why, error=rule.error)
        seen, again = groups[:0], False
        while verdict is None or (verdict.by_errors and not again):
            if again := verdict is not None:
                before, after = (list(filterfalse(_may_end_otherwise, side)) for side in (before, after))
            else:
                seen = groups[: len(seen) + self.config.gate_tasks]
            tasks = [task for group in seen for task in group]
            old, new = (self._gate_scope(state, side) for side in ("incumbent", "candidate"))
            before = await self._run(incumbent, tasks, old, earlier=before)
            after = await self._run(candidate, tasks, new, earlier=after, before=before)
            scores, costs = _list_pairs(before, after)
            sizes, left = [*map(len, seen)], len(groups) - len(seen)
            verdict = decide_by_evidence(*scores, *costs, rule, left=left, sizes=sizes)
        if verdict.by_errors:
            errors = f"without these errors, such as {_sum_errors(after)['fault']}, it would not be rejected"
            why = f"{verdict.why}; {errors}: a later iteration, or a further run, may prove it"
            verdict = verdict.replace(why=why)
        return before, after, _count_raised(verdict.replace(patience_used=state["equals"]), after)

    async def _decide_by_proof(
        self, incumbent: Team, draft: Team, candidate: Team, state: EvolutionState
    ) -> tuple[Sequence[Trajectory], list[Trajectory], GateDecision]:
        """Prove the candidate's gain, where train tasks have chosen it, or in the end the draft's that it leaves.

        Without a proof the runs of the incumbent are none.
        """
        if "pruned_from" in state or not self.config.screens:
            return await self._prove(incumbent, candidate, state)
        ran, found = await self._screen(incumbent, draft, candidate, state)
        if found.draft and self._may_be_proved(found, state):
            before, after, verdict = await self._prove(incumbent, candidate, state)
            return before, after, verdict.replace(draft=not verdict.accepted)
        if not found.draft and draft is not incumbent and self._is_last(state):
            before, after, verdict = await self._prove(incumbent, draft, state)
            why = f"{found.why}; of the draft before it, {verdict.why}"
            return before, after, verdict.replace(why=why, keeps_draft=True)
        why = f"{found.why}, too little to be proved" if found.draft else found.why
        return (), ran, found.replace(why=why, difference=None, patience_used=state["equals"])

    async def _compare(self, incumbent: Team, draft: Team, candidate: Team, state: EvolutionState) -> EvolutionState:
        tasks = self.gate_batch(state["iteration"])
        if self.config.rule is not None or "pruned_from" in state:
            before, after, verdict = await self._decide_by_proof(incumbent, draft, candidate, state)
        else:
            before = await self._run(incumbent, tasks, self._gate_scope(state, "incumbent"))
            after = await self._run(candidate, tasks, self._gate_scope(state, "candidate"), before=before)
            verdict = self._decide(before, after, state["equals"])
        evolved = await self.journal.get_body(state["evolved"])
        if verdict.accepted and verdict.keeps_draft:
            candidate, evolved = self._choose_method(state).keep_memory(draft, candidate), {**evolved, "applied": []}
        candidate = await self._fit(candidate, after)
        if verdict.accepted:
            kept, undone = undo_untried(incumbent, candidate, after)
            drafts = [await self.journal.get_body(body) for body in state.get("drafted", ())]
            applied = [change for body in (*drafts, evolved) for change in body["applied"]]
            applied += [rewiring.model_dump(mode="json") for rewiring in undone]
            if drafts:
                kept = kept.with_lineage(incumbent, map(Rewiring.model_validate, applied))
            evolved = await self.journal.put_body({**evolved, "applied": applied})
            return {**await self._conclude(verdict, kept, after), "evolved": evolved}
        kept = self._choose_method(state).keep_memory(incumbent, candidate)
        worth = PruningRecord.of(kept).agent_values
        removal = self.method.propose_pruning(kept, worth) if verdict.try_pruning else None
        rejected = _add_rejected(candidate, after, verdict, state)
        smaller = kept if removal is None else kept.apply(removal)
        if removal and get_structure(smaller) not in rejected and not self._changes_frozen(smaller):
            smaller_runs = await self._run(smaller, tasks, self._gate_scope(state, "pruned"), before=before)
            pruned = self._decide(before, smaller_runs, state["equals"])
            if pruned.accepted:
                smaller = self.method.keep_memory(smaller, kept).with_lineage(incumbent, [removal])
                pruned = pruned.replace(why=f"{pruned.why}; {removal.why}")
                tried = [rewiring["operation"] for rewiring in evolved["applied"]]
                return {"rejected": rejected, **await self._conclude(pruned, smaller, smaller_runs, removal, tried)}
            rejected = _add_rejected(smaller, smaller_runs, pruned, {**state, "rejected": rejected})
        kept = kept if kept == incumbent else kept.with_lineage(incumbent, [])
        update = EvolutionState(rejected=rejected, **await self._conclude(verdict, kept, before))
        if verdict.keeps_draft and draft is not incumbent:
            update["draft"] = await self._put(self._choose_method(state).keep_memory(draft, candidate))
            update["drafted"] = state["drafted"]
        if verdict.draft:
            update["draft"] = await self._put(candidate)
            update["drafted"] = [*state.get("drafted", ()), state["evolved"]]
        return update

    async def _fit(self, team: Team, runs: Sequence[Trajectory]) -> Team:
        """Fit the parameters of a team to held-out runs."""
        return await await_result(self.method, "fit", self.method.fit(team, runs, self.ctx), Team)

    async def _conclude(
        self,
        verdict: GateDecision,
        kept: Team,
        gated: Sequence[Trajectory] = (),
        removal: Rewiring | None = None,
        tried: Sequence[str] = (),
    ) -> EvolutionState:
        """Make the update of an iteration.

        Args:
            gated: runs of the kept team on gate tasks.
            removal: the rewiring of the iteration, if it replaced the candidate.
            tried: operations of the replaced candidate.
        """
        update: EvolutionState = {
            "incumbent": await self._put(kept),
            "score": compute_mean_score(gated),
            "verdict": verdict.model_dump(mode="json"),
            "equals": verdict.patience_used,
        }
        if removal is not None:
            applied = {"applied": [removal.model_dump(mode="json")], "refused": [], "notes": {"tried": [*tried]}}
            update["evolved"] = await self.journal.put_body(applied)
        return update

    def _decide(self, before: Sequence[Trajectory], after: Sequence[Trajectory], equals: int) -> GateDecision:
        config = self.config
        scores, (old, new) = _list_pairs(before, after)
        calls = [cost.calls for cost in old], [cost.calls for cost in new]
        verdict = decide(*scores, *calls, equals, margin=config.margin or 0.0, patience=config.patience)
        verdict = _count_raised(verdict, after)
        temperature = getattr(self.method.config, "temperature", 0.0)
        return verdict.replace(why=f"{verdict.why}, sampled at temperature {temperature:g}") if temperature else verdict

    def _gate_scope(self, state: EvolutionState, side: str) -> Scope:
        return self._scope("gate", state["iteration"], of=side)

    def _scope(self, phase: str, iteration: int, of: str = "") -> Scope:
        # `of` is the side of a comparison, in the journal only: both sides share their random draws
        run = f"{self.run}/{of}" if of else self.run
        return Scope(run=run, seed=self.config.seed, iteration=iteration, phase=phase)

    async def _run(
        self,
        team: Team,
        tasks: Sequence[Task],
        scope: Scope,
        *,
        explores: bool = False,
        earlier: Sequence[Trajectory] = (),
        before: Sequence[Trajectory] = (),
    ) -> list[Trajectory]:
        """Run and grade tasks; return their trajectories in the order of the tasks.

        Args:
            explores: whether the method learns from them, and so may run a question several times.
            earlier: finished trajectories, of a task the last one; these tasks are not run again.
            before: runs of the team that this one is compared with.
        """
        known, side, ctx = {run.question.id: run for run in earlier}, scope.run.partition("/")[2], self.ctx.where(scope)
        done = list(known.values())
        rollout_fn = self.method.ask_samples if explores else self.method.ask
        ran = frozenset(trajectory.question.id for trajectory in before if trajectory.error is None)
        samples = self.method.samples if explores else 1
        rollout_context = replace(self.rollout_context, samples=samples, ran=ran)

        def progress(trajectory: Trajectory) -> None:
            done.append(trajectory)
            asked = len({trajectory.question.id for trajectory in done})
            event = {"side": side, "done": asked, "total": len(tasks), "score": compute_mean_score(done)}
            self._report(scope.phase, scope.iteration, **event, **_sum_errors(done))

        try:
            return await collect_rollouts(rollout_context, rollout_fn, team, tasks, ctx, progress, known)
        finally:
            await self.journal.put_note(ELAPSED, self.ledger.spent.seconds)  # for a budget after a kill

    def _report(self, phase: str, iteration: int, **event: Any) -> None:
        spend = self.ledger.spent.model_dump(mode="json")
        get_stream_writer()({"phase": phase, "iteration": iteration, "spend": spend, **event})

    async def _put(self, team: Team) -> str:
        await self.library.store_blobs(team)
        return await self.journal.put_body(team.model_dump(mode="json"))

    async def load_team(self, body: str) -> Team:
        """Load a team by the hash of its body in the journal; raises JournalError if it is of another method."""
        team = Team.model_validate(await self.journal.get_body(body))
        return await self.library.load_blobs(refuse_other_code(team, self.method.name, self.run))

    async def _save(self, team: Team, step: int, facts: dict[str, Any]) -> None:
        facts = {"method": self.method.name, "seed": self.config.seed, **self.facts, **facts}
        beside = await self.library.is_rolled_back(self.config.name, self.run)  # which is a person's decision
        await self.library.save(self.config.name, team, run=self.run, step=step, facts=facts, beside=beside)


def refuse_other_code(team: Team, method: str, run: str) -> Team:
    """Return a team from a run's files, unless it is of another method: the code of a graph would be imported.

    Raises:
        JournalError: it is.
    """
    if team.method != method:
        raise JournalError(
            f"run {run!r} of {method} holds a team of {team.method}, so its files have been changed; start a new run"
        )
    return team


def compute_mean_score(trajectories: Sequence[Trajectory]) -> float | None:
    """Compute the mean score over graded trajectories; None if none was graded."""
    scores = [trajectory.feedback.score for trajectory in trajectories if trajectory.feedback]
    return float(np.mean(scores)) if scores else None


def _list_scores(trajectories: Sequence[Trajectory]) -> list[float | None]:
    return [done.feedback.score if done.feedback else None for done in trajectories]


def _list_pairs(
    before: Sequence[Trajectory], after: Sequence[Trajectory]
) -> tuple[tuple[list[float | None], list[float | None]], tuple[list[Usage], list[Usage]]]:
    """Scores and costs of both sides of a comparison, task by task."""
    return (_list_scores(before), _list_scores(after)), (
        [done.usage for done in before],
        [done.usage for done in after],
    )


def _count_raised(verdict: GateDecision, after: Sequence[Trajectory]) -> GateDecision:
    """Say in a decision how often the user's own program has raised an error under the candidate; a tie is a loss then.

    An error is worse than the wrong answer that it counts as.
    """
    raised = [done.error for done in after if done.error is not None and done.feedback is not None]
    if not raised:
        return verdict
    often = f"in {len(raised)} of {format_count(len(after), 'run')} of the candidate the graph raised an error"
    why = f"{verdict.why}; {often}, which counts as 0 as it ran without before: {raised[0]}"
    is_better = (verdict.difference or 0.0) > 0
    return verdict.replace(why=why, accepted=verdict.accepted and is_better, draft=verdict.draft and is_better)


def _may_end_otherwise(done: Trajectory) -> bool:
    """Whether a task that ended as an error may end otherwise if it is asked again with as many calls."""
    return done.feedback is None and not (done.error or "").startswith(SHARE_USED_UP)


def _sum_errors(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    faults = [trajectory.error for trajectory in trajectories if trajectory.error is not None]
    return {"errors": len(faults), "fault": faults[0] if faults else ""}


def _draw_batch(tasks: Sequence[T], size: int, iteration: int, scope: Scope) -> tuple[T, ...]:
    if not tasks:
        return ()
    indices = _iterate_shuffled(len(tasks), scope)
    waiting: list[int] = []
    for _ in range(iteration + 1):
        batch, twice = list[int](), list[int]()
        while len(batch) < min(size, len(tasks)):
            index = waiting.pop(0) if waiting else next(indices)
            (twice if index in batch else batch).append(index)
        waiting = [*twice, *waiting]  # duplicates open the next batch
    return tuple(tasks[index] for index in batch)


def _iterate_shuffled(size: int, scope: Scope) -> Iterator[int]:
    for epoch in count():
        yield from (int(index) for index in scope.at(iteration=epoch).random("order").permutation(size))


def _keep_unchanged(evolved: Mapping[str, Any], equals: int) -> GateDecision:
    """Decide to keep a team whose agents, tools and topology the method has not changed."""
    declined = [*evolved["refused"], *evolved["notes"].get("declined", ())]
    unusable = evolved.get("unusable", 0)
    reasons = [f"the model's reply could not be read in {format_count(unusable, 'case')}"] if unusable else []
    if declined:
        were = "was" if len(declined) == 1 else "were"
        told = f"{format_count(len(declined), 'proposal')} did not fit or {were} refused"
        reasons.append(f"{told}, such as: {declined[0]['reason']}")
    unsolved = None if reasons else evolved["notes"].get("unsolved")
    grounds = [f"the critics named no agent for {format_count(unsolved, 'task')} not solved"] if unsolved else reasons
    if unsolved == 0:
        grounds = ["all tasks of this iteration were solved"]
    why = "; ".join(("agents, tools and topology are as they were", *grounds))
    unchanged: Literal["no change", "unusable reply"] = "unusable reply" if reasons else "no change"
    return GateDecision(accepted=True, why=why, patience_used=equals, unchanged=unchanged)


def _add_rejected(
    team: Team, runs: Sequence[Trajectory], verdict: GateDecision, state: EvolutionState
) -> dict[str, int]:
    """Add a team to those that a comparison has rejected for good, unless it is a draft or only errors reject it."""
    rejected = state.get("rejected", {})
    if verdict.draft or verdict.by_errors or not any(done.feedback for done in runs):
        return rejected
    return {get_structure(team): state["iteration"] + 1, **rejected}


def undo_untried(incumbent: Team, candidate: Team, runs: Sequence[Trajectory]) -> tuple[Team, tuple[Rewiring, ...]]:
    """Give an agent that ran on no gate task its old prompt and model back, since nothing has tried the new ones.

    Returns:
        The candidate without such prompts and models, and a rewiring for each that was undone.
    """
    ran, old = {step.agent for run in runs for step in run.steps}, incumbent.agents_by_id
    ran |= {agent for run in runs for offered in run.notes.get(OFFERED, {}).values() for agent in offered}
    untried = [agent for agent in candidate.agents if ran and agent.id in old and agent.id not in ran]
    edits: list[tuple[str, str, Edit]] = [
        *((a.id, "prompt", RewritePrompt(a.id, old[a.id].prompt)) for a in untried if a.prompt != old[a.id].prompt),
        *((a.id, "model", SetModel(a.id, old[a.id].model)) for a in untried if a.model != old[a.id].model),
    ]
    undone = tuple(
        Rewiring(edit, why=f"{agent} ran on no gate task, so its new {what} is not kept", operation=UNDO, by="gate")
        for agent, what, edit in edits
    )
    if not undone:
        return candidate, ()
    kept, _ = candidate.apply_legal(undone)
    return kept.with_lineage(incumbent, [*candidate.lineage.rewirings, *undone]), undone


def get_structure(team: Team) -> str:
    """Return the fingerprint of the parts of a team beside its memory: agents, topology and tools."""
    tools = [(tool.name, tool.source, tool.description) for tool in team.tools]
    return fingerprint({**team.model_dump(mode="json", include={"agents", "topology"}), "tools": tools})


Event = dict[str, Any]
"""Progress: phase, iteration and spend; done, total, score, outcome and why where they are known."""


def build(loop: EvolutionLoop) -> StateGraph[EvolutionState]:
    """Build the graph of an evolution, ready to compile with a checkpointer."""

    def more(state: EvolutionState) -> Literal["rollout", "test", "__end__"]:
        if not loop.is_finished(state):
            return "rollout"
        return "test" if loop.splits.test else "__end__"

    graph = StateGraph(EvolutionState)
    graph.add_node("begin", loop.begin)
    approve = [loop.approve] if loop.config.approve else []
    graph.add_sequence([loop.rollout, loop.evolve, loop.gate, *approve, loop.save])
    graph.add_node("test", loop.test)
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", more)
    graph.add_conditional_edges("save", more)
    graph.add_edge("test", END)
    return graph


async def run_evolution(
    loop: EvolutionLoop,
    saver: BaseCheckpointSaver[Any],
    on_event: Callable[[Event], None] = lambda event: None,
    answer: Any = None,
) -> EvolutionState:
    """Start an evolution, or resume it after its last finished superstep.

    A finished evolution repeats only test tasks that ended as errors; nothing is learned or decided again. One that
    waits for a person returns its state with the question, which `find_question` finds, until there is an answer.

    Args:
        answer: a person's, to the question that the evolution waits for.

    Raises:
        BudgetError, OutageError, ModelError: the run stopped early and can be resumed by calling this again.
    """
    graph = build(loop).compile(checkpointer=saver)
    config: RunnableConfig = {
        "configurable": {"thread_id": loop.run},
        "recursion_limit": 6 * loop.config.all_iterations + 10,
    }
    before = await graph.aget_state(config)
    try:
        TypeAdapter(EvolutionState).validate_python(before.values)
    except ValidationError as error:
        raise JournalError(
            f"the checkpoints of run {loop.run} cannot be used: {format_first_fault(error)}; start a new run"
        ) from None
    if before.created_at is not None and not before.tasks and count_failed_tests(before.values):
        await graph.aupdate_state(config, {"test": {}}, as_node="save")
        before = await graph.aget_state(config)
    # a stop between a node's writes and the next checkpoint leaves a task to finish and no `next`
    if before.created_at is None or (before.tasks and (answer is not None or not before.interrupts)):
        go_on: Command[Any] | None = Command(resume=answer) if before.interrupts else None
        start = EvolutionState() if before.created_at is None else go_on
        async for event in graph.astream(start, config, stream_mode="custom", durability="sync"):
            on_event(event)
    final = await graph.aget_state(config)
    return cast(EvolutionState, {**final.values, **({WAITING: final.interrupts} if final.interrupts else {})})


WAITING = "__interrupt__"
"""LangGraph's key of what a graph waits for."""


def find_question(state: EvolutionState) -> "ApprovalQuestion | None":
    """Find the question for a person that an evolution waits with; None if it does not wait."""
    waiting = cast(Mapping[str, Any], state).get(WAITING)
    if not waiting:
        return None
    from selfwire.graphs.approval import ApprovalQuestion

    return ApprovalQuestion.model_validate(waiting[0].value)


def count_failed_tests(state: Mapping[str, Any]) -> int:
    """Count the test tasks of a finished evolution that ended as errors, with the seed or the evolved team."""
    sides = [side["scores"] for side in (state.get("test") or {}).values()]
    return sum(any(score is None for score in scores) for scores in zip(*sides, strict=True))

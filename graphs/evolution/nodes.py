"""The phases of the outer evolution as nodes of its graph."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypedDict

import numpy as np
from langgraph.config import get_stream_writer

from selfwire.core.edits import Rewiring
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.tool_calls import record_tool_calls
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import sum_usages
from selfwire.core.values import FrozenMap, format_count
from selfwire.core.workflow import Workflow
from selfwire.evolvers.gate import GateDecision, decide, name_outcome
from selfwire.graphs.evolution.config import EvolutionContext
from selfwire.graphs.rollouts import RolloutFn, SolverRollouts, TrainRollouts, collect_rollouts, grade_trajectory
from selfwire.graphs.trajectory_notes import get_sample_name, get_trajectories_note, load_trajectories
from selfwire.runtime.structured_counts import count_invalid_replies

ELAPSED = "elapsed"
"""Name of the journal's note with the run's seconds of wall time."""


class EvolutionState(TypedDict, total=False):
    """References and plain numbers; bodies lie in the journal.

    Keys:
        iteration: from 0; the number of finished iterations after `save`.
        incumbent, candidate: bodies of workflows, by hash.
        trajectories: bodies of this iteration's train trajectories, by hash.
        evolved: applied and refused rewirings and notes of this iteration, by hash.
        verdict: the gate's decision.
        equals: candidates in a row that were accepted with an equal score and more calls.
        train: mean train score of the incumbent in this iteration, None if every task ended as an error.
        errors: train runs of this iteration that ended as errors.
        fault: the first of these errors, "" if there is none.
        invalid: replies of the run that were no valid objects, before the team is rewritten.
        score: mean gate score of the saved workflow; None if it was not compared.
        test: the final report.
    """

    iteration: int
    incumbent: str
    candidate: str
    trajectories: list[str]
    evolved: str
    verdict: dict[str, Any]
    equals: int
    train: float | None
    errors: int
    fault: str
    invalid: int
    score: float | None
    test: dict[str, Any]


@dataclass(frozen=True)
class EvolutionNodes:
    """Nodes of the graph."""

    context: EvolutionContext

    async def begin(self, state: EvolutionState) -> EvolutionState:
        """Save the seed workflow as version 0."""
        workflow = self.context.seed_workflow
        await self._save(workflow, step=0, facts={"why": "seed", "accepted": False})
        return {"iteration": 0, "equals": 0, "incumbent": await self._put(workflow)}

    async def rollout(self, state: EvolutionState) -> EvolutionState:
        """Run the incumbent on the next train batch."""
        workflow = await self._workflow(state["incumbent"])
        tasks = self.train_batch(state["iteration"])
        explore = TrainRollouts(self.context.method)
        found = await self._run(workflow, tasks, self._scope("rollout", state["iteration"]), explore)
        kept = await self.context.journal.get_note(get_trajectories_note(state["iteration"], "rollout"))
        errors = _sum_errors(found)
        return {
            "trajectories": [kept[get_sample_name(t)] for t in found],
            "train": compute_mean_score(found),
            "errors": errors["errors"],
            "fault": errors["fault"],
            "invalid": await count_invalid_replies(self.context.journal),
        }

    async def evolve(self, state: EvolutionState) -> EvolutionState:
        """Let the method rewrite the incumbent."""
        workflow = await self._workflow(state["incumbent"])
        bodies = [await self.context.journal.get_body(found) for found in state["trajectories"]]
        trajectories = [Trajectory.model_validate(body) for body in bodies]
        self._report("evolve", state["iteration"])
        scope = self._scope("evolve", state["iteration"])
        tasks = {task.id: task for task in self.train_batch(state["iteration"])}

        async def grade(done: Trajectory, at: Scope) -> Trajectory:
            return await grade_trajectory(self.context.rollout_context, tasks[done.question.id], done, at)

        workflow = record_tool_calls(workflow, trajectories)
        evolved = await self.context.method.evolve(workflow, trajectories, scope=scope, grade=grade)
        invalid = await count_invalid_replies(self.context.journal)
        record = evolved.model_dump(mode="json", exclude={"workflow"})
        record["unusable"] = invalid - state.get("invalid", invalid)  # older checkpoints lack it
        return {
            "incumbent": await self._put(workflow),
            "candidate": await self._put(evolved.workflow),
            "evolved": await self.context.journal.put_body(record),
        }

    async def gate(self, state: EvolutionState) -> EvolutionState:
        """Compare candidate and incumbent on fresh gate tasks, paired."""
        incumbent = await self._workflow(state["incumbent"])
        candidate = await self._workflow(state["candidate"])
        evolved = await self.context.journal.get_body(state["evolved"])
        if get_structure(candidate) == get_structure(incumbent) and not evolved["needs_gate"]:
            verdict = _keep_unchanged(evolved, state["equals"])
        elif self.context.config.gate == "off" or not self.context.method.sees_labels:
            verdict = _accept_without_gate("the gate is off", state["equals"])
            if self.context.method.fits_held_out(candidate):
                after = await self._run(
                    candidate, self.gate_batch(state["iteration"]), self._gate_scope(state, "candidate")
                )
                return await self._conclude(verdict, await self.context.method.learn_held_out(candidate, after), after)
        else:
            return await self._compare(incumbent, candidate, state)
        return await self._conclude(verdict, candidate)

    async def save(self, state: EvolutionState) -> EvolutionState:
        """Save the incumbent as a version, with the iteration's verdict and rewirings."""
        workflow = await self._workflow(state["incumbent"])
        evolved = await self.context.journal.get_body(state["evolved"])
        # the incumbent is saved even where the candidate was rejected, so the head always moves; see `gate`
        facts = {
            "gate": state["verdict"],
            "why": state["verdict"]["why"],
            "score": state.get("score"),
            "parent_score": state["train"],
            "spend": self.context.journal.spend().model_dump(mode="json"),
            **{name: evolved[name] for name in ("applied", "refused", "notes", "unusable") if name in evolved},
        }
        await self._save(workflow, step=state["iteration"] + 1, facts=facts)
        verdict = {"outcome": name_outcome(state["verdict"]), "why": state["verdict"]["why"]}
        errors = {"errors": state.get("errors", 0), "fault": state.get("fault", "")}  # older checkpoints lack them
        self._report("save", state["iteration"], score=state["train"], **errors, **verdict)
        return {"iteration": state["iteration"] + 1}

    async def test(self, state: EvolutionState) -> EvolutionState:
        """Open the test split, once: the seed workflow and the evolved one, on the same tasks.

        Graded tasks are kept, so a resumed run asks only the others.
        """
        report: dict[str, Any] = {}
        sides = {"before": self.context.seed_workflow, "after": await self._workflow(state["incumbent"])}
        for label, workflow in sides.items():
            scope = self._scope("test", 0, of=label)
            found = await self._run(workflow, self.context.splits.test, scope, earlier=await self._load_graded(scope))
            report[label] = {
                "workflow": workflow.fingerprint,
                "scores": [t.feedback.score if t.feedback else None for t in found],
                "usage": sum_usages(t.usage for t in found).model_dump(mode="json"),
            }
        return {"test": report}

    def train_batch(self, iteration: int) -> tuple[Task, ...]:
        """The batch of an iteration: the train split in seeded order, reshuffled at every pass."""
        return _draw_batch(
            self.context.splits.train, self.context.config.batch, iteration, self._scope("draw train", 0)
        )

    def gate_batch(self, iteration: int) -> tuple[Task, ...]:
        """The gate tasks of an iteration: fresh ones until the split is used up, then a new shuffle."""
        return _draw_batch(
            self.context.splits.gate, self.context.config.gate_tasks, iteration, self._scope("draw gate", 0)
        )

    async def _compare(self, incumbent: Workflow, candidate: Workflow, state: EvolutionState) -> EvolutionState:
        tasks = self.gate_batch(state["iteration"])
        before = await self._run(incumbent, tasks, self._gate_scope(state, "incumbent"))
        after = await self._run(candidate, tasks, self._gate_scope(state, "candidate"))
        verdict = self._decide(before, after, state["equals"])
        candidate = await self.context.method.learn_held_out(candidate, after)
        if verdict.accepted:
            return await self._conclude(verdict, candidate, after)
        kept = self.context.method.carry_over_memory(incumbent, candidate)
        removal = self.context.method.propose_pruning(kept) if verdict.try_pruning else None
        if removal is not None:
            smaller = kept.apply(removal)
            after = await self._run(smaller, tasks, self._gate_scope(state, "pruned"))
            pruned = self._decide(before, after, state["equals"])
            if pruned.accepted:
                smaller = self.context.method.carry_over_memory(smaller, kept).with_lineage(incumbent, [removal])
                pruned = pruned.replace(why=f"{pruned.why}; {removal.why}")
                evolved = await self.context.journal.get_body(state["evolved"])
                tried = [one["operation"] for one in evolved["applied"]]
                return await self._conclude(pruned, smaller, after, removal, tried)
        return await self._conclude(verdict, kept if kept == incumbent else kept.with_lineage(incumbent, []), before)

    async def _conclude(
        self,
        verdict: GateDecision,
        kept: Workflow,
        gated: Sequence[Trajectory] = (),
        removal: Rewiring | None = None,
        tried: Sequence[str] = (),
    ) -> EvolutionState:
        """The update of an iteration; a removal that replaced the candidate counts as its rewiring.

        Args:
            gated: the kept workflow's runs on gate tasks.
            tried: operations of the candidate that the removal replaced.
        """
        update: EvolutionState = {
            "incumbent": await self._put(kept),
            "score": compute_mean_score(gated),
            "verdict": verdict.model_dump(mode="json"),
            "equals": verdict.patience_used,
        }
        if removal is not None:
            applied = {"applied": [removal.model_dump(mode="json")], "refused": [], "notes": {"tried": [*tried]}}
            update["evolved"] = await self.context.journal.put_body(applied)
        return update

    def _decide(self, before: Sequence[Trajectory], after: Sequence[Trajectory], equals: int) -> GateDecision:
        config = self.context.config
        verdict = decide(
            [t.feedback.score if t.feedback else None for t in before],
            [t.feedback.score if t.feedback else None for t in after],
            [t.usage.calls for t in before],
            [t.usage.calls for t in after],
            equals,
            margin=config.margin,
            patience=config.patience,
        )
        temperature = getattr(getattr(self.context.method, "config", None), "temperature", 0.0)
        return verdict.replace(why=f"{verdict.why}, sampled at temperature {temperature:g}") if temperature else verdict

    def _gate_scope(self, state: EvolutionState, side: str) -> Scope:
        return self._scope("gate", state["iteration"], of=side)

    def _scope(self, phase: str, iteration: int, of: str = "") -> Scope:
        # `of` is the side of a comparison, in the journal only: both sides share their random draws
        run = f"{self.context.run}/{of}" if of else self.context.run
        return Scope(run=run, seed=self.context.config.seed, iteration=iteration, phase=phase)

    async def _run(
        self,
        workflow: Workflow,
        tasks: Sequence[Task],
        scope: Scope,
        rollout_fn: RolloutFn | None = None,
        earlier: Mapping[str, Trajectory] = FrozenMap(),
    ) -> list[Trajectory]:
        """Trajectories in the order of the tasks; finished ones, by task, are not run again."""
        done, side = list(earlier.values()), scope.run.partition("/")[2]
        samples = self.context.method.samples if rollout_fn else 1
        rollout_context = replace(self.context.rollout_context, samples=samples)

        def progress(trajectory: Trajectory) -> None:
            done.append(trajectory)
            asked = len({one.question.id for one in done})
            event = {"side": side, "done": asked, "total": len(tasks), "score": compute_mean_score(done)}
            self._report(scope.phase, scope.iteration, **event, **_sum_errors(done))

        rollout_fn = rollout_fn or SolverRollouts(self.context.method)
        try:
            runner = self.context.runner
            return await collect_rollouts(
                rollout_context, rollout_fn, workflow, tasks, scope, progress, earlier, runner
            )
        finally:
            await self.context.journal.put_note(ELAPSED, self.context.ledger.spent.seconds)  # for a budget after a kill

    async def _load_graded(self, scope: Scope) -> dict[str, Trajectory]:
        found = await load_trajectories(self.context.journal, scope)
        return {one.question.id: one for one in found if one.feedback is not None}

    def _report(self, phase: str, iteration: int, **event: Any) -> None:
        spend = self.context.ledger.spent.model_dump(mode="json")
        get_stream_writer()({"phase": phase, "iteration": iteration, "spend": spend, **event})

    async def _put(self, workflow: Workflow) -> str:
        await self.context.library.keep(workflow)
        return await self.context.journal.put_body(workflow.model_dump(mode="json"))

    async def _workflow(self, body: str) -> Workflow:
        return await self.context.library.fetch(Workflow.model_validate(await self.context.journal.get_body(body)))

    async def _save(self, workflow: Workflow, step: int, facts: dict[str, Any]) -> None:
        known = {name: value for name in ("tools", "model") if (value := getattr(self.context, name))}
        facts = {"method": self.context.method.name, "seed": self.context.config.seed, **known, **facts}
        await self.context.library.save(
            self.context.config.name, workflow, run=self.context.run, step=step, facts=facts
        )


def compute_mean_score(trajectories: Sequence[Trajectory]) -> float | None:
    """Mean score over graded trajectories; None if none was graded."""
    scores = [trajectory.feedback.score for trajectory in trajectories if trajectory.feedback]
    return float(np.mean(scores)) if scores else None


def _sum_errors(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    faults = [trajectory.error for trajectory in trajectories if trajectory.error is not None]
    return {"errors": len(faults), "fault": faults[0] if faults else ""}


def _draw_batch(tasks: Sequence[Task], size: int, iteration: int, scope: Scope) -> tuple[Task, ...]:
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


def _accept_without_gate(why: str, equals: int) -> GateDecision:
    return GateDecision(accepted=True, why=why, difference=None, compared=0, left_out=0, patience_used=equals)


def _keep_unchanged(evolved: Mapping[str, Any], equals: int) -> GateDecision:
    """The decision where the method has left agents, tools and topology as they are."""
    declined = [*evolved["refused"], *evolved["notes"].get("declined", ())]
    unusable = evolved.get("unusable", 0)
    reasons = [f"the model's reply could not be read in {format_count(unusable, 'case')}"] if unusable else []
    if declined:
        reasons.append(f"{format_count(len(declined), 'proposal')} did not fit, such as: {declined[0]['reason']}")
    why = "agents, tools and topology are as they were" + "".join(f"; {reason}" for reason in reasons)
    decision = _accept_without_gate(why, equals)
    return decision.replace(unchanged="unusable reply" if reasons else "no change")


def get_structure(workflow: Workflow) -> tuple[Any, ...]:
    """What a team is without what it has learned: agents, topology and tools."""
    return workflow.agents, workflow.topology, [(one.name, one.source, one.description) for one in workflow.tools]

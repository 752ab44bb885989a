"""The outer evolution with a scripted method: what the gate keeps, what is saved, what a failure costs."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from selfwire.core.agent import Agent
from selfwire.core.edits import Rewiring, RewritePrompt, SetModel
from selfwire.core.errors import BudgetError, GradingError, JournalError, ModelError, TaskBudgetError, UngradedError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question, Splits, Task
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import RAISED, Step, Trajectory
from selfwire.core.usage import Budget, Objective, Usage
from selfwire.core.values import FrozenModel
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.gate import OUTCOMES, compute_share, compute_weight, keep_draft, name_outcome
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.evolve import (
    UNDO,
    Event,
    EvolutionConfig,
    EvolutionLoop,
    build,
    count_failed_tests,
    deal_questions,
    run_evolution,
    undo_untried,
)
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import EvolveResult, Method, explore_samples, find_method
from selfwire.graphs.pruning import PartWorth, PruningConfig, PruningRecord
from selfwire.graphs.rollouts import TaskReservations, get_trajectories_note, load_trajectories
from selfwire.models.budget import Ledger
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import Journal
from selfwire.store.journal_file import CallResult
from selfwire.store.library import open_library

SEED = Team(
    method="scripted", agents=(Agent(id="a", prompt="0"), Agent(id="b", prompt="answer")), topology=make_chain("a", "b")
)


def tasks(name: str, size: int) -> tuple[Task, ...]:
    return tuple(Task(id=f"{name}{i}", input=f"{name} {i}", reference="secret") for i in range(size))


@dataclass(frozen=True)
class Scripted(Method[Any]):
    """Each iteration writes the next number into a prompt; `skill` says what share of answers it gets right."""

    name = "scripted"
    skill: Callable[[int], float] = lambda number: 0.0
    calls: Callable[[int], int] = lambda number: 1
    fails: Callable[[str, str], bool] = lambda phase, task: False
    config: Any = field(default_factory=FrozenModel)
    idle: bool = False
    """Whether the agent whose prompt is rewritten takes no step."""
    seen: list[tuple[str, str]] = field(default_factory=list)

    async def answer(self, team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
        self.seen.append((ctx.scope.phase, question.id))
        done = Trajectory(question=question, workflow=team.fingerprint)
        if self.fails(ctx.scope.phase, question.id):
            return done.as_failed("provider down")
        number = int(team.agents_by_id["a"].prompt)
        rank = int(question.id.lstrip("abcdefghijklmnopqrstuvwxyz"))
        right = rank % 10 < 10 * self.skill(number)
        steps = (
            Step(node="a", agent="a", output="x", usage=Usage(calls=self.calls(number))),
            Step(node="b", agent="b", output="x"),
        )
        return done.replace(answer="right" if right else "wrong", steps=steps[self.idle :])

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
        rewiring = Rewiring(RewritePrompt("a", str(ctx.scope.iteration + 1)), why="next")
        lessons = team.memory.get("lessons", 0) + 1
        return EvolveResult(workflow=team.apply(rewiring).with_memory(lessons=lessons), applied=(rewiring,))

    def keep_memory(self, kept: Team, rejected: Team) -> Team:
        return kept.with_memory(lessons=rejected.memory["lessons"])

    def propose_pruning(self, team: Team, worth: Mapping[str, float]) -> Rewiring | None:
        return Rewiring(RewritePrompt("a", "99"), why="smaller")


class Grader:
    name = "grader"

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        return Feedback(score=float(answer == "right"), solved=answer == "right", text=answer)


def context(method: Scripted, *, budget: Budget = Budget(), **config: Any) -> EvolutionLoop:
    ledger = Ledger(budget)
    return EvolutionLoop(
        run="r",
        config=EvolutionConfig(
            **{"name": "w", "iterations": 3, "batch": 4, "gate": "mean", "gate_tasks": 10, **config},
        ),
        method=method,
        ctx=method.make_ctx(MeteredModel(OfflineChat()), {}, HashingEmbedder()),
        environment=Grader(),
        splits=Splits(train=tasks("train", 8), gate=tasks("gate", 20), test=tasks("test", 10)),
        seed_team=SEED,
        library=open_library(":memory:"),
        journal=Journal.memory("r"),
        ledger=ledger,
    )


async def evolved(made: EvolutionLoop, events: list[Event] | None = None) -> Team:
    await run_evolution(made, InMemorySaver(), (events if events is not None else []).append)
    return await made.library.load("w")


async def test_a_better_candidate_is_kept_and_a_worse_one_is_not() -> None:
    skill = {0: 0.0, 1: 1.0, 2: 0.0, 3: 0.0}
    made = context(Scripted(skill=lambda number: skill[number]))
    final = await evolved(made)
    assert final.agents_by_id["a"].prompt == "1"
    history = await made.library.history("w")
    assert [v.facts.get("gate", {}).get("accepted") for v in history.versions] == [None, True, False, False]
    assert history.head == history.versions[-1].version


async def test_a_prompt_of_an_agent_that_ran_on_no_gate_task_is_not_kept() -> None:
    made = context(Scripted(skill=lambda number: 0.5, idle=True), iterations=1)
    final = await evolved(made)
    assert final.agents_by_id["a"].prompt == "0"
    assert final.memory["lessons"] == 1  # the rest of what was accepted stays
    saved = (await made.library.history("w")).versions[-1]
    assert saved.facts["gate"]["accepted"]
    assert [change["operation"] for change in saved.facts["applied"]] == ["", UNDO]
    assert "a ran on no gate task" in saved.facts["applied"][-1]["why"]
    assert [rewiring.operation for rewiring in final.lineage.rewirings] == ["", UNDO]


def test_prompts_stay_where_the_agent_ran_and_where_no_run_says_who_ran() -> None:
    team = context(Scripted()).seed_team
    new = team.apply(Rewiring(RewritePrompt("a", "9"), why="next"))
    ran = Trajectory(question=Question(id="g", input="?"), workflow="w", steps=(Step(node="a", agent="a", output="x"),))
    assert undo_untried(team, new, [ran]) == (new, ())
    assert undo_untried(team, new, [ran.replace(steps=())]) == (new, ())


def test_a_new_model_of_an_agent_that_ran_on_no_gate_task_is_undone() -> None:
    team = context(Scripted()).seed_team
    new = team.apply(Rewiring(SetModel("a", "cheap"), SetModel("b", "cheap"), why="cheaper"))
    ran = Trajectory(question=Question(id="g", input="?"), workflow="w", steps=(Step(node="a", agent="a", output="x"),))
    kept, [undone] = undo_untried(team, new, [ran])
    assert [agent.model for agent in kept.agents] == ["cheap", ""]
    assert undone.edits == (SetModel("b", ""),)
    assert undone.why == "b ran on no gate task, so its new model is not kept"


async def test_a_proof_looks_at_more_and_more_fresh_tasks_and_stops_when_it_can() -> None:
    skill = {0: 0.0, 1: 0.9, 2: 1.0}
    method = Scripted(skill=lambda number: skill[number])
    made = context(method, gate="better", gate_tasks=4, iterations=2)
    await evolved(made)
    verdicts = [v.facts["gate"] for v in (await made.library.history("w")).versions[1:]]
    assert verdicts[0]["accepted"]
    first, second = (found["compared"] for found in verdicts)
    assert first > 4
    assert [found["error"] for found in verdicts] == pytest.approx([0.05 * 2 / 3, 0.05 / 3 * 0.5])
    gated = [task for phase, task in method.seen if phase == "gate"]
    assert len(gated) == 2 * first + 2 * second
    assert set(gated[:8]) & set(gated[2 * first : 2 * first + 8]) == set()  # the second proof begins with other tasks


async def test_a_question_that_repeats_is_one_task_of_a_proof() -> None:
    skill = {0: 0.5, 1: 0.7}
    made = context(Scripted(skill=lambda n: skill[n]), gate="better", iterations=1)
    twice = tuple(task.replace(id=f"again{number}") for number, task in enumerate(made.splits.gate))
    made = replace(made, splits=made.splits.replace(gate=(*made.splits.gate, *twice)))
    await evolved(made)
    history = await made.library.history("w")
    assert history.versions[-1].facts["gate"]["compared"] == 20


@pytest.mark.parametrize("gate", ["better", "no-worse"])
@pytest.mark.parametrize("lasts", [False, True])
async def test_errors_of_a_provider_are_asked_again_before_they_reject_a_candidate(gate: str, lasts: bool) -> None:
    asked = Counter[str]()

    def fails(phase: str, task: str) -> bool:
        asked[task] += phase == "gate"
        right_before = phase == "gate" and int(task.removeprefix("gate")) % 10 in (0, 2, 4)
        return right_before and (asked[task] == 2 or (lasts and asked[task] > 2))  # the first time the proved team asks

    skill = {0: 0.5, 1: 0.8}
    method = Scripted(skill=lambda number: skill[number], fails=fails)
    made = context(method, gate=gate, gate_tasks=20, iterations=1, batch=8, margin=0.0, anyway=True)
    made = replace(made, splits=made.splits.replace(gate=tasks("gate", 40)))
    final = await run_evolution(made, InMemorySaver())
    verdict = final["verdict"]
    assert verdict["accepted"] is not lasts
    assert not final.get("rejected")
    if lasts:
        assert "of them ended as errors and count as wrong" in verdict["why"]
        assert "such as provider down, it would not be rejected: a later iteration, or a further run" in verdict["why"]
    assert max(asked.values()) <= 3  # once by each team, and once again


async def test_tasks_of_a_group_are_asked_together_and_count_as_one_of_a_proof() -> None:
    skill = {0: 0.5, 1: 0.7}
    method = Scripted(skill=lambda number: skill[number])
    made = context(method, gate="better", gate_tasks=4, iterations=1)
    gate = tuple(
        task.replace(group=f"page {number % 10}" * (number < 30)) for number, task in enumerate(tasks("gate", 40))
    )
    made = replace(made, splits=made.splits.replace(gate=gate))
    groups = deal_questions(made.config, gate)[0]
    assert [len(group) for group in groups] == [3] * 10 + [1] * 10
    await evolved(made)
    found = (await made.library.history("w")).versions[1].facts["gate"]
    drawn, _ = made.draw_proof({"iteration": 0})
    counted = next(number for number in range(20) if f"tasks in {number} groups, evidence" in found["why"])
    seen = [task.id for group in drawn[:counted] for task in group]
    asked = [task for phase, task in method.seen if phase == "gate"]
    assert counted % 4 == 0, "whole groups at each look"
    assert found["compared"] == len(seen) > counted
    assert Counter(asked[: 2 * len(seen)]) == Counter(2 * seen)


def test_a_pruning_has_no_question_of_the_rewritings() -> None:
    first = tasks("g", 3)
    again = tuple(task.replace(id=f"again{task.id}") for task in first)
    config = EvolutionConfig(name="w", pruning=PruningConfig(gate_size=4))
    gate = (*first, again[0], again[1], *tasks("h", 2), tasks("h", 1)[0].replace(id="h9"))
    assert deal_questions(config, gate) == ([(task,) for task in first], [(task,) for task in tasks("h", 2)])


def test_a_question_that_two_groups_ask_counts_in_the_first_alone() -> None:
    one, two, three = (task.replace(group="page 1") for task in tasks("g", 3))
    alike = (one.replace(id="again1", group="page 2"), two.replace(id="again2", group=""))
    config = EvolutionConfig(name="w")
    assert deal_questions(config, (one, two, *alike, three)) == ([(one, two, three)], [])


async def test_what_does_worse_on_train_tasks_is_rejected_without_a_gate_task_and_costs_no_error() -> None:
    skill = {0: 0.5, 1: 0.0, 2: 1.0}
    method = Scripted(skill=lambda number: skill[number])
    made = context(method, gate="better", gate_tasks=8, iterations=2)
    assert (await evolved(made)).agents_by_id["a"].prompt == "2"
    first, second = ((v.facts["gate"]) for v in (await made.library.history("w")).versions[1:])
    assert (name_outcome(first), first["compared"], first["error"]) == ("rejected", 0, None)
    assert "worse than the proved team: mean difference" in first["why"]
    assert (name_outcome(second), second["error"]) == ("accepted", 0.05)  # the only proof of the run


@pytest.mark.parametrize("chance", [True, False])
async def test_what_does_worse_on_a_batch_of_train_tasks_is_rejected_only_if_further_ones_agree(chance: bool) -> None:
    class Unlucky(Scripted):
        async def answer(self, team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
            asked = sum(phase == "draft" for phase, _ in self.seen)
            fails = ctx.scope.phase == "draft" and team != SEED and not (chance and asked >= 2 * made.config.batch)
            return await Scripted.answer(replace(self, skill=lambda _: 0.0) if fails else self, team, question, ctx)

    method = Unlucky(skill=lambda number: {0: 0.5, 1: 1.0}[number])
    made = context(method, gate="better", gate_tasks=20, iterations=1)
    made = replace(made, splits=made.splits.replace(train=tasks("train", 40)))
    await evolved(made)
    decision = (await made.library.history("w")).versions[-1].facts["gate"]
    assert name_outcome(decision) == ("accepted" if chance else "rejected")
    asked = [task for phase, task in method.seen if phase == "draft"]
    assert len(asked) == 2 * len({*asked}) == 2 * 3 * made.config.batch
    learned = {task for phase, task in method.seen if phase == "rollout"}
    assert learned.isdisjoint(asked)


async def test_further_train_tasks_that_mostly_end_as_errors_stop_the_run_and_reject_nothing() -> None:
    def fails(phase: str, task: str) -> bool:
        return phase == "draft" and sum(phase == "draft" for phase, _ in method.seen) > 2 * made.config.batch

    method = Scripted(skill=lambda number: {0: 0.5, 1: 0.3}[number], fails=fails)
    made = context(method, gate="better", gate_tasks=20, iterations=1)
    made = replace(made, splits=made.splits.replace(train=tasks("train", 40)))
    with pytest.raises(ModelError, match=r"8 of 12 runs of phase 'draft' ended as errors.*provider down.*resume"):
        await evolved(made)


@pytest.mark.parametrize(("stopped", "after"), [("draft", 3), ("draft", 12), ("draft", 20), ("gate", 25), ("gate", 35)])
async def test_a_comparison_that_was_stopped_asks_no_task_of_a_graph_twice(stopped: str, after: int) -> None:
    class Own(Scripted):
        replays = False

    def stop(phase: str, task: str) -> bool:
        if phase == stopped and sum(phase == stopped for phase, _ in method.seen) == after:
            raise BudgetError("stop")
        return False

    def make(method: Scripted) -> EvolutionLoop:
        made = context(method, gate="better", iterations=2, concurrency=1)
        return replace(made, splits=made.splits.replace(train=tasks("train", 40), gate=tasks("gate", 80)))

    skill = {0: 0.5, 1: 0.3, 2: 0.8}
    whole, method = Own(skill=lambda number: skill[number]), Own(skill=lambda number: skill[number], fails=stop)
    await evolved(make(whole))
    made, saver = make(method), InMemorySaver()
    with pytest.raises(BudgetError):
        await run_evolution(made, saver)
    [unanswered] = method.seen[-1:]
    await run_evolution(made, saver)
    assert Counter(method.seen) - Counter([unanswered]) == Counter(whole.seen)


@pytest.mark.parametrize("gate", ["mean", "better", "no-worse"])
async def test_a_candidate_that_was_rejected_is_not_compared_again(gate: str) -> None:
    compared = list[int]()

    class Stubborn(Scripted):
        async def answer(self, team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
            compared.extend([ctx.scope.iteration] * (ctx.scope.phase in ("gate", "draft")))
            return await super().answer(team, question, ctx)

        async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
            return await super().propose(team, runs, ctx.where(iteration=0 if ctx.scope.iteration < 2 else 1))

    skill = {0: 0.5, 1: 0.0, 2: 1.0, 99: 0.0}
    method = Stubborn(skill=lambda number: skill[number])
    made = context(method, gate=gate, iterations=3, anyway=True)
    await evolved(made)
    first, second, third = (await made.library.history("w")).versions[1:]
    assert [name_outcome(v.facts["gate"]) for v in (first, second)] == ["rejected", "unusable reply"]
    assert second.facts["gate"]["why"].endswith("such as: it makes the team that was rejected in iteration 1")
    assert second.facts["refused"][0]["rewiring"]["why"] == "next"
    assert (await made.library.load(second.ref)).memory["lessons"] == 2  # what is learned beside the change stays
    assert set(compared) == {0, 2}
    assert "rejected in iteration" not in third.facts["gate"]["why"]


async def test_a_pruning_that_was_rejected_is_not_compared_again() -> None:
    method = Scripted(skill=lambda number: 0.0 if number == 99 else 0.5, calls=lambda number: number + 1)
    made = context(method, iterations=3, patience=0)
    await evolved(made)
    sides = 2 * 3 + 1  # incumbent and candidate in every iteration, and the smaller team once
    assert len([task for phase, task in method.seen if phase == "gate"]) == sides * made.config.gate_tasks


@pytest.mark.parametrize(("draft", "worse"), [(0.4, 0.3), (0.2, 0.1)])  # better than the proved team, as good
async def test_what_does_worse_than_the_draft_leaves_the_draft_as_it_is(draft: float, worse: float) -> None:
    skill = {0: 0.2, 1: draft, 2: worse, 3: 1.0}
    made = context(Scripted(skill=lambda number: skill[number]), gate="better", gate_tasks=20, iterations=3, batch=30)
    made = replace(made, splits=made.splits.replace(train=tasks("train", 60)))
    await evolved(made)
    versions = (await made.library.history("w")).versions[1:]
    assert [name_outcome(v.facts["gate"]) for v in versions] == ["draft", "rejected", "accepted"]
    assert versions[1].facts["gate"]["why"].startswith("it does worse than the draft that it has come from")
    assert [change["edits"][0]["prompt"] for change in versions[2].facts["applied"]] == ["1", "3"]


async def test_where_the_graph_raises_errors_under_a_candidate_that_is_as_good_the_draft_stays() -> None:
    class Raising(Scripted):
        async def answer(self, team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
            done = await super().answer(team, question, ctx)
            if team.agents_by_id["a"].prompt != "2" or done.answer == "right":
                return done
            return done.as_failed("boom").replace(notes={RAISED: True})

    made = context(Raising(skill=lambda number: {3: 1.0}.get(number, 0.2)), gate="better", gate_tasks=20, iterations=3)
    await evolved(made)
    versions = (await made.library.history("w")).versions[1:]
    assert [name_outcome(v.facts["gate"]) for v in versions] == ["draft", "rejected", "accepted"]
    assert "of the candidate the graph raised an error" in versions[1].facts["gate"]["why"]
    assert [change["edits"][0]["prompt"] for change in versions[2].facts["applied"]] == ["1", "3"]


@pytest.mark.parametrize("worse", [0.3, 0.0])  # than the draft, than the proved team too
async def test_what_does_worse_than_the_draft_is_not_tried_on_it_again(worse: float) -> None:
    class Stubborn(Scripted):
        async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
            return await super().propose(team, runs, ctx.where(iteration=min(ctx.scope.iteration, 1)))

    method = Stubborn(skill=lambda number: {0: 0.2, 1: 0.4, 2: worse}[number])
    made = context(method, gate="better", gate_tasks=20, iterations=4, batch=30)
    made = replace(made, splits=made.splits.replace(train=tasks("train", 60)))
    await evolved(made)
    versions = (await made.library.history("w")).versions[1:]
    assert [name_outcome(v.facts["gate"]) for v in versions[:3]] == ["draft", "rejected", "unusable reply"]
    assert versions[2].facts["gate"]["why"].endswith("such as: it makes the team that was rejected in iteration 2")


@pytest.mark.parametrize("last", [0.3, 0.0, None])  # worse than the draft, than the proved team too, no change
async def test_the_draft_that_the_last_rewiring_leaves_is_put_to_proof(last: float | None) -> None:
    class Ending(Scripted):
        async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
            changes = last is not None or ctx.scope.iteration < 1
            return await super().propose(team, runs, ctx) if changes else EvolveResult(workflow=team)

        async def answer(self, team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
            is_alike = (ctx.scope.phase, ctx.scope.iteration) == ("draft", 0)  # so that nothing is put to proof yet
            return await Scripted.answer(replace(self, skill=lambda _: 0.2) if is_alike else self, team, question, ctx)

    skill = {0: 0.2, 1: 0.7, 2: last or 0.0}
    made = context(Ending(skill=lambda number: skill[number]), gate="better", gate_tasks=20, iterations=2, batch=30)
    made = replace(made, splits=made.splits.replace(train=tasks("train", 60), gate=tasks("gate", 40)))
    final = await evolved(made)
    first, second = (await made.library.history("w")).versions[1:]
    assert [name_outcome(v.facts["gate"]) for v in (first, second)] == ["draft", "accepted"]
    assert ("of the draft before it, a gain above 0 is proved" in second.facts["gate"]["why"]) is (last is not None)
    assert final.agents_by_id["a"].prompt == "1"
    assert [change["edits"][0]["prompt"] for change in second.facts["applied"]] == ["1"]
    assert len(second.lineage.rewirings) == 1


def test_a_candidate_is_the_next_draft_where_it_does_no_worse_than_both() -> None:
    assert keep_draft([0, 1, None], [0, 1, 1], [1, 1, 0]).draft
    assert keep_draft([0, 1], [0, 1], [0, 1]).draft
    for draft in ([0, 0], []):
        worse = keep_draft([1, 1], draft, [1, 0])
        assert (worse.draft, worse.keeps_draft, worse.difference) == (False, False, -0.5)
    kept = keep_draft([0, 0], [1, 1], [1, 0])
    assert (kept.draft, kept.keeps_draft, kept.difference) == (False, True, 0.5)
    for draft in ([1, 1], [0, 1]):  # no reason to give up a draft that does no worse than the proved team
        worst = keep_draft([1, 0], draft, [0, 0])
        assert (worst.draft, worst.keeps_draft, worst.difference) == (False, True, -0.5)
    assert keep_draft([None], [1], [1]).why == "no train task could be compared: all 1 ended as an error"


@pytest.mark.parametrize("gate", OUTCOMES)
def test_the_parts_of_the_error_add_up_over_all_histories(gate: str) -> None:
    def add_up(before: dict[str, int], left: int) -> float:
        if not left:
            return 1.0
        possible = OUTCOMES[gate]
        return sum(
            compute_weight(before, outcome, possible)
            * add_up({**before, outcome: before.get(outcome, 0) + 1}, left - 1)
            for outcome in possible
        )

    assert add_up({}, 6) == pytest.approx(1)


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_the_error_of_a_run_is_dealt_out_whole_whichever_decision_is_the_last(iterations: int) -> None:
    for last in range(iterations):
        parts = [compute_share(number, iterations, is_last=number == last) for number in range(last + 1)]
        assert sum(parts) == pytest.approx(1)
        assert sorted(parts[:-1], reverse=True) == parts[:-1]
        assert all(part > 0 for part in parts)


async def test_a_draft_is_rewired_further_and_handed_over_once_its_gain_is_proved() -> None:
    skill = {0: 0.0, 1: 0.1, 2: 0.9}
    method = Scripted(skill=lambda number: skill[number])
    made = context(method, gate="better", gate_tasks=20, iterations=2)
    final = await evolved(made)
    first, second = (await made.library.history("w")).versions[1:]
    assert [name_outcome(v.facts["gate"]) for v in (first, second)] == ["draft", "accepted"]
    assert (await made.library.load(first.ref)).agents_by_id["a"].prompt == "0"  # not proved, so not handed over
    assert final.agents_by_id["a"].prompt == "2"
    assert second.lineage.parent == (await made.library.load(first.ref)).fingerprint
    assert [rewiring.why for rewiring in second.lineage.rewirings] == ["next", "next"]  # from the proved team on
    assert [change["why"] for change in second.facts["applied"]] == ["next", "next"]


async def test_a_draft_that_does_worse_is_dropped_and_the_proved_team_is_rewired_again() -> None:
    skill = {0: 0.5, 1: 0.2, 2: 0.0, 3: 0.5}
    tried: list[str] = []

    class Watching(Scripted):
        async def answer(self, team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
            is_alike = (ctx.scope.phase, ctx.scope.iteration) == ("draft", 0)
            return await Scripted.answer(replace(self, skill=lambda _: 0.5) if is_alike else self, team, question, ctx)

        async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
            tried.append(team.agents_by_id["a"].prompt)
            return await super().propose(team, runs, ctx)

    made = context(Watching(skill=lambda number: skill[number]), gate="better", gate_tasks=20, iterations=3)
    assert (await evolved(made)).agents_by_id["a"].prompt == "0"
    assert tried == ["0", "1", "0"]


async def test_what_a_rejected_candidate_learned_is_kept_in_a_version_of_the_incumbent() -> None:
    made = context(Scripted(skill=lambda number: 1.0 - number), iterations=1)
    final = await evolved(made)
    assert final.agents_by_id["a"].prompt == "0"
    assert final.memory["lessons"] == 1
    last = (await made.library.history("w")).versions[-1]
    assert (last.lineage.parent, last.lineage.rewirings) == (SEED.fingerprint, ())


async def test_without_the_gate_every_candidate_is_kept() -> None:
    method = Scripted(skill=lambda number: 1.0 - number)
    assert (await evolved(context(method, gate="off"))).agents_by_id["a"].prompt == "3"
    assert not [phase for phase, _ in method.seen if phase == "gate"]


@dataclass(frozen=True)
class Fitting(Scripted):
    """Fits the number of held-out runs that it was shown."""

    labels: bool = True

    @property
    def sees_labels(self) -> bool:
        return self.labels

    def fits(self, team: Team) -> bool:
        return self.labels

    async def fit(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> Team:
        return team.with_memory(shown=team.memory.get("shown", 0) + len(runs))


async def test_without_the_gate_what_is_fitted_to_held_out_runs_is_fitted_still() -> None:
    method = Fitting(skill=lambda number: 1.0 - number)
    final = await evolved(context(method, gate="off"))
    assert (final.agents_by_id["a"].prompt, final.memory["shown"]) == ("3", 30)
    assert len([phase for phase, _ in method.seen if phase == "gate"]) == 30  # the candidates, not the incumbents


async def test_a_method_without_labels_has_no_gate() -> None:
    method = Fitting(skill=lambda number: 1.0 - number, labels=False)
    final = await evolved(context(method))
    assert (final.agents_by_id["a"].prompt, "shown" in final.memory) == ("3", False)
    assert not [phase for phase, _ in method.seen if phase == "gate"]


@pytest.mark.parametrize("method", ["hiva", "hera"])
def test_d29_held_out_tasks_decide_unless_the_papers_way_is_chosen(method: str) -> None:
    assert EvolutionConfig(name="w").gate == "better"
    assert find_method(method).variants["no-gate"].gate == "off"


@dataclass(frozen=True)
class Learning(Scripted):
    """Changes nothing but what it has learned; `gated` says whether that decides how the team runs."""

    needs_gate: bool = True

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
        return EvolveResult(workflow=team.with_memory(lessons=ctx.scope.iteration + 1), needs_gate=self.needs_gate)

    def keep_memory(self, kept: Team, rejected: Team) -> Team:
        return kept


@pytest.mark.parametrize("needs_gate", [True, False])
async def test_what_is_learned_is_compared_where_it_decides_how_the_team_runs(needs_gate: bool) -> None:
    method = Learning(needs_gate=needs_gate)
    final = await evolved(context(method, margin=0.5, iterations=1))
    assert bool([phase for phase, _ in method.seen if phase == "gate"]) is needs_gate
    assert final.memory.get("lessons") == (None if needs_gate else 1)


@dataclass(frozen=True)
class Sampling(Scripted):
    config: EvomasConfig = field(default_factory=lambda: EvomasConfig(temperature=0.3))


@pytest.mark.parametrize(("method", "says"), [(Sampling(), True), (Scripted(), False)])
async def test_a_verdict_says_at_which_temperature_answers_were_drawn(method: Scripted, says: bool) -> None:
    made = context(method, iterations=1)
    await evolved(made)
    why = (await made.library.history("w")).versions[1].facts["why"]
    assert why.endswith(", sampled at temperature 0.3") is says


async def test_dear_ties_are_accepted_as_often_as_patience_says_then_pruning_is_tried() -> None:
    made = context(Scripted(calls=lambda number: 1 if number == 99 else number + 1), patience=2, iterations=3)
    final = await evolved(made)
    versions = (await made.library.history("w")).versions
    whys = [v.facts["why"] for v in versions]
    assert "1 of 2 in a row" in whys[1]
    assert "2 of 2 in a row" in whys[2]
    assert "smaller" in whys[3]
    assert final.agents_by_id["a"].prompt == "99"
    assert [one["why"] for one in versions[-1].facts["applied"]] == ["smaller"]
    assert [rewiring.why for rewiring in versions[-1].lineage.rewirings] == ["smaller"]
    assert final.memory["lessons"] == 3  # pruning keeps every lesson


async def test_the_worth_that_a_pruning_has_measured_is_offered_with_the_price_of_a_proof() -> None:
    offered, told = list[Mapping[str, float]](), list[Objective]()

    class Asked(Scripted):
        def propose_pruning(self, team: Team, worth: Mapping[str, float]) -> Rewiring | None:
            offered.append(worth)
            return None

        async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
            told.append(ctx.objective)
            return await super().propose(team, runs, ctx)

    parts = (PartWorth(kind="agent", name="a", value=0.25), PartWorth(kind="edge", name="a->b", value=0.5))
    measured = PruningRecord(run="before", parts=(*parts, PartWorth(kind="agent", name="b"))).save_to(SEED)
    made = context(Asked(calls=lambda number: number + 1), patience=0, iterations=1)
    await evolved(replace(made, seed_team=measured))
    assert offered == [{"a": 0.25}]
    assert told == [Objective()]  # the gate mean proves nothing
    priced = context(Asked(), gate="better", objective="score - 0.01*calls", iterations=1, anyway=True)
    await evolved(priced)
    assert told[1:] == [Objective(calls=0.01)]


async def test_every_iteration_saves_a_version_with_parent_and_rewirings() -> None:
    made = context(Scripted(skill=lambda number: number / 10))
    await evolved(made)
    versions = (await made.library.history("w")).versions
    assert [v.step for v in versions] == [0, 1, 2, 3]
    assert versions[1].lineage.parent == SEED.fingerprint
    assert versions[1].lineage.rewirings[0].why == "next"
    assert versions[1].facts["applied"][0]["why"] == "next"


async def test_gate_tasks_are_fresh_until_they_are_used_up_and_test_is_opened_once_at_the_end() -> None:
    method = Scripted(skill=lambda number: number / 10)
    await evolved(context(method))
    gates = [task for phase, task in method.seen if phase == "gate"]
    rounds = [set(gates[start : start + 20]) for start in range(0, 60, 20)]
    assert all(len(one) == 10 for one in rounds)
    assert not rounds[0] & rounds[1]
    assert rounds[2] & (rounds[0] | rounds[1])
    phases = [phase for phase, _ in method.seen]
    assert phases.count("test") == 20
    assert phases[-20:] == ["test"] * 20


async def test_a_grader_that_fails_on_a_whole_batch_is_named_as_the_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> Feedback:
        raise GradingError("grader 'shop:grade' failed on task 'train0' (shop.py:2): KeyError('price')")

    made = context(Scripted(skill=lambda number: number / 10), batch=4)
    monkeypatch.setattr(type(made.environment), "grade", fail)
    told = r"the grader has failed on 4 of 4 answers of phase 'rollout'.*shop\.py:2.*mend it and resume the run"
    with pytest.raises(UngradedError, match=told):
        await run_evolution(made, InMemorySaver())


async def test_a_few_errors_are_left_out_and_many_stop_the_run_which_then_goes_on() -> None:
    down = {"train0", "train1", "train2", "train3", "train4", "train5"}
    method = Scripted(skill=lambda number: number / 10, fails=lambda phase, task: task in down)
    made, saver = context(method), InMemorySaver()
    with pytest.raises(ModelError, match=r"ended as errors.*provider down.*resume"):
        await run_evolution(made, saver)
    assert (await made.library.load("w")).fingerprint == SEED.fingerprint
    down.clear()
    final = await run_evolution(made, saver)
    undisturbed = context(Scripted(skill=lambda number: number / 10))
    await evolved(undisturbed)
    assert final["iteration"] == 3
    assert await made.library.load("w") == await undisturbed.library.load("w")


@pytest.mark.parametrize(("channel", "value"), [("iteration", "x"), ("incumbent", 5), ("outcomes", {"won": "often"})])
async def test_a_state_of_another_form_in_the_checkpoints_is_an_error_in_words(channel: str, value: object) -> None:
    made, saver = context(Scripted(skill=lambda number: number / 10)), InMemorySaver()
    await run_evolution(made, saver)
    graph = build(made).compile(checkpointer=saver)
    await graph.aupdate_state({"configurable": {"thread_id": "r"}}, {channel: value}, as_node="test")
    with pytest.raises(JournalError, match=f"checkpoints of run r cannot be used: {channel}"):
        await run_evolution(made, saver)


async def test_errors_are_no_zeros() -> None:
    events: list[Event] = []
    method = Scripted(skill=lambda number: 1.0, fails=lambda phase, task: task in {"train0", "gate1", "test2"})
    made = context(method, iterations=1, batch=8)
    final = await run_evolution(made, InMemorySaver(), events.append)
    assert final["train"] == 1.0
    assert final["test"]["after"]["scores"].count(None) == 1
    assert final["verdict"]["difference"] == 0


@pytest.mark.parametrize(("iterations", "teams"), [(0, 1), (1, 2)])
async def test_a_team_that_did_not_change_is_tested_once(iterations: int, teams: int) -> None:
    method = Scripted(skill=lambda number: 0.5 + number / 10)
    made = context(method, iterations=iterations)
    final = await run_evolution(made, InMemorySaver())
    tested = [place for place in method.seen if place[0] == "test"]
    assert len(tested) == teams * len(made.splits.test)
    before, after = final["test"]["before"], final["test"]["after"]
    assert (before == after) is (teams == 1)


async def test_a_team_is_tested_where_answers_of_the_seed_team_go_by_what_it_remembers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Scripted, "reads_memory", lambda self, team: team.fingerprint == SEED.fingerprint)
    method = Scripted(skill=lambda number: 0.9 if number == 0 else 0.0)
    made = context(method, iterations=2)
    final = await run_evolution(made, InMemorySaver())
    assert final["test"]["before"]["workflow"] != final["test"]["after"]["workflow"]
    assert len([place for place in method.seen if place[0] == "test"]) == 2 * len(made.splits.test)


@pytest.mark.parametrize("reads", [True, False])
async def test_a_team_that_has_learned_only_what_no_answer_reads_is_tested_once(
    reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scripted, "reads_memory", lambda self, team: reads)
    method, events = Scripted(skill=lambda number: 0.9 if number == 0 else 0.0), list[Event]()
    made = context(method, iterations=2)
    final = await run_evolution(made, InMemorySaver(), events.append)
    tested = [place for place in method.seen if place[0] == "test"]
    assert len(tested) == (2 if reads else 1) * len(made.splits.test)
    sides = final["test"]
    assert sides["before"]["workflow"] != sides["after"]["workflow"]
    assert sides["before"]["scores"] == sides["after"]["scores"]
    assert {done.workflow for done in await load_trajectories(made.journal, Scope(run="r/after", phase="test"))} == {
        sides["after"]["workflow"]
    }
    told = [event.get("copied", False) for event in events if event.get("side") == "after"]
    assert told == ([False] * 10 if reads else [True])


@pytest.mark.parametrize("iterations", [0, 2])
async def test_a_finished_run_tries_only_failed_test_tasks_again(iterations: int) -> None:
    down = {"test1", "test4", "train1"}
    method = Scripted(skill=lambda number: 1.0, fails=lambda phase, task: task in down)
    made, saver = context(method, iterations=iterations), InMemorySaver()
    first = await run_evolution(made, saver)
    assert count_failed_tests(first) == 2
    asked = len(method.seen)

    down.remove("test1")
    again = await run_evolution(made, saver)  # the other one stays an error, and is no reason to stop
    of_both_teams = 2 if iterations else 1  # without an iteration they are the same
    assert sorted(method.seen[asked:]) == [("test", "test1")] * of_both_teams + [("test", "test4")] * 2
    assert [side["scores"].count(None) for side in again["test"].values()] == [1, 1]
    for label, side in again["test"].items():
        known = zip(first["test"][label]["scores"], side["scores"], strict=True)
        assert all(was in (None, now) for was, now in known)
        bodies = await made.journal.get_note(get_trajectories_note(0, "test", label))
        assert sorted(bodies) == sorted(task.id for task in made.splits.test)

    down.clear()
    done = await run_evolution(made, saver)
    assert count_failed_tests(done) == 0
    assert {name: value for name, value in done.items() if name != "test"} == {
        name: value for name, value in first.items() if name != "test"
    }
    asked = len(method.seen)
    assert await run_evolution(made, saver) == done
    assert len(method.seen) == asked


async def test_an_unexpected_fault_of_one_task_is_recorded_as_its_error() -> None:
    class Broken(Grader):
        async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
            if task.id == "train1":
                raise ZeroDivisionError("1/0")
            return await super().grade(task, answer, scope=scope)

    made = replace(context(Scripted(), iterations=1, batch=8), environment=Broken())
    await evolved(made)
    bodies = await made.journal.get_note("trajectories/0/rollout/")
    errors = [(await made.journal.get_body(body))["error"] for body in bodies.values()]
    assert [error for error in errors if error] == ["ZeroDivisionError: 1/0"]


@dataclass(frozen=True)
class Spending(Scripted):
    """Spends calls of the run's ledger, more of them for one task, and takes a while."""

    greedy: str = ""
    ledgers: list[Ledger] = field(default_factory=list)

    async def answer(self, team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
        for _ in range(3 if question.id == self.greedy else 2):
            with self.ledgers[0].get_task_ledger(ctx.scope).reserve(Usage(calls=1), "a call") as hold:
                await asyncio.sleep(0)
                hold.settle(Usage(calls=1))
        return await super().answer(team, question, ctx)


async def test_what_was_spent_decides_which_task_is_refused() -> None:
    method = Spending()
    made = context(method, budget=Budget(calls=7), calls_per_task=3, batch=8)
    method.ledgers.append(made.ledger)
    with pytest.raises(BudgetError, match=r"7 of 7 calls spent and up to 1 more needed"):
        await evolved(made)
    assert len(method.seen) == 3  # one after another towards the end; the fourth has the one call that is left
    kept = await made.journal.get_note("trajectories/0/rollout/")
    assert len(kept) == 3  # the finished ones can be looked at


async def test_a_share_is_no_limit_on_what_a_budget_can_pay() -> None:
    method = Spending()
    made = context(method, budget=Budget(calls=20), calls_per_task=3, iterations=1, batch=8, gate="off")
    method.ledgers.append(made.ledger)
    with pytest.raises(BudgetError, match="test"):
        await evolved(made)
    assert len([phase for phase, _ in method.seen if phase == "rollout"]) == 8


async def test_the_state_holds_references_and_plain_numbers_only() -> None:
    made, saver = context(Scripted(skill=lambda number: number / 10)), InMemorySaver()
    final = await run_evolution(made, saver)
    assert all(len(hash_) == 32 for hash_ in [final["incumbent"], final["candidate"], *final["trajectories"]])
    assert "secret" not in repr(final)
    assert "secret" not in repr(dict(saver.storage)) + repr(dict(saver.blobs))


async def test_it_draws_its_phases(tmp_path: Path) -> None:
    drawn = build(context(Scripted())).compile().get_graph().draw_mermaid()
    for edge in ("begin -.-> rollout", "rollout --> evolve", "evolve --> gate", "gate --> save", "save -.-> rollout"):
        assert edge in drawn


async def test_a_capped_task_that_runs_alone_on_what_is_left_never_takes_more_than_its_calls() -> None:
    place, one, made = Scope(phase="eval", task="t1"), Usage(calls=1), context(Scripted(), budget=Budget(calls=10))
    run = made.ledger
    others = run.reserve(Usage(calls=5), "another process")  # gives them back as soon as this task has begun
    async with TaskReservations(replace(made.rollout_context, calls_per_task=8, capped=True)).reserve(place):
        others.settle(Usage())
        for _ in range(8):
            run.get_task_ledger(place).reserve(one, "t1").settle(one)
        with pytest.raises(TaskBudgetError, match="8 of 8 calls spent"):
            run.get_task_ledger(place).reserve(one, "t1")
    run.reserve(Usage(calls=2), "rest")  # nothing is left held


async def test_a_task_that_uses_up_its_share_is_an_error_and_the_others_go_on() -> None:
    method = Spending(greedy="train1")
    made = context(method, budget=Budget(calls=1000), calls_per_task=2, iterations=1, batch=8)
    method.ledgers.append(made.ledger)
    await evolved(made)
    bodies = await made.journal.get_note("trajectories/0/rollout/")
    errors = {task: (await made.journal.get_body(body))["error"] for task, body in bodies.items()}
    assert [task for task, error in errors.items() if error] == ["train1"]
    assert "reserved for it" in errors["train1"]
    assert errors["train1"].endswith("; --calls-per-task sets how many model calls a task may make")


@pytest.mark.parametrize(("tasks", "size"), [(7, 10), (12, 10), (8, 6), (10, 10)])
async def test_batches_are_full_and_every_task_comes_as_often_as_the_others(tasks: int, size: int) -> None:
    made = context(Scripted(), batch=size)
    made = replace(made, splits=Splits(train=made.splits.gate[:tasks]))
    batches = [[task.id for task in made.draw_train({"iteration": iteration})] for iteration in range(12)]
    assert all(len(set(batch)) == len(batch) == min(size, tasks) for batch in batches)
    times = Counter(task for batch in batches for task in batch)
    assert len(times) == tasks
    assert max(times.values()) - min(times.values()) <= 2


class Cut(InMemorySaver):
    """Fails once, as a stop between a node's writes and the checkpoint that follows them."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    async def aput(self, *arguments: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise OSError("cut")
        return await super().aput(*arguments)


@pytest.mark.parametrize("at", range(2, 13))
async def test_a_stop_between_writes_and_checkpoint_is_no_end(at: int) -> None:
    undisturbed = context(Scripted(skill=lambda number: number / 10), iterations=2)
    await evolved(undisturbed)
    made, saver = context(Scripted(skill=lambda number: number / 10), iterations=2), Cut(at)
    with pytest.raises(OSError, match="cut"):
        await run_evolution(made, saver)
    final = await run_evolution(made, saver)
    assert final["iteration"] == 2
    assert "test" in final
    assert await made.library.load("w") == await undisturbed.library.load("w")


async def test_a_task_has_what_is_left_of_a_budget_that_is_smaller_than_a_share() -> None:
    method = Spending()
    made = context(method, budget=Budget(calls=2), calls_per_task=60, batch=1)
    method.ledgers.append(made.ledger)
    with pytest.raises(
        BudgetError,
        match=r"2 of 2 calls spent and up to 1 more needed; raise the limit on calls \(--budget-calls\)(\n|$)",
    ):
        await evolved(made)
    assert len(method.seen) == 1


async def test_a_version_has_its_own_score_and_that_of_the_one_that_it_was_made_from() -> None:
    made = context(Scripted(skill=lambda number: {0: 0.0, 1: 1.0, 2: 0.5}[number]), iterations=2)
    await evolved(made)
    versions = (await made.library.history("w")).versions
    assert [one.facts.get("score") for one in versions] == [None, 1.0, 1.0]  # the third is the second again
    assert [one.facts.get("parent_score") for one in versions] == [None, 0.0, 1.0]


async def test_a_version_that_was_not_compared_has_no_score_of_its_own() -> None:
    made = context(Scripted(skill=lambda number: 1.0), gate="off", iterations=1)
    await evolved(made)
    facts = (await made.library.history("w")).versions[-1].facts
    assert (facts["score"], facts["parent_score"]) == (None, 1.0)


async def test_events_name_the_errors_of_tasks_and_the_side_that_is_tested() -> None:
    events: list[Event] = []
    method = Scripted(fails=lambda phase, task: task in {"train0", "test2"})
    await evolved(context(method, iterations=1, batch=8), events)
    [saved] = [one for one in events if one["phase"] == "save"]
    assert (saved["errors"], saved["fault"]) == (1, "provider down")
    tested = [one for one in events if one["phase"] == "test" and one["done"] == one["total"]]
    assert [(one["side"], one["errors"]) for one in tested] == [("before", 1), ("after", 1)]


@dataclass(frozen=True)
class Grouped(Spending):
    """Asks a question twice; the second run needs more calls than are left."""

    @property
    def samples(self) -> int:
        return 2

    async def explore(self, team: Team, question: Question, ctx: Ctx[Any]) -> Sequence[Trajectory]:
        async def run(place: Scope) -> Trajectory:
            for _ in range(1 if place.sample == 0 else 9):
                request = {"sample": place.sample, "number": _}
                await self.journals[0].call_once("model", place, request, lambda: self.pay(place), attempt=_)
            return await Scripted.answer(self, team, question, ctx.where(place))

        blank = Trajectory(question=question, workflow=team.fingerprint)
        return await explore_samples(run, blank, self.samples, scope=ctx.scope)

    async def pay(self, place: Scope) -> CallResult:
        with self.ledgers[0].get_task_ledger(place).reserve(Usage(calls=1), "a call") as hold:
            hold.settle(Usage(calls=1))
        return CallResult("{}", Usage(calls=1))

    journals: list[Journal] = field(default_factory=list)


async def test_a_cap_that_strikes_within_a_group_keeps_its_finished_runs_and_counts_every_call() -> None:
    method = Grouped()
    made = context(method, budget=Budget(calls=1000), calls_per_task=4, iterations=1, batch=2, gate="off")
    method.ledgers.append(made.ledger)
    method.journals.append(made.journal)
    events: list[Event] = []
    await evolved(made, events)
    kept = await load_trajectories(made.journal, Scope(run="r", iteration=0, phase="rollout"))
    assert [(one.sample, one.feedback is not None) for one in kept] == [(0, True), (1, False)] * 2
    failed = [one for one in kept if one.error]
    assert all(one.error and one.error.startswith("the task has used up the budget reserved for it") for one in failed)
    assert [one.usage.calls for one in failed] == [7, 7]  # 4 for each of two runs, of which the first took one
    [saved] = [one for one in events if one["phase"] == "save"]
    assert (saved["errors"], saved["score"]) == (2, 0.0)


async def test_runs_that_all_need_more_than_their_share_stop_the_run_and_name_the_option() -> None:
    method = Spending()
    made = context(method, budget=Budget(calls=1000), calls_per_task=1, iterations=1, batch=8)
    method.ledgers.append(made.ledger)
    with pytest.raises(ModelError, match=r"8 of 8 runs .* needed more calls .*--calls-per-task 1\)"):
        await evolved(made)
    assert len(await load_trajectories(made.journal, Scope(run="r", iteration=0, phase="rollout"))) == 8


@pytest.mark.parametrize(
    ("unsolved", "told"),
    [(0, "all tasks of this iteration were solved"), (3, "the critics named no agent for 3 tasks not solved")],
)
async def test_an_iteration_that_changes_nothing_says_why(unsolved: int, told: str) -> None:
    class Contented(Scripted):
        async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
            return EvolveResult(workflow=team, notes={"unsolved": unsolved})

    made = context(Contented(), iterations=1)
    await evolved(made)
    gate = (await made.library.history("w")).versions[-1].facts["gate"]
    assert gate["why"] == f"agents, tools and topology are as they were; {told}"
    assert name_outcome(gate) == "no change"


PASSAGE = "The locksmith of Arlsund sold his workshop beside the old harbour to a glazier"


async def test_methods_can_find_what_copies_a_train_task_in_the_texts_that_they_remember() -> None:
    found = list[str]()

    class Remembering(Scripted):
        async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
            known = "\n".join(agent.prompt for agent in team.agents)
            found.extend(map(ctx.find_copy, ("Look it up.", f"It was {PASSAGE}.", known)))
            return EvolveResult(workflow=team)

    made = context(Remembering(), gate="off", iterations=1)
    train = tuple(task.replace(input=f"{task.id} {PASSAGE}") for task in made.splits.train[:1])
    await evolved(replace(made, splits=made.splits.replace(train=(*train, *made.splits.train[1:]))))
    nothing, copied, own = found
    assert (nothing, own) == ("", "")
    assert copied.startswith("The locksmith of Arlsund")


async def test_only_the_rewiring_that_copies_a_train_task_is_refused_and_lessons_stay() -> None:

    class Copying(Scripted):
        async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
            honest = Rewiring(RewritePrompt("a", "1"), why="honest")
            copied = Rewiring(RewritePrompt("b", f"Remember: {PASSAGE}"), why="copied")
            return EvolveResult.of(team, [honest, copied], memory={"lessons": 7})

    made = context(Copying(), gate="off", iterations=1)
    train = tuple(
        task.replace(input=f"{task.id} {PASSAGE}" if not at else task.id) for at, task in enumerate(made.splits.train)
    )
    made = replace(made, splits=made.splits.replace(train=train))
    final = await evolved(made)
    assert {agent.id: agent.prompt for agent in final.agents} == {"a": "1", "b": "answer"}
    assert final.memory["lessons"] == 7
    saved = (await made.library.history("w")).versions[-1]
    assert [change["why"] for change in saved.facts["applied"]] == ["honest"]
    [refused] = saved.facts["refused"]
    assert refused["rewiring"]["why"] == "copied"
    assert "it copies from a train task: 'The locksmith of" in refused["reason"]
    assert [rewiring.why for rewiring in final.lineage.rewirings] == ["honest"]

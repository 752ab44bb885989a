"""A person is asked before a change is kept: what is shown, what each answer does, and that a wait costs nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from selfwire.core.edits import Rewiring, RewritePrompt
from selfwire.core.errors import ConfigError
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.gate import compute_log_evidence, estimate_gain
from selfwire.graphs.approval import ApprovalQuestion, measure_gain, parse_answer
from selfwire.graphs.evolve import EvolutionLoop, EvolutionState, find_question, run_evolution
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import EvolveResult
from tests.graphs.test_evolution import Scripted, context, tasks

BETTER = {0: 0.0, 1: 0.5, 2: 1.0, 3: 1.0, 7: 0.2}


def waiting(**config: Any) -> EvolutionLoop:
    return context(Scripted(skill=lambda number: BETTER[number]), approve="edits", **config)


async def talk(
    made: EvolutionLoop, answers: Sequence[Any], saver: InMemorySaver | None = None
) -> tuple[list[ApprovalQuestion], EvolutionState]:
    """Run to the end, or to a question without an answer."""
    saver, asked = saver or InMemorySaver(), list[ApprovalQuestion]()
    state = await run_evolution(made, saver)
    for answer in answers:
        question = find_question(state)
        assert question is not None
        asked.append(question)
        state = await run_evolution(made, saver, answer=answer)
    return asked, state


async def facts(made: EvolutionLoop, iteration: int = 1) -> dict[str, Any]:
    return dict((await made.library.history("w")).versions[iteration].facts)


async def load(made: EvolutionLoop) -> Team:
    return await made.library.load("w")


async def test_a_person_sees_what_the_change_is_what_it_gains_and_what_it_costs() -> None:
    made = waiting(iterations=1)
    asked, _ = await talk(made, ["approve"])
    [question] = asked
    assert (question.iteration, question.kinds) == (1, ("rewrite_prompt",))
    assert question.why.startswith("mean difference +0.300 at +0.00 calls per task over 10 tasks")
    assert question.gain["value"] == pytest.approx(0.3)
    assert question.gain["n"] == 10
    assert -1 < question.gain["low"] < 0.3 < question.gain["high"] < 1
    assert question.before == question.after == {"calls": 1.0, "tokens": 0.0, "dollars": 0.0}
    assert question.diff["agents"] == ({"agent": "a", "field": "prompt", "before": "0", "after": "1"},)
    assert question.prompts == {"a": "1", "b": "answer"}
    assert [rewiring["why"] for rewiring in question.rewirings] == ["next"]
    assert (await load(made)).agents_by_id["a"].prompt == "1"
    saved = await facts(made)
    assert saved["gate"]["accepted"]
    assert saved["why"].endswith("; approved by a person")
    assert saved["approval"] == {"answer": "approve", "by": "a person", "why": ""}


def run(task: str, score: float | None) -> Trajectory:
    done = Trajectory(question=Question(id=task, input="?"), workflow="w")
    return done if score is None else done.with_feedback(Feedback(score=score, solved=score == 1, text=""))


def test_a_gain_that_was_proved_has_errors_of_the_candidate_as_wrong_answers() -> None:
    before, after = [run("x", 0.0), run("y", 1.0), run("z", None)], [run("x", 1.0), run("y", None), run("z", 1.0)]
    found = [measure_gain(before, after, is_proof=is_proof) for is_proof in (True, False)]
    assert [gain and (gain["value"], gain["n"]) for gain in found] == [(0.0, 2), (1.0, 1)]


def test_a_task_that_is_called_as_a_group_is_not_of_it() -> None:
    before, after = [run("1", 0.0), run("2", 0.0), run("3", 0.0)], [run("1", 1.0), run("2", 0.0), run("3", 0.0)]
    gain = measure_gain(before, after, is_proof=True, groups={"1": "", "2": "1", "3": "1"})
    assert gain
    assert (gain["value"], gain["n"]) == (0.5, 3)


async def test_tasks_of_a_group_count_as_one_in_the_interval_of_a_proof_too() -> None:
    made = waiting(gate="better", iterations=1)
    gate = tuple(t.replace(group=f"page {rank % 10} {rank // 20}") for rank, t in enumerate(tasks("gate", 80)))
    asked, _ = await talk(replace(made, splits=made.splits.replace(gate=gate)), ["approve"])
    [question] = asked
    groups = question.gain["n"] // 2
    won = round(question.gain["value"] * groups)
    low, high = estimate_gain([1.0] * won + [0.0] * (groups - won))
    assert f"over {2 * groups} tasks in {groups} groups" in question.why
    assert (question.gain["low"], question.gain["high"]) == pytest.approx((low, high))


async def test_a_rejected_change_leaves_the_team_as_a_rejection_by_the_gate_does() -> None:
    made = waiting(iterations=2)
    _, state = await talk(made, [{"answer": "reject", "by": "ada", "why": "too blunt"}, "approve"])
    saved = await facts(made)
    assert not saved["gate"]["accepted"]
    assert saved["why"].startswith("rejected by ada (too blunt), though mean difference +0.300")
    assert saved["score"] == 0.0  # of the team that stays
    first = await made.library.load("w@1")
    assert first.agents_by_id["a"].prompt == "0"
    assert first.memory["lessons"] == 1
    assert (await load(made)).agents_by_id["a"].prompt == "2"
    assert state["incumbent"]


class Stubborn(Scripted):
    """Proposes the same change in every iteration."""

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
        return await super().propose(team, runs, replace(ctx, scope=ctx.scope.at(iteration=0)))


class HalfTried(Stubborn):
    """Changes beside it the prompt of an agent that no run comes to, which the gate undoes."""

    async def answer(self, team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
        done = await super().answer(team, question, ctx)
        return done.replace(steps=done.steps[:1])

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Any]) -> EvolveResult:
        found = await super().propose(team, runs, ctx)
        more = Rewiring(RewritePrompt("b", "shout"), why="louder")
        return found.replace(workflow=found.workflow.apply(more), applied=(*found.applied, more))


@pytest.mark.parametrize("kind", [Stubborn, HalfTried])
async def test_a_change_that_a_person_has_rejected_is_neither_measured_nor_asked_about_again(
    kind: type[Stubborn],
) -> None:
    method = kind(skill=lambda number: BETTER[number])
    made = context(method, approve="edits", iterations=2)
    _, state = await talk(made, ["reject"])
    assert find_question(state) is None
    assert (await facts(made, 2))["why"].endswith("such as: it makes the team that was rejected in iteration 1")
    assert sum(phase == "gate" for phase, _ in method.seen) == 20  # both sides of the first comparison


async def test_what_is_changed_by_hand_is_marked_and_counts_as_not_measured() -> None:
    made = waiting(iterations=1)
    await talk(made, [{"answer": "edit", "by": "ada", "prompts": {"a": "7"}}])
    team, saved = await load(made), await facts(made)
    assert team.agents_by_id["a"].prompt == "7"
    assert [(r.operation, r.by) for r in team.lineage.rewirings] == [("", ""), ("BY_HAND", "ada")]
    assert [change["operation"] for change in saved["applied"]] == ["", "BY_HAND"]
    assert saved["why"].startswith("changed by hand by ada, and not measured since; before that: mean difference")
    assert (saved["gate"]["accepted"], saved["gate"]["difference"], saved["gate"]["compared"]) == (True, None, 0)
    assert saved["score"] is None


async def test_an_answer_that_cannot_be_used_is_asked_for_again() -> None:
    made = waiting(iterations=1, freeze=("agent:b",))
    wrong = [
        "maybe",
        {"answer": "edit"},
        {"answer": "approve", "prompts": {"a": "7"}},
        {"answer": "edit", "prompts": {"c": "7"}},
        {"answer": "edit", "prompts": {"a": " "}},
        {"answer": "edit", "prompts": {"a": "1"}},
        {"answer": "edit", "prompts": {"b": "7"}},
        {"answer": "approve", "by": "x" * 65},
        7,
    ]
    asked, _ = await talk(made, [*wrong, {"answer": "edit", "prompts": {"a": "7"}}])
    assert {tuple(question.prompts) for question in asked} == {("a",)}
    assert [question.fault for question in asked] == [
        "",
        "answer 'maybe': answer: Input should be 'approve', 'edit', 'reject' or 'always'; "
        "give approve, edit, reject, always",
        "answer 'edit': prompts are given with edit, and only with it",
        "answer 'approve': prompts are given with edit, and only with it",
        "'c' has no prompt that may be edited; choose from a",
        'RewritePrompt(a, ""): the new prompt is blank; give the agent a prompt',
        "the prompt of 'a' is as it was; approve it, or give another one",
        "'b' has no prompt that may be edited; choose from a",
        asked[8].fault,
        asked[9].fault,
    ]
    assert "64 characters" in asked[8].fault
    assert (await load(made)).agents_by_id["a"].prompt == "7"


async def test_always_approves_later_changes_of_the_kind_and_the_history_says_so() -> None:
    made = waiting()
    asked, _ = await talk(made, [{"answer": "always", "by": "ada"}])
    assert len(asked) == 1
    assert "approved, with all later changes of this kind, by ada" in (await facts(made))["why"]
    assert (await facts(made, 2))["why"].endswith("; approved by an earlier answer, always for rewrite_prompt")
    assert (await load(made)).agents_by_id["a"].prompt == "3"


async def test_nothing_runs_twice_for_a_question_or_while_it_waits() -> None:
    made, saver = waiting(iterations=1), InMemorySaver()
    asked, state = await talk(made, [], saver)
    assert not asked
    seen = len(made.method.seen)  # type: ignore[attr-defined]
    again = await run_evolution(replace(made), saver)  # as after a kill
    assert find_question(again) == find_question(state)
    assert len(made.method.seen) == seen  # type: ignore[attr-defined]
    await talk(made, ["reject"], saver)
    assert len(made.method.seen) == seen + 20  # type: ignore[attr-defined]  # the test, of both sides


async def test_a_change_that_the_gate_rejects_is_not_asked_about() -> None:
    made = context(Scripted(), approve="edits", margin=0.1)
    asked, state = await talk(made, [])
    assert not asked
    assert find_question(state) is None
    assert "approval" not in await facts(made)


async def test_without_a_gate_a_person_is_asked_too_and_told_that_nothing_was_measured() -> None:
    asked, _ = await talk(waiting(iterations=1, gate="off"), ["approve"])
    assert asked[0].gain is None
    assert asked[0].why == "the gate is off"


async def test_a_persons_answer_halves_the_error_that_is_left() -> None:
    made = waiting(iterations=1, gate="better", gate_tasks=20)
    made = replace(made, method=Scripted(skill=lambda number: float(number)))
    _, state = await talk(made, ["approve"])
    assert state["weight"] == pytest.approx(0.5 / 2)


def test_an_interval_has_what_the_evidence_does_not_exclude() -> None:
    gains = [1.0] * 8 + [0.0] * 10 + [-1.0] * 2
    low, high = estimate_gain(gains)
    assert low < 0.3 < high
    needed = 3.6888794541139363  # ln(2 / 0.05)
    assert compute_log_evidence(gains, least=low) == pytest.approx(needed, abs=1e-4)
    assert compute_log_evidence([-gain for gain in gains], least=-high) == pytest.approx(needed, abs=1e-4)
    assert estimate_gain([]) == pytest.approx((-1, 1))
    wide, narrow = estimate_gain([0.5]), estimate_gain([0.5] * 100)
    assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]


def test_the_first_word_alone_is_an_answer() -> None:
    assert parse_answer("always").answer == "always"
    with pytest.raises(ConfigError, match="yes"):
        parse_answer("yes")

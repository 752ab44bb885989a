import asyncio
import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.core.errors import ConfigError, GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks import plancraft
from selfwire.evals.benchmarks.plancraft import PLANCRAFT, load_tasks
from tests.samples import sample

TORCH = {"20": ("coal", 1), "21": ("stick", 1), "22": ("dirt", 5), "23": ("iron_ore", 2)}
HIDDEN = (
    "impossible", "optimal_path_length", "optimal_path", "inventory_trace", "items_used", "unique_items_used",
    "complexity", "complexity_bin", "complexity_split", "unseen_in_train", "unseen_in_val", "recipe_type",
)  # fmt: skip


def example(slots: dict[str, tuple[str, int]] = TORCH, **fields: Any) -> dict[str, Any]:
    held = {slot: {"type": item, "quantity": count} for slot, (item, count) in slots.items()}
    known: dict[str, Any] = dict.fromkeys(HIDDEN)
    known |= {"impossible": False, "complexity_bin": 0, "complexity_split": ""}
    known |= {"unseen_in_train": False, "unseen_in_val": False}
    counts = {item: count for item, count in slots.values()}
    rest = {"target": "torch", "inventory": counts, "slotted_inventory": held, "num_distractors": 0}
    return known | rest | {"split": "val", "id": "x"} | fields


async def assess(answer: str, **fields: Any) -> Feedback:
    return await PLANCRAFT.environment.grade(plancraft.to_task(example(**fields)), answer, scope=Scope())


SOLUTION = """\
move: from [I11] to [A1] with quantity 1
move: from [I12] to [B1] with quantity 1
move: from [0] to [I1] with quantity 4"""


@pytest.mark.parametrize(
    "answer",
    [
        SOLUTION,
        SOLUTION.replace("move", "- Move"),
        f"Here is the plan.\n```\n{SOLUTION}\n```",
        "\n".join(f"{number}. `{line}`" for number, line in enumerate(SOLUTION.split("\n"), start=1)),
        f"{SOLUTION}\nmove: from [I13] to [A1] with quantity 1",
    ],
)
async def test_a_right_plan_is_solved_whatever_stands_around_its_actions(answer: str) -> None:
    feedback = await assess(answer)
    assert (feedback.score, feedback.solved, feedback.details["steps"]) == (1, True, 3)
    assert feedback.text.startswith("Solved.")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("", "the answer has no action"),
        ("None", "Line 1 ('None') is no action"),
        ("\nput coal into the grid", "Line 2 ('put coal into the grid') is no action"),
        ("move: from I11 to A1 with quantity 1", "is no action"),
        ("move: from [I11] to [A1]\nx", "is no action, nor are 1 more lines"),
        ("x" * 500, "Line 1 ('" + "x" * 80 + "...') is no action"),
        ("move: from [I30] to [A1] with quantity 1", "did nothing: [I30] is empty"),
        ("move: from [I13] to [A1] with quantity 6", "did nothing: [I13] holds 5 dirt, not 6"),
        ("move: from [I13] to [I11] with quantity 1", "1 dirt do not fit into [I11], which holds 1 coal"),
        ("move: from [I13] to [D1] with quantity 1", "did nothing: there is no slot [D1]"),
        ("move: from [I37] to [A1] with quantity 1", "did nothing: there is no slot [I37]"),
        ("move: from [I13] to [0] with quantity 1", "did nothing: nothing can be put into [0]"),
        ("move: from [I13] to [I13] with quantity 1", "source and target are the same slot"),
        ("move: from [I13] to [A1] with quantity 0", "the quantity must be 1 to 64, not 0"),
        ("smelt: from [I13] to [I1] with quantity 1", "did nothing: dirt cannot be smelted"),
        ("smelt: from [I14] to [I1] with quantity 3", "did nothing: [I14] holds 2 iron_ore, not 3"),
        (
            "move: from [I13] to [A2] with quantity 2\nmove: from [0] to [I1] with quantity 1",
            "Line 2 ('move: from [0] to [I1] with quantity 1') did nothing: [0] is empty, for the grid makes nothing; "
            "it holds dirt [A2] quantity 2.",
        ),
        ("smelt: from [I14] to [I1] with quantity 2", "At the end the slots hold iron_ingot [I1] quantity 2, coal"),
        ("smelt: from [I14] to [I1] with quantity 2", "there is no torch in the inventory after 1 actions"),
        ("\n".join(SOLUTION.split("\n")[:2]), "torch lies in [0] and was not moved into the inventory"),
        ("move: from [I30] to [A1] with quantity 1\n" * 5, "2 more actions did nothing"),
        ("move: from [I30] to [A1] with quantity 1\n" * 70, "The limit of 64 actions was reached; 6 more were not run"),
        ("impossible: no coal", "the answer `impossible` was not accepted"),
        (f"{SOLUTION}\nimpossible: no coal", "the answer mixes actions with `impossible`"),
    ],
)
async def test_feedback_says_where_an_answer_went_wrong(answer: str, told: str) -> None:
    feedback = await assess(answer)
    assert (feedback.score, feedback.solved) == (0, False)
    assert told in feedback.text


async def test_impossible_is_accepted_where_it_is_true() -> None:
    assert (await assess("**impossible:** there is no coal", impossible=True)).solved
    assert not (await assess(SOLUTION.replace("[0]", "[A1]"), impossible=True)).solved


async def test_the_same_task_can_be_assessed_again() -> None:
    task = plancraft.to_task(example())
    texts = [(await PLANCRAFT.environment.grade(task, SOLUTION, scope=Scope())).text for _ in range(3)]
    assert texts == ["Solved."] * 3


@pytest.mark.parametrize("reference", [None, "torch", {}, {"target": "torch"}, example(slots={"99": ("coal", 1)})])
async def test_a_reference_that_is_no_example_is_an_error_and_no_score(reference: object) -> None:
    with pytest.raises(GradingError, match="simulator failed on task 't'"):
        await PLANCRAFT.environment.grade(Task(id="t", input="", reference=reference), SOLUTION, scope=Scope())


async def test_a_simulator_that_fails_is_an_error_and_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    from plancraft.environment.env import PlancraftEnvironment as Simulator

    task = plancraft.to_task(example())

    def broken(*_: object) -> None:
        raise KeyError("broken")

    monkeypatch.setattr(Simulator, "move_item", broken)
    with pytest.raises(GradingError, match="broken"):
        await PLANCRAFT.environment.grade(task, SOLUTION, scope=Scope())


verbs = st.sampled_from(["move", "smelt"])
slots = st.one_of(st.sampled_from("[0] [A1] [B1] [I1] [I11] [I12] [I14] [I99] [Ⅷ]".split()), st.text())
action = st.builds("{}: from {} to {} with quantity {}".format, verbs, slots, slots, st.integers())
answers = st.lists(st.one_of(action, st.text(), st.just("impossible: x")), max_size=12).map("\n".join)


@settings(max_examples=200, deadline=None)
@given(answers)
async def test_any_answer_is_scored_and_the_label_changes_no_text_but_the_verdict(answer: str) -> None:
    feasible = await assess(answer)
    infeasible = await assess(answer, impossible=True)
    assert feasible.score in {0, 1}
    assert len(feasible.text) < 4000
    assert infeasible == feasible or infeasible.text.split(".")[0] == "Solved"


async def test_a_huge_answer_is_scored() -> None:
    feedback = await assess("move: from [I30] to [A1] with quantity 1\n" * 20_000 + "y" * 1_000_000)
    assert feedback.score == 0
    assert len(feedback.text) < 2000


CANARIES: dict[str, Any] = {
    "optimal_path": ["canary_path"], "optimal_path_length": 918273, "inventory_trace": [{"canary_trace": 918274}],
    "items_used": 918275, "unique_items_used": 918276, "complexity": 918277, "complexity_bin": 918278,
    "complexity_split": "canary_split", "num_distractors": 918279, "id": "canary_id",
}  # fmt: skip


@pytest.mark.parametrize("answer", ["", SOLUTION, "impossible: x", "move: from [I30] to [A1] with quantity 1"])
@pytest.mark.parametrize("impossible", [True, False])
async def test_planted_references_reach_neither_question_nor_feedback(answer: str, impossible: bool) -> None:
    task = plancraft.to_task(example(**CANARIES, impossible=impossible))
    feedback = await PLANCRAFT.environment.grade(task, answer, scope=Scope())
    seen = task.question.model_dump_json() + feedback.model_dump_json()
    assert not re.findall(r"canary|91827|shaped|mixed|feasib|optimal", seen)
    assert task.question == plancraft.to_task(example()).question
    assert "canary_path" in json.dumps(to_plain_json(task.reference))


def test_questions_of_the_real_splits_say_nothing_hidden() -> None:
    for task in load_tasks("val.small"):
        question = task.question.model_dump_json()
        assert task.kind == "crafting"
        assert question.count("impossible") == 1
        assert not [name for name in HIDDEN if name != "impossible" and name in question]
        assert str(to_plain_json(task.reference)["id"]) not in question


def test_neither_order_nor_ids_tell_infeasible_tasks_apart() -> None:
    labels = [to_plain_json(task.reference)["impossible"] for task in load_tasks("test")]
    thirds = [sum(labels[start : start + 193]) for start in (0, 193, 386)]
    assert sum(labels) == 100
    assert min(thirds) > 15


def test_splits_have_the_package_s_sizes_and_are_disjoint() -> None:
    inputs = {split: {task.input for task in load_tasks(split)} for split in plancraft.SPLITS}
    assert {split: len(found) for split, found in inputs.items()} == {
        "train": 1145, "val": 570, "test": 580, "val.small": 110, "test.small": 117,
    }  # fmt: skip
    assert not inputs["train"] & inputs["val"] | inputs["train"] & inputs["test"] | inputs["val"] & inputs["test"]
    assert inputs["val.small"] < inputs["val"]
    assert inputs["test.small"] < inputs["test"]


def test_the_benchmark_draws_from_the_package_s_splits_and_larger_samples_hold_smaller_ones() -> None:
    drawn = PLANCRAFT.splits(3, train=20, gate=10, test=30)
    assert set(drawn.train) < set(load_tasks("train"))
    assert set(drawn.gate) < set(load_tasks("val"))
    assert set(drawn.test) < set(load_tasks("test"))
    assert PLANCRAFT.splits(3, train=40, gate=0, test=0).train[:20] == drawn.train


@pytest.mark.parametrize("sizes", [(1146, 0, 0), (0, 571, 0), (0, 0, 581), (-1, 0, 0)])
def test_sizes_that_the_package_cannot_serve_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigError, match=r"ask for fewer|at least 0"):
        PLANCRAFT.splits(0, train=sizes[0], gate=sizes[1], test=sizes[2])


async def test_answers_assessed_side_by_side_do_not_mix() -> None:
    task, answers = plancraft.to_task(example()), [SOLUTION, "", "move: from [I30] to [A1] with quantity 1"] * 20
    found = await asyncio.gather(*(PLANCRAFT.environment.grade(task, one, scope=Scope()) for one in answers))
    assert [one.details["steps"] for one in found] == [3, 0, 1] * 20


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no split 'dev'; splits are train, val"):
        load_tasks("dev")


def planned(task: Task) -> list[str]:
    from plancraft.config import PlancraftExample
    from plancraft.environment.planner import get_subplans

    stored = PlancraftExample(**to_plain_json(task.reference))
    plans, _ = get_subplans({"inventory": copy.deepcopy(stored.slotted_inventory), "target": stored.target})
    return [str(action) for plan in plans for action in plan]


def feasible() -> list[Task]:
    return [task for task in load_tasks("val.small") if not to_plain_json(task.reference)["impossible"]]


@pytest.mark.sweep
async def test_the_planner_s_solutions_solve_every_feasible_task_and_perturbed_ones_do_not() -> None:
    environment = PLANCRAFT.environment
    for task in sample(feasible()):
        actions = planned(task)
        solved = await environment.grade(task, "\n".join(actions), scope=Scope())
        assert solved.solved, (task.id, solved.text)
        misplaced = [action.replace("[I", "[A") for action in actions]
        for wrong in (actions[:-1], misplaced, [*actions[:-1], "impossible: x"]):
            assert not (await environment.grade(task, "\n".join(wrong), scope=Scope())).solved
        assert not (await environment.grade(task, "impossible: x", scope=Scope())).solved


@pytest.mark.slow
@pytest.mark.sweep
def test_every_step_is_what_the_package_s_own_simulator_does() -> None:
    from plancraft.config import PlancraftExample
    from plancraft.simple import PlancraftGymWrapper

    from selfwire.evals.benchmarks.crafting_table import MAX_STEPS, make_simulator

    for task in sample(feasible()[::3]):
        actions = planned(task)
        own = PlancraftGymWrapper(PlancraftExample(**to_plain_json(task.reference)), max_steps=MAX_STEPS)
        ours = make_simulator(to_plain_json(task.reference))
        for action in ("", *actions[::-1], *actions):
            (seen, *rest), (here, *same) = own.step(action), ours.step(action)
            assert (seen["text"], seen.get("inventory"), rest) == (here["text"], here.get("inventory"), same)


@pytest.mark.slow
async def test_saying_impossible_always_solves_100_of_580_test_tasks() -> None:
    environment = PLANCRAFT.environment
    answers = [(task, PLANCRAFT.baseline.answer(task.input)) for task in load_tasks("test")]
    feedback = [await environment.grade(task, answer, scope=Scope()) for task, answer in answers]
    assert sum(one.solved for one in feedback) == 100

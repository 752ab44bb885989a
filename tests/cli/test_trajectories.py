"""A trajectory for people: what all agents of a layer were told stands there once."""

import pytest

from selfwire.cli.trajectories import list_trajectories, show_trajectory
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step, Trajectory


def step(node: str, visit: int, *inbox: tuple[str, str], output: str) -> Step:
    heard = tuple(Message(source=source, target=node, text=text) for source, text in inbox)
    return Step(node=node, agent=node, visit=visit, inbox=heard, output=output)


def shown(capsys: pytest.CaptureFixture[str], *steps: Step, **notes: object) -> str:
    asked = Question(id="q", input="Who?")
    show_trajectory(Trajectory(question=asked, workflow="w", steps=steps, answer="Ann", notes=notes))
    return capsys.readouterr().out


def test_a_message_is_printed_once_per_stage(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(
        capsys,
        step("a", 0, ("state", "the plan"), output="found by a"),
        step("b", 0, ("state", "the plan"), ("a", "found by a"), ("a", "another word"), output="found by b"),
        step("a", 1, ("state", "the plan"), output="found by a"),
        stages=(),
    )
    assert told.count("the plan") == 2  # once in each stage
    assert told.count("found by a") == 2
    assert "from state: as above" in told
    assert "from a: as above" in told
    assert "another word" in told
    assert told.index("stage 1") < told.index("found by b") < told.index("stage 2")


def test_what_runs_once_has_no_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert "round" not in shown(capsys, step("a", 0, output="x"), step("b", 0, output="y"))
    assert "round 2" in shown(capsys, step("a", 0, output="x"), step("a", 1, output="y"))


def test_a_question_that_messages_repeat_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    passages = "Who?\nPassage: Ann was born in Rome."
    asked = Question(id="q", input=passages)
    steps = (step("a", 0, ("state", f"Objective: {passages}\nPlan: look"), output="x"),)
    show_trajectory(Trajectory(question=asked, workflow="w", steps=steps, answer="Ann"))
    lines = capsys.readouterr().out
    assert lines.count("born in Rome") == 1
    assert "Objective: (the question, as above)" in lines
    assert "Plan: look" in lines


def test_a_list_of_tasks_names_their_errors(capsys: pytest.CaptureFixture[str]) -> None:
    failed = Trajectory(question=Question(id="q", input="Who?"), workflow="w").as_failed("ModelError: it is down")
    list_trajectories([("0/rollout", failed)])
    assert "ModelError: it is down" in capsys.readouterr().out

"""A saved team in a pytest test: run `pytest test_team.py` in this folder.

With a real model and your own tasks:
`make_system_under_test("team.json", benchmark="tasks.jsonl", grader="own_grader:grade", model="openai:gpt-4o-mini")`.
"""

from pathlib import Path

from selfwire.runs.testing import make_system_under_test

TEAM = str(Path(__file__).with_name("archive_team.json"))
TASKS = 10


def count_solved(target: str) -> int:
    """Tasks that a team or method solves."""
    subject = make_system_under_test(target, benchmark="archive", tasks=TASKS, seed=1)
    runs = [subject.answer(question) for question in subject.questions]
    return sum(run.feedback is not None and run.feedback.solved for run in runs)


def test_the_evolved_team_solves_half_and_more_than_the_method_it_began_as() -> None:
    solved = count_solved(TEAM)
    assert solved >= TASKS // 2
    assert solved > count_solved("hiva")

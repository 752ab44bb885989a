"""Halting is checked against what workers really produced; the answer comes from the last global state."""

import pytest

from selfwire.evolvers.dytopo.domain import Domain
from selfwire.evolvers.dytopo.halting import choose_answer, find_objection
from selfwire.evolvers.dytopo.initial_team import DOMAINS
from selfwire.evolvers.dytopo.turns import WorkerTurn

MATH, CODE = DOMAINS["math"], DOMAINS["code"]
BLOCK = "```python\nprint({})\n```"


def solver(text: str) -> WorkerTurn:
    return WorkerTurn(worker="Solver", answer=text)


def verifier(verdict: str, worker: str = "Verifier") -> WorkerTurn:
    return WorkerTurn.model_validate({"worker": worker, "verdict": verdict})


def developer(*numbers: int) -> WorkerTurn:
    return WorkerTurn(worker="Developer", public="\n".join(["see:", *map(BLOCK.format, numbers)]))


PASSED = verifier("pass", worker="Tester")


def test_d15_the_answer_of_mathematics_is_the_last_one_that_is_not_blank() -> None:
    assert choose_answer(MATH, [[solver("1")], [solver("2")], [solver(" ")]]) == "2"
    assert choose_answer(MATH, [[solver("")]]) is None

    assert choose_answer(MATH, [[WorkerTurn(worker="Verifier", answer="7")]]) is None  # of somebody else


def test_within_a_round_the_last_in_order_counts() -> None:
    said = [WorkerTurn(worker="b", answer="first"), WorkerTurn(worker="a", answer="second")]
    assert choose_answer(Domain(name="own", answerers=("a", "b")), [said]) == "second"


def test_the_answer_of_code_is_the_developers_last_block() -> None:
    done = WorkerTurn(worker="Developer", public="done")
    assert choose_answer(CODE, [[developer(1)], [developer(2, 3)], [done]]) == "print(3)"
    assert choose_answer(CODE, [[WorkerTurn(worker="Developer", private=developer(4).public)]]) == "print(4)"
    assert choose_answer(CODE, [[WorkerTurn(worker="Tester", public=BLOCK.format(1))]]) is None


def test_without_an_answer_nothing_is_complete() -> None:
    assert "none of Solver has given an answer" in find_objection(MATH, [[verifier("pass")]])
    assert "none of Developer has given code" in find_objection(CODE, [[PASSED]])


def test_d4_a_pass_on_what_the_checker_could_read_completes() -> None:
    assert find_objection(MATH, [[solver("7")], [verifier("pass")]]) == ""
    assert find_objection(CODE, [[developer(1)], [developer(1), PASSED]]) == ""


def test_d4_a_pass_in_the_round_of_the_answer_does_not_count() -> None:
    assert "another answer" in find_objection(MATH, [[solver("7"), verifier("pass")]])


def test_d4_a_pass_on_an_earlier_answer_does_not_count() -> None:
    assert "another answer" in find_objection(MATH, [[solver("7")], [verifier("pass"), solver("8")]])
    assert "another answer" in find_objection(CODE, [[developer(1)], [PASSED], [developer(2)]])


@pytest.mark.parametrize("verdict", ["fail", "open"])
def test_d4_the_latest_verdict_counts(verdict: str) -> None:
    rounds = [[solver("7")], [verifier("pass")], [verifier(verdict)]]
    assert f"Verifier has not passed the answer: {verdict}" in find_objection(MATH, rounds)


def test_d4_without_any_verdict_nothing_is_complete_and_that_of_a_failed_call_is_none() -> None:
    broken = WorkerTurn(worker="Verifier", verdict="pass", error="down")
    for rounds in ([[solver("7")]], [[solver("7")], [broken]]):
        assert "no verdict" in find_objection(MATH, rounds)


def test_a_domain_without_checkers_needs_an_answer_only() -> None:
    assert find_objection(DOMAINS["general"], [[WorkerTurn(worker="Writer", answer="x")]]) == ""


def test_nobody_checks_its_own_answer() -> None:
    with pytest.raises(ValueError, match="a would check its own answer"):
        Domain(name="own", answerers=("a",), checkers=("a",))

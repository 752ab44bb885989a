"""What calls cost and what they may cost."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.errors import BudgetError
from selfwire.core.usage import ZERO_USAGE, Budget, Objective, Usage, UsageAccumulator, sum_usages
from selfwire.models.budget import refuse_beyond

usages = st.builds(
    Usage,
    calls=st.integers(0, 100),
    input_tokens=st.integers(0, 10**6),
    output_tokens=st.integers(0, 10**6),
    dollars=st.none() | st.integers(0, 100).map(float),
    seconds=st.integers(0, 100).map(float),
)


@given(usages, usages, usages)
def test_usage_adds_up_in_any_order(a: Usage, b: Usage, c: Usage) -> None:
    assert a + Usage() == a
    assert a + b == b + a
    assert (a + b) + c == a + (b + c) == sum_usages([a, b, c])
    assert (a + b).tokens == a.tokens + b.tokens


@given(st.permutations([0.1, 0.2, 0.3, 1e-9, 7.7]))
def test_a_bill_is_the_same_in_whatever_order_it_grows(prices: list[float]) -> None:
    bill = UsageAccumulator(Usage(calls=2, dollars=1.0))
    for price in prices:
        bill.add(Usage(calls=1, input_tokens=3, output_tokens=1, dollars=price, seconds=0.5))
    sums: dict[str, Any] = {"calls": 7, "input_tokens": 15, "output_tokens": 5, "seconds": 2.5}
    assert bill.usage == Usage(**sums, dollars=math.fsum([1.0, *prices]))
    bill.add(ZERO_USAGE)
    bill.add(Usage(dollars=None))
    assert bill.usage == Usage(**sums, dollars=None)


@given(usages, usages)
def test_a_sum_without_one_part_is_the_other(a: Usage, b: Usage) -> None:
    left = (a + b).subtract(b)
    assert left == (a if b.dollars is not None else a.replace(dollars=None))


def test_nothing_is_left_where_the_part_is_the_larger() -> None:
    assert Usage(calls=1, seconds=1.0).subtract(Usage(calls=2, input_tokens=3, dollars=0.1, seconds=2.0)) == Usage()


@pytest.mark.parametrize(("calls", "text"), [(1, "1 call, 1 token, $0.00"), (2, "2 calls, 2 tokens, $0.00")])
def test_a_count_of_one_is_singular(calls: int, text: str) -> None:
    assert str(Usage(calls=calls, input_tokens=calls)) == text


def test_an_unknown_price_stays_unknown() -> None:
    assert (Usage(dollars=1.0) + Usage(dollars=None)).dollars is None
    assert sum_usages([]).dollars == 0


@pytest.mark.parametrize(
    ("budget", "spent", "wanted", "message"),
    [
        (Budget(calls=2), Usage(calls=2), Usage(calls=1), "2 of 2 calls spent and up to 1 more needed"),
        (
            Budget(tokens=123_456),
            Usage(input_tokens=100_000, output_tokens=23_000),
            Usage(output_tokens=457),
            "123,000 of 123,456 tokens spent and up to 457 more needed",
        ),
        (Budget(dollars=1.0), Usage(dollars=0.99), Usage(dollars=0.02), r"\$0.99 of \$1.00 dollars spent"),
        (Budget(seconds=60), Usage(seconds=60.0), Usage(seconds=1.5), "raise the limit on seconds"),
        (Budget(dollars=1.0), Usage(dollars=None), Usage(calls=1), r"budget of \$1.00 cannot be kept.*price"),
        (Budget(calls=0), Usage(), Usage(calls=1), "0 of 0 calls"),
    ],
)
def test_what_exceeds_a_limit_is_refused(budget: Budget, spent: Usage, wanted: Usage, message: str) -> None:
    with pytest.raises(BudgetError, match=message) as refusal:
        refuse_beyond(budget, spent, wanted, "rollout")
    assert "in 'rollout'" in str(refusal.value)
    assert "resume" not in str(refusal.value)  # a served graph is no run that could be resumed


@pytest.mark.parametrize(
    "budget", [Budget(), Budget(calls=3, tokens=10, dollars=0.3, seconds=2), Budget(calls=3, dollars=None)]
)
def test_what_just_fits_is_let_through(budget: Budget) -> None:
    spent = Usage(calls=2, input_tokens=4, output_tokens=4, dollars=0.1 + 0.1, seconds=1)
    refuse_beyond(budget, spent, Usage(calls=1, input_tokens=2, dollars=0.1, seconds=1), "rollout")


def test_amounts_are_written_without_the_errors_of_sums() -> None:
    spent, wanted = Usage(dollars=0.9999), Usage(dollars=0.0012625499999999999)
    with pytest.raises(BudgetError) as refusal:
        refuse_beyond(Budget(dollars=1.0), spent, wanted, "rollout", Usage(dollars=2.3852447794681098e-18))
    assert "$1.00 of $1.00 dollars spent and up to $0.001263 more needed" in str(refusal.value)


def test_a_budget_in_usd_is_told_the_names_of_the_limits() -> None:
    with pytest.raises(ValueError, match="a budget has no usd; its limits are calls, tokens, dollars, seconds, as in"):
        Budget.model_validate({"usd": 1})


@pytest.mark.parametrize("field", ["calls", "tokens", "dollars", "seconds"])
def test_a_negative_budget_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=rf"{field}\n +Input should be greater than or equal to 0"):
        Budget.model_validate({field: -1})


def test_an_objective_is_the_price_of_each_cost_in_score() -> None:
    assert Objective.parse("score") == Objective()
    assert Objective.parse(" score - 0.01*calls ") == Objective(calls=0.01)
    assert Objective.parse("100 * score - calls - tokens / 1000 + 7") == Objective(calls=0.01, tokens=0.00001)
    assert Objective.parse("2*(score - 3*dollars) - (seconds - -calls)*0.5") == Objective(
        calls=0.25, dollars=3, seconds=0.25
    )
    assert Objective.parse("cheapest") == Objective(cheapest=True)
    before = Usage(calls=3, input_tokens=50, output_tokens=50, dollars=0.5)
    after = Usage(calls=5, input_tokens=40, output_tokens=50, dollars=0.25)
    assert Objective.parse("score - 0.1*calls - 0.01*tokens").compute_price(before, after) == pytest.approx(0.2 - 0.1)
    assert Objective.parse("score - dollars").compute_price(before, after) == -0.25
    with pytest.raises(ValueError, match="--prices FILE"):
        Objective(dollars=1).compute_price(before, Usage(dollars=None))


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("", "no formula"),
        ("score -", "no formula"),
        ("score - 0.01*call", "no name 'call'"),
        ("score*calls", "not by each other"),
        ("score/calls", "not by each other"),
        ("score - 1/0*calls", "zero"),
        ("score - 1e999*calls", "must raise it"),
        ("0*score - calls", "must raise it"),
        ("calls", "must raise it"),
        ("-score", "must raise it"),
        ("score + calls", "calls would raise it"),
        ("score - calls**2", "is no name, number or sum"),
        ("__import__('os').system('true')", "is no name, number or sum"),
        ("score if calls else 0", "is no name, number or sum"),
        ("score - True*calls", "is no name, number or sum"),
        ("score - 'a'", "is no name, number or sum"),
        ("score\0", "no formula"),
        ("(" * 150 + "score" + ")" * 40, "no formula"),
        ("score" + " + 0" * 60, "245 characters"),
    ],
)
def test_what_is_no_objective_is_refused_with_a_way_out(given: str, fault: str) -> None:
    with pytest.raises(ValueError, match="write a sum of score and costs") as refused:
        Objective.parse(given)
    assert fault in str(refused.value)


@given(st.text(alphabet="score cal*+-/()0.1e9_,'[]tokenx", max_size=60))
def test_any_text_is_read_as_an_objective_or_refused(text: str) -> None:
    try:
        found = Objective.parse(text)
    except ValueError as error:
        assert "write a sum of score and costs" in str(error)  # noqa: PT017 - both ends are right
    else:
        assert all(price > 0 and math.isfinite(price) for price in found.prices.values())

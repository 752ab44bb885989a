"""One value keys randomness and the journal."""

import subprocess
import sys

import pytest

from selfwire.core.scope import Scope

HERE = Scope(run="r", seed=7, iteration=2, phase="rollout", task="t1", node="plan", visit=1, sample=3)
OTHERS = {"seed": 8, "iteration": 3, "phase": "gate", "task": "t2", "node": "solve", "visit": 2, "sample": 4}


def draw(scope: Scope, purpose: str = "route") -> list[float]:
    return [float(number) for number in scope.random(purpose).random(4)]


def test_equal_places_draw_equal_numbers_whatever_ran_before() -> None:
    generator = HERE.random("route")
    generator.random(1000)
    assert draw(HERE) == draw(HERE)


@pytest.mark.parametrize(("field", "value"), OTHERS.items())
def test_every_coordinate_changes_draw_and_key(field: str, value: str | int) -> None:
    other = HERE.at(**{field: value})
    assert draw(other) != draw(HERE)
    assert other.key != HERE.key


def test_the_coordinates_above_are_all() -> None:
    assert set(Scope.model_fields) == {"run", *OTHERS}


def test_purposes_do_not_share_draws() -> None:
    assert draw(HERE, "route") != draw(HERE, "sample")


def test_the_run_keys_the_journal_and_not_the_randomness() -> None:
    other = HERE.at(run="s")
    assert draw(other) == draw(HERE)
    assert other.key != HERE.key


def test_coordinates_cannot_run_into_each_other() -> None:
    one, other = Scope(phase="a", task="bc"), Scope(phase="ab", task="c")
    assert draw(one) != draw(other)
    assert one.key != other.key


def test_draws_are_equal_across_processes() -> None:
    code = (
        "from selfwire.core.scope import Scope; import sys;"
        "print(Scope.model_validate_json(sys.argv[1]).random('route').random(4).tolist())"
    )
    command = [sys.executable, "-c", code, HERE.model_dump_json()]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == str(draw(HERE))


def test_draws_are_spread_evenly() -> None:
    first = [float(HERE.at(sample=i).random("route").random()) for i in range(2000)]
    tenths = [sum(i / 10 <= x < (i + 1) / 10 for x in first) for i in range(10)]
    assert all(140 <= count <= 260 for count in tenths)  # 200 expected, sd 13.4


def test_an_unknown_coordinate_is_refused() -> None:
    with pytest.raises(ValueError, match="place: there is no such field"):
        HERE.at(place="x")

"""The offline model's repair of tools: it goes by the code and the calls that it is shown, and errs at its rate."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from selfwire.extras.offline.critic_input import CriticInput
from selfwire.extras.offline.tool_repair import find_tool_fault, tool_decision, tool_source
from selfwire.tools.tool_mutations import list_mutations

RIGHT = (
    "def tool_function(minutes: int, free: int=30) -> int:\n    if minutes <= free:\n        return 0\n"
    "    hours = (minutes - free + 59) // 60\n    return min(hours * 3, 24)\n"
)
WRONG = RIGHT.replace("* 3", "* 2")
KNOWN = '{"minutes":95} -> 6\n{"minutes":20} -> 0\n{"minutes":600} -> 24'


def brief(error_rate: float = 0.0, seed: int = 0, **sections: str) -> CriticInput:
    return CriticInput(sections, lambda purpose: Random(f"{seed} {purpose}"), error_rate)


def repaired(code: str, examples: str, seed: int = 0, error_rate: float = 0.0, **more: str) -> str:
    return str(tool_source(brief(error_rate, seed, tool_code=code, examples=examples, **more))["source"])


@pytest.mark.parametrize(
    "body", ["return [minutes]", "for _ in ():\n        pass", "free = free\n    " * 11_000 + "return 0"]
)
def test_code_that_cannot_be_followed_is_changed_anyhow(body: str) -> None:
    code = f"def tool_function(minutes: int, free: int=30) -> int:\n    {body}\n"
    assert repaired(code, KNOWN)


def test_a_single_change_that_fits_all_known_calls_is_taken() -> None:
    assert {repaired(WRONG, KNOWN, seed) for seed in range(20)} == {RIGHT}


def test_of_several_changes_that_fit_any_is_taken_and_without_known_calls_any_at_all() -> None:
    found = {repaired(WRONG, '{"minutes":95} -> 6', seed) for seed in range(60)}
    assert RIGHT in found
    assert len(found) > 1
    assert found < set(list_mutations(WRONG))
    assert len({repaired(WRONG, "", seed) for seed in range(60)}) > len(found)
    assert repaired(WRONG, KNOWN, earlier_code=RIGHT) != RIGHT  # which was refused before


def test_at_the_error_rate_the_change_need_not_fit() -> None:
    right = Counter(repaired(WRONG, KNOWN, seed, error_rate=0.5) == RIGHT for seed in range(200))
    assert 60 < right[True] < 140


@pytest.mark.parametrize("code", ["", "no Python (", "def tool_function(a: str):\n    return open(a)\n", "x" * 3])
def test_code_that_it_cannot_read_stays(code: str) -> None:
    assert repaired(code, KNOWN) == code or "input_data" in repaired(code, KNOWN)


def test_code_that_loops_or_grows_fits_no_call() -> None:
    endless = "def tool_function(n: int):\n    while n < 3:\n        n = n * 1\n    return n\n"
    assert repaired(endless, '{"n":1} -> 1') in list_mutations(endless)
    huge = "def tool_function(n: int):\n    " + "n = n * n\n    " * 40 + "return n + 1\n"
    assert repaired(huge, '{"n":9} -> 1') in list_mutations(huge)


STATED = "The answer is wrong: parking_fee with minutes = 95, zone = -2 is 6. Measured by: something."


def test_a_fault_is_seen_only_in_a_tool_of_its_own_that_was_called() -> None:
    seen: dict[str, Any] = {
        "feedback": STATED,
        "tools": "search\nparking_fee (the team's own): Takes minutes.",
        "output": "tool parking_fee(minutes: 95) -> 3",
    }
    assert find_tool_fault(brief(**seen)) == "parking_fee should give 6 with minutes = 95, zone = -2."
    for name, other in (("feedback", "The answer is wrong."), ("tools", "parking_fee"), ("output", "I guess 3.")):
        assert find_tool_fault(brief(**{**seen, name: other})) == ""


def test_a_decision_names_the_tool_and_the_calls_that_are_stated() -> None:
    sections: dict[str, Any] = {
        "gradients": "parking_fee should give 6 with minutes = 95.",
        "own_tools": "parking_fee(minutes: integer), version 1\nTakes minutes.",
        "feedback": STATED,
        "operations": "REWRITE_TOOL\nNO_CHANGE",
    }
    found = tool_decision(brief(**sections))
    assert (found["operation"], found["tool"]) == ("REWRITE_TOOL", "parking_fee")
    [example] = found["examples"]
    assert (json.loads(example["arguments"]), example["result"]) == ({"minutes": 95, "zone": -2}, "6")
    assert tool_decision(brief(1.0, **sections))["operation"] == "NO_CHANGE"
    assert tool_decision(brief(**{**sections, "gradients": "Be brief."}))["operation"] == "NO_CHANGE"

"""Calls of a tool whose right result is known: as the environment's feedback states it, never from a reference."""

import json
import re
from collections.abc import Iterable
from math import isclose
from typing import Any

from selfwire.core.values import parse_object, to_canonical_json
from selfwire.core.workflow_tool import EXAMPLES, ToolExample
from selfwire.evolvers.hiva.schemas import KnownCall


def read_known_calls(calls: Iterable[KnownCall], feedback: str) -> tuple[ToolExample, ...]:
    """The calls as examples; one whose result does not stand in the feedback word for word is left out."""
    found = []
    for call in calls:
        result = call.result.strip()
        if not result or not re.search(rf"(?<![\w.]){re.escape(result)}(?!\w|\.\d)", feedback):
            continue
        try:
            found.append(ToolExample(arguments=parse_object(call.arguments), result=result))
        except ValueError:
            continue  # no JSON object, or too long
    return tuple(found)


def merge_examples(old: Iterable[ToolExample], new: Iterable[ToolExample]) -> tuple[ToolExample, ...]:
    """Old and new examples; of the same call the older result holds."""
    by_call: dict[str, ToolExample] = {}
    for one in (*old, *new):
        by_call.setdefault(to_canonical_json(one.arguments), one)
    return tuple(by_call.values())[:EXAMPLES]


def is_same_result(one: str, other: str) -> bool:
    """Whether two results are the same text or equal as JSON; numbers may differ in the last digits."""
    if one.strip() == other.strip():
        return True
    try:
        return _is_equal(json.loads(one), json.loads(other))
    except (ValueError, RecursionError):
        return False


def _is_equal(one: Any, other: Any) -> bool:
    if type(one) in (int, float) and type(other) in (int, float):
        return isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return type(one) is type(other) and bool(one == other)

"""What a team's method has learned, in a line per entry of its memory: how much of what, such as `beliefs 4`."""

from collections.abc import Iterator, Mapping
from typing import Any

from selfwire.core.values import format_value, to_plain_json
from selfwire.core.workflow import Workflow


def describe_memory(workflow: Workflow) -> Iterator[str]:
    """A line per entry of a workflow's memory."""
    for name, entry in sorted(to_plain_json(workflow.memory).items()):
        yield f"{name}: {_join(_measure(entry).items())}"


def describe_memory_changes(names: tuple[str, ...], before: Workflow, after: Workflow) -> Iterator[str]:
    """A line per entry that differs: what there was more or less of, and what only changed."""
    old, new = to_plain_json(before.memory), to_plain_json(after.memory)
    for name in names:
        yield f"memory {name}: {_join(_compare(old.get(name), new.get(name)))}"


def _measure(entry: Any) -> dict[str, str]:
    """Sizes of an entry's collections and its plain values, by name."""
    if not isinstance(entry, Mapping):
        return {"entries": _size(entry)}
    return {str(name): _size(value) for name, value in entry.items()}


def _size(value: Any) -> str:
    return str(len(value)) if isinstance(value, Mapping | list) else format_value(value)


def _compare(before: Any, after: Any) -> Iterator[tuple[str, str]]:
    old, new = _measure(before), _measure(after)
    if before is None or after is None:
        yield ("removed", "") if after is None else ("new", _join(new.items()))
        return
    for name in {**old, **new}:
        there, here = old.get(name, "0"), new.get(name, "0")
        if there != here:
            yield name, f"{there} -> {here}"
        elif not isinstance(before, Mapping) or before.get(name) != after.get(name):
            yield name, "changed"


def _join(parts: Any) -> str:
    return "; ".join(f"{name} {size}".rstrip() for name, size in parts) or "nothing"

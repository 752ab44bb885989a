"""Configs of a method with parts switched off."""

from collections.abc import Mapping, Sequence
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.values import to_plain_json
from selfwire.graphs.method_names import method_names
from selfwire.graphs.method_registry import describe_method

PREFIX = "no-"
"""Of the names of variants that switch a part off."""


def switch_off(method: str, parts: Sequence[str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Config fields that switch parts of a method off (`tev` or `no-tev`), under fields that were set by hand.

    Raises:
        ConfigError: the method has no such part.
    """
    known = describe_method(method).variants if method in method_names() else {}
    found: dict[str, Any] = {}
    for part in parts:
        name = part if part in known else f"{PREFIX}{part}"
        if name not in known or not known[name].config:
            there = ", ".join(one.removeprefix(PREFIX) for one, variant in known.items() if variant.config)
            raise ConfigError(f"{method} has no part {part!r} to do without; it has {there or 'none'}")
        found = merge_configs(found, to_plain_json(known[name].config))
    return merge_configs(found, config)


def merge_configs(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Nested fields laid over others."""
    both = [name for name in over if isinstance(over[name], Mapping) and isinstance(under.get(name), Mapping)]
    return {**under, **over, **{name: merge_configs(under[name], over[name]) for name in both}}

"""Ways to run a method: whole, and with one part switched off."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, to_plain_json


class Variant(FrozenModel):
    """One way to run a method.

    Args:
        title: for tables.
        config: knobs of the method that differ from its defaults.
        gate: as in `EvolutionConfig`.
        random: whether rewirings are drawn at random.
        learns: off where nothing is learned between runs, so that it is measured as it starts.
        against: the variant that it lacks a part of.
    """

    title: str
    config: FrozenJson = FrozenMap()
    gate: Literal["paired", "off"] = "paired"
    random: bool = False
    learns: bool = True
    against: str = "full"


FULL, RANDOM = "full", "random"
REASONING = {"adapter": "fixed", "plan": [["multi_generate"], ["ensemble"]]}
"""EvoMAS's paper compares task states under two fixed workflows (Sec. 4.3): the seed's topology, and this one."""
VARIANTS: Mapping[str, Mapping[str, Variant]] = {
    "hiva": {
        FULL: Variant(title="full"),
        "no-tev": Variant(title="w/o TEV", config={"topology_evolution": False}),
        "no-sev": Variant(title="w/o SEV", config={"semantic_evolution": False}),
        "no-kabb": Variant(title="w/o KABB", config={"kabb": False}),
        "no-env": Variant(title="w/o Env", config={"environment": False}),
        "no-tool": Variant(title="w/o Tool", config={"tools": False}),
        "no-gate": Variant(title="no gate", gate="off"),
        RANDOM: Variant(title="random edits", random=True),
    },
    "tacomas": {
        FULL: Variant(title="full"),
        "no-capability": Variant(title="topology only", config={"capability": False}),
        "no-topology": Variant(title="capability only", config={"topology": False}),
        "one-scale": Variant(title="K = 1", config={"interval": 1}),
        "no-budget": Variant(title="no edit budget", config={"slow": {"budgeted": False}}),
        "fixed": Variant(title="fixed team", config={"capability": False, "topology": False}),
    },
    "dytopo": {
        FULL: Variant(title="semantic, tau = 0.3"),
        "random-topology": Variant(title="random topology", config={"topology": "random"}),
        "broadcast": Variant(title="broadcast", config={"topology": "broadcast"}),
        "single-turn": Variant(title="single turn", config={"rounds": 1, "topology": "none", "manager": False}),
        **{
            f"tau-0{tenth}": Variant(title=f"tau = 0.{tenth}", config={"threshold": tenth / 10})
            for tenth in (1, 2, 4, 5, 6, 7, 8, 9)
        },
    },
    "evomas": {
        FULL: Variant(title="full"),
        "no-state": Variant(title="w/o task state", config={"task_state": False}),
        "random-adapter": Variant(title="random adapter", config={"adapter": "random"}, learns=False),
        "frozen-adapter": Variant(title="frozen adapter", config={"adapter": "frozen"}, learns=False),
        "process-reward": Variant(title="with process reward", config={"process_reward": True}),
        "pool-4": Variant(title="pool of 4", config={"pool": 4}),
        "fixed": Variant(title="fixed: I/O, search, ensemble", config={"adapter": "fixed"}, learns=False),
        "fixed-no-state": Variant(
            title="the same w/o task state",
            config={"adapter": "fixed", "task_state": False},
            learns=False,
            against="fixed",
        ),
        "reasoning": Variant(title="fixed: multi-generate, ensemble", config=REASONING, learns=False),
        "reasoning-no-state": Variant(
            title="the same w/o task state",
            config={**REASONING, "task_state": False},
            learns=False,
            against="reasoning",
        ),
    },
    "hera": {
        FULL: Variant(title="full"),
        "no-library": Variant(title="w/o library", config={"library": False}),
        "no-rope": Variant(title="w/o RoPE", config={"rope": False}),
        "no-mutation": Variant(title="w/o mutation", config={"mutation": False}),
        "no-gate": Variant(title="no gate", gate="off"),
        RANDOM: Variant(title="random edits", random=True),
    },
}
"""Variants by method and name; every method has `full`, and `random` if random edits are a control for it."""
EVOLVED = frozenset({"hiva", "hera", "evomas"})
"""Methods whose variants are evolved before they are measured; those of the others are measured as they are."""

PREFIX = "no-"
"""Of the names of variants that switch a part off."""


def switch_off(method: str, parts: Sequence[str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Knobs that switch parts of a method off, under knobs that were set by hand.

    Args:
        method: name of a method.
        parts: variants of the method, `tev` or `no-tev`.
        config: knobs that were set; they win.

    Raises:
        ConfigError: the method has no such part.
    """
    known = VARIANTS.get(method, {})
    found: dict[str, Any] = {}
    for part in parts:
        name = part if part in known else f"{PREFIX}{part}"
        if name not in known or not known[name].config:
            there = ", ".join(one.removeprefix(PREFIX) for one, variant in known.items() if variant.config)
            raise ConfigError(f"{method} has no part {part!r} to do without; it has {there or 'none'}")
        found = merge_knobs(found, to_plain_json(known[name].config))
    return merge_knobs(found, config)


def merge_knobs(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Nested knobs laid over others."""
    both = {**under, **over}
    return {
        name: merge_knobs(under[name], value)
        if isinstance(value, Mapping) and isinstance(under.get(name), Mapping)
        else value
        for name, value in both.items()
    }

"""Ways to run a method: whole, and with one part switched off."""

from typing import Literal

from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel

FULL, RANDOM = "full", "random"


class Variant(FrozenModel):
    """One way to run a method.

    Args:
        config: config fields that differ from the method's defaults.
        gate: as in `EvolutionConfig`.
        random: whether rewirings are drawn at random.
        choice: whether it lacks a learned router's choice, and so compares nothing where that was never free.
        evolves: False to skip evolution and measure the initial workflow.
        against: the variant that it lacks a part of.
    """

    title: str
    config: FrozenJson = FrozenMap()
    gate: Literal["paired", "off"] = "paired"
    random: bool = False
    choice: bool = False
    evolves: bool = True
    against: str = FULL

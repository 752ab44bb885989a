"""Choosers without a head: layers drawn from a uniform p by the same rule, and the same layers at every stage."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from selfwire.core.agent import Agent
from selfwire.core.scope import Scope
from selfwire.core.topology import Topology
from selfwire.core.values import Id
from selfwire.evolvers.evomas.config import SamplingConfig
from selfwire.evolvers.evomas.plans import Layered, candidates

REACHED = 1e-9
"""How much below rho counts as rho (D5)."""


@dataclass(frozen=True)
class RandomChooser:
    """The ablation "random adapter": p is uniform, and the rest is as with the head.

    Attributes:
        sampling: how layers are drawn.
    """

    sampling: SamplingConfig = SamplingConfig()

    async def __call__(
        self, rows: Sequence[str], pool: Sequence[Agent], *, masked: frozenset[Id], scope: Scope
    ) -> Layered:
        """As `Chooser`."""
        ids = [agent.id for agent in candidates(pool, masked)]
        size = self._size(len(ids))
        layers = []
        for number in range(self.sampling.layers):
            order = scope.random(f"random layer {number}").permutation(len(ids))
            layers.append(tuple(ids[place] for place in order[:size]))
        uniform = {one: 1 / len(ids) for one in ids}
        each = -sum(math.log(len(ids) - taken) for taken in range(size))
        return Layered(
            layers=tuple(layers),
            probabilities=(uniform,) * len(layers),
            log_probability=each * len(layers),
            masked=tuple(sorted(masked)),
        )

    def _size(self, count: int) -> int:
        """How many of `count` equal shares make up rho, at most `width`."""
        needed = next(size for size in range(1, count + 1) if size / count >= self.sampling.mass - REACHED)
        return min(needed, self.sampling.width or needed)


@dataclass(frozen=True)
class FixedChooser:
    """The same workflow at every stage, as one that was designed before the task began.

    Attributes:
        plan: the layers, by agent id.
    """

    plan: tuple[tuple[Id, ...], ...]

    async def __call__(
        self, rows: Sequence[str], pool: Sequence[Agent], *, masked: frozenset[Id], scope: Scope
    ) -> Layered:
        """As `Chooser`; masked agents are left out.

        Raises:
            ValueError: the pool lacks an agent of the plan, or all of the plan is masked.
        """
        ids = [agent.id for agent in candidates(pool, masked)]
        unknown = {one for layer in self.plan for one in layer} - set(ids) - masked
        if unknown:
            raise ValueError(f"the plan names {', '.join(sorted(unknown))}; agents are {', '.join(ids)}")
        left = tuple(tuple(one for one in layer if one not in masked) for layer in self.plan)
        return Layered(layers=tuple(layer for layer in left if layer), masked=tuple(sorted(masked)))


def plan_of(topology: Topology) -> tuple[tuple[Id, ...], ...]:
    """A topology's levels as layers of agents, each agent once per layer."""
    levels = [[topology.agents[node] for node in level] for level in topology.levels()]
    return tuple(tuple(dict.fromkeys(level)) for level in levels)

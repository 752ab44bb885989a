"""Small pools and episodes for tests of the router."""

from collections.abc import Sequence

import numpy as np

from selfwire.core.agent import Agent
from selfwire.evolvers.router.batch import Vectors
from selfwire.evolvers.router.config import HeadConfig, SamplingConfig
from selfwire.evolvers.router.decisions import Decision, Episode, LayeredWorkflow
from selfwire.evolvers.router.head import RoutingHead

D = 8
POOL = tuple(Agent(id=name, role=f"{name} things", prompt="Work.") for name in ("sort", "weigh", "paint"))
SAMPLING = SamplingConfig(layers=2)


def vectors(texts: Sequence[str], d: int = D) -> dict[str, Vectors]:
    made = np.random.default_rng(7).normal(size=(len(texts), d)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return dict(zip(texts, made, strict=True))


AGENTS = vectors([agent.id for agent in POOL])
ROWS = vectors(("here", "there", "so far"))


def decided(*layers: tuple[str, ...], rows: tuple[str, ...] = ("here",), masked: tuple[str, ...] = ()) -> Decision:
    return Decision(rows=rows, agents=tuple(AGENTS), layered=LayeredWorkflow(layers=layers, masked=masked))


def episode(reward: float | None, *decisions: Decision, process: tuple[float, ...] = ()) -> Episode:
    return Episode(decisions=decisions or (decided(("sort",), ("paint", "weigh")),), reward=reward, process=process)


LEAVING = {**AGENTS, "leave": vectors(("sort", "weigh", "paint", "leave"))["leave"]}
"""The pool with Early-exit."""


def may_leave(*layers: tuple[str, ...], row: str = "here", masked_first: tuple[str, ...] = ()) -> Decision:
    """A decision in which Early-exit could be drawn apart from the others."""
    layered = LayeredWorkflow(layers=layers, masked_first=masked_first, exit="leave")
    return Decision(rows=(row,), agents=tuple(LEAVING), layered=layered)


EXITS = (
    episode(1.0, may_leave(("sort",), ("leave",))),
    episode(0.0, may_leave(("paint",), ("weigh", "sort"), row="there")),
    episode(0.5, may_leave(("leave",))),
)


def head() -> RoutingHead:
    return RoutingHead(D, HeadConfig(init="xavier", seed=3))

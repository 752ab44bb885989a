"""Trajectories as a journal stores them; JSON in them is not frozen, so that reading takes a quarter of the time."""

from typing import Any

from pydantic import ConfigDict

from selfwire.core.trajectory import Routing, Step, ToolUse, Trajectory

_STORED = ConfigDict(extra="ignore")


class StoredTool(ToolUse):
    """A tool call."""

    model_config = _STORED

    arguments: Any = None
    result: str


class StoredRouting(Routing):
    """A choice of successors."""

    model_config = _STORED

    scores: Any = None


class StoredStep(Step):
    """A call of an agent."""

    model_config = _STORED

    tools: tuple[StoredTool, ...] = ()
    routing: StoredRouting | None = None


class StoredTrajectory(Trajectory):
    """A run of a team on a question."""

    model_config = _STORED

    steps: tuple[StoredStep, ...] = ()
    notes: Any = None

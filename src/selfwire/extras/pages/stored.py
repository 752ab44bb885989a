"""Trajectories as a journal stores them; JSON in them is not frozen, so that reading takes a quarter of the time."""

import json
from typing import Any

from pydantic import ConfigDict, Field, field_serializer

from selfwire.core.trajectory import Routing, Step, ToolUse, Trajectory

_STORED = ConfigDict(extra="ignore")


class StoredTool(ToolUse):
    """A tool call."""

    model_config = _STORED

    arguments: Any = None
    result: str

    @field_serializer("arguments")
    def _write_line(self, arguments: Any) -> str:
        return json.dumps(arguments, ensure_ascii=False)


class StoredRouting(Routing):
    """A choice of successors."""

    model_config = _STORED

    scores: Any = None

    @field_serializer("scores")
    def _list_numbers(self, scores: Any) -> dict[str, float]:
        known = scores if isinstance(scores, dict) else {}
        return {name: round(value, 3) for name, value in known.items() if isinstance(value, int | float)}


class StoredStep(Step):
    """A call of an agent."""

    model_config = _STORED

    tools: tuple[StoredTool, ...] = ()
    routing: StoredRouting | None = None


class StoredTrajectory(Trajectory):
    """A run of a team on a question."""

    model_config = _STORED

    steps: tuple[StoredStep, ...] = ()
    notes: Any = Field(default_factory=dict)

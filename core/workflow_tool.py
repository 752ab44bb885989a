"""Tools that belong to a workflow: values that are made, called, judged and rewritten like agents."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from selfwire.core.chat import ToolSpec
from selfwire.core.tool_source import check_tool_source
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, Id, to_canonical_json

TOOLS, EXAMPLES, TEXT_LENGTH = 32, 16, 4_000
"""Most tools of a workflow, examples of a tool, and characters of a text or of the arguments of an example."""


class ToolExample(FrozenModel):
    """A call whose right result is known.

    Args:
        arguments: a JSON object by parameter.
        result: what the function returns, as text.
    """

    arguments: FrozenJson = Field(default_factory=FrozenMap)
    result: str = Field(max_length=TEXT_LENGTH)

    @field_validator("arguments")
    @classmethod
    def _check_arguments(cls, arguments: Any) -> Any:
        if not isinstance(arguments, Mapping):
            raise ValueError(f"arguments must be a JSON object, not {arguments!r}")
        if (length := len(to_canonical_json(arguments))) > TEXT_LENGTH:
            raise ValueError(f"the arguments have {length:,} characters; at most {TEXT_LENGTH:,} are allowed")
        return arguments


class ToolRecord(FrozenModel):
    """How a tool's version has done: calls, those that failed, and seconds of all of them."""

    calls: int = Field(default=0, ge=0)
    failures: int = Field(default=0, ge=0)
    seconds: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.failures > self.calls:
            raise ValueError(f"{self.failures} failures are more than {self.calls} calls")
        return self

    @property
    def latency(self) -> float | None:
        """Mean seconds of a call; None before the first."""
        return self.seconds / self.calls if self.calls else None

    @property
    def success_rate(self) -> float | None:
        """Share of calls that did not fail; None before the first."""
        return 1 - self.failures / self.calls if self.calls else None

    def __add__(self, other: "ToolRecord") -> "ToolRecord":
        return ToolRecord(
            calls=self.calls + other.calls,
            failures=self.failures + other.failures,
            seconds=self.seconds + other.seconds,
        )


class ToolOutcome(FrozenModel):
    """What a call of a workflow's tool came to.

    Args:
        result: what the function returned, or why there is nothing, as the agent reads it.
        failed: whether the function raised or was stopped.
        seconds: that the call took.
    """

    result: str
    failed: bool = False
    seconds: float = Field(default=0.0, ge=0)


class WorkflowTool(FrozenModel):
    """A tool of a workflow: one Python function, `tool_function`, which runs in a sandbox.

    Args:
        name: by which agents hold it.
        description: what it does and what it returns; models choose by it.
        source: its code; see `check_tool_source`.
        version: from 1; each rewrite adds one.
        by, why: who or what made this version, and the reason.
        examples: calls whose results are known; a new version must pass them.
        record: of this version; not part of a workflow's fingerprint.

    Raises:
        ValueError: the source may not run, or an example does not fit its parameters.
    """

    name: Id
    description: str = Field(min_length=1, max_length=TEXT_LENGTH)
    source: str
    version: int = Field(default=1, ge=1)
    by: str = Field(default="", max_length=TEXT_LENGTH)
    why: str = Field(default="", max_length=TEXT_LENGTH)
    examples: tuple[ToolExample, ...] = Field(default=(), max_length=EXAMPLES)
    record: ToolRecord = ToolRecord()

    @model_validator(mode="after")
    def _check(self) -> Self:
        schema = self.parameters
        for example in self.examples:
            given, known = set(example.arguments), set(schema["properties"])
            if missing := sorted(set(schema["required"]) - given):
                raise ValueError(f"an example of tool {self.name!r} lacks {', '.join(missing)}")
            if not schema["additionalProperties"] and (unknown := sorted(given - known)):
                raise ValueError(f"an example of tool {self.name!r} has {', '.join(unknown)}, which it does not take")
        return self

    @cached_property
    def parameters(self) -> Any:
        """The JSON schema of the arguments."""
        return _find_parameters(self.source)

    @property
    def spec(self) -> ToolSpec:
        """The tool as models see it."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)


_find_parameters = lru_cache(maxsize=256)(check_tool_source)
"""A workflow's tools are validated again with each edit and each load; their sources seldom change."""

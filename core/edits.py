"""The edits with which every method changes structure and prompts (HiVA's and TacoMAS's circled plus).

An edit is one change; a `Rewiring` is a group of edits with a reason, which `Workflow.apply` applies all or not at all.
Edits take their fields by position: `AddEdge("plan", "answer")`.
"""

from typing import Annotated, Any, Literal, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from selfwire.core.agent import Agent
from selfwire.core.values import FrozenModel, Id

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def _edit(cls: type[_Class]) -> type[_Class]:
    return cast("type[_Class]", dataclass(frozen=True, config=ConfigDict(extra="forbid"))(cls))


@_edit
class AddAgent:
    """Add an agent that no node uses yet."""

    agent: Agent
    kind: Literal["add_agent"] = Field(default="add_agent", kw_only=True)


@_edit
class RemoveAgent:
    """Remove an agent that no node uses."""

    agent: Id
    kind: Literal["remove_agent"] = Field(default="remove_agent", kw_only=True)


@_edit
class ReplaceAgent:
    """Put another agent in place of one; its nodes keep their ids and edges."""

    agent: Id
    replacement: Agent
    kind: Literal["replace_agent"] = Field(default="replace_agent", kw_only=True)


@_edit
class AddNode:
    """Add a node for an existing agent."""

    node: Id
    agent: Id
    kind: Literal["add_node"] = Field(default="add_node", kw_only=True)


@_edit
class RemoveNode:
    """Remove a node with its edges; not the entry or the sink."""

    node: Id
    kind: Literal["remove_node"] = Field(default="remove_node", kw_only=True)


@_edit
class AddEdge:
    """Add an edge between two nodes."""

    source: Id
    target: Id
    kind: Literal["add_edge"] = Field(default="add_edge", kw_only=True)


@_edit
class RemoveEdge:
    """Remove an edge."""

    source: Id
    target: Id
    kind: Literal["remove_edge"] = Field(default="remove_edge", kw_only=True)


@_edit
class RewritePrompt:
    """Give an agent another prompt."""

    agent: Id
    prompt: str
    kind: Literal["rewrite_prompt"] = Field(default="rewrite_prompt", kw_only=True)


@_edit
class RewriteTool:
    """Swap one of an agent's tools; `old=None` gives it a tool, `new=None` takes one away."""

    agent: Id
    old: Id | None
    new: Id | None
    kind: Literal["rewrite_tool"] = Field(default="rewrite_tool", kw_only=True)


@_edit
class Remember:
    """Append a note to an agent's memory; the oldest note goes when the memory is full."""

    agent: Id
    note: str
    kind: Literal["remember"] = Field(default="remember", kw_only=True)


Edit = Annotated[
    AddAgent
    | RemoveAgent
    | ReplaceAgent
    | AddNode
    | RemoveNode
    | AddEdge
    | RemoveEdge
    | RewritePrompt
    | RewriteTool
    | Remember,
    Field(discriminator="kind"),
]
"""One change to a workflow."""


class Rewiring(FrozenModel):
    """A group of edits with its reason, applied all or not at all: `Rewiring(edit, ..., why="...")`.

    Args:
        why: the reason, shown in histories and diffs.
        operation: the method's name for the group, such as ADD_SERIAL.
        by: the agent, node or step that proposed it.
    """

    edits: tuple[Edit, ...] = Field(min_length=1)
    why: str
    operation: str = ""
    by: str = ""

    def __init__(self, *edits: Edit, **fields: Any) -> None:
        super().__init__(**({"edits": edits} if edits else {}), **fields)


class RefusedRewiring(FrozenModel):
    """A rewiring that was not applied, and why."""

    rewiring: Rewiring
    reason: str


def format_edit(edit: Edit) -> str:
    """An edit as short text, such as `AddEdge(plan, answer)`."""
    values = [value for name, value in vars(edit).items() if name != "kind" and not name.startswith("__")]
    return f"{type(edit).__name__}({', '.join(_short(value) for value in values)})"


def _short(value: object) -> str:
    text = value.id if isinstance(value, Agent) else " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:37]}..."


def format_rewiring(rewiring: Rewiring) -> str:
    """A rewiring in one line: operation, who asked, edits and reason."""
    operation = f"{rewiring.operation} " if rewiring.operation else ""
    by = f" by {rewiring.by}" if rewiring.by else ""
    return f"{operation}{', '.join(map(format_edit, rewiring.edits))}{by}: {rewiring.why}"

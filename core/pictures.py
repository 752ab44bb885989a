"""What a method shows of its rounds, and of what it has learned: plain data, which the page of a run draws."""

from typing import Literal

from pydantic import Field

from selfwire.core.values import FrozenModel, Id

Look = Literal["", "good", "bad", "new", "gone", "faint"]
"""How a cell, an entry or an edge looks: each has a colour and a sign of its own."""


class Cell(FrozenModel):
    """A cell of a table: a text, or a value as a bar with its number, or both."""

    text: str = ""
    value: float | None = None
    look: Look = ""


class Table(FrozenModel):
    """A table; the first cell of a row is its name.

    Args:
        note: how to read it.
        rows: a text stands for a cell with it, a number for a cell with a bar, None for an empty cell.
        largest: value of a full bar.
        mark: drawn as a line across all bars, such as a threshold.
        by_frame: whether the columns after the first are the picture's frames, in their order.
    """

    kind: Literal["table"] = "table"
    title: str
    note: str = ""
    columns: tuple[str, ...] = Field(min_length=1)
    rows: tuple[tuple[Cell | str | float | None, ...], ...]
    largest: float = Field(default=1.0, gt=0)
    mark: float | None = None
    by_frame: bool = False


class Entry(FrozenModel):
    """One text of a list.

    Args:
        depth: how far it is indented, from 0.
    """

    head: str
    text: str = ""
    look: Look = ""
    depth: int = Field(default=0, ge=0, le=6)


class TextList(FrozenModel):
    """Texts, each below its head."""

    kind: Literal["texts"] = "texts"
    title: str
    note: str = ""
    entries: tuple[Entry, ...]


class Match(FrozenModel):
    """A line between two texts, by their places among those on the left and on the right."""

    left: int = Field(ge=0)
    right: int = Field(ge=0)
    value: float | None = None
    look: Look = ""


class Matching(FrozenModel):
    """Texts on the left and on the right, with lines between those that belong together.

    Args:
        sides: what stands on the left, and what on the right.
        mark: drawn as a line across the bars of the values, such as a threshold.
    """

    kind: Literal["matching"] = "matching"
    title: str
    note: str = ""
    sides: tuple[str, str]
    left: tuple[Entry, ...]
    right: tuple[Entry, ...]
    matches: tuple[Match, ...]
    mark: float | None = None


Panel = Table | TextList | Matching


class DrawnNode(FrozenModel):
    """A node of a graph.

    Args:
        name: what stands in it, by default its id; one place may have another agent in every frame.
        agent: by default of the same id.
        caption: short, below its name.
        prompt: of an agent that is not in the team that the run began with.
        facts: what else is known of it, by name.
    """

    id: Id
    name: str = ""
    agent: Id | Literal[""] = ""
    caption: str = ""
    prompt: str = ""
    facts: dict[str, str] = Field(default_factory=dict)


class DrawnEdge(FrozenModel):
    """An edge of a graph; wider with more weight."""

    source: str
    target: str
    weight: float = Field(default=1.0, ge=0)


class Graph(FrozenModel):
    """The team of a frame: at least one node; edges between nodes that it has; "" for no entry or sink."""

    nodes: tuple[DrawnNode, ...] = Field(min_length=1)
    edges: tuple[DrawnEdge, ...] = ()
    entry: str = ""
    sink: str = ""


class Frame(FrozenModel):
    """A round or stage.

    Args:
        label: such as "Round 2".
        text: what came of it, in a sentence.
        tag: the same in a word or a number.
        graph: who worked with whom; None has it read off the steps.
    """

    label: str
    text: str = ""
    tag: str = ""
    graph: Graph | None = None
    panels: tuple[Panel, ...] = ()


class Picture(FrozenModel):
    """The rounds or stages of one question, and panels on all of them together."""

    frames: tuple[Frame, ...] = ()
    panels: tuple[Panel, ...] = ()

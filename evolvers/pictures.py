"""Values of the pictures on the page of a run: frames of panels, which are tables, texts and matchings."""

from typing import Literal

from pydantic import Field

from selfwire.core.values import FrozenModel, Id

Look = Literal["", "good", "bad", "new", "gone", "faint"]
"""Style of a cell, an entry or an edge; each has its own colour and sign."""


class Cell(FrozenModel):
    """A cell of a table: a text, a value drawn as a bar with its number, or both."""

    text: str = ""
    value: float | None = None
    look: Look = ""


class Table(FrozenModel):
    """A table; the first cell of a row is its name.

    Args:
        note: explanation for readers.
        rows: cells; a plain text is a text cell, a number a cell with a bar, None an empty cell.
        largest: value of a full bar.
        mark: value of a line across all bars, such as a threshold.
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
    """A text of a list.

    Args:
        depth: level of indentation, from 0.
    """

    head: str
    text: str = ""
    look: Look = ""
    depth: int = Field(default=0, ge=0, le=6)


class TextList(FrozenModel):
    """A list of texts, each below its head."""

    kind: Literal["texts"] = "texts"
    title: str
    note: str = ""
    entries: tuple[Entry, ...]


class Match(FrozenModel):
    """A line between a text on the left and a text on the right, given by their positions."""

    left: int = Field(ge=0)
    right: int = Field(ge=0)
    value: float | None = None
    look: Look = ""


class Matching(FrozenModel):
    """Texts on the left and on the right, with lines between those that belong together.

    Args:
        sides: headings of the left and the right side.
        mark: value of a line across the bars, such as a threshold.
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
        name: text shown in the node, by default its id; a node may have a different agent in every frame.
        agent: id of the agent, by default the node's id.
        caption: short text below the name.
        prompt: prompt of an agent that the run's first team did not have.
        facts: further texts by name.
    """

    id: Id
    name: str = ""
    agent: Id | Literal[""] = ""
    caption: str = ""
    prompt: str = ""
    facts: dict[str, str] = Field(default_factory=dict)


class DrawnEdge(FrozenModel):
    """An edge of a graph; a larger weight is drawn wider."""

    source: str
    target: str
    weight: float = Field(default=1.0, ge=0)


class Graph(FrozenModel):
    """The team of a frame: nodes and the edges between them; "" for no entry or sink."""

    nodes: tuple[DrawnNode, ...] = Field(min_length=1)
    edges: tuple[DrawnEdge, ...] = ()
    entry: str = ""
    sink: str = ""


class Frame(FrozenModel):
    """A round or stage.

    Args:
        label: such as "Round 2".
        text: the outcome in a sentence.
        tag: the outcome in a word or a number.
        graph: the agents and the messages between them; None reads them from the steps.
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

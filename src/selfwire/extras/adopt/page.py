"""The inventory of a program, and its printed page: a line for each thing, with its place."""

from collections.abc import Callable, Iterable
from textwrap import shorten
from typing import Any

from selfwire.core.values import FrozenModel, format_count, mask_controls
from selfwire.extras.adopt.inventory import (
    Opaque,
    ProgramAgent,
    ProgramEdge,
    ProgramInterrupt,
    ProgramModel,
    ProgramNode,
    ProgramText,
    ProgramTool,
    ProgramValue,
    Subgraph,
)

WIDTH = 72
"""Most characters of a text on the page."""
ENDS = {"__start__": "START", "__end__": "END"}


class Inventory(FrozenModel):
    """The static inventory of a program; `print` shows its page, and `model_dump_json()` is all of it.

    Attributes:
        compared: texts that the program compares with, and keys of its routers' mappings.
    """

    program: str
    files: tuple[str, ...]
    nodes: tuple[ProgramNode, ...] = ()
    edges: tuple[ProgramEdge, ...] = ()
    interrupts: tuple[ProgramInterrupt, ...] = ()
    subgraphs: tuple[Subgraph, ...] = ()
    agents: tuple[ProgramAgent, ...] = ()
    tools: tuple[ProgramTool, ...] = ()
    models: tuple[ProgramModel, ...] = ()
    values: tuple[ProgramValue, ...] = ()
    texts: tuple[ProgramText, ...] = ()
    opaque: tuple[Opaque, ...] = ()
    compared: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The counts of what was found."""
        things = ("nodes", "edges", "agents", "tools", "models", "texts", "opaque")
        counts = ", ".join(f"{len(getattr(self, thing))} {thing}" for thing in things)
        return f"<Inventory of {self.program}: {counts}; print it, or read .nodes, .texts, ...>"

    def __str__(self) -> str:
        """The page of `selfwire adopt`."""
        return format_inventory(self)


def format_inventory(inventory: Inventory) -> str:
    """Format an inventory for people: a line for each thing, and at the end the counts and the next command."""
    lines = [f"{inventory.program}: read from {format_count(len(inventory.files), 'file')}, nothing was run"]
    sections: dict[str, tuple[Iterable[Any], Callable[[Any], str]]] = {
        "nodes": (inventory.nodes, _describe_node),
        "edges": (inventory.edges, _describe_edge),
        "interrupts": (inventory.interrupts, lambda found: f"{_qualify(found.node, found.graph)}  ({found.kind})"),
        "subgraphs": (inventory.subgraphs, _describe_subgraph),
        "agents": (inventory.agents, _describe_agent),
        "tools": (inventory.tools, lambda tool: f"{tool.name}  ({tool.kind}) {_shorten(tool.description)}".rstrip()),
        "models": (inventory.models, _describe_model),
        "settings": (inventory.values, _describe_value),
        "texts": (inventory.texts, _describe_text),
        "opaque": (inventory.opaque, lambda thing: f"{thing.reason}; {thing.way_out}"),
    }
    for title, (things, describe) in sections.items():
        rows = [(f"{thing.file}:{thing.line}", describe(thing)) for thing in things]
        width = max((len(place) for place, _ in rows), default=0)
        lines += ["", title, *(f"  {place.ljust(width)}  {what}" for place, what in rows)] if rows else []
    return mask_controls("\n".join([*lines, "", _format_counts(inventory)]))


def _qualify(name: str, graph: str) -> str:
    name = ENDS.get(name, name)
    return f"{graph}/{name}" if graph else name


def _describe_node(node: ProgramNode) -> str:
    runs = "" if node.target in ("", node.name, node.kind) else f" {node.target}"
    return f"{_qualify(node.name, node.graph)}  ({node.kind}{runs})"


def _describe_edge(edge: ProgramEdge) -> str:
    ends = [ENDS.get(end, end) for end in edge.ends]
    listed = " | ".join([*ends, *([] if edge.complete else ["?"])])
    by = f" by {edge.router}" if edge.router else ""
    return f"{_qualify(edge.source, edge.graph)} -> {listed}  ({edge.kind}: {edge.shown_by}{by})"


def _describe_subgraph(found: Subgraph) -> str:
    how = "is node" if found.kind == "node" else "is called by node"
    return f"{found.name} {how} {_qualify(found.node, found.graph)}"


def _describe_agent(agent: ProgramAgent) -> str:
    tools = f"  tools: {', '.join(agent.tools)}" if agent.tools else ""
    models = f"  model: {' | '.join(agent.models)}" if agent.models else ""
    return f"{agent.name}  ({agent.maker}){models}{tools}"


def _describe_model(model: ProgramModel) -> str:
    return f"{model.maker}  {' | '.join(model.names) or 'name not in the source'}"


def _describe_value(value: ProgramValue) -> str:
    default = f" = {value.default}" if value.default else ""
    choices = f"  choices: {', '.join(value.choices)}" if value.choices else ""
    evolved = "  evolved" if value.spelled is not None else ""
    return f"{value.owner}.{value.name}{default}{choices}{evolved}"


def _describe_text(text: ProgramText) -> str:
    users = f"  [{', '.join(text.used_by)}]" if text.used_by else ""
    signal = f"  do not change: {text.signal}" if text.signal else ""
    keeps = f"  keep: {', '.join(text.keeps)}" if text.keeps else ""
    hindrance = f"  not evolved: {text.hindrance}" if text.hindrance else ""
    kind = f"{text.role} {text.kind}" if text.role in ("system", "user", "assistant") else text.kind
    return f"{kind}  {_shorten(format_text(text))!r}{users}{signal}{keeps}{hindrance}"


def format_text(text: ProgramText) -> str:
    """Format a text with its holes in braces."""
    holes = [f"{{{hole}}}" for hole in text.holes]
    return "".join(part for pair in zip(text.pieces, [*holes, ""], strict=False) for part in pair)


def _shorten(text: str) -> str:
    return shorten(text, WIDTH, placeholder="...") if len(text) > WIDTH or "\n" in text else text


def _format_counts(inventory: Inventory) -> str:
    data = sum(edge.kind == "data" for edge in inventory.edges)
    return (
        f"{format_count(len(inventory.texts), 'text')}, {format_count(data, 'edge')} as data and "
        f"{len(inventory.edges) - data} as code, {format_count(len(inventory.opaque), 'opaque thing')}; "
        f"measure it: selfwire eval {inventory.program} --benchmark TASKS.jsonl"
    )

"""The inventory of a program, and its printed page: a line for each thing, with its place."""

from collections.abc import Iterator
from textwrap import shorten

from selfwire.core.values import FrozenModel, format_count, mask_controls
from selfwire.extras.adopt.inventory import (
    Opaque,
    Placed,
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
    for title, rows in (
        ("nodes", _list_nodes(inventory)),
        ("edges", _list_edges(inventory)),
        ("interrupts", _list_interrupts(inventory)),
        ("subgraphs", _list_subgraphs(inventory)),
        ("agents", _list_agents(inventory)),
        ("tools", _list_tools(inventory)),
        ("models", _list_models(inventory)),
        ("settings", _list_values(inventory)),
        ("texts", _list_texts(inventory)),
        ("opaque", _list_opaque(inventory)),
    ):
        found = list(rows)
        if found:
            width = max(len(place) for place, _ in found)
            lines += ["", title, *(f"  {place.ljust(width)}  {what}" for place, what in found)]
    return mask_controls("\n".join([*lines, "", _format_counts(inventory)]))


def _format_place(thing: Placed) -> str:
    return f"{thing.file}:{thing.line}"


def _qualify(name: str, graph: str) -> str:
    name = ENDS.get(name, name)
    return f"{graph}/{name}" if graph else name


def _list_nodes(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for node in inventory.nodes:
        runs = "" if node.target in ("", node.name, node.kind) else f" {node.target}"
        yield _format_place(node), f"{_qualify(node.name, node.graph)}  ({node.kind}{runs})"


def _list_edges(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for edge in inventory.edges:
        yield _format_place(edge), f"{_qualify(edge.source, edge.graph)} -> {_format_ends(edge)}"


def _format_ends(edge: ProgramEdge) -> str:
    ends = [ENDS.get(end, end) for end in edge.ends]
    listed = " | ".join([*ends, *([] if edge.complete else ["?"])])
    by = f" by {edge.router}" if edge.router else ""
    return f"{listed}  ({edge.kind}: {edge.shown_by}{by})"


def _list_interrupts(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for found in inventory.interrupts:
        yield _format_place(found), f"{_qualify(found.node, found.graph)}  ({found.kind})"


def _list_subgraphs(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for found in inventory.subgraphs:
        how = "is node" if found.kind == "node" else "is called by node"
        yield _format_place(found), f"{found.name} {how} {_qualify(found.node, found.graph)}"


def _list_agents(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for agent in inventory.agents:
        tools = f"  tools: {', '.join(agent.tools)}" if agent.tools else ""
        models = f"  model: {' | '.join(agent.models)}" if agent.models else ""
        yield _format_place(agent), f"{agent.name}  ({agent.maker}){models}{tools}"


def _list_tools(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for tool in inventory.tools:
        yield _format_place(tool), f"{tool.name}  ({tool.kind}) {_shorten(tool.description)}".rstrip()


def _list_models(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for model in inventory.models:
        yield _format_place(model), f"{model.maker}  {' | '.join(model.names) or 'name not in the source'}"


def _list_values(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for value in inventory.values:
        default = f" = {value.default}" if value.default else ""
        choices = f"  choices: {', '.join(value.choices)}" if value.choices else ""
        evolved = "  evolved" if value.spelled is not None else ""
        yield _format_place(value), f"{value.owner}.{value.name}{default}{choices}{evolved}"


def _list_texts(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for text in inventory.texts:
        users = f"  [{', '.join(text.used_by)}]" if text.used_by else ""
        signal = f"  do not change: {text.signal}" if text.signal else ""
        keeps = f"  keep: {', '.join(text.keeps)}" if text.keeps else ""
        hindrance = f"  not evolved: {text.hindrance}" if text.hindrance else ""
        kind = f"{text.role} {text.kind}" if text.role in ("system", "user", "assistant") else text.kind
        yield _format_place(text), f"{kind}  {_shorten(format_text(text))!r}{users}{signal}{keeps}{hindrance}"


def format_text(text: ProgramText) -> str:
    """Format a text with its holes in braces."""
    holes = [f"{{{hole}}}" for hole in text.holes]
    return "".join(part for pair in zip(text.pieces, [*holes, ""], strict=False) for part in pair)


def _list_opaque(inventory: Inventory) -> Iterator[tuple[str, str]]:
    for thing in inventory.opaque:
        yield _format_place(thing), f"{thing.reason}; {thing.way_out}"


def _shorten(text: str) -> str:
    return shorten(text, WIDTH, placeholder="...") if len(text) > WIDTH or "\n" in text else text


def _format_counts(inventory: Inventory) -> str:
    data = sum(edge.kind == "data" for edge in inventory.edges)
    return (
        f"{format_count(len(inventory.texts), 'text')}, {format_count(data, 'edge')} as data and "
        f"{len(inventory.edges) - data} as code, {format_count(len(inventory.opaque), 'opaque thing')}; "
        f"measure it: selfwire eval {inventory.program} --benchmark TASKS.jsonl"
    )

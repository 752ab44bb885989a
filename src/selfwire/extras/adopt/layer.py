"""The texts of a program that can be evolved: prompts and descriptions of tools whose place in requests is known."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from selfwire.extras.adopt.graphs import END, START
from selfwire.extras.adopt.inventory import KINDS, ROLES, ProgramText
from selfwire.extras.adopt.page import Inventory
from selfwire.extras.adopt.reader import read_program
from selfwire.graphs.own_graph import AGENT
from selfwire.models.text_layer import SECTION, LayerText

NAME = re.compile(r"[^A-Za-z0-9]+")
FIELD = re.compile(r"(?<!\{)\{\w*\}(?!\})")
"""A hole of a template that is filled by `format`."""
DESCRIPTIONS = frozenset({"docstring", "tool description"})
"""Kinds of texts that describe a tool."""


def list_texts(name: str) -> list[LayerText]:
    """List what can be changed in a graph: prompts, descriptions of tools, and settings of its context.

    A prompt is named after the node or agent that sends it.

    Raises:
        ConfigError: the source of the graph cannot be read.
    """
    found, inventory = dict[str, LayerText](), read_program(name)
    for text, place in _list_places(inventory):
        users = (*found.get(text.name, text).users, *place.used_by)
        found[text.name] = text.replace(users=tuple(dict.fromkeys(users)))
    return [*_follow_prompts(inventory, found.values())]


def _follow_prompts(inventory: Inventory, texts: Collection[LayerText]) -> Iterator[LayerText]:
    """Note which prompts the program may send after each, through nodes that send none, and which at first."""
    ways, places = _list_ways(inventory), dict[tuple[str, str], list[str]]()
    routers = {f"router {edge.router}": edge for edge in inventory.edges if edge.router}
    for text in texts:
        nodes = [
            (n.graph, n.name) for n in inventory.nodes if f"node {f'{n.graph}/' * bool(n.graph)}{n.name}" in text.users
        ]
        nodes += [(edge.graph, edge.source) for user, edge in routers.items() if user in text.users]
        for place in nodes if text.is_prompt else ():
            places.setdefault(place, []).append(text.name)

    def find_next(starts: Sequence[tuple[str, str]]) -> list[str]:
        open_places, passed, found = [*starts], {*starts}, list[str]()
        while open_places:
            for place in ways.get(open_places.pop(0), ()):
                found += places.get(place, [""] * (place == ("", END)))
                if place not in passed and place not in places:
                    open_places.append(place)
                passed.add(place)
        return list(dict.fromkeys(found))

    first = find_next([("", START)])
    for text in texts:
        own = [place for place, names in places.items() if text.name in names]
        mates = {name for place in own for name in places[place]}
        after = tuple(name for name in find_next(own) if name not in mates)
        yield text.replace(leads_to=after, is_first=text.name in first) if text.is_prompt else text


def _list_ways(inventory: Inventory) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """List where each node of a program leads, with its graph: into the graphs inside it, and out of them behind it.

    Of several that its function calls, each leads to those that are called behind it. Where the source does not show
    all ends of a router, it leads to every node; a task leads to the others that its function calls.
    """
    ways = dict[tuple[str, str], list[tuple[str, str]]]()
    for edge in inventory.edges:
        inside = [node.name for node in inventory.nodes if node.graph == edge.graph]
        ends = edge.ends if edge.complete else (*edge.ends, *inside, END)
        ways.setdefault((edge.graph, edge.source), []).extend((edge.graph, end) for end in ends)
        for task in edge.ends if edge.shown_by == "call" else ():
            ways.setdefault((edge.graph, task), []).extend((edge.graph, end) for end in edge.ends if end != task)
    for graph in dict.fromkeys(node.graph for node in inventory.nodes):
        names = [node.name for node in inventory.nodes if node.graph == graph]
        ways.setdefault((graph, START), [(graph, names[0])])  # a function that calls the others
        for name in names:
            known = [edge for edge in inventory.edges if (edge.graph, edge.source) == (graph, name)]
            if all(edge.shown_by == "handoff" and edge.kind == "code" for edge in known):
                ways.setdefault((graph, name), []).append((graph, END))  # it may also answer
    for outer in dict.fromkeys((inner.graph, inner.node) for inner in inventory.subgraphs):
        behind = follows = ways.get(outer, [])
        for inner in reversed([known for known in inventory.subgraphs if (known.graph, known.node) == outer]):
            begin, is_call = (inner.name, START), inner.kind == "call"
            ways.setdefault((inner.name, END), []).extend(follows if is_call else behind)
            if begin in ways:
                follows = [begin, *(follows if is_call else ())]  # a call may be left out
        ways[outer] = follows
    return ways


def list_places(name: str) -> Iterator[tuple[LayerText, ProgramText]]:
    """List the texts of a graph with each of their places in its source, as `list_texts`.

    Descriptions of tools come behind prompts, and settings last.

    Of a description the text before its sections, such as `Args:`, is listed.
    """
    yield from _list_places(read_program(name))


def _list_places(inventory: Inventory) -> Iterator[tuple[LayerText, ProgramText]]:
    seen = dict[Any, LayerText]()
    described = dict[str, list[str]]()
    offered = [tool for tool in inventory.tools if tool.is_offered]  # none where others give a model its tools
    for known in offered or inventory.tools:  # a schema that is offered and what runs its calls may have one name
        described.setdefault(known.name, []).append(" ".join(known.description.split()))
    order = {f"node {node.name}": number for number, node in enumerate(inventory.nodes)}

    def find_place(text: ProgramText) -> tuple[bool, int]:
        first = min((order[user] for user in text.used_by if user in order), default=len(order))
        return bool(_find_tool(text, described)), first

    for text in sorted(inventory.texts, key=find_place):
        tool = _find_tool(text, described)
        if not tool and not _is_prompt(text):
            continue
        user = tool or text.marker or next(iter(text.used_by), "").partition(" ")[2] or text.name or "text"
        taken = {AGENT, *(known.name for known in seen.values())}
        pieces = (split_description(text.pieces[0])[0],) if tool else text.pieces
        found = LayerText.of(_make_name(user, taken), pieces, text.holes)
        if found is not None:
            # how a marked text is filled is not known, so its holes are words that it keeps
            keeps = (*text.keeps, *FIELD.findall(text.pieces[0])) if text.is_marked else text.keeps
            place = f"{text.file}:{text.line}"
            is_whole = text.is_short and not tool and not text.is_marked
            found = found.replace(keeps=keeps, place=place, tool=tool, is_marked=text.is_marked, is_whole=is_whole)
            yield seen.setdefault((found.pieces, bool(found.before), bool(found.after), tool), found), text
    named = {AGENT, *(known.name for known in seen.values())}
    for value in inventory.values:
        if value.spelled is not None:
            shown = next((known for known, written in value.spelled.items() if written == value.default), value.default)
            name = _make_name(value.name, named)
            named.add(name)
            setting = LayerText(
                name=name,
                pieces=(shown,),
                place=f"{value.file}:{value.line}",
                setting=value.name,
                choices=value.spelled,
            )
            yield (
                setting,
                ProgramText(
                    kind="setting",
                    name=value.name,
                    role="",
                    pieces=(shown,),
                    context_field=value.name,
                    file=value.file,
                    line=value.first,
                    end_line=value.last,
                    column=value.column,
                    end_column=value.end_column,
                ),
            )


def _is_prompt(text: ProgramText) -> bool:
    """Whether a text is a prompt that may change."""
    return text.kind in KINDS and text.role in ROLES and not text.signal and not text.hindrance


def _find_tool(text: ProgramText, described: Mapping[str, Sequence[str]]) -> str:
    """Find the tool that a text describes; "" if it describes none, or may not change.

    Args:
        described: descriptions by tool. A tool that asks an agent uses the descriptions of the agent's tools too.
    """
    if text.kind not in DESCRIPTIONS or text.holes or text.role != "schema" or text.signal or text.is_past:
        return ""
    tools = [user.removeprefix("tool ") for user in text.used_by if user.startswith("tool ")]
    words = " ".join(text.pieces[0].split())
    return next((tool for tool in tools if words in described.get(tool, ())), "")


def split_description(text: str) -> tuple[str, str]:
    """Split what describes a tool into the description, and sections such as `Args:` with white space before them."""
    found = SECTION.search(text)
    end = len(text[: found.start()].rstrip()) if found else len(text)
    return text[:end], text[end:]


def _make_name(user: str, taken: set[str]) -> str:
    stem = NAME.sub("-", user).strip("-")[:50] or "text"
    return next(
        name for number in range(1, 10_000) if (name := stem if number == 1 else f"{stem}-{number}") not in taken
    )

"""Reading of a program by the name of its graph."""

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import GRAPH_NAME
from selfwire.extras.adopt.code import ASKING, Code
from selfwire.extras.adopt.files import FOREIGN, find_module_file
from selfwire.extras.adopt.graphs import GraphReader, place_of
from selfwire.extras.adopt.inventory import Opaque, Placed, ProgramAgent, ProgramModel, ProgramText, ProgramTool
from selfwire.extras.adopt.kinds import AGENT_MAKERS, find_strings, read_known_strings, tell_kind
from selfwire.extras.adopt.names import Element, Outside, SourceFile, Surroundings, Traced
from selfwire.extras.adopt.page import Inventory
from selfwire.extras.adopt.prompt_files import (
    find_patterns,
    find_read,
    list_files,
    list_globbed,
    list_loaded,
    load_settled,
    read_whole,
)
from selfwire.extras.adopt.settings import list_values
from selfwire.extras.adopt.source import Program, open_program
from selfwire.extras.adopt.syntax import Function, get_keywords, get_last_name, is_text, show_path
from selfwire.extras.adopt.texts import BY_COMPUTED_NAME, TextDraft, is_marker, shorten_source

Thing = TypeVar("Thing", bound=Placed)
SETTINGS = re.compile(r"\b(environ|getenv)\b")
"""Names in a comparison with settings, which no model writes."""
EXECUTING = ("execute", "executemany", "executescript", "read_sql", "exec", "eval")
"""Functions that execute a text."""
SHORTEST = 3
"""Letters of a compared text from which on its place inside other texts is noted."""

OF_A_CLASS = "write graph = {}(...).FIELD, or .METHOD(), in a file of the program, and name that graph"
"""The way out where objects of a class make a graph."""
FRAMES = 4_000
"""Frames of Python that reading may take: a name that is bound anew a hundred times takes some 400."""


def read_program(name: str) -> Inventory:
    """Read the inventory of a program from its source; nothing of it is imported or run.

    Args:
        name: the graph, as `my_app.graph:graph` or `my_app/graph.py:graph`.

    Raises:
        ConfigError: the name is none, the file or the attribute is missing, or a file is no valid Python.
    """
    with allow_depth(name):
        graphs = read_graphs(name)
        markers = list(_list_markers(graphs.program))
        for call in markers:
            graphs.reader.ask(call.node.args[1], call.at, None, kind="marked", via="marker")
        users, _ = list_users(graphs)
        graphs.reader.follow_texts(users, _list_own(users), _list_entries(graphs))
        for call in _list_threads(graphs.program):
            graphs.note(
                call.node,
                call.at,
                "a thread of its own asks a model, where no other text can be put in its place",
                "use a ThreadPoolExecutor, or target=contextvars.copy_context().run with the function in args",
            )
        if not any(BY_COMPUTED_NAME in reason for _, reason, _ in graphs.reader.texts.opaque.values()):
            for call in _list_plugins(graphs.program):
                reason = f"texts may come from a module {BY_COMPUTED_NAME}: {shorten_source(call.node)}"
                graphs.note(call.node, call.at, reason, "import the module by a statement")
        return _make_inventory(name, graphs, {call.node.args[1]: call.node.args[0].value for call in markers})


@dataclass
class DepthLimit:
    """The limit of nested calls of the process: raised while any thread reads a program, and as it was after that."""

    lock: Lock = field(default_factory=Lock)
    readers: int = 0
    before: int = 0

    def enter(self) -> None:
        """Raise the limit for the first of those who read."""
        with self.lock:
            if not self.readers:
                self.before = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self.before, FRAMES))
            self.readers += 1

    def leave(self) -> None:
        """Restore the limit behind the last of those who read."""
        with self.lock:
            self.readers -= 1
            if not self.readers:
                sys.setrecursionlimit(self.before)


LIMIT = DepthLimit()


@contextmanager
def allow_depth(name: str) -> Iterator[None]:
    """Allow reading of a program to be nested deeply.

    Raises:
        ConfigError: it is nested more deeply than that.
    """
    LIMIT.enter()
    try:
        yield
    except RecursionError:
        raise ConfigError(
            f"the code of {name} is nested too deeply to be read; name a graph in a file with shorter expressions"
        ) from None
    finally:
        LIMIT.leave()


def _read_added_folders(program: Program) -> list[Traced]:
    """Read the modules in folders that the program puts on `sys.path`; returns the calls for others that it needs."""
    calls = [call for name in ("insert", "append") for call in program.calls.get(name, ()) if call.node.args]
    added = [call for call in calls if ast.unparse(call.node.func) in ("sys.path.insert", "sys.path.append")]
    paths = [(path, call) for call in added for path in find_patterns(program, call.node.args[-1], call.at)]
    folders = [(Path(path).resolve(), call) for path, call in paths if os.path.isdir(path)]  # False for what is no path
    named = [(folder, call) for folder, call in folders if not set(FOREIGN) & set(folder.parts)]
    inside = [folder for folder, _ in named if folder.is_relative_to(program.project)]
    roots = tuple(dict.fromkeys([*program.roots, *inside]))
    if roots != program.roots:
        program.roots, program.unread = roots, list(program.files.values())
        program.found = {key: file for key, file in program.found.items() if file is not None}
        program.read_imported()
        return _read_added_folders(program)  # those that the files of these add
    lost = [name.split(".") for (name, root), file in program.found.items() if file is None and not root]
    return [call for path, call in named if any(find_module_file(path, parts) for parts in lost)]


def read_graphs(name: str) -> GraphReader:
    """Read the graphs of a program, without following its texts; raises ConfigError as `read_program` does."""
    matched = GRAPH_NAME.fullmatch(name)
    if matched is None:
        team = "; team:NAME is a saved team, so name a module called team by its file, as team.py:graph"
        way_out = team if name.startswith("team:") else ""
        raise ConfigError(f"{name!r} names no graph; write it as my_app.graph:graph or my_app/graph.py:graph{way_out}")
    program, file = open_program(matched["module"])
    program.list_globbed = partial(list_globbed, program)
    program.list_loaded = partial(list_loaded, program)
    program.load_value = partial(load_settled, program)
    program.read_strings = partial(read_known_strings, program)
    outside = _read_added_folders(program)
    program.read_named_imports()
    graphs = GraphReader(program)
    for call in outside:
        reason = f"the modules in {shorten_source(call.node.args[-1])} are outside the program, and not read"
        graphs.note(call.node, call.at, reason, "run it from the folder of the whole project")
    _read_named(graphs, file, matched["name"])
    graphs.reader.read_pending()
    graphs.read_tool_interrupts()
    return graphs


def _list_markers(program: Program) -> Iterator[Traced]:
    """List the calls of `selfwire.text` in the files of a program."""
    return (call for call in program.calls.get("text", ()) if is_marker(program, call.node, call.at))


def _list_threads(program: Program) -> Iterator[Traced]:
    """List the calls of `threading.Thread(target=...)` whose target asks a model; they start without a context."""
    for call in [*program.calls.get("Thread", ()), *program.calls.get("Process", ())]:
        target = get_keywords(call.node).get("target")
        for found in program.trace(target, call.at) if target is not None else ():
            asked = [tree for tree in (target, found.function) if isinstance(tree, ast.AST)]
            if any(
                isinstance(part, ast.Attribute) and part.attr in ASKING for tree in asked for part in ast.walk(tree)
            ):
                yield call
                break


def _list_plugins(program: Program) -> Iterator[Traced]:
    """List the calls that import a module whose name the source does not show."""
    for call in filter(program.is_live, program.calls.get("import_module", ())):
        if call.node.args and not program.read_strings(call.node.args[0], call.at):
            yield call


def find_name(graph: object) -> str:
    """Find the name of a graph that a module of this process holds, as `read_program` takes it.

    A compiled graph that none holds, such as one with the checkpointer of a test, has the name of its builder.

    Raises:
        ConfigError: it is no graph, none holds it, or only one that has no file.
    """
    if not (hasattr(graph, "invoke") or hasattr(graph, "compile") or callable(graph)):
        raise ConfigError(
            f"give a graph, the function that makes it, or a name as 'my_app.graph:graph', not {graph!r:.200}"
        )
    modules = sorted([*sys.modules.values()], key=lambda module: getattr(module, "__name__", "") == "__main__")
    for wanted in filter(None, (graph, getattr(graph, "builder", None))):
        for module in modules:
            file = str(getattr(module, "__file__", None) or "")
            for name, value in [*getattr(module, "__dict__", {}).items()] if file.endswith(".py") else ():
                if value is wanted:
                    named = f"{show_path(Path(file))}:{name}"
                    return named if GRAPH_NAME.fullmatch(named) else f"{module.__name__}:{name}"
    raise ConfigError(
        f"no file shows where this {type(graph).__name__} was made; pass the function that makes it, or assign it to a "
        "name in a module, and pass that as 'my_app.graph:graph'"
    )


def _read_named(graphs: GraphReader, file: SourceFile, name: str) -> None:
    """Read the graph that an attribute of a file holds."""
    first, _, rest = name.partition(".")
    program = graphs.program
    names = file.top.names
    if first not in names.bound and "*" not in names.bound:
        raise ConfigError(_tell_missing(program, file, first))
    node: ast.expr = ast.Name(first, ast.Load())
    for part in filter(None, rest.split(".")):
        node = ast.Attribute(node, part, ast.Load())
    found = [kind for value in program.trace(node, file.top) for kind in _open_makers(program, value)]
    chosen = [value for kind, value in found if kind in ("graph", "agent")]
    for kind, value in found:
        agent = graphs.makers.read_agent(value) if kind == "agent" else None
        if agent is not None and not agent.is_named:
            agent.name = name.rpartition(".")[2]
    for value in names.bound.get(first, ()):
        if isinstance(value, Function):
            graphs.read_around(program.enter(value, file.top))
    for value in dict.fromkeys(chosen):
        graphs.read_graph(value, "")
    if not chosen:
        _read_other(graphs, file, first, found)


def _open_makers(program: Program, found: Traced) -> Iterator[tuple[str, Traced]]:
    """Tell the kinds of a value; of what it returns, where it is a function that makes a graph."""
    for kind, value in tell_kind(program, found):
        if kind == "function" and isinstance(value.node, Function):
            for returned in program.list_returned(value.node, value.at, {}, None, None):
                for inner in program.trace(returned.node, returned.at):
                    yield from tell_kind(program, inner)
            for given in _list_yielded(value.node):
                for inner in program.trace(given, program.enter(value.node, value.at)):
                    yield from tell_kind(program, inner)
        else:
            yield kind, value


def _list_yielded(function: Function) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Yield) and node.value is not None:
            yield node.value


def _tell_missing(program: Program, file: SourceFile, name: str) -> str:
    """Tell that a file has no such attribute, and which of its functions and classes make a graph."""
    bound = file.top.names.bound
    known = [other for other, values in bound.items() if _is_graph(program, values, file)]
    known.sort(key=lambda other: not any(isinstance(value, Function) for value in bound[other]))  # may be a node
    classes = [part.name for part in file.tree.body if isinstance(part, ast.ClassDef) and _makes_graph(part)]
    shown = show_path(file.path)
    if known:
        way_out = f"it has {', '.join(known)}; name an attribute that holds a graph, as {shown}:{known[-1]}"
    elif classes:
        way_out = f"methods of {', '.join(classes)} make one; {OF_A_CLASS.format(classes[-1])}"
    else:
        way_out = "no function and no class of it makes a graph; name the file of one that does"
    return f"{shown}:1 has no {name!r}; {way_out}"


def _is_graph(program: Program, values: list[Any], file: SourceFile) -> bool:
    """Whether a name holds a graph, or a function whose own lines make one."""
    if any(isinstance(value, Function) and _makes_graph(value) for value in values):
        return True
    kinds = [
        kind
        for value in values
        if isinstance(value, ast.expr)
        for found in program.trace(value, file.top)
        for kind, _ in tell_kind(program, found)
    ]
    return "graph" in kinds or "agent" in kinds


def _makes_graph(tree: ast.AST) -> bool:
    """Whether a function or a class has a call that makes a graph or an agent."""
    calls = (part for part in ast.walk(tree) if isinstance(part, ast.Call))
    return any(get_last_name(call.func) in ("StateGraph", *AGENT_MAKERS) for call in calls)


def _read_other(graphs: GraphReader, file: SourceFile, name: str, found: list[tuple[str, Traced]]) -> None:
    """Read what is no graph: a chain, a model or a function that asks one, as one node; else refuse it."""
    for kind, value in found:
        if kind in ("chain", "model", "partial"):
            graphs.add_runnable(name, kind, value)
            return
    bound = file.top.names.bound.get(name, [])
    line = next((value.lineno for value in bound if hasattr(value, "lineno")), 1)
    if all(isinstance(value.node, Outside | ast.Call | ast.Attribute) for _, value in found):
        node = next((value for value in bound if isinstance(value, ast.AST)), file.tree)
        reason, way_out = f"the source does not show the graph {name!r}; another package makes it", "itself"
        if not found and graphs.program.ended:
            reason, way_out = f"the graph {name!r} may be more than can be followed", "of fewer values"
        graphs.note(
            node if hasattr(node, "lineno") else ast.copy_location(ast.Pass(lineno=line, col_offset=0), node),
            file.top,
            reason,
            f"name a graph that this program builds {way_out}",
        )
        return
    way_out = "name a compiled graph, a StateGraph, an agent, or a function that makes one"
    if any(isinstance(value, ast.ClassDef) for value in bound):
        way_out = f"if its objects hold one, {OF_A_CLASS.format(name)}"
    raise ConfigError(f"{show_path(file.path)}:{line}: {name!r} is no graph; {way_out}")


# the inventory


def _make_inventory(name: str, graphs: GraphReader, marked: Mapping[Any, str]) -> Inventory:
    makers, texts = graphs.makers, graphs.reader.texts
    users, order = list_users(graphs)
    own = _list_own(users)
    compared = {**_list_compared(graphs.program), **graphs.mapping_keys}
    said = sorted({*compared, *makers.literals})
    signals = {**{node.name: "the name of a node" for node in graphs.nodes}, **compared, **graphs.signals}
    signals = {**_list_kept_under(graphs.program), **_list_executed(graphs.program), **signals}
    fields = graphs.find_context_fields()
    found = [
        _make_text(draft, users, own, order, signals, said).replace(
            context_field=fields.get(draft.node, ""), marker=marked.get(draft.node, "")
        )
        for draft in texts.drafts.values()
        if draft.is_alone or draft.users or any(users.get(unit) for unit in draft.units)
    ]
    return Inventory(
        program=name,
        files=tuple(sorted(show_path(path) for path in graphs.program.files)),
        nodes=tuple(dict.fromkeys(graphs.list_nodes())),
        edges=tuple(graphs.edges),
        interrupts=tuple(graphs.interrupts),
        subgraphs=tuple(dict.fromkeys(graphs.subgraphs)),
        agents=tuple(
            dict.fromkeys(
                ProgramAgent(
                    name=draft.name,
                    maker=draft.maker,
                    tools=tuple(draft.tools),
                    models=tuple(draft.models),
                    **place_of(draft.at.node, draft.at.at),
                )
                for draft in makers.list_agents()
            )
        ),
        tools=_sort(
            ProgramTool(
                name=draft.name,
                kind=draft.kind,
                description=draft.description,
                is_offered=draft.uses != {"run"},
                **place_of(*draft.at[:2]),
            )
            for draft in makers.tools.values()
        ),
        models=_sort(
            ProgramModel(maker=maker, names=names, **place_of(*at[:2])) for at, maker, names in makers.models.values()
        ),
        values=_sort(
            list_values(graphs.program, graphs.list_schemas(), {draft.node for draft in texts.drafts.values()})
        ),
        texts=tuple(sorted(found, key=lambda text: (text.file, text.line, text.column))),
        opaque=_sort(
            Opaque(reason=reason, way_out=way_out, **place_of(*at[:2])) for at, reason, way_out in texts.opaque.values()
        ),
        compared=tuple(said),
    )


def _sort(things: Iterable[Thing]) -> tuple[Thing, ...]:
    """Sort things by their places; what several calls make alike is there once."""
    return tuple(sorted(dict.fromkeys(things), key=lambda thing: (thing.file, thing.line)))


def list_users(graphs: GraphReader) -> tuple[dict[Code, list[str]], list[str]]:
    """List the nodes, routers, agents and tools that use a piece of code, and all of them in their order."""
    users: dict[Code, list[str]] = {}
    readers: dict[Code, list[str]] = {}  # of fields: what made the object beside them is not theirs
    order: list[str] = []

    def add(label: str, roots: list[Code | None]) -> None:
        order.append(label)
        for root in filter(None, roots):
            _add_user(users, root.list_reached(), label)
            _add_user(readers, root.list_reached(enters_init=False), label)

    for node in graphs.nodes:
        name = f"{node.graph}/{node.name}" if node.graph else node.name
        add(f"node {name}", [node.code, node.action])
    for name, code in graphs.routers:
        add(f"router {name}", [code])
    for agent in graphs.makers.list_agents():
        add(f"agent {agent.name}", [agent.code])
    for tool in graphs.makers.tools.values():
        add(f"tool {tool.name}", [tool.docs, tool.body])
    for made in users:
        made.is_setup = made.is_init or made not in readers
    return {**users, **readers}, order


def _add_user(users: dict[Code, list[str]], reached: Iterable[Code], label: str) -> None:
    for code in reached:
        labels = users.setdefault(code, [])
        if label not in labels:
            labels.append(label)


def _list_entries(graphs: GraphReader) -> set[Any]:
    """List the functions of nodes, routers and tools."""
    codes = [node.code for node in graphs.nodes] + [code for _, code in graphs.routers]
    codes += [tool.body for tool in graphs.makers.tools.values()]
    return {code.owner for code in codes if code is not None}


def _list_own(users: Mapping[Code, Sequence[str]]) -> set[Code]:
    """List the pieces of code that their users have to themselves, as far as that is known.

    Of a function that is made in a loop, each user has a piece with what its round passes, beside a common one. What
    the `__init__` of an object that several users share puts into a field is a piece of those that read the field.
    """
    most: dict[tuple[Any, str], int] = {}
    for code, labels in users.items():
        for label in labels:
            parts = label.split("/")  # what a node of a subgraph uses, the node of the subgraph uses by it
            for whole in ("/".join(parts[: number + 1]) for number in range(len(parts))):
                most[code.owner, whole] = max(code.passes, most.get((code.owner, whole), 0))
    shared = {code for code, labels in users.items() if len(labels) > 1 and code.is_setup}
    own = {code for code, labels in users.items() if any(code.passes == most[code.owner, label] for label in labels)}
    return own - shared


def _make_text(
    draft: TextDraft,
    users: dict[Code, list[str]],
    own: set[Code],
    order: list[str],
    signals: dict[str, str],
    said: list[str],
) -> ProgramText:
    early = (label for unit in own.intersection(draft.units) or draft.units for label in users.get(unit, ()))
    used = sorted({*draft.users, *early}, key=order.index)
    line, end_line, column, end_column = draft.place
    whole = "".join(draft.pieces)
    signal = "" if draft.holes else signals.get(whole.strip(), "")
    keeps = [] if signal else [word for word in said if _must_keep(whole, word)]
    return ProgramText(
        kind=draft.kind,
        name=draft.name,
        role=draft.roles[0] if draft.roles else "",
        pieces=draft.pieces,
        holes=draft.holes,
        used_by=tuple(used),
        signal=signal,
        keeps=tuple(keeps),
        is_past="client" in draft.vias and not {"model", "marker"} & draft.vias,
        is_marked="marker" in draft.vias and "model" not in draft.vias,
        is_whole=draft.is_whole,
        file=show_path(draft.path),
        line=line,
        end_line=end_line,
        column=column,
        end_column=end_column,
    )


def _must_keep(text: str, word: str) -> bool:
    """Whether a text asks for a word that the program compares with.

    A word of small letters, or with a capital at its start, is asked for where it stands in quotes: as `yes` in
    "answer 'yes' or 'no'".
    """
    if len(word) < SHORTEST or word not in text:
        return False
    if word.isalpha() and word[1:] == word[1:].lower():
        return re.search(rf"['\"`<*]{re.escape(word)}['\"`>*]", text) is not None
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", text) is not None


def _list_compared(program: Program) -> dict[str, str]:
    """Find the texts that the program compares with, and where."""
    found: dict[str, str] = {}
    for file in program.files.values():
        for node in file.nodes:
            if node is not file.tree and program.parents.get(node) is None:
                continue  # below `if __name__ == "__main__"`
            for text in _list_compared_texts(program, node, file.top):
                found.setdefault(text, f"compared at {show_path(file.path)}:{getattr(node, 'lineno', 1)}")
    return found


def _list_kept_under(program: Program) -> dict[str, str]:
    """Find the texts of a namespace or a key under which the program keeps something in a store, and where."""
    found: dict[str, str] = {}
    for call in (call for name in ("put", "aput") for call in program.calls.get(name, ()) if len(call.node.args) > 2):
        for value in (value for part in call.node.args[:2] for value in program.trace(part, call.at)):
            for part in value.node.elts if isinstance(value.node, ast.Tuple) else [value.node]:
                if is_text(part):
                    place = f"{show_path(call.at.file.path)}:{call.node.lineno}"
                    found.setdefault(part.value.strip(), f"names what is stored at {place}")
    return found


def _list_executed(program: Program) -> dict[str, str]:
    """Find the texts that the program executes, such as the schema of a database, and where."""
    found: dict[str, str] = {}
    for call in (call for name in EXECUTING for call in program.calls.get(name, ())):
        for value in (value for part in call.node.args[:1] for value in program.trace(part, call.at)):
            texts = [value.node.value] if is_text(value.node) else []
            read = find_read(program, value.node, value.at) if isinstance(value.node, ast.Call) else None
            files = map(read_whole, list_files(program, *read)) if read is not None else ()
            for text in (*texts, *(file.text for file in files if file is not None)):
                found.setdefault(text.strip(), f"executed at {show_path(call.at.file.path)}:{call.node.lineno}")
    return found


def _list_compared_texts(program: Program, node: ast.AST, at: Surroundings) -> Iterator[str]:
    parts: list[Any] = []
    if isinstance(node, ast.Compare) and not SETTINGS.search(ast.unparse(node)):
        for operator, side in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
                parts += [node.left, side]
    elif isinstance(node, ast.MatchValue):
        parts = [node.value]
    elif isinstance(node, ast.Call) and get_last_name(node.func) in (
        "startswith",
        "endswith",
        "find",
        "index",
        "count",
    ):
        parts = list(node.args[:1])
    for part in parts:
        for inner in part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]:
            if is_text(inner):
                yield inner.value
            elif isinstance(inner, ast.Name | ast.Attribute | ast.Subscript):
                yield from _list_named_constants(program, inner, at)


def _list_named_constants(program: Program, node: ast.expr, at: Surroundings) -> Iterator[str]:
    """Find the texts of a constant of the module or of another that a comparison names, or of those in a loop."""
    name = node.id if isinstance(node, ast.Name) else get_last_name(getattr(node, "value", None))
    if not name:
        return
    if name not in at.names.bound or isinstance(node, ast.Subscript):
        at = program.find_surroundings(node, at)
        if not any(isinstance(value, Element) and value.loop for value in at.names.bound.get(name, ())):
            return
    for found in program.trace(node, at):
        if isinstance(found.node, ast.Tuple | ast.List | ast.Set):
            for part in found.node.elts:
                yield from find_strings(program, part, found.at).values
        elif is_text(found.node):
            yield found.node.value

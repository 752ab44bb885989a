"""Kinds of values in a program: graphs, agents, models, prompts and tools, told by the calls that make them.

It gets what `source` has traced, and tells all others the kind of it, and the texts that it may be.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from os.path import splitext
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.extras.adopt import prompt_files
from selfwire.extras.adopt.names import Argument, BoundMethod, Element, Instance, Outside, Surroundings, Traced
from selfwire.extras.adopt.source import Program, end_circles
from selfwire.extras.adopt.syntax import (
    Function,
    get_keywords,
    get_last_name,
    is_path,
    is_text,
    list_assignments,
    list_decorators,
    parse_expression,
    read_key,
)

BUILDERS = ("StateGraph", "MessageGraph", "Graph")
BUILDING = (
    "add_node",
    "add_edge",
    "add_conditional_edges",
    "add_sequence",
    "set_entry_point",
    "set_finish_point",
    "set_conditional_entry_point",
)
"""Methods of a builder; each returns the builder."""
AGENT_MAKERS = (
    "create_agent",
    "create_react_agent",
    "create_supervisor",
    "create_swarm",
    "create_deep_agent",
    "async_create_deep_agent",
)
SAME_GRAPH = ("compile", "with_config", "with_retry", "with_types", *BUILDING)
SAME_MODEL = (
    "bind_tools",
    "with_structured_output",
    "bind",
    "with_retry",
    "with_fallbacks",
    "with_config",
    "configurable_fields",
    "configurable_alternatives",
    "partial",
)
MODEL = re.compile(r"\w*Chat\w*|init_chat_model|OpenAI|AzureOpenAI|OllamaLLM|HuggingFaceEndpoint|BedrockLLM|VertexAI")
NO_MODEL = re.compile(r"\w*(Template|Message|History|Memory|Prompt|Generation|Result|Chunk|Session|Request|Loader)")
PROMPT = re.compile(r"\w*PromptTemplate|from_messages|from_template|from_file|MessagesPlaceholder")
CHANGES = {
    **dict.fromkeys(("lower", "upper", "title", "capitalize", "strip", "lstrip", "rstrip"), 0),
    **{"removeprefix": 1, "removesuffix": 1, "replace": 2},
}
"""Methods of texts that make a name of another, by the number of texts that they need."""
ENDS = {"START": "__start__", "END": "__end__"}
MOST = 64
"""Most values of a computed name."""


class Strings(NamedTuple):
    """The texts that an expression may be, and whether these are all."""

    values: tuple[str, ...]
    complete: bool


@end_circles(list[tuple[str, Traced]]())
def find_kinds(program: Program, node: Any, at: Surroundings) -> list[tuple[str, Traced]]:
    """Find the kinds of the values that an expression may stand for."""
    return [told for found in program.trace(node, at) for told in tell_kind(program, found)]


def tell_kind(program: Program, found: Traced) -> Iterator[tuple[str, Traced]]:
    """Tell the kind of a traced value: graph, agent, model, prompt, chain, tool, tools, function, object, ..."""
    node = found.node
    if isinstance(node, ast.Call):
        yield from _tell_call(program, found)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield "chain", found
    elif isinstance(node, Function | BoundMethod):
        yield _tell_function(found.function), found
    elif isinstance(node, Instance):
        made_of = Traced(node.of, found.at)
        is_builder = has_base(program, made_of, BUILDERS)
        yield "graph" if is_builder else "tool" if is_tool_class(program, made_of) else "object", found
    elif isinstance(node, ast.ClassDef):
        yield "class", found
    elif isinstance(node, ast.Dict | ast.List | ast.Tuple):
        yield "collection", found
    else:
        yield {Outside: "outside", Argument: "argument"}.get(type(node), "unknown"), found


def _tell_function(function: Any) -> str:
    decorated = list_decorators(function)
    if "tool" in decorated:
        return "tool"
    return "graph" if "entrypoint" in decorated else "function"


def _tell_call(program: Program, found: Traced) -> Iterator[tuple[str, Traced]]:
    call, name = found.node, get_last_name(found.node.func)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if name == "super":
        for me, _ in filter(None, [program.find_self(found.at)]):
            yield from tell_kind(program, me)
    elif name in ("RunnableLambda", "partial") and call.args:
        yield from _tell_wrapped(program, found, name)
    elif owner is not None and name in (*SAME_GRAPH, *SAME_MODEL):
        yield from find_kinds(program, owner, found.at)
    elif name == "from_function" and owner is not None:
        yield "tool", found
    elif MODEL.fullmatch(name) and not NO_MODEL.fullmatch(name):
        yield "model", found
    elif PROMPT.fullmatch(name):
        yield "prompt", found
    else:
        yield MADE.get(name, "retriever" if "retriever" in name.lower() else "unknown"), found


MADE = {
    **dict.fromkeys(BUILDERS, "graph"),
    **dict.fromkeys(AGENT_MAKERS, "agent"),
    **dict.fromkeys(("pipe", "RunnableSequence", "assign", "RunnableParallel"), "chain"),
    **dict.fromkeys(("StructuredTool", "Tool", "tool", "create_retriever_tool", "create_handoff_tool"), "tool"),
    "ToolNode": "tools",
}
"""The kind of what a function or class makes, by its name."""


def _tell_wrapped(program: Program, found: Traced, name: str) -> Iterator[tuple[str, Traced]]:
    owner = found.node.func
    if name == "partial" and isinstance(owner, ast.Attribute) and get_last_name(owner.value) != "functools":
        yield from find_kinds(program, owner.value, found.at)
        return
    for kind, inner in find_kinds(program, found.node.args[0], found.at):
        yield "partial" if kind == "function" and name == "partial" else kind, inner


def is_tool_class(program: Program, found: Traced) -> bool:
    """Whether a class of the program is a tool."""
    return has_base(program, found, ("BaseTool", "StructuredTool"))


def has_base(program: Program, found: Traced, names: tuple[str, ...]) -> bool:
    """Whether a class has, directly or not, a base class of one of some names."""
    return any(name in names for name in list_outside_bases(program, found))


def list_outside_bases(program: Program, found: Traced) -> Iterator[str]:
    """List the names of the base classes of others that a class has, directly or not."""
    bases = (base.node for of in program.list_mro(found) for base in program.list_bases(of))
    return (base.name.rpartition(".")[2] for base in bases if isinstance(base, Outside))


@end_circles(Strings((), False))
def find_strings(program: Program, node: Any, at: Surroundings) -> Strings:
    """Find the texts that an expression may be: names of nodes, of models, ends of edges."""
    known = (found for found in program.trace(node, at) if not isinstance(found.node, Argument))
    read = unite_strings(_read_string(program, found) for found in known)
    return read._replace(complete=read.complete and bool(read.values))


def unite_strings(parts: Iterable[Strings]) -> Strings:
    """Unite the texts that several expressions may be."""
    read = [*parts]
    return Strings(tuple(dict.fromkeys(text for part in read for text in part.values)), all(p.complete for p in read))


def read_known_strings(program: Program, node: ast.expr, at: Surroundings) -> tuple[str, ...]:
    """Read the texts that an expression may be; () if there may be others."""
    read = find_strings(program, node, at)
    return read.values if read.complete else ()


def _read_string(program: Program, found: Traced) -> Strings:
    node = found.node
    if is_text(node):
        return Strings((node.value,), True)
    if isinstance(node, ast.Constant):
        return Strings((), True)
    if isinstance(node, Outside):
        end = ENDS.get(node.name.rpartition(".")[2])
        return Strings((end,) if end else (), end is not None)
    if isinstance(node, ast.Attribute):
        return _read_attribute(program, node, found.at)
    if isinstance(node, ast.Subscript):
        return _read_item(program, node, found.at)
    if isinstance(node, Element) and not node.loop and isinstance(node.source, ast.Call):
        return find_strings(program, node.source, found.at)
    if isinstance(node, ast.JoinedStr):
        return _read_f_string(program, node, found.at)
    if isinstance(node, ast.Call):
        return _read_call(program, node, found.at)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _combine([find_strings(program, node.left, found.at), find_strings(program, node.right, found.at)])
    return Strings((), False)


def _read_item(program: Program, node: ast.Subscript, at: Surroundings) -> Strings:
    """Read an item of a YAML, JSON or TOML file of the program, or `splitext(name)[0]`."""
    if isinstance(node.value, ast.Call) and get_last_name(node.value.func) == "splitext" and read_key(node.slice) == 0:
        read = find_strings(program, node.value.args[0], at)
        return read._replace(values=tuple(splitext(text)[0] for text in read.values))
    loaded = prompt_files.find_loaded(program, node, at)
    opened = prompt_files.find_loaded_path(program, *loaded[0][:2]) if loaded else None
    texts = prompt_files.read_loaded(program, opened, loaded[1]) if loaded and opened else None
    return Strings(tuple(text.text for text in texts or ()), bool(texts))


def _read_call(program: Program, node: ast.Call, at: Surroundings) -> Strings:
    """Read the default of an environment variable, or the text that a call changes but little."""
    if is_environment(node):
        default = find_strings(program, node.args[1], at) if len(node.args) > 1 else Strings((), False)
        return default._replace(complete=False)
    if node.args and get_last_name(node.func) in ("str", "cast"):
        return find_strings(program, node.args[-1], at)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "split":
        return find_strings(program, node.func.value, at)
    if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        return _change_names(program, node.func, node.args, at)
    return Strings((), False)


def _change_names(program: Program, func: ast.Attribute, args: list[ast.expr], at: Surroundings) -> Strings:
    """Read `name.upper()` and its like."""
    given = [part.value for part in args if is_text(part)]
    if len(given) != len(args) or (args and len(args) != CHANGES[func.attr]):
        return Strings((), False)
    read = find_strings(program, func.value, at)
    return read._replace(values=tuple(dict.fromkeys(getattr(text, func.attr)(*given) for text in read.values)))


def is_environment(node: ast.Call) -> bool:
    """Whether a call reads an environment variable."""
    owner = get_last_name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    return get_last_name(node.func) == "getenv" or owner == "environ"


def _read_attribute(program: Program, node: ast.Attribute, at: Surroundings) -> Strings:
    """Read the value of an Enum's member, or the name of a function, of an agent or of a file."""
    if node.attr == "value":
        return find_strings(program, node.value, at)
    names: list[str] = []
    for found in program.trace(node.value, at) if node.attr in ("__name__", "name", "stem") else ():
        if is_path(found.node):
            names.append(getattr(Path(found.node.args[0].value), node.attr, ""))
            continue
        if given := find_given_name(program, found):
            names.append(given)
            continue
        if isinstance(found.function, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(found.function.name)
        elif isinstance(found.node, ast.Call) and "name" in (named := get_keywords(found.node)):
            names += find_strings(program, named["name"], found.at).values
    return Strings(tuple(names), bool(names))


def find_given_name(program: Program, found: Traced) -> str:
    """Find the name that a program gives a function by `function.__name__ = name`; "" if it gives none."""
    is_function = isinstance(found.node, ast.FunctionDef) and "__name__" in program.replaced
    for statement in getattr(found.at.owner, "body", ()) if is_function else ():
        for target, value in list_assignments(statement):
            owner = get_last_name(target.value) if isinstance(target, ast.Attribute) else ""
            if get_last_name(target) == "__name__" and owner == found.node.name:
                return "".join(find_strings(program, value, found.at).values[:1])
    return ""


def _read_f_string(program: Program, node: ast.JoinedStr, at: Surroundings) -> Strings:
    values = [part.value if isinstance(part, ast.FormattedValue) else part for part in node.values]
    return _combine([find_strings(program, value, at) for value in values])


def _combine(parts: list[Strings]) -> Strings:
    if not all(part.complete for part in parts):
        return Strings((), False)
    chosen = [*islice(product(*(part.values for part in parts)), MOST + 1)]
    return Strings(tuple(map("".join, chosen[:MOST])), len(chosen) <= MOST)


def open_starred(program: Program, parts: Sequence[ast.expr], at: Surroundings) -> Iterator[Traced]:
    """Iterate over arguments or elements, and over those of `*parts`."""
    for part in parts:
        if isinstance(part, ast.Starred):
            inner = (found for value in program.trace(part.value, at) for found in program.iterate(value))
            yield from (found for found in inner if isinstance(found, Traced))
        else:
            yield Traced(part, at)


def find_literals(program: Program, annotation: ast.expr | None, at: Surroundings) -> tuple[str, ...]:
    """Find the values of `Literal[...]` in an annotation, through aliases and `Command[Literal[...]]`."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = parse_expression(annotation.value)
    if annotation is None:
        return ()
    if isinstance(annotation, ast.Name | ast.Attribute):
        found = [value for value in program.trace(annotation, at) if isinstance(value.node, ast.Subscript | ast.BinOp)]
        return tuple(text for value in found for text in find_literals(program, value.node, value.at))
    if isinstance(annotation, ast.BinOp):
        return (*find_literals(program, annotation.left, at), *find_literals(program, annotation.right, at))
    if isinstance(annotation, ast.Subscript):
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        if get_last_name(annotation.value) == "Literal":
            listed = open_starred(program, parts, at)
            return tuple(text for value in listed for text in find_strings(program, value.node, value.at).values)
        return tuple(text for part in parts for text in find_literals(program, part, at))
    return ()

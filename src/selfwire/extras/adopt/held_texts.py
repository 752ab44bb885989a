"""Texts that an expression holds, whatever is done with them: those that no rule of `texts` leads to are opaque."""

import ast
import builtins
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from selfwire.extras.adopt.kinds import find_kinds
from selfwire.extras.adopt.names import Argument, BoundMethod, Element, Instance, Outside, Surroundings, Traced
from selfwire.extras.adopt.source import Program
from selfwire.extras.adopt.syntax import CUTTING, Function, get_last_name, is_text, list_decorators, show_path
from selfwire.extras.adopt.texts import TextFinder, count_characters, get_outside_maker, shorten_source

HOLDING = frozenset(
    "collections contextlib copy dataclasses dict enum functools heapq html inspect itertools jinja2 langchain_core "
    "list operator pprint random re str string textwrap types typing".split()
)
"""Modules and classes whose functions return what they are given, in another form."""
DEVICES = frozenset(
    "open input print __import__ len bool int float any all hash id isinstance issubclass hasattr callable".split()
)
"""Functions of Python whose result has nothing of what they are given."""
COUNTING = ("index", "rindex", "find", "rfind", "count", "startswith", "endswith")
"""Methods of texts and lists that give a number, a truth or a place."""
MARKED = ("replace", "removeprefix", "removesuffix", "get", "pop", *CUTTING)
"""Methods whose first argument is a mark or a key."""
SCHEMAS = ("get_format_instructions", "model_json_schema", "schema_json")
"""Methods that write a schema, which has been read."""
VALIDATING = ("parse", "aparse", "parse_obj", "model_validate", "model_validate_json", "validate_python")
"""Methods that make an object of a class of pydantic."""
RUNNING = ("invoke", "ainvoke", "run", "arun", "batch", "abatch", *VALIDATING)
"""Methods that run tools or validators."""
NAMING = ("id", "name", "additional_kwargs", "response_metadata", "key")
"""Keywords whose values are no part of what a call returns: names of messages, and what sorts."""
SHOWN = (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Dict, ast.List, ast.Tuple, ast.ClassDef, Instance)
"""Expressions whose methods may return what they are made of or given."""
SEVERAL = re.compile(r"[^\W\d_]{2}\W*\s\W*[^\W\d_]{2}")
"""Two words side by side, as no name, number or format has."""


def note_held(texts: TextFinder) -> None:
    """Note as opaque the texts of several words that models are asked and that no rule has found."""
    known = dict[tuple[Path, int], list[tuple[int, int]]]()  # columns from and to which a line is known
    places = [(draft.path, *draft.place) for draft in texts.drafts.values()]
    for (path, line), (found, *_) in texts.opaque.items():
        places.append((path, line, found.node.end_lineno or line, 0, sys.maxsize))
    for path, line, end_line, column, end_column in places:
        for number in range(line, end_line + 1):
            span = (column if number == line else 0, end_column if number == end_line else sys.maxsize)
            known.setdefault((path, number), []).append(span)
    added = dict[Any, list[Traced]]()
    for owner, value in texts.program.added:
        for found in texts.program.trace(*owner[:2]):
            added.setdefault(found.node, []).append(value)
    for left in texts.left.values():
        lines = dict[tuple[str, int], Traced]()
        for text in list_held(texts, left, added):
            path, line = text.at.file.path, text.node.lineno
            spans = known.setdefault((path, line), [])
            column = count_characters(text.at.file.lines, line, text.node.col_offset)
            if not any(first <= column < last for first, last in spans):
                spans.append((column, column + 1))
                lines.setdefault((show_path(path), line), text)
        if lines:
            shown = left if hasattr(left.node, "lineno") else next(iter(lines.values()))
            way = f"reaches a model is not followed: {shorten_source(shown.node)}"
            way_out = "hand it over as it is, or by +, an f-string, join or format"
            where = ", ".join(f"{file}:{line}" for file, line in sorted(lines))
            texts.note(*shown[:2], f"how the text at {where} {way}", way_out)


def list_held(texts: TextFinder, left: Traced, added: Mapping[Any, Sequence[Traced]]) -> Iterator[Traced]:
    """List the texts of several words that an expression holds; `added` is what code adds to collections."""
    pending, seen = [left], set[Any]()
    while pending:
        found = pending.pop()
        node, key = found.node, (found.node, found.at.key)
        if key not in seen:
            seen.add(key)
            pending += [*added.get(node, ()), *open_whole(texts, *found[:2])]
            if isinstance(node, ast.Constant) and hasattr(node, "lineno") and SEVERAL.search(str(node.value)):
                yield found


def open_whole(texts: TextFinder, node: Any, at: Surroundings) -> list[Traced]:
    """List all that a value may be made of."""
    program = texts.program
    if node in program.cut_from:
        return [program.cut_from[node]]
    if isinstance(node, Function | BoundMethod):
        function = node.function if isinstance(node, BoundMethod) else node
        return [*program.list_returned(function, at, {}, None, None)]
    if isinstance(node, Argument):  # which a decorator may pass
        decorators = getattr(node.function, "decorator_list", ())
        return [Traced(part, at) for call in decorators for part in list_given(call)]
    if isinstance(node, Instance):  # how it is written is up to methods such as `__str__`
        methods = (part for part in node.of.body if isinstance(part, Function) and part.name.startswith("__"))
        passed = [Traced(part, node.made_in) for part in list_given(node.call)] if node.made_in is not None else []
        return [*passed, *(Traced(part, program.enter(node.of, at)) for part in methods)]
    if isinstance(node, ast.ClassDef):
        values = (part.value for part in node.body if isinstance(part, ast.Assign | ast.AnnAssign))
        return [Traced(value, program.enter(node, at)) for value in values]
    if isinstance(node, Element):
        return [Traced(node.source, at)]
    if not isinstance(node, ast.expr):
        return []
    if isinstance(node, ast.Attribute) and (members := [*list_members(texts, node, at)]):
        return members
    known, parts = program.trace(node, at), list[ast.expr]()
    bound = program.look_up(node.id, at) if isinstance(node, ast.Name) else ()
    loops = [found for found in bound if isinstance(found.node, Element)]
    if not known or any(found.node is node or isinstance(found.node, Outside) for found in known):
        parts = list_taken_in(texts, node, at) if isinstance(node, ast.Call) else list_within(node)
    return [*known, *loops, *list_raised(texts, node), *(Traced(part, at) for part in parts)]


def list_members(texts: TextFinder, node: ast.Attribute, at: Surroundings) -> Iterator[Traced]:
    """List what an attribute may be of an object that is kept in the state, a method of it too."""
    for base in (Traced(node.value, at), *texts.program.trace(node.value, at)):
        field = getattr(base.node, "slice", None) if isinstance(base.node, ast.Subscript) else None
        name = field.value if is_text(field) else getattr(base.node, "attr", None)
        if name in texts.writes and texts.is_state(base.node.value, base.at):
            for written in texts.writes[name]:
                for made in texts.program.trace(*written[:2]):
                    yield from texts.program.get_member(made, node.attr)


def list_taken_in(texts: TextFinder, call: ast.Call, at: Surroundings) -> list[ast.expr]:
    """List what may be a part of what a call returns: nothing where a model, another package or a device gives that."""
    name, called = get_last_name(call.func), texts.program.trace(call.func, at)
    makers = {*filter(None, (get_outside_maker(texts.program, found) for found in called))}
    packages = {maker.partition(".")[0] for maker in makers if "." in maker}
    if packages - HOLDING or makers & DEVICES or name in SCHEMAS or texts.is_reply(call, at):
        return []
    if isinstance(call.func, ast.Attribute) and name in COUNTING and not makers:
        return []
    if not makers and isinstance(call.func, ast.Attribute) and not hasattr(str, name):
        owners = texts.program.trace(call.func.value, at)
        if not any(isinstance(found.node, SHOWN) for found in owners):
            return [call.func] if any(list_members(texts, call.func, at)) else []
    is_marked = f"re.{name}" in makers or (name in MARKED and "re" not in packages)
    return [call.func, *list_given(call)[is_marked:]]


def list_given(call: ast.expr | None) -> list[ast.expr]:
    """List what a call passes, but for what names an object; nothing for another expression."""
    if not isinstance(call, ast.Call):
        return []
    return [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg not in NAMING)]


def list_within(node: ast.expr) -> list[ast.expr]:
    """List the parts of an expression that may become a part of its value: no tests, keys and indices."""
    keys = node.keys if isinstance(node, ast.Dict) else []
    skipped = {*keys, *(getattr(node, name, None) for name in ("test", "slice", "key"))}
    parts = [] if isinstance(node, ast.Compare) else ast.iter_child_nodes(node)
    return [part for part in parts if isinstance(part, ast.expr) and part not in skipped]


def list_raised(texts: TextFinder, node: ast.expr) -> Iterator[Traced]:
    """List what the program passes to the errors for which a name after `except` stands."""
    program, handler = texts.program, texts.program.parents.get(node) if isinstance(node, ast.Name) else None
    while handler is not None and getattr(handler, "name", None) != node.id:  # type: ignore[attr-defined]
        handler = program.parents.get(handler)
    if not isinstance(handler, ast.ExceptHandler) or handler.type is None:
        return
    caught = {*map(get_last_name, handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type])}
    own = {name for name in caught if not hasattr(builtins, name)}
    run = find_run(texts, program.parents[handler].body)
    for name, calls in program.calls.items():
        for call in calls if name[:1].isupper() else ():
            kinds = list_error_kinds(program, call)
            around: Any = (
                call.node if caught & {*kinds, *(["ValidationError"] if "ValueError" in kinds else [])} else None
            )
            while around is not None and around not in run:
                around = program.parents.get(around)
            if around is not None or (own & kinds and program.is_live(call)):
                yield from (Traced(part, call.at) for part in list_given(call.node))


def list_error_kinds(program: Program, call: Traced) -> set[str]:
    """List the names of the class of an error that a call makes, and of its base classes; none for another call."""
    name = get_last_name(call.node.func)
    order = [
        found
        for made in program.trace(call.node.func, call.at)
        if isinstance(made.node, ast.ClassDef)
        for found in program.list_mro(made)
    ]
    bases = {get_last_name(base) for found in order for base in found.node.bases} | ({name} if not order else set())
    above = {kind for base in bases for kind in getattr(getattr(builtins, base, None), "__mro__", ())}
    is_raised = isinstance(program.parents.get(call.node), ast.Raise)
    if not is_raised and BaseException not in above:
        return set()
    return {*(found.node.name for found in order), *bases, *(kind.__name__ for kind in above), "Exception"}


def find_run(texts: TextFinder, body: Sequence[ast.stmt]) -> set[ast.AST]:
    """Find the statements and functions that run in a `try`: what it calls, and what that calls."""
    places = {call.node: call.at for calls in texts.program.calls.values() for call in calls}
    pending, run = [*body], set[Any]()
    while pending:
        if (part := pending.pop()) not in run:
            run.add(part)
            for call in (node for node in ast.walk(part) if node in places):
                pending += list_called(texts, Traced(call, places[call]))
    return run


def is_validator(name: str) -> bool:
    """Whether a decorator makes a function a validator of pydantic."""
    return name.endswith("validator")


def list_called(texts: TextFinder, call: Traced) -> list[Any]:
    """List the functions of the program that a call may run: by name where the source does not show what it calls.

    Tools and validators are run by what is handed to them, which is no call of theirs.
    """
    program, name, called = texts.program, get_last_name(call.node.func), list[Any]()
    found = program.trace(call.node.func, call.at)
    for made in found:
        function = made.node.function if isinstance(made.node, BoundMethod) else made.node
        for part in function.body if isinstance(function, ast.ClassDef) else ():
            if "init" in getattr(part, "name", "") or any(map(is_validator, list_decorators(part))):
                called.append(part)
        called += [function] if isinstance(function, Function) else []
    if called:
        return called
    kinds = {kind for kind, _ in find_kinds(program, getattr(call.node.func, "value", call.node.func), call.at)}
    if name in RUNNING or any(isinstance(made.node, Argument) for made in found):
        is_tool = not kinds & {"model", "chain", "prompt"} and name not in VALIDATING
        named = [key for key in program.decorated if is_validator(key) or (key == "tool" and is_tool)]
        return [owner.node for key in named for owner, _ in program.decorated[key]]
    if any(get_outside_maker(program, made) for made in found) or any(
        hasattr(kind, name) for kind in (str, list, dict)
    ):
        return []
    return [
        node
        for file in program.files.values()
        for node in file.nodes
        if getattr(node, "name", "") == name and isinstance(node, Function)
    ]

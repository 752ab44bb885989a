"""Texts that an expression holds, whatever is done with them: those that no rule of `texts` leads to are opaque."""

import ast
import builtins
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from selfwire.extras.adopt.kinds import find_kinds
from selfwire.extras.adopt.names import Argument, BoundMethod, Element, Instance, Outside, Surroundings, Traced
from selfwire.extras.adopt.source import PLAIN_BASES, Program
from selfwire.extras.adopt.syntax import (
    CUTTING,
    Function,
    get_keywords,
    get_last_name,
    is_text,
    list_children,
    list_decorators,
    list_parameters,
    list_positional,
    show_path,
)
from selfwire.extras.adopt.texts import MESSAGE_MODULES, TextFinder, count_characters, get_outside_maker, shorten_source

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
MOST_PLACES = 5
"""Places that a sentence names."""
RUNNING = ("invoke", "ainvoke", "run", "arun", "batch", "abatch", *VALIDATING)
"""Methods that run tools or validators."""
NAMING = ("id", "name", "additional_kwargs", "response_metadata", "key")
"""Keywords whose values are no part of what a call returns: names of messages, and what sorts."""
FIELDS = ".model_fields"
"""The attribute that has the fields of a class of pydantic; of a dataclass, it stands for `fields`."""
METADATA = ".__metadata__"
"""The attribute that has what stands behind the type in `Annotated`."""
MOST_LOOKED_AT = 100_000
"""Most places that are looked at for texts whose way to a model is not followed."""
MOST_KEYS = 4
"""Most keys that are known of what is taken of a value."""
SHOWN = (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Dict, ast.List, ast.Tuple, ast.ClassDef, Instance)
"""Expressions whose methods may return what they are made of or given."""
HOLE = re.compile(r"\{\w+\}")
"""A hole of a template; a template of holes alone says nothing."""
WORD = re.compile(r"[^\W\d_]{2}")
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
    seen = set[Any]()
    for left in texts.left.values():
        lines = dict[tuple[str, int], Traced]()
        for text in list_held(texts, left, added, seen):
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
            where = ", ".join(f"{file}:{line}" for file, line in sorted(lines)[:MOST_PLACES])
            where += f" and {len(lines) - MOST_PLACES} other places" if len(lines) > MOST_PLACES else ""
            texts.note(*shown[:2], f"how the text at {where} {way}", way_out)
    note_ended(texts)


def note_ended(texts: TextFinder) -> None:
    """Note as one opaque thing the expressions that stand for more than is followed."""
    ended = [_show_ended(found) for found in texts.program.ended]
    if ended := [found for found in ended if hasattr(found.node, "lineno")]:
        first = ended[0]
        others = f" and {len(ended) - 1} other expressions" if len(ended) > 1 else ""
        way_out = (
            "texts that a model gets through them alone may be missing: name the module that holds the graph alone, or "
            "mark them by `selfwire.text`; --confirm shows what is sent"
        )
        texts.note(*first[:2], f"{shorten_source(first.node)}{others} may be more than can be followed", way_out)


def _show_ended(found: Traced) -> Traced:
    """Show an argument as its name where its function begins, and an element as what it is taken from."""
    if isinstance(found.node, Argument):
        return found._replace(node=ast.copy_location(ast.Name(found.node.name, ast.Load()), found.node.function))
    return found._replace(node=found.node.source) if isinstance(found.node, Element) else found


Keys = tuple[str, ...]
"""Keys and names of attributes, `.name`, that are taken of a value, the outermost first."""


def list_held(
    texts: TextFinder, left: Traced, added: Mapping[Any, Sequence[Traced]], seen: set[Any]
) -> Iterator[Traced]:
    """List the texts of several words that an expression holds, but for what was `seen` in others before.

    Args:
        added: what code adds to collections.
        seen: places that have been looked at; it grows.
    """
    pending = [(left, Keys())]
    while pending:
        found, keys = pending.pop()
        node, key = found.node, (found.node, found.at.key, keys)
        if key not in seen:
            if len(seen) == MOST_LOOKED_AT:
                texts.program.ended.append(left)
                return
            seen.add(key)
            pending += [(value, keys) for value in added.get(node, ())]
            pending += open_whole(texts, *found[:2], keys)
            if isinstance(node, ast.Constant) and hasattr(node, "lineno") and SEVERAL.search(str(node.value)):
                yield from [found] if WORD.search(HOLE.sub("", str(node.value))) else ()


def open_whole(texts: TextFinder, node: Any, at: Surroundings, keys: Keys) -> list[tuple[Traced, Keys]]:
    """List all that a value may be made of, or that its part under the first of some keys may be."""
    if isinstance(node, Instance | ast.ClassDef):
        return open_class(texts.program, node, at, keys)
    opened, parts = texts.program.look(open_value, texts, node, at)
    inside = [(Traced(part, at), left) for part, left in list_within(node, keys)] if parts else []
    return [*((found, (*more, *keys)[:MOST_KEYS] if more else keys) for found, more in opened), *inside]


def open_value(texts: TextFinder, node: Any, at: Surroundings) -> tuple[list[tuple[Traced, Keys]], bool]:
    """List what a value may be made of, whatever is taken of it, each with the key that is taken of that first.

    Also tells whether parts of the expression itself may become a part of the value.
    """
    program = texts.program
    opened = list[Traced]()
    if node in program.cut_from:
        opened = [program.cut_from[node]]
    elif isinstance(node, Function | BoundMethod):
        opened = [*program.list_returned(Traced(node, at).function, at, {}, None, None)]
    elif isinstance(node, Argument):  # which a decorator may pass
        first = [name for name in list_positional(node.function) if name not in ("self", "cls")][:1]
        is_given = node.name in ("self", "cls") or (node.function in texts.entries and node.name in first)  # the state
        decorators = () if is_given else getattr(node.function, "decorator_list", ())
        given = (Traced(part, at) for call in decorators for part in list_given(call))
        opened = [*given, *list_beside(texts, node.function)]
    elif isinstance(node, Element):
        opened = [Traced(node.source, at)]
    elif isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
        return open_expression(texts, node, at)
    return [(found, ()) for found in opened], False


def open_expression(texts: TextFinder, node: ast.expr, at: Surroundings) -> tuple[list[tuple[Traced, Keys]], bool]:
    """List what an expression may stand for, as `open_value`."""
    program = texts.program
    fields = [*list_fields(texts, node, at)] or [*list_members(texts, node, at)]
    if fields:
        return [(found, ()) for found in fields], False
    known, bound = program.trace(node, at), program.look_up(node.id, at) if isinstance(node, ast.Name) else ()
    others = [found for found in bound if isinstance(found.node, Element | ast.Name)]
    opened = [(found, Keys()) for found in (*known, *others, *list_raised(texts, Traced(node, at)))]
    if known and not any(found.node is node or isinstance(found.node, Outside) for found in known):
        return opened, False
    if isinstance(node, ast.Call):
        return [*opened, *list_taken_in(texts, node, at)], False
    return opened, True


def list_beside(texts: TextFinder, function: Any) -> Iterator[Traced]:
    """List what stands beside a function where it is handed to what may call it, or in front of it in a chain.

    Of a function of the program, to which it is handed, that is what this function passes where it calls an argument.
    """
    program, name = texts.program, getattr(function, "name", "")
    is_handed = function not in texts.entries and name not in program.calls
    for around in program.handed.get(name, ()) if is_handed else ():
        node = program.parents[around.node] if isinstance(around.node, ast.keyword) else around.node
        if isinstance(node, ast.Call) and get_last_name(node.func) == "RunnableLambda":
            node = program.parents[node]
        own = [found.function for found in program.trace(getattr(node, "func", None), around.at)]
        inside = [(part, list_parameters(of)) for of in own if isinstance(of, Function) for part in ast.walk(of)]
        calls = [program.places.get(part) for part, names in inside if get_last_name(getattr(part, "func", 0)) in names]
        given = [Traced(part, call.at) for call in calls if call is not None for part in list_given(call.node)]
        parts = [node.left] if isinstance(node, ast.BinOp) else list_given(node)
        yield from given or (Traced(part, around.at) for part in parts)


def open_class(program: Program, node: Any, at: Surroundings, keys: Keys) -> list[tuple[Traced, Keys]]:
    """List what an object or a class may be written as, or what an attribute of it may be."""
    of, name = (node.of if isinstance(node, Instance) else node), keys[0] if keys else ""
    order = program.list_mro(Traced(of, at))
    if name and not name.startswith(".__"):
        members = [*program.get_member(Traced(node, at), name.lstrip("."))]
        above = [base.node for of in order for base in program.list_bases(of) if isinstance(base.node, Outside)]
        is_whole = all(base.name.rpartition(".")[2] in PLAIN_BASES for base in above)
        is_shown = name != FIELDS and not [*program.get_member(Traced(node, at), "__getattr__")]
        if members or (is_whole and is_shown and name[0] == "."):
            return [(found, keys[1:]) for found in members]
    if not isinstance(node, Instance):
        if FIELDS in keys:
            return open_fields(of, program.enter(node, at), keys)
        statements = [part for part in of.body if isinstance(part, ast.Assign | ast.AnnAssign)]
        values = [getattr(part, "annotation" if METADATA in keys else "value", None) for part in statements]
        return [(Traced(value, program.enter(node, at)), keys) for value in values if value is not None]
    # how it is written is up to methods such as `__str__`
    methods = (part for part in of.body if getattr(part, "name", "").startswith("__"))
    passed = [Traced(part, node.made_in) for part in list_given(node.call)] if node.made_in is not None else []
    return [(found, ()) for found in (*passed, *(Traced(part, program.enter(of, at)) for part in methods))]


def open_fields(of: ast.ClassDef, at: Surroundings, keys: Keys) -> list[tuple[Traced, Keys]]:
    """List what stands under the first of some keys in the `Field(...)` of each field of a class, or is its default."""
    opened = list[tuple[Traced, Keys]]()
    for value in (part.value for part in of.body if isinstance(part, ast.AnnAssign) and part.value is not None):
        named = get_keywords(value) if isinstance(value, ast.Call) else {"default": value}
        taken = [number for number, key in enumerate(keys) if key.lstrip(".") in named]
        opened += [(Traced(named[keys[number].lstrip(".")], at), keys[number + 1 :]) for number in taken[:1]]
    return opened


def list_fields(texts: TextFinder, node: ast.expr, at: Surroundings) -> Iterator[Traced]:
    """List what nodes write into a field of the state that an expression reads."""
    yield from texts.writes.get(texts.read_field(node, at), ())


def list_members(texts: TextFinder, node: ast.expr, at: Surroundings) -> Iterator[Traced]:
    """List what an attribute may be of an object that is kept in the state, a method of it too."""
    if not isinstance(node, ast.Attribute):
        return
    for base in (Traced(node.value, at), *texts.program.trace(node.value, at)):
        for written in list_fields(texts, base.node, base.at) if isinstance(base.node, ast.expr) else ():
            for made in texts.program.trace(*written[:2]):
                yield from texts.program.get_member(made, node.attr)


def list_taken_in(texts: TextFinder, call: ast.Call, at: Surroundings) -> list[tuple[Traced, Keys]]:
    """List what may be a part of what a call returns, each with the key that is taken of it.

    It is nothing where a model, another package or a device gives what the call returns.
    """
    name, called = get_last_name(call.func), texts.program.trace(call.func, at)
    if name == "fields" and call.args:
        return [(Traced(call.args[0], at), (FIELDS,))]
    if name in ("locals", "vars") and not call.args:
        bound = (value for values in at.names.bound.values() for value in values if isinstance(value, ast.expr))
        return [(Traced(value, at), ()) for value in bound]
    makers = {*filter(None, (get_outside_maker(texts.program, found) for found in called))}
    packages = {maker.partition(".")[0] for maker in makers if "." in maker and not maker.startswith(MESSAGE_MODULES)}
    if packages - HOLDING or makers & DEVICES or name in SCHEMAS or texts.is_reply(call, at):
        return []
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is not None and name in COUNTING and not makers:
        return []
    members = [*list_members(texts, call.func, at)]
    if not makers and owner is not None and not hasattr(str, name) and not hasattr(dict, name):
        if not any(isinstance(found.node, SHOWN) for found in texts.program.trace(owner, at)):
            return [(found, ()) for found in members]
    is_marked = f"re.{name}" in makers or (name in MARKED and "re" not in packages)
    taken = [part.value for part in call.args[:1] if name in ("get", "pop") and is_text(part)]
    parts = [found for found in (*called, *members) if found.node is not call.func]
    given = (Traced(part, at) for part in list_given(call)[is_marked:])
    return [(Traced(owner or call.func, at), tuple(taken)), *((found, ()) for found in (*parts, *given))]


def list_given(call: ast.expr | None) -> list[ast.expr]:
    """List what a call passes, but for what names an object; nothing for another expression."""
    if not isinstance(call, ast.Call):
        return []
    return [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg not in NAMING)]


def list_within(node: ast.expr, keys: Keys) -> list[tuple[ast.expr, Keys]]:
    """List the parts of an expression that may become a part of its value: no tests, keys and indices."""
    if isinstance(node, ast.Dict):
        pairs = list(zip(node.keys, node.values, strict=True))
        named = [value for key, value in pairs if keys and is_text(key) and key.value == keys[0].lstrip(".")]
        others = [value for key, value in pairs if not (named and is_text(key))]
        return [*((value, keys[1:]) for value in named), *((value, keys) for value in others if value not in named)]
    if isinstance(node, ast.Subscript) and get_last_name(node.value) == "Annotated" and METADATA in keys:
        return [(part, keys) for part in getattr(node.slice, "elts", ())[1:]]
    skipped = {getattr(node, name, None) for name in ("test", "slice", "key")}
    parts = [] if isinstance(node, ast.Compare) else list_children(node)
    key = [node.slice.value] if isinstance(node, ast.Subscript) and is_text(node.slice) else []
    key = [f".{node.attr}"] if isinstance(node, ast.Attribute) else key
    left = (*key, *keys)[:MOST_KEYS]
    return [(part, left) for part in parts if isinstance(part, ast.expr) and part not in skipped]


def list_raised(texts: TextFinder, shown: Traced) -> Iterator[Traced]:
    """List how the program makes the errors for which a name after `except`, or `format_exc()`, stands."""
    program, node = texts.program, shown.node
    is_last = isinstance(node, ast.Call) and get_last_name(node.func) == "format_exc"
    handler = program.parents.get(node) if is_last or isinstance(node, ast.Name) else None
    while handler is not None and not (isinstance(handler, ast.ExceptHandler) and (is_last or handler.name == node.id)):
        handler = program.parents.get(handler)
    if handler is None or (handler.type is None and not is_last):
        return
    known = program.trace(handler.type, shown.at) if handler.type is not None else ()
    tuples = [made.node.elts for made in known if isinstance(made.node, ast.Tuple)]
    caught = {*map(get_last_name, chain(*tuples) if tuples else [handler.type or ast.Name("Exception")])}
    own = {name for name in caught if not hasattr(builtins, name)}
    run = program.look(list_run, texts, program.parents[handler])
    if caught & {"AssertionError", "Exception"}:
        yield from (Traced(part.msg, shown.at) for part in run if isinstance(part, ast.Assert) and part.msg)
    for call, names in program.errors:
        if (call.node in run and caught & names) or (own & names and program.is_live(call)):
            yield call


def list_run(texts: TextFinder, block: Any) -> set[ast.AST]:
    """List the calls and asserts that run in a `try`: its own, and those of what it calls."""
    places, pending, run = texts.program.places, [*block.body], set[Any]()
    while pending:
        if (part := pending.pop()) not in run:
            run.add(part)
            for call in (places[node] for node in ast.walk(part) if node in places):
                pending += list_called(texts, call)
    return {part for code in run for part in ast.walk(code) if isinstance(part, ast.Call | ast.Assert)}


def is_validator(name: str) -> bool:
    """Whether a decorator makes a function a validator of pydantic."""
    return name.endswith("validator")


def list_checks(program: Program, classes: list[Traced]) -> list[Any]:
    """List the functions that run when objects of classes are made, and those of the classes that their fields have."""
    pending, seen, checks = [*classes], set[Any](), list[Any]()
    for made in pending:  # it grows
        for of in program.list_mro(made) if made.node not in seen else ():
            seen.add(made.node)
            inside = program.enter(of.node, of.at)
            checks += [
                part
                for part in of.node.body
                if "init" in getattr(part, "name", "") or any(map(is_validator, list_decorators(part)))
            ]
            names = [part for kind in inside.names.annotated.values() for part in ast.walk(kind)]
            typed = [found for part in names if isinstance(part, ast.Name) for found in program.trace(part, inside)]
            pending += [found for found in typed if isinstance(found.node, ast.ClassDef)]
    return checks


def list_called(texts: TextFinder, call: Traced) -> list[Any]:
    """List the functions of the program that a call may run: by name where the source does not show what it calls.

    Tools and validators are run by what is handed to them, which is no call of theirs.
    """
    program, name = texts.program, get_last_name(call.node.func)
    found, owner = program.trace(call.node.func, call.at), getattr(call.node.func, "value", None)
    made_by = found if name not in VALIDATING else program.trace(owner, call.at) if owner is not None else []
    classes = [made for made in made_by if isinstance(made.node, ast.ClassDef)]
    called = list_checks(program, classes)
    for made in found:
        called += [made.function] if isinstance(made.function, Function) else []
    if called or classes:
        return called
    kinds = {kind for kind, _ in find_kinds(program, owner or call.node.func, call.at)}
    if name in RUNNING or any(isinstance(made.node, Argument) for made in found):
        is_tool = not kinds & {"model", "chain", "prompt"} and name not in VALIDATING
        named = [key for key in program.decorated if is_validator(key) or (key == "tool" and is_tool)]
        return [owner.node for key in named for owner, _ in program.decorated[key]]
    if any(get_outside_maker(program, made) for made in found) or any(
        hasattr(kind, name) for kind in (str, list, dict)
    ):
        return []
    return program.functions.get(name, [])

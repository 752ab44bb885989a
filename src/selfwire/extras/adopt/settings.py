"""Defaults of a program's settings that are values, not prompts: names of models, numbers, switches, choices."""

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from selfwire.extras.adopt.inventory import ProgramValue
from selfwire.extras.adopt.kinds import find_literals, has_base
from selfwire.extras.adopt.source import Program, Surroundings, Traced, get_last_name, show_path

NAMES = ("Config", "Configuration", "Settings", "Context")
"""Ends of the names of classes of settings."""
READING = ("from_runnable_config", "from_context")
"""Methods of such classes in LangGraph's templates."""
MOST_WORDS = 4
"""Words of a default above which it is a prompt."""


def list_values(program: Program, schemas: Iterable[Traced], prompts: Collection[Any]) -> Iterator[ProgramValue]:
    """List the defaults of the classes of settings of a program.

    Args:
        schemas: classes that graphs take as their context or config.
        prompts: literals that are listed as texts.
    """
    known = {found.node: found.at for found in schemas}
    for file in program.files.values():
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef) and node not in known and _is_settings(program, Traced(node, file.top)):
                known[node] = file.top
    for owner, at in known.items():
        inside = program.enter(owner, at)
        for field in owner.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                yield from _read_field(program, owner.name, field, inside, prompts)


def _is_settings(program: Program, found: Traced) -> bool:
    methods = {part.name for part in found.node.body if isinstance(part, ast.FunctionDef)}
    named = found.node.name.endswith(NAMES) and found.node.decorator_list + found.node.bases
    return bool(named or methods & {*READING} or has_base(program, found, ("BaseSettings",)))


def _read_field(
    program: Program, owner: str, field: ast.AnnAssign, at: Surroundings, prompts: Collection[Any]
) -> Iterator[ProgramValue]:
    assert isinstance(field.target, ast.Name), "checked by the caller"
    choices = _list_choices(program, field.annotation, at)
    default = field.value
    if isinstance(default, ast.Call):
        named = {keyword.arg: keyword.value for keyword in default.keywords}
        is_field = get_last_name(default.func) in ("Field", "field")
        default = named.get("default", default.args[0] if default.args else None) if is_field else None
    values = [*_list_constants(program, default, at)] if default is not None else []
    if field.target.id.startswith("_") or get_last_name(field.annotation) == "ClassVar":
        return
    is_prompt = any(isinstance(value, ast.Constant) and _is_prompt(value, prompts) for value in values)
    if (values and not is_prompt) or choices:
        named_member = choices and isinstance(default, ast.Attribute)
        shown = ast.unparse(default) if named_member else next(map(ast.unparse, values), "")  # type: ignore[arg-type]
        line, end = field.lineno, field.end_lineno or field.lineno
        file = show_path(at.file.path)
        yield ProgramValue(
            owner=owner, name=field.target.id, default=shown, choices=choices, file=file, line=line, end_line=end
        )


def _is_prompt(value: ast.Constant, prompts: Collection[Any]) -> bool:
    return isinstance(value.value, str) and (value in prompts or len(value.value.split()) > MOST_WORDS)


def _list_constants(program: Program, default: ast.expr, at: Surroundings) -> Iterator[ast.expr]:
    """List the constants that a default may be, such as a number or a member of an Enum."""
    constants: list[ast.expr] = [
        found.node for found in program.trace(default, at) if isinstance(found.node, ast.Constant)
    ]
    yield from constants or ([default] if isinstance(default, ast.Attribute | ast.UnaryOp) else [])


def _list_choices(program: Program, annotation: ast.expr, at: Surroundings) -> tuple[str, ...]:
    """List the values that an annotation allows: of a Literal, an Enum or bool, also inside Annotated and Optional."""
    literals = find_literals(program, annotation, at)
    if literals:
        return tuple(dict.fromkeys(map(repr, literals)))
    parts = annotation.slice if isinstance(annotation, ast.Subscript) else annotation
    for part in parts.elts if isinstance(parts, ast.Tuple) else [parts]:
        if isinstance(part, ast.Name) and part.id == "bool":
            return ("True", "False")
        for found in program.trace(part, at) if isinstance(part, ast.Name | ast.Attribute) else ():
            if isinstance(found.node, ast.ClassDef) and has_base(program, found, ("Enum", "StrEnum", "IntEnum")):
                members = [line.targets[0] for line in found.node.body if isinstance(line, ast.Assign)]
                return tuple(f"{found.node.name}.{ast.unparse(member)}" for member in members)
    return ()

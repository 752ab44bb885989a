"""Defaults of a program's settings that are values, not prompts: names of models, numbers, switches, choices.

It gets the classes that graphs take as their context, finds others by their names, and hands their fields to `reader`.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from selfwire.core.text import MASK, is_secret_name, mask_user
from selfwire.extras.adopt.inventory import ProgramValue
from selfwire.extras.adopt.kinds import find_literals, has_base
from selfwire.extras.adopt.names import Surroundings, Traced
from selfwire.extras.adopt.source import Program
from selfwire.extras.adopt.syntax import get_argument, get_last_name, is_text, show_path

NAMES = ("Config", "Configuration", "Settings", "Context")
"""Ends of the names of classes of settings."""
READING = ("from_runnable_config", "from_context")
"""Methods of such classes in LangGraph's templates."""
MOST_WORDS = 4
"""Words of a default above which it is a prompt."""
WHO = re.compile(r"(?i)name|(user|customer|client|guest|tenant|account|session|thread|e?mail)\w*|\w+_id")
"""Names of fields that say who asks; what stands beside one is a fact of the request too, such as `premium`."""
NOT_EVOLVED = re.compile(
    r"(?i)model|llm|provider|key|secret|password|credential|url|uri|host|port$|path|dir$|folder|file|endpoint|address|"
    r"user|thread|session|(^|_)(id|ids|seed|debug|verbose)$"
)
"""Names of fields that say where, by whom or by which model something is done; they are nobody's to try out."""


def list_values(program: Program, schemas: Iterable[Traced], prompts: Collection[Any]) -> Iterator[ProgramValue]:
    """List the defaults of the classes of settings of a program.

    Args:
        schemas: classes that graphs take as their context or config.
        prompts: literals that are listed as texts.
    """
    known = {found.node: found.at for found in schemas}
    contexts, read = {*known}, {name for file in program.files.values() for name in _list_read(file.nodes)}
    for file in program.files.values():
        for node in file.nodes:
            if isinstance(node, ast.ClassDef) and node not in known and _is_settings(program, Traced(node, file.top)):
                known[node] = file.top
    for owner, at in known.items():
        inside = program.enter(owner, at)
        fields = [part for part in owner.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
        is_free = owner in contexts and not any(WHO.fullmatch(ast.unparse(field.target)) for field in fields)
        below = [part for found in program.list_below(owner) if found.node in contexts for part in found.node.body]
        overridden = {ast.unparse(part.target) for part in below if isinstance(part, ast.AnnAssign)}
        for field in fields if owner in contexts else [part for part in fields if part.value is not None]:
            for value in _read_field(program, owner.name, field, inside, prompts):
                is_known = value.name in read and value.name not in overridden
                is_open = is_free and is_known and not NOT_EVOLVED.search(value.name)
                yield value.replace(**_find_spelled(program, field, inside)) if is_open else value


def _list_read(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """List the names of attributes and of keys that a file reads."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _find_spelled(program: Program, field: ast.AnnAssign, at: Surroundings) -> Mapping[str, Any]:
    """Find how a field's values are written, and where its default stands; {} if that is no literal of its type."""
    default = _get_default(field)
    annotation = field.annotation
    if isinstance(annotation, ast.Subscript) and get_last_name(annotation.value) == "Annotated":
        annotation = annotation.slice.elts[0] if isinstance(annotation.slice, ast.Tuple) else annotation
    kind = ast.unparse(annotation)
    spelled = {"True": "True", "False": "False"} if kind == "bool" else dict[str, str]()
    for literal in find_literals(program, annotation, at):
        spelled[str(literal)] = repr(literal)
    for found in program.trace(annotation, at) if isinstance(annotation, ast.Name | ast.Attribute) else ():
        if isinstance(found.node, ast.ClassDef) and has_base(program, found, ("Enum", "StrEnum")):
            for line in found.node.body:
                if isinstance(line, ast.Assign) and is_text(line.value):
                    spelled[line.value.value] = f"{ast.unparse(annotation)}.{ast.unparse(line.targets[0])}"
    if default is None or not (spelled or kind in ("int", "float")):
        return {}
    written = ast.unparse(default)
    if written not in spelled.values() if spelled else not re.fullmatch(r"-?\d+(\.\d+)?", written):
        return {}
    return {
        "spelled": spelled,
        "column": default.col_offset,
        "end_column": default.end_col_offset,
        "first": default.lineno,
        "last": default.end_lineno,
    }


def _is_settings(program: Program, found: Traced) -> bool:
    methods = {part.name for part in found.node.body if isinstance(part, ast.FunctionDef)}
    named = found.node.name.endswith(NAMES) and found.node.decorator_list + found.node.bases
    return bool(named or methods & {*READING} or has_base(program, found, ("BaseSettings",)))


def _read_field(
    program: Program, owner: str, field: ast.AnnAssign, at: Surroundings, prompts: Collection[Any]
) -> Iterator[ProgramValue]:
    assert isinstance(field.target, ast.Name), "checked by the caller"
    choices = _list_choices(program, field.annotation, at)
    default = _get_default(field)
    values = [*_list_constants(program, default, at)] if default is not None else []
    if field.target.id.startswith("_") or get_last_name(field.annotation) == "ClassVar":
        return
    is_prompt = any(isinstance(value, ast.Constant) and _is_prompt(value, prompts) for value in values)
    if (values and not is_prompt) or choices:
        named_member = choices and isinstance(default, ast.Attribute)
        shown = ast.unparse(default) if named_member else next(map(ast.unparse, values), "")  # type: ignore[arg-type]
        if not choices and is_text(values[0]) and values[0].value:
            shown = repr(MASK if is_secret_name(field.target.id) else mask_user(values[0].value))
        line, end = field.lineno, field.end_lineno or field.lineno
        file = show_path(at.file.path)
        yield ProgramValue(
            owner=owner, name=field.target.id, default=shown, choices=choices, file=file, line=line, end_line=end
        )


def _get_default(field: ast.AnnAssign) -> ast.expr | None:
    """Get the default of a field, also inside a call of `Field`."""
    if not isinstance(field.value, ast.Call):
        return field.value
    return get_argument(field.value, 0, "default") if get_last_name(field.value.func) in ("Field", "field") else None


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

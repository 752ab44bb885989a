"""Tools that a team carries: functions in source code, checked before they run.

A tool is a function, `tool_function`, with imports of pure modules and constants. The sandbox confines the program;
this check refuses code that no tool needs, with the line, before anything runs.
"""

import ast
import builtins
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolSourceError
from selfwire.core.values import (
    CONTROLS,
    FrozenJson,
    FrozenMap,
    FrozenModel,
    Id,
    freeze_json,
    replace_surrogates,
    to_canonical_json,
)

FUNCTION = "tool_function"
SOURCE_LENGTH, NODES, DEPTH, PARAMETERS = 16_000, 4_000, 40, 12
BITS = 10_000
"""Most bits of a whole number; Python refuses to write longer ones in digits."""
MODULES = frozenset(
    "base64 binascii bisect calendar cmath collections copy csv datetime decimal difflib fractions functools hashlib "
    "heapq html itertools json math numbers operator re statistics string textwrap typing unicodedata zlib".split()
)
"""Modules of the standard library that only compute."""

_NAMES = frozenset(
    "getattr setattr delattr eval exec compile globals locals vars open breakpoint memoryview exit quit".split()
)
_ATTRIBUTES = frozenset(
    "os sys builtins importlib subprocess modules attrgetter methodcaller gi_frame gi_code cr_frame ag_frame tb_frame "
    "f_back f_builtins f_globals f_locals get_type_hints mro".split()
)
_PRIVATE = frozenset({"_asdict", "_replace", "_fields", "_make", "__name__"})
"""Allowed attributes with an underscore; programs use `__name__` in messages about exceptions."""
_DUNDER, _FIELD = re.compile(r"__\w+__"), re.compile(r"\{[^{}]*\}")
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}


def check_tool_source(source: str) -> Any:
    """Check a tool's source and return the parameters of its function, as the JSON schema of an object (frozen).

    Raises:
        ToolSourceError: the source may not run; it names the line and the reason.
    """
    _check_text(source)
    tree = _parse(source)
    function = _find_function(tree)
    for node in ast.walk(tree):
        _check_node(node)
    _check_ways_out(tree)
    return freeze_json(_make_schema(function))


def is_constant(source: str) -> bool:
    """Whether the result of a legal tool depends on none of its parameters, as far as the source shows.

    A name is taken to depend on a parameter if it stands in a statement with one that does.
    """
    function = _find_function(_parse(source))
    dependent = {
        argument.arg for argument in (*function.args.args, *function.args.kwonlyargs, function.args.kwarg) if argument
    }
    parts = [_list_own_names(statement) for statement in ast.walk(function) if isinstance(statement, ast.stmt)]
    parts = [names for names in parts[1:] if names]
    while more := {name for names in parts if names & dependent for name in names} - dependent:
        dependent |= more
    deciding = (ast.Return, ast.If, ast.While, ast.For, ast.Match, ast.Raise, ast.Assert, ast.With, ast.Try)
    return not any(
        _list_own_names(statement) & dependent for statement in ast.walk(function) if isinstance(statement, deciding)
    )


def _list_own_names(statement: ast.stmt) -> set[str]:
    """Names in a statement but for built-in ones, without those of the statements in its body."""
    inner = {
        id(node) for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt) for node in ast.walk(part)
    }
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and id(node) not in inner}
    return names - vars(builtins).keys()


def _check_text(source: str) -> None:
    if len(source) > SOURCE_LENGTH:
        raise ToolSourceError(1, f"the source has {len(source):,} characters; at most {SOURCE_LENGTH:,} are allowed")
    for number, line in enumerate(source.split("\n"), start=1):
        if found := CONTROLS.search(line):
            raise ToolSourceError(number, f"it holds the control character {found[0]!a}; write it as an escape")
        if replace_surrogates(line) != line:
            raise ToolSourceError(number, "it holds half a character (a surrogate); write whole characters")


def _parse(source: str) -> ast.Module:
    """Parse the source, and check that it compiles."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
            _check_size(tree)
            compile(tree, FUNCTION, "exec", dont_inherit=True)
            return tree
    except SyntaxError as error:
        raise ToolSourceError(max(error.lineno or 1, 1), f"it is no Python: {error.msg}") from None
    except (OverflowError, RecursionError, MemoryError) as error:
        raise ToolSourceError(1, f"it is nested too deeply to be parsed ({type(error).__name__})") from None


def _check_size(tree: ast.Module) -> None:
    level: list[tuple[ast.AST, int]] = [(tree, 1)]
    count = depth = 0
    while level:
        depth, count = depth + 1, count + len(level)
        if depth > DEPTH or count > NODES:
            what = f"nested deeper than {DEPTH} levels" if depth > DEPTH else f"longer than {NODES:,} parts"
            raise ToolSourceError(level[0][1], f"it is {what}; write a simpler function")
        level = [
            (child, getattr(child, "lineno", line)) for node, line in level for child in ast.iter_child_nodes(node)
        ]


def _find_function(tree: ast.Module) -> ast.FunctionDef:
    found: ast.FunctionDef | None = None
    for statement in tree.body:
        match statement:
            case ast.FunctionDef(name=name) if name == FUNCTION and found is None:
                found = statement
            case ast.FunctionDef(name=name) if name == FUNCTION:
                raise ToolSourceError(statement.lineno, f"{FUNCTION} is defined twice")
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                raise ToolSourceError(statement.lineno, f"only {FUNCTION} may stand here; define others inside it")
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(target=ast.Name(), value=value) if (
                value is not None and _is_literal(value)
            ):
                pass
            case _:
                raise ToolSourceError(
                    statement.lineno, f"beside {FUNCTION} only imports and constants of literals may stand here"
                )
    if found is None:
        raise ToolSourceError(1, f"there is no function {FUNCTION}")
    if found.decorator_list:
        raise ToolSourceError(found.decorator_list[0].lineno, f"{FUNCTION} may have no decorator")
    if not any(isinstance(node, ast.Return) and node.value for node in ast.walk(found)):
        raise ToolSourceError(found.lineno, f"{FUNCTION} returns nothing; return the result")
    return found


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _check_node(node: ast.AST) -> None:
    line = getattr(node, "lineno", 1)
    for module in _list_modules(node):
        if module.partition(".")[0] not in MODULES or "_" in module:
            raise ToolSourceError(
                line, f"import of {module!r} is not allowed; allowed are {', '.join(sorted(MODULES))}"
            )
    for name in _list_attributes(node):
        if (name.startswith("_") and name not in _PRIVATE) or name in _ATTRIBUTES or name == "*":
            raise ToolSourceError(line, f"the attribute {name!r} is not allowed")
    for name in _list_names(node):
        if name.startswith("__") or name in _NAMES:
            raise ToolSourceError(line, f"the name {name!r} is not allowed")
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        if _DUNDER.fullmatch(text) or any("__" in field for field in _FIELD.findall(text)):
            raise ToolSourceError(line, "a text names an attribute with two underscores")
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value.bit_length() > BITS:
        raise ToolSourceError(line, f"it holds a whole number of more than {BITS:,} bits; compute it instead")


def _list_modules(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=module, level=level):
            return [module if module and not level else "." * level]
    return []


def _list_attributes(node: ast.AST) -> list[str]:
    match node:
        case ast.Attribute(attr=name):
            return [name]
        case ast.MatchClass(kwd_attrs=names):
            return names
        case ast.ImportFrom(names=aliases):
            return [alias.name for alias in aliases]
    return []


def _list_names(node: ast.AST) -> Iterator[str]:
    """List names that code reads or binds: variables, keywords, functions, exceptions, patterns, aliases."""
    match node:
        case ast.Constant() | ast.Attribute() | ast.MatchClass() | ast.ImportFrom(module=None):
            return
        case ast.ImportFrom(names=aliases):
            yield from (alias.name for alias in aliases)
            return
        case ast.alias(asname=name):
            yield name or ""
            return
    for field, value in ast.iter_fields(node):
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and field != "type_comment":
                yield item


def _check_ways_out(tree: ast.Module) -> None:
    """Refuse modules that an allowed module contains by chance, such as `re.enum`, and that lead to all others."""
    known: dict[str, ModuleType] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    top, whole = alias.name.partition(".")[0], _load(alias.name, node.lineno)
                    known[alias.asname or top] = whole if alias.asname else _load(top, node.lineno)
            case ast.ImportFrom(module=str(module), names=aliases):
                for alias in aliases:
                    _step_into(_load(module, node.lineno), alias.name, node.lineno)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            _find_module(node, known)


def _load(name: str, line: int) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ToolSourceError(line, f"it imports what is not there: {error}") from None


def _find_module(node: ast.expr, known: Mapping[str, ModuleType]) -> ModuleType | None:
    """Find the module that an expression means; None if it means something else."""
    match node:
        case ast.Name(id=name):
            return known.get(name)
        case ast.Attribute(value=value, attr=name):
            base = _find_module(value, known)
            return _step_into(base, name, node.lineno) if base else None
    return None


def _step_into(base: ModuleType, name: str, line: int) -> ModuleType | None:
    found = getattr(base, name, None)
    if not isinstance(found, ModuleType):
        return None
    if not found.__name__.startswith(f"{base.__name__}."):
        raise ToolSourceError(line, f"{base.__name__}.{name} is another module; import it itself, if allowed")
    return found


class _Parameter(NamedTuple):
    name: str
    schema: dict[str, Any]
    required: bool


def _make_schema(function: ast.FunctionDef) -> dict[str, Any]:
    found, line = function.args, function.lineno
    if found.posonlyargs or found.vararg:
        raise ToolSourceError(line, f"{FUNCTION} is called by keyword; take no positional-only parameters and no *args")
    named = [*found.args, *found.kwonlyargs]
    if not 1 <= len(named) <= PARAMETERS:
        raise ToolSourceError(line, f"{FUNCTION} takes {len(named)} parameters; it needs between 1 and {PARAMETERS}")
    defaults = [*[None] * (len(found.args) - len(found.defaults)), *found.defaults, *found.kw_defaults]
    parameters = [_make_parameter(argument, default) for argument, default in zip(named, defaults, strict=True)]
    return {
        "type": "object",
        "properties": {parameter.name: parameter.schema for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required],
        "additionalProperties": found.kwarg is not None,
    }


def _make_parameter(argument: ast.arg, default: ast.expr | None) -> _Parameter:
    name, line = argument.arg, argument.lineno
    if not name.isascii():
        raise ToolSourceError(line, f"the parameter {name!r} needs a name of plain letters")
    if argument.annotation is None and name != "input_data":
        raise ToolSourceError(line, f"the parameter {name!r} needs a type: one of {', '.join(_TYPES)}")
    schema = _make_type(argument.annotation) if argument.annotation else {"type": "string"}
    if default is None:
        return _Parameter(name, schema, True)
    if not _is_literal(default):
        raise ToolSourceError(default.lineno, f"the default of {name!r} must be a literal")
    return _Parameter(name, schema, False)


def _make_type(annotation: ast.expr) -> dict[str, Any]:
    match annotation:
        case ast.Name(id=name) if name in _TYPES:
            return {"type": _TYPES[name]}
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return {"type": "array", "items": _make_type(item)}
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[ast.Name(id="str"), item])):
            return {"type": "object", "additionalProperties": _make_type(item)}
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _make_type(left)
    raise ToolSourceError(
        annotation.lineno,
        f"the type {ast.unparse(annotation)[:60]} is not supported; use {', '.join(_TYPES)}, list[int], dict[str, int]",
    )


TOOLS, EXAMPLES, TEXT_LENGTH = 32, 16, 4_000
"""Most tools of a team, examples of a tool, and characters of a text or of the arguments of an example."""


class ToolExample(FrozenModel):
    """A call with its correct result.

    Args:
        arguments: a JSON object by parameter.
        result: the correct return value, as text.
    """

    arguments: FrozenJson = Field(default_factory=FrozenMap)
    result: str = Field(max_length=TEXT_LENGTH)

    @field_validator("arguments")
    @classmethod
    def _check_arguments(cls, arguments: Any) -> Any:
        if not isinstance(arguments, Mapping):
            raise ValueError(f"arguments must be a JSON object, not {arguments!r}")
        if (length := len(to_canonical_json(arguments))) > TEXT_LENGTH:
            raise ValueError(f"the arguments have {length:,} characters; at most {TEXT_LENGTH:,} are allowed")
        return arguments


class ToolRecord(FrozenModel):
    """Statistics of a tool's version: calls, failures, and seconds of all calls together."""

    calls: int = Field(default=0, ge=0)
    failures: int = Field(default=0, ge=0)
    seconds: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.failures > self.calls:
            raise ValueError(f"{self.failures} failures are more than {self.calls} calls")
        return self

    @property
    def latency(self) -> float | None:
        """Mean seconds of a call; None before the first call."""
        return self.seconds / self.calls if self.calls else None

    @property
    def success_rate(self) -> float | None:
        """Share of calls that did not fail; None before the first call."""
        return 1 - self.failures / self.calls if self.calls else None

    def __add__(self, other: "ToolRecord") -> "ToolRecord":
        return ToolRecord(
            calls=self.calls + other.calls,
            failures=self.failures + other.failures,
            seconds=self.seconds + other.seconds,
        )


class ToolOutcome(FrozenModel):
    """The outcome of a call of a team's tool.

    Args:
        result: the return value, or the reason of the failure, as the agent reads it.
        failed: whether the function raised or was stopped.
        seconds: run time of the call.
    """

    result: str
    failed: bool = False
    seconds: float = Field(default=0.0, ge=0)


class OwnTool(FrozenModel):
    """A tool of a team: one Python function, `tool_function`, which runs in a sandbox.

    Args:
        name: the name in agents' lists of tools.
        description: purpose and return value; models choose tools by it.
        source: the code; see `check_tool_source`.
        version: number from 1; each rewrite adds one.
        by, why: author of this version, and the reason for it.
        examples: calls with known results; a new version must pass them.
        record: statistics of this version; not part of a team's fingerprint.

    Raises:
        ValueError: the source is not allowed, or an example does not fit its parameters.
    """

    name: Id
    description: str = Field(min_length=1, max_length=TEXT_LENGTH)
    source: str
    version: int = Field(default=1, ge=1)
    by: str = Field(default="", max_length=TEXT_LENGTH)
    why: str = Field(default="", max_length=TEXT_LENGTH)
    examples: tuple[ToolExample, ...] = Field(default=(), max_length=EXAMPLES)
    record: ToolRecord = ToolRecord()

    @model_validator(mode="after")
    def _check(self) -> Self:
        schema = self.parameters
        for example in self.examples:
            given, known = set(example.arguments), set(schema["properties"])
            if missing := sorted(set(schema["required"]) - given):
                raise ValueError(f"an example of tool {self.name!r} lacks {', '.join(missing)}")
            if not schema["additionalProperties"] and (unknown := sorted(given - known)):
                raise ValueError(f"an example of tool {self.name!r} has {', '.join(unknown)}, which it does not take")
        return self

    @cached_property
    def parameters(self) -> Any:
        """The JSON schema of the arguments."""
        return _find_parameters(self.source)

    @property
    def spec(self) -> ToolSpec:
        """The tool as models see it."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)


_find_parameters = lru_cache(maxsize=256)(check_tool_source)
"""Cached, since each edit and each load validates the team's tools again."""

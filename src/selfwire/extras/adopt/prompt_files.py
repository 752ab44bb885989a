"""Files from which a program reads its prompts: their paths, as its source computes them, and their texts.

It gets expressions that `source` traces to no literal, and hands texts with their places in files to `texts`.
"""

import ast
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from selfwire.extras.adopt.names import Element, Imported, Outside, Surroundings, Traced
from selfwire.extras.adopt.source import DEEPEST, Program, end_circles
from selfwire.extras.adopt.syntax import get_argument, get_last_name, is_text, read_key

LARGEST = 1_000_000
"""Bytes of a file from which on it is no prompt."""
FRONT = re.compile(r"---[ \t]*\n.*?\n---[ \t]*\n\s*", re.DOTALL)
"""Front matter, with the white space behind it."""
READS = ("read_text", "read", "readlines", "read_bytes")
LOADS = ("safe_load", "load", "full_load", "loads", "load_all", "DictReader")
TABLES = (".csv", ".tsv")
STRUCTURED = (".yaml", ".yml", ".json", ".toml", *TABLES)
CELL = re.compile(r'"((?:[^"]|"")*)"')
"""A cell of a table in a file that stands between quotes."""
MOST_LOADED = 64
"""Items of a collection in a file from which on they are not told apart."""
TABLE = re.compile(r"\s*(?:\[\[([^\[\]]+)\]\]|\[([^\[\]]+)\])\s*(?:#.*)?$")
"""The line of a TOML file with which an entry of an array of tables, or a table, begins."""
ANY = "*"
VISIBLE = "[!.]*"
"""The files of a folder that `iterdir` lists; an unknown name is `ANY`, for which no folder is searched."""


class FileText(NamedTuple):
    """A text in a file.

    Attributes:
        key: keys that lead to it in a YAML or JSON file, with dots; "" for a whole file.
    """

    path: Path
    key: str
    text: str
    line: int
    end_line: int
    column: int = 0
    end_column: int = 0


def find_read(program: Program, node: ast.Call, at: Surroundings) -> tuple[ast.expr, Surroundings] | None:
    """Find the path of the file that a call reads, such as `Path(p).read_text()` or `open(p).read()`.

    Returns:
        The path's expression, or None if the call reads no file.
    """
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_module = owner is not None and any(isinstance(found.node, Outside) for found in program.trace(owner, at))
    if not isinstance(node.func, ast.Attribute) or is_module or node.func.attr not in (*READS, "decode"):
        is_resource = get_last_name(node.func) in ("read_text", "get_data") and len(node.args) > 1
        return (node, at) if is_resource else None  # `importlib.resources.read_text(package, name)`, `pkgutil.get_data`
    for found in program.trace(node.func.value, at):
        opened = find_opened(program, found)
        if opened is not None:
            return opened
    return (node.func.value, at) if node.func.attr in ("read_text", "read_bytes") else None


def find_opened(program: Program, found: Traced) -> tuple[ast.expr, Surroundings] | None:
    """Find the path that `open(p)`, `p.open()` or `codecs.open(p)` opens."""
    call = found.node
    if not isinstance(call, ast.Call):
        return None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "open":
        owners = [owner.node for owner in program.trace(call.func.value, found.at)]
        if not any(isinstance(owner, Outside) for owner in owners):
            return call.func.value, found.at
    if get_last_name(call.func) == "open" and call.args:
        return call.args[0], found.at
    return find_read(program, call, found.at) if get_last_name(call.func) in READS else None


def find_loaded(program: Program, node: ast.expr, at: Surroundings) -> tuple[Traced, tuple[Any, ...]] | None:
    """Find the call that loads what an item of a YAML, JSON or TOML file is taken from, and the keys of the item."""
    keys: list[Any] = []
    inner: Any = node
    where = at
    for _ in range(DEEPEST):
        if isinstance(inner, ast.Call) and get_last_name(inner.func) in ("list", "tuple") and inner.args:
            inner = inner.args[0]
            continue
        found = [value for value in program.trace(inner, where) if value.node is not inner]
        found = [value for value in found if isinstance(value.node, ast.Call | ast.Subscript | Element)]
        if found:  # of the program's own function too, which may be called `load`, or take it from elsewhere
            loads = [value for value in found if is_prompt_loader(get_last_name(getattr(value.node, "func", None)))]
            inner, where = (loads or found)[0][:2]
            continue
        if isinstance(inner, ast.Call) and is_prompt_loader(get_last_name(inner.func)):
            return Traced(inner, where), tuple(keys)
        if isinstance(inner, ast.Subscript):
            keys.insert(0, tuple(program.list_keys(inner.slice, where)) or None)
            inner = inner.value
            continue
        if isinstance(inner, ast.Call) and get_last_name(inner.func) == "get" and inner.args:
            keys.insert(0, tuple(program.list_keys(inner.args[0], where)) or None)
            inner = getattr(inner.func, "value", None)
            continue
        if isinstance(inner, Element):
            indices = ((Traced(ast.Constant(index), where),) for index in inner.path)
            keys[:0] = [*([None] if inner.loop else []), *indices]
            inner = inner.source
            continue
        return None
    return None


def find_loaded_path(program: Program, call: ast.Call, at: Surroundings) -> tuple[ast.expr, Surroundings] | None:
    """Find the path of the file that a call such as `yaml.safe_load(file)` loads; None if it loads none."""
    if not is_prompt_loader(get_last_name(call.func)) or not call.args:
        return None
    opened = None
    for value in program.trace(call.args[0], at):
        if isinstance(value.node, ast.Call):
            opened = find_opened(program, value) or find_read(program, value.node, value.at)
    return opened


def read_loaded(
    program: Program, opened: tuple[ast.expr, Surroundings], keys: tuple[Any, ...]
) -> list[FileText] | None:
    """Read the texts below keys as `find_loaded` finds them, in the files of a path; None if none can be read."""
    known_keys = tuple(level and tuple(read_key(key.node) for key in level) for level in keys)
    read = [program.look(read_keys, path, known_keys) for path in list_files(program, *opened)]
    known = [texts for texts in read if texts is not None]
    return [text for texts in known for text in texts] if known else None


def list_loaded(program: Program, node: ast.expr, at: Surroundings) -> list[str] | range:
    """List the keys, or the indices, of a collection that a program loads from one file; none of a long one."""
    value = load_value(program, node, at)
    if not isinstance(value, dict | list) or len(value) > MOST_LOADED:
        return []
    return [key for key in value if isinstance(key, str)] if isinstance(value, dict) else range(len(value))


def load_value(program: Program, node: ast.expr, at: Surroundings) -> Any:
    """Load what a program takes from one file; None if it is not there."""
    found = find_loaded(program, node, at)
    opened = find_loaded_path(program, *found[0][:2]) if found else None
    files = list_files(program, *opened) if opened else []
    value: Any = _load(text, files[0].suffix) if len(files) == 1 and (text := read_text_file(files[0])) else None
    for level in found[1] if found else ():
        keys = [read_key(key.node) for key in level or ()]
        try:
            value = value[keys[0]] if len(keys) == 1 else None
        except (LookupError, TypeError):
            return None
    return value


def load_settled(program: Program, node: ast.expr, at: Surroundings) -> Any:
    """Load what a program takes from one file and changes nowhere; None if it is not there, or may be another."""
    found = find_loaded(program, node, at)
    if found is None or found[0].node in _list_changed_loads(program) or not _has_one_source(program, node, at):
        return None
    return load_value(program, node, at)


def _list_changed_loads(program: Program) -> set[Any]:
    """List the calls that load what code of the program changes; all calls that load, while it is asked."""
    if program.changed_loads is None:
        program.changed_loads = {call.node for calls in program.calls.values() for call in calls}
        parts = [part for target in program.changing for part in program.trace(*target[:2])]
        loads = [find_loaded(program, *part[:2]) for part in parts if isinstance(part.node, ast.expr | Element)]
        program.changed_loads = {load[0].node for load in loads if load is not None}
    return program.changed_loads


def _has_one_source(program: Program, node: Any, at: Surroundings) -> bool:
    """Whether each name on the way from an item to the file that it is loaded from has one value."""
    where = at
    for _ in range(DEEPEST):
        if isinstance(node, ast.Call) and is_prompt_loader(get_last_name(node.func)):
            return True
        if isinstance(node, ast.Name | ast.Attribute):
            found = program.trace(node, where)
            if len(found) != 1 or found[0].node is node or get_last_name(node) in program.rebound | program.replaced:
                return False
            node, where = found[0].node, found[0].at
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and get_last_name(node.func) == "get":
            node = getattr(node.func, "value", None)
        elif isinstance(node, ast.Call):
            found = program.trace(node, where)
            if len(found) != 1 or found[0].node is node:
                return False
            node, where = found[0].node, found[0].at
        else:
            return False
    return False


def list_files(program: Program, node: ast.expr, at: Surroundings) -> list[Path]:
    """Find the files of the program that an expression names; several where a part of the name is computed."""
    folders = (Path.cwd(), at.file.path.parent, *program.roots, program.project)
    found = (program.look(_match, pattern, folders, program.project) for pattern in find_patterns(program, node, at))
    return list(dict.fromkeys(path for paths in found for path in paths))


def list_globbed(program: Program, node: ast.Call, at: Surroundings) -> list[Path]:
    """List the files of `folder.glob(pattern)`, `rglob` or `iterdir`."""
    pattern: ast.expr = node.args[0] if node.args else ast.Constant("*")
    if is_text(pattern) and pattern.value == "*":  # unlike a name that is not known
        pattern = ast.Constant(VISIBLE)
    if get_last_name(node.func) == "rglob":
        pattern = ast.BinOp(ast.Constant("**"), ast.Div(), pattern)
    return list_files(program, ast.BinOp(node.func.value, ast.Div(), pattern), at)  # type: ignore[attr-defined]


def _match(pattern: str, folders: Sequence[Path], project: Path) -> list[Path]:
    """List the files of a project in the first folder that has any; a pattern is only searched for within it."""
    for place in dict.fromkeys(folder / pattern for folder in folders):  # one, where the pattern is a whole path
        parts = place.parts
        wild = next((index for index, part in enumerate(parts) if ANY in part), None)
        matched = list[Path]()
        with suppress(OSError):  # of a name that is too long, as a text is that only may be a name
            if wild is None:
                matched = [place] if place.is_file() else []
            else:
                folder, rest = Path(*parts[:wild]), "/".join(parts[wild:])
                is_inside = folder.is_dir() and rest.strip("*/.") and folder.resolve().is_relative_to(project)
                matched = [path for path in folder.glob(rest) if path.is_file()] if is_inside else []
        if matched:
            return sorted(path for path in (place.resolve() for place in matched) if path.is_relative_to(project))
    return []


@end_circles([ANY])
def find_patterns(program: Program, node: Any, at: Surroundings) -> list[str]:
    """Find the paths that an expression may be, with `*` for parts that are not known."""
    found: list[str] = []
    for value in program.trace(node, at):
        read = PATHS.get(type(value.node))
        found += read(program, value.node, value.at) if read else [ANY]
    return list(dict.fromkeys(found)) or [ANY]


def _read_f_string(program: Program, node: ast.JoinedStr, at: Surroundings) -> list[str]:
    found = [""]
    for part in node.values:
        value = part.value if isinstance(part, ast.FormattedValue) else part
        found = [before + text for before in found for text in find_patterns(program, value, at)]
    return found


def _read_sum(program: Program, node: ast.BinOp, at: Surroundings) -> list[str]:
    between = "/" if isinstance(node.op, ast.Div) else ""
    lefts, rights = find_patterns(program, node.left, at), find_patterns(program, node.right, at)
    return [f"{left.rstrip('/') if between else left}{between}{right}" for left in lefts for right in rights]


def _read_attribute(program: Program, node: ast.Attribute, at: Surroundings) -> list[str]:
    bases = find_patterns(program, node.value, at)
    if node.attr == "value":  # of an Enum's member
        return bases
    return [str(Path(base).parent) if node.attr == "parent" else ANY for base in bases]


def _read_subscript(program: Program, node: ast.Subscript, at: Surroundings) -> list[str]:
    """Read `path.parents[n]`, and a name that stands in another file."""
    if isinstance(node.value, ast.Attribute) and node.value.attr == "parents" and isinstance(node.slice, ast.Constant):
        bases, up = [Path(base) for base in find_patterns(program, node.value.value, at)], node.slice.value
        return [str(base.parents[up]) for base in bases if isinstance(up, int) and len(base.parents) > up]
    return _read_listed(program, node, at)


def _read_listed(program: Program, node: Any, at: Surroundings) -> list[str]:
    """Read the names of files in a file that the program loads, such as a list of its prompts."""
    found = find_loaded(program, node, at)
    opened = find_loaded_path(program, *found[0][:2]) if found else None
    texts = read_loaded(program, opened, found[1]) if found and opened else None
    return [text.text for text in texts or () if not {"\n", ANY} & {*text.text}] or [ANY]


def _read_call(program: Program, node: ast.Call, at: Surroundings) -> list[str]:
    name = get_last_name(node.func)
    if name in ("join", "Path", "PurePath", "joinpath", "with_name"):
        parts = list(node.args)
        if name in ("joinpath", "with_name") and isinstance(node.func, ast.Attribute):
            base: ast.expr = node.func.value
            parts.insert(0, ast.Attribute(base, "parent", ast.Load()) if name == "with_name" else base)
        found = [""]
        for part in parts:
            found = [str(Path(before, text)) for before in found for text in find_patterns(program, part, at)]
        return found
    if name == "dirname" and node.args:
        return [str(Path(base).parent) for base in find_patterns(program, node.args[0], at)]
    if name in ("abspath", "realpath", "normpath", "str", "fspath") and node.args:
        return find_patterns(program, node.args[0], at)
    if name == "with_suffix" and isinstance(node.func, ast.Attribute) and node.args and is_text(node.args[0]):
        bases = (base for base in find_patterns(program, node.func.value, at) if Path(base).name)
        return [str(Path(base).with_suffix(node.args[0].value)) for base in bases]
    if name in ("resolve", "absolute", "expanduser") and isinstance(node.func, ast.Attribute):
        return find_patterns(program, node.func.value, at)
    if name in ("files", "read_text", "get_data"):
        return _read_resource(program, node, at)
    return [str(Path.cwd())] if name in ("cwd", "getcwd") else _read_listed(program, node, at)


def _read_resource(program: Program, node: ast.Call, at: Surroundings) -> list[str]:
    """Read `importlib.resources.files("my_app.prompts")` and its older forms."""
    named = find_patterns(program, node.args[0], at) if node.args else [at.file.name.rpartition(".")[0]]
    packages = [package if Path(package).is_absolute() else package.replace(".", "/") for package in named]
    folders = [root / package for package in packages for root in program.roots]
    folders = [folder for folder in folders if folder.is_dir()] or [at.file.path.parent]
    if len(node.args) < 2:
        return [str(folder) for folder in folders]
    return [str(folder / name) for folder in folders for name in find_patterns(program, node.args[1], at)]


PATHS: dict[type, Callable[..., list[str]]] = {
    ast.Constant: lambda program, node, at: [node.value if is_text(node) else ANY],
    Outside: lambda program, node, at: [str(at.file.path) if node.name == "__file__" else ANY],
    Imported: lambda program, node, at: [str(node.file.path.parent)],
    ast.JoinedStr: _read_f_string,
    ast.BinOp: _read_sum,
    ast.Attribute: _read_attribute,
    ast.Subscript: _read_subscript,
    ast.Call: _read_call,
    Element: _read_listed,
}
"""How a path is read from an expression, by its kind."""


def read_text_file(path: Path) -> str | None:
    """Read a file without its byte order mark; None if it is no text."""
    try:
        if path.stat().st_size > LARGEST:
            return None
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return None


def read_whole(path: Path) -> FileText | None:
    """Read a file as one text."""
    text = read_text_file(path)
    if text is None:
        return None
    lines = text.removesuffix("\n").split("\n")
    return FileText(path, "", text, 1, len(lines), 0, len(lines[-1]))


def read_body(path: Path) -> FileText | None:
    """Read the text of a file behind its front matter between two lines of `---`; None if it has none."""
    whole = read_whole(path)
    found = FRONT.match(whole.text) if whole is not None else None
    if whole is None or found is None:
        return None
    line = whole.text.count("\n", 0, found.end()) + 1
    return whole._replace(text=whole.text[found.end() :], line=line)


def find_bodies(program: Program, node: Any, at: Surroundings) -> list[FileText]:
    """Find the texts behind the front matter of files, where code cuts them off.

    It does so by `text.split("---", 2)` or `partition`, by `re.sub` of a pattern with `---`, or by python-frontmatter.
    """
    is_content = isinstance(node, ast.Attribute) and node.attr == "content"
    text = (node.value, at) if is_content else _find_cut(program, node, at)
    calls = [found for found in program.trace(*text) if isinstance(found.node, ast.Call)] if text else []
    opened = [_find_parsed(program, found) if is_content else find_read(program, *found[:2]) for found in calls]
    bodies = [read_body(path) for place in opened if place is not None for path in list_files(program, *place)]
    return [body for body in bodies if body is not None]


def _find_parsed(program: Program, found: Traced) -> tuple[ast.expr, Surroundings] | None:
    """Find the path of the file that a call of python-frontmatter parses."""
    makers = [maker.node.name for maker in program.trace(found.node.func, found.at) if isinstance(maker.node, Outside)]
    is_parser = any(name.partition(".")[0] == "frontmatter" for name in makers)
    return (found.node.args[0], found.at) if is_parser and found.node.args else None


def _find_cut(program: Program, node: Any, at: Surroundings) -> tuple[ast.expr, Surroundings] | None:
    """Find the text of which an expression is what stands behind its front matter."""
    last = node.path[-1:] if isinstance(node, Element) else ()
    if isinstance(node, ast.Subscript):
        last = (read_key(node.slice),)
    if last in ((2,), (-1,)):
        for found in program.trace(node.source if isinstance(node, Element) else node.value, at):
            call = found.node
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if (call.func.attr, len(call.args)) not in (("split", 2), ("partition", 1)):
                continue
            if any("---" in separator for separator in _list_texts(program, call.args[0], found.at)):
                whole = call.func.value
                return whole.value if isinstance(whole, ast.Subscript) else whole, found.at
    if isinstance(node, ast.Call) and get_last_name(node.func) == "sub":
        patterns, text = find_substitution(program, node, at)
        if text is not None and any("---" in pattern for pattern in patterns):
            return text, at
    return None


def find_substitution(program: Program, node: ast.Call, at: Surroundings) -> tuple[list[str], ast.expr | None]:
    """Find the known patterns and the text of `re.sub(pattern, value, text)` or `pattern.sub(value, text)`."""
    made = program.trace(node.func, at)
    if any(isinstance(found.node, Outside) and found.node.name in ("re.sub", "regex.sub") for found in made):
        place, makings = 2, [Traced(node, at)]
    else:
        place, makings = 1, program.trace(getattr(node.func, "value", None), at)
    patterns = list[str]()
    for making in makings:
        if isinstance(making.node, ast.Call):
            patterns += _list_texts(program, get_argument(making.node, 0, "pattern"), making.at)
    return patterns, get_argument(node, place, "string")


def _list_texts(program: Program, node: ast.expr | None, at: Surroundings) -> list[str]:
    return [found.node.value for found in program.trace(node, at) if is_text(found.node)]


def read_keys(path: Path, keys: tuple[Any, ...]) -> list[FileText] | None:
    """Read the texts of a YAML, JSON or TOML file below some keys; None if it cannot be read.

    Args:
        keys: those of each level that may be meant; None stands for all keys.
    """
    text = read_text_file(path)
    if text is None or path.suffix not in STRUCTURED:
        return None
    if path.suffix in TABLES:
        return _list_table(text, keys, path)
    if path.suffix == ".toml":
        loaded = _load(text, path.suffix)
        return None if loaded is None else list(_list_toml(loaded, keys, path, text, ""))
    if (yaml := _import_yaml()) is None:
        return None
    try:
        root = _compose(text)
    except yaml.YAMLError:
        return None
    return [] if root is None else list(_list_scalars(root, keys, path, ""))


def _import_yaml() -> Any:
    return import_module("yaml") if find_spec("yaml") else None


@lru_cache
def _compose(text: str) -> Any:
    """Compose the nodes of YAML or JSON; raises YAMLError also where aliases in aliases make more than can be read."""
    yaml = _import_yaml()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None and _count_unfolded(root, {}) > LARGEST:
        raise yaml.YAMLError("its aliases multiply")
    return root


def _count_unfolded(node: Any, known: dict[int, float]) -> float:
    """Count the parts of a file with each alias replaced by what it stands for; infinite where one holds itself."""
    if isinstance(node.value, str):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf
        items = [item if isinstance(item, tuple) else (item,) for item in node.value]
        known[id(node)] = 1 + sum(_count_unfolded(part, known) for item in items for part in item)
    return known[id(node)]


@lru_cache
def _load(text: str, suffix: str) -> Any:
    """Load a YAML, JSON, TOML or CSV file; None if it cannot be read."""
    if suffix in TABLES:
        header, *rows = _list_rows(text) or [()]
        return [{name.text: cell.text for name, cell in zip(header, row, strict=False)} for row in rows]
    if suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return None
    if (yaml := _import_yaml()) is None or suffix not in STRUCTURED:
        return None
    try:
        root = _compose(text)
        made = deepcopy(root) if "<<" in text else root  # merges are resolved in the nodes themselves
        return None if root is None else yaml.SafeLoader("").construct_document(made)
    except (yaml.YAMLError, ValueError):  # a date such as 2024-02-30
        return None


def _list_scalars(node: Any, keys: tuple[Any, ...], path: Path, name: str) -> Iterator[FileText]:
    if isinstance(node.value, str):
        if not keys and node.tag.endswith(":str"):
            start, end = node.start_mark, node.end_mark
            last = end.line if end.column else end.line - 1  # a block ends at the start of the next line
            yield FileText(path, name, node.value, start.line + 1, max(last, start.line) + 1, start.column, end.column)
        return
    key, rest = (keys[0], keys[1:]) if keys else (None, ())
    own = {item[0].value for item in node.value if isinstance(item, tuple)}
    for index, item in enumerate(node.value):
        at, value = (item[0].value, item[1]) if isinstance(item, tuple) else (index, item)
        if at == "<<":  # a merge takes in the keys of another
            yield from _list_scalars(value, keys, path, name) if key is None or not {*map(str, key)} & own else ()
        elif key is None or str(at) in map(str, key):
            yield from _list_scalars(value, rest, path, f"{name}.{at}".strip("."))


def _list_toml(value: Any, keys: tuple[Any, ...], path: Path, text: str, name: str) -> Iterator[FileText]:
    """List the texts of TOML, whose parser tells no lines."""
    if isinstance(value, str) and not keys:
        (line, column), (last, end_column) = (_count(text, at) for at in find_toml_text(text, name, value))
        yield FileText(path, name, value, line, last, column, end_column)
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if not keys or keys[0] is None or str(key) in map(str, keys[0]):
                yield from _list_toml(inner, keys[1:], path, text, f"{name}.{key}".strip("."))


def find_toml_text(source: str, name: str, value: str) -> tuple[int, int]:
    """Find the begin and the end of a text in TOML, behind its key and with or without escapes."""
    text, key = value.strip(), name
    while (start := _find_toml_key(source, key)) < 0:  # of a list or a table of one line, the key is that of the whole
        key = key.rpartition(".")[0]
    for written in (text, escape_toml(text)):
        for mark in ('"', "'", "") if key != name else ("",):  # inside a whole, a text may be part of another
            if (begin := source.find(f"{mark}{written}{mark}", start)) >= 0:
                return begin + len(mark), begin + len(mark) + len(written)
    return start, start


def _find_toml_key(source: str, name: str) -> int:
    """Find where the line of a key begins; 0 for no key, -1 if it has no line, as in a table of one line."""
    at, table, numbers = 0, "", Counter[str]()
    for line in source.splitlines(keepends=True):
        if header := TABLE.match(line):
            table = f"{header[2]}." if header[2] else f"{header[1]}.{numbers[header[1]]}."
            numbers[header[1]] += 1
        elif name == table + line.partition("=")[0].strip().replace('"', ""):
            return at
        at += len(line)
    return -1 if name else 0


def escape_toml(text: str) -> str:
    """Write a text as it stands between double quotes on one line."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


class CsvCell(NamedTuple):
    """A cell of a CSV file, and where it begins and ends there."""

    text: str
    begin: int
    end: int


@lru_cache
def _list_rows(source: str) -> list[tuple[CsvCell, ...]]:
    """Read the rows of a CSV file without empty lines; the first names the columns."""
    first = source.partition("\n")[0]
    delimiter = next((mark for mark in "\t;" if mark in first and "," not in first), ",")
    rows, row, at = list[tuple[CsvCell, ...]](), list[CsvCell](), 0
    while at < len(source):
        begin, quoted = at, CELL.match(source, at)
        at = quoted.end() if quoted else _find_end(source, at, delimiter)
        row.append(CsvCell(read_cell(source[begin:at]), begin, at))
        if source[at : at + 1] != delimiter:
            at = _find_end(source, at, "\n")
            rows += [tuple(row)] if len(row) > 1 or row[0].text else []
            row = []
        at += 1
    return rows


def _find_end(source: str, at: int, delimiter: str) -> int:
    """Find where a cell without quotes ends."""
    found = re.compile(f"[{delimiter}\n]").search(source, at)
    return found.start() if found else len(source)


def _list_table(source: str, keys: tuple[Any, ...], path: Path) -> list[FileText] | None:
    """List the texts of a CSV file by numbers of rows and names of columns; None of a long one."""
    header, *rows = _list_rows(source) or [()]
    if len(rows) > MOST_LOADED:
        return None
    chosen, named = (*keys[:2], None, None)[:2]
    found = []
    for number, row in enumerate(rows):
        for name, cell in zip(header, row, strict=False):
            if chosen in (None, (number,)) and (named is None or name.text in named):
                (line, column), (last, end) = (_count(source, part) for part in (cell.begin, cell.end))
                found.append(FileText(path, f"{number}.{name.text}", cell.text, line, last, column, end))
    return found


def _count(source: str, at: int) -> tuple[int, int]:
    """The line and the column of a place in a file."""
    return source.count("\n", 0, at) + 1, at - source.rfind("\n", 0, at) - 1


def read_cell(written: str) -> str:
    """Read a cell as it stands in a CSV file."""
    found = CELL.fullmatch(written)
    return found[1].replace('""', '"') if found else written


def write_cell(text: str, *, is_quoted: bool) -> str:
    """Write a cell of a CSV file, between quotes where it needs them."""
    return '"' + text.replace('"', '""') + '"' if is_quoted or {*text} & {*',;\t\n"'} else text


def is_prompt_loader(name: str) -> bool:
    """Whether a function reads a YAML, JSON, TOML or CSV file or text."""
    return name in LOADS or re.fullmatch(r"load_(yaml|json|toml)\w*", name) is not None

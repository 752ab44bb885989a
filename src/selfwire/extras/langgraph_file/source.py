"""Python source: literals of texts that others wrote, copies of definitions, and the imports that they need."""

import ast
import builtins
import keyword
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Set
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from selfwire.core.errors import ConfigError

WIDTH = 88
"""Characters of a line."""
COMMENT = 100
"""Most characters of a comment."""


def write_literal(text: str) -> str:
    """Write a text as a literal of Python, a long one between triple quotes; nothing in it can end the literal.

    Raises:
        ConfigError: it is read back as another text.
    """
    if "\n" not in text and len(text) <= WIDTH - 8:
        written = f'"{_escape(text)}"'
    else:
        lines = [_escape_end(_escape(line)) for line in text.split("\n")]
        folded = "\n".join(part for line in lines for part in _fold(line))
        written = f'"""\\\n{folded}"""'
    if ast.literal_eval(written) != text:
        raise ConfigError(f"a text cannot be written as Python: {text[:80]!a}")
    return written


def _escape(text: str) -> str:
    """Escape backslashes, quotes, and characters that cannot be seen, such as those that turn the direction around."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"') if '"""' in text or "\n" not in text else text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in plain
    )


def _escape_end(line: str) -> str:
    """Write a blank at the end of a line so that editors leave it."""
    return f"{line[:-1]}\\x20" if line.endswith(" ") else line


def _fold(line: str) -> list[str]:
    """Fold a line between words by backslashes, which the literal leaves out."""
    parts = [""]
    for word in re.findall(r" *[^ ]+ *| +", line):
        if parts[-1] and len(parts[-1]) + len(word.rstrip()) > WIDTH:
            parts.append("")
        parts[-1] += word
    return [*(f"{part}\\" for part in parts[:-1]), parts[-1]]


def write_comment(text: str) -> str:
    """Write a text for a comment or a docstring: in one line, without what could end it, cut where it is long."""
    shown = "".join(char for char in " ".join(text.split()) if char.isprintable())
    plain = shown.replace("\\", "/").replace('"', "'")
    return plain if len(plain) <= COMMENT else f"{plain[:COMMENT].rpartition(' ')[0]} ..."


class NameSpace:
    """Names of Python for ids of agents and tools, each given once.

    Args:
        taken: names that are used otherwise.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*taken, *keyword.kwlist, *keyword.softkwlist, *dir(builtins)}

    def add(self, id: str, *, otherwise: str = "", upper: bool = False) -> str:
        """Make a name of an id: letters, digits and underscores, with a number where it is taken.

        Args:
            otherwise: an id to try before numbers.
        """
        wanted = [_to_name(id, upper=upper), *([_to_name(otherwise, upper=upper)] if otherwise else [])]
        numbered = (f"{wanted[-1]}_{number}" for number in count(2))
        name = next(name for name in chain(wanted, numbered) if name not in self._taken)
        self._taken.add(name)
        return name


def _to_name(id: str, *, upper: bool) -> str:
    plain = id.replace("-", "_").strip("_") or "agent"
    plain = f"agent_{plain}" if plain[0].isdigit() else plain
    return plain.upper() if upper else plain


class _Module(NamedTuple):
    """A module as source: its definitions in order, and names that it imports, by module and name there."""

    source: str
    definitions: Mapping[str, tuple[int, int]]
    imported: Mapping[str, tuple[str, str]]


@cache
def read_module(name: str) -> _Module:
    """Read a module's definitions and imports."""
    spec = find_spec(name)
    place = spec.origin if spec else None
    assert place is not None, f"{name} is a module of this package"
    return parse_module(Path(place).read_text(encoding="utf-8"))


def parse_module(source: str) -> _Module:
    """Find the definitions of a source, with the docstring below a constant and the comment above, and its imports."""
    definitions: dict[str, tuple[int, int]] = {}
    imported: dict[str, tuple[str, str]] = {}
    last: list[str] = []
    for statement in ast.parse(source).body:
        above = [node.lineno for node in getattr(statement, "decorator_list", ())]
        first, end = min([statement.lineno, *above]), statement.end_lineno or statement.lineno
        match statement:
            case ast.Import(names=names):
                imported |= {alias.asname or alias.name: (alias.name, "") for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                imported |= {alias.asname or alias.name: (module, alias.name) for alias in names}
            case ast.Expr(value=ast.Constant(value=str())):
                definitions |= {name: (definitions[name][0], end) for name in last}
                continue
        last = _list_targets(statement)
        definitions |= dict.fromkeys(last, (first, end))
    return _Module(source, definitions, imported)


def _list_targets(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
    return []


def list_names(source: str) -> set[str]:
    """List the names that a source reads or defines."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                found.add(name)
    return found


Places = dict[str, tuple[str, str]]
"""Where names are imported from: module, and name there, which a module itself has none of."""


def copy_definitions(
    wanted: Mapping[str, Collection[str]], renamed: Mapping[str, str], there: Collection[str] = ()
) -> tuple[str, Places]:
    """Copy definitions by their modules, with all of this package that they need, and find their other imports.

    Args:
        renamed: names that the copy has for names here; where they come from is for the caller to say.
        there: names that the file has already.
    """
    needed: dict[str, set[str]] = {}
    places: Places = {}

    def collect(module: str, name: str) -> None:
        found = read_module(module)
        if name in renamed or name in there or name in needed.get(module, ()):
            return
        if name in found.definitions:
            needed.setdefault(module, set()).add(name)
            for inner in sorted(list_names(_cut(found, name))):
                collect(module, inner)
        elif name in found.imported:
            source, original = found.imported[name]
            if source.partition(".")[0] == __name__.partition(".")[0]:
                collect(source, original)
            else:
                places[name] = (source, original)

    for module, names in wanted.items():
        for name in sorted(names):
            collect(module, name)
    texts: list[str] = []
    for module in _sort_modules(needed):
        found = read_module(module)
        spans = {found.definitions[name]: name for name in sorted(needed[module])}  # an assignment may define two names
        texts += [_rename(_cut(found, spans[span]), renamed) for span in sorted(spans)]
    return join_definitions(texts), places


def _sort_modules(modules: Iterable[str]) -> Iterable[str]:
    """Sort modules, those first that others import."""
    sources = {module: {source for source, _ in read_module(module).imported.values()} for module in modules}
    return TopologicalSorter({module: sources[module] & sources.keys() for module in sorted(sources)}).static_order()


def join_definitions(texts: Iterable[str]) -> str:
    """Join definitions, with two empty lines around functions and classes."""
    joined = ""
    for text in filter(None, (text.strip("\n") for text in texts)):
        is_block = re.compile(r"^(@|def |class |if )", re.MULTILINE).search
        gap = "\n\n\n" if is_block(text) or is_block(joined) else "\n"
        joined += f"{gap}{text}" if joined else text
    return joined


def _cut(found: _Module, name: str) -> str:
    first, end = found.definitions[name]
    return "\n".join(found.source.split("\n")[first - 1 : end])


def _rename(text: str, renamed: Mapping[str, str]) -> str:
    for old, new in renamed.items():
        text = re.sub(rf"\b{old}\b", new, text)
    return text


def write_imports(names: Set[str], places: Mapping[str, tuple[str, str]]) -> str:
    """Write the imports of names as isort does, the standard library's first.

    Args:
        places: module and name there by name; no name there for a module.
    """
    whole = {name for name in names if name in places and not places[name][1]}
    parts: dict[str, list[str]] = {}
    for name in sorted(names & places.keys() - whole, key=_rank_name):
        parts.setdefault(places[name][0], []).append(name)
    sections: dict[bool, list[str]] = {True: [], False: []}
    for name in sorted(whole):
        sections[_is_standard(name)].append(f"import {name}")
    for module in sorted(parts):
        line = f"from {module} import {', '.join(parts[module])}"
        if len(line) > WIDTH:
            line = f"from {module} import (\n" + "".join(f"    {name},\n" for name in parts[module]) + ")"
        sections[_is_standard(module)].append(line)
    return "\n\n".join("\n".join(lines) for lines in sections.values() if lines)


def _rank_name(name: str) -> tuple[int, str]:
    """Constants come first, then classes, then functions."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name.lower())


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names

"""A patch that writes changed prompts where they stand in the source of a program."""

import ast
import re
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from pathlib import Path
from string import Formatter
from typing import NamedTuple

from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.inventory import ProgramText
from selfwire.extras.adopt.layer import list_prompts

WIDTH = 100
"""Characters of a text from which on it stands between triple quotes."""
PLAIN = frozenset({".md", ".txt", ".prompt", ".tmpl", ".jinja", ".j2"})
"""Endings of files that are a prompt as a whole."""


class Literal(NamedTuple):
    """A text of a source, taken apart.

    Attributes:
        shown: the text with its holes in braces, as a `LayerText` shows it.
        holes: what stands in the source for each hole, by what is shown for it.
    """

    shown: str
    holes: Mapping[str, str]


def make_patch(target: str, changed: Mapping[str, str], reasons: Mapping[str, str]) -> str:
    """Make a unified diff against the files of a graph, which `git apply` takes; above it the reason of each change.

    Args:
        target: the graph, as `my_app.graph:graph`.
        changed: new texts by name, as `LayerText.shown` writes them.
        reasons: of these changes.

    Raises:
        ConfigError: a text is not there any more, or stands in a form that cannot be written; the message names it.
    """
    known = {text.name: (text, place) for text, place in list_prompts(target)}
    if gone := sorted(changed.keys() - known.keys()):
        raise ConfigError(f"the source of {target!r} has no text {gone[0]!r} any more; evolve the graph anew")
    edits = dict[str, list[tuple[ProgramText, str]]]()
    for name, new in changed.items():
        text, place = known[name]
        edits.setdefault(place.file, []).append((place, _write(place, text.shown, new)))
    head = [f"{known[name][0].place} {name}: {' '.join(reasons.get(name, '').split())}" for name in changed]
    return "\n".join([*head, "", *(_diff(Path(file), found) for file, found in sorted(edits.items()))])


def _write(place: ProgramText, shown: str, new: str) -> str:
    """Write a new text in the form of the old one.

    Raises:
        ConfigError: the old one is not the whole of what stands there.
    """
    file, where = Path(place.file), f"{place.file}:{place.line}"
    old = _cut(file.read_text(encoding="utf-8"), place)
    if file.suffix in PLAIN and old.strip() == shown.strip():
        return old.replace(old.strip(), new)
    literal = read_literal(old, place.kind) if file.suffix == ".py" else None
    if literal is None or literal.shown != shown:
        raise ConfigError(f"{where} has this text in a form that a patch cannot write; write it there yourself:\n{new}")
    markers = "|".join(re.escape(hole) for hole in sorted(literal.holes, key=len, reverse=True))
    parts = re.split(f"({markers})", new) if markers else [new]
    template = bool(literal.holes) or place.kind in ("template", "f-string")
    body = "".join(literal.holes.get(part) or (_double_braces(part) if template else part) for part in parts)
    written = _quote(body, "f" if old.lstrip("(").lower().startswith(("f", "rf")) else "")
    again = read_literal(written, place.kind)
    if again is None or again.shown != new:
        raise ConfigError(f"{where}: the new text cannot be written as a literal; write it there yourself:\n{new}")
    return written


def read_literal(source: str, kind: str) -> Literal | None:
    """Read a literal of Python as its text with its holes in braces; None if it is another expression."""
    try:
        node = ast.parse(f"({source})", mode="eval").body
    except SyntaxError:
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _read_template(node.value) if kind == "template" else Literal(node.value, {})
    if not isinstance(node, ast.JoinedStr):
        return None
    shown, holes = list[str](), dict[str, str]()
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            hole = f"{{{ast.unparse(part.value)}}}"
            holes[hole] = ast.unparse(ast.JoinedStr([part]))[2:-1]
            shown.append(hole)
        elif isinstance(part, ast.Constant):
            shown.append(str(part.value))
    return Literal("".join(shown), holes)


def _read_template(text: str) -> Literal | None:
    shown, holes = list[str](), dict[str, str]()
    try:
        for static, field, spec, conversion in Formatter().parse(text):
            shown.append(static)
            if field is not None:
                hole = f"{{{field}}}"
                holes[hole] = f"{{{field}{f'!{conversion}' if conversion else ''}{f':{spec}' if spec else ''}}}"
                shown.append(hole)
    except ValueError:
        return None
    return Literal("".join(shown), holes)


def _double_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _quote(body: str, prefix: str) -> str:
    """A literal with double quotes: of a line if it is short, else of several."""
    if "\n" not in body and len(body) < WIDTH and not {'"', "\\"} & set(body):
        return f'{prefix}"{body}"'
    safe = body.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if safe.endswith('"'):
        safe = f'{safe[:-1]}\\"'
    return f'{prefix}"""{safe}"""'


def _locate(source: str, place: ProgramText) -> tuple[int, int]:
    lines = source.splitlines(keepends=True)
    before = sum(map(len, lines[: place.line - 1]))
    within = sum(map(len, lines[place.line - 1 : place.end_line - 1]))
    end = before + within + (place.end_column or len(lines[place.end_line - 1]) if lines else 0)
    return before + place.column, end


def _cut(source: str, place: ProgramText) -> str:
    begin, end = _locate(source, place)
    return source[begin:end]


def _diff(file: Path, edits: Iterable[tuple[ProgramText, str]]) -> str:
    """The diff of a file; later places first, so that earlier ones stay where they are."""
    old = new = file.read_text(encoding="utf-8")
    for place, text in sorted(edits, key=lambda edit: (edit[0].line, edit[0].column), reverse=True):
        begin, end = _locate(old, place)
        new = new[:begin] + text + new[end:]
    if file.suffix == ".py":
        ast.parse(new)
    name = file.as_posix()
    lines = unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

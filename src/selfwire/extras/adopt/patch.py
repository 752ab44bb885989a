"""A patch that writes changed texts where they stand in the source of a program."""

import ast
import inspect
import json
import re
import textwrap
import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from functools import partial
from io import StringIO
from itertools import accumulate, pairwise, permutations, takewhile
from pathlib import Path
from string import Formatter
from token import OP, STRING
from tokenize import TokenError, TokenInfo, generate_tokens, tok_name
from typing import Any, NamedTuple

from selfwire.core.errors import ConfigError
from selfwire.core.text import say_once
from selfwire.core.values import FrozenMap
from selfwire.extras.adopt.edge_patch import SourceEdit, list_edge_edits
from selfwire.extras.adopt.inventory import ProgramText
from selfwire.extras.adopt.layer import list_places, split_description
from selfwire.extras.adopt.model_patch import list_model_edits
from selfwire.extras.adopt.prompt_files import TABLES, escape_toml, read_cell, write_cell
from selfwire.extras.adopt.syntax import get_line_offset, parse_expression
from selfwire.extras.adopt.texts import (
    ESCAPES,
    HOLES,
    WIDTH,
    join_constants,
    quote_text,
    split_marks,
    split_template,
    squeeze,
)
from selfwire.graphs.insertions import GraphEdits
from selfwire.models.text_layer import LayerText, get_margin

PLAIN = frozenset({".md", ".txt", ".prompt", ".tmpl", ".jinja", ".j2"})
"""Endings of files that are a prompt as a whole."""


def _double_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


TEMPLATES: Mapping[str, Callable[[str], str]] = {
    "format": _double_braces,
    "percent": lambda text: text.replace("%", "%%"),
    "dollar": lambda text: text.replace("$", "$$"),
    "curly": str,
}
"""How static text is written in a template, by how its holes are."""
PROPERTIES = re.compile(r"(?:[&!]\S*[ \t]+)+")
"""The anchor and the tag before a text of a YAML file."""
MODES = (*TEMPLATES, *map("+".join, permutations(TEMPLATES, 2)))
"""How the holes of a template may be written: in one way, or in two that are filled one after the other."""


class Literal(NamedTuple):
    """A text of a source, taken apart.

    Attributes:
        shown: the text with its holes in braces, as a `LayerText` shows it.
        holes: what stands in the source for each hole, by what is shown for it.
        escape: writes static text between them.
        prefix: f, if it is an f-string.
    """

    shown: str
    holes: Mapping[str, str]
    escape: Callable[[str], str]
    prefix: str = ""

    def write(self, text: str) -> str:
        """Write another text with the same holes, as it stands in a source."""
        markers = "|".join(re.escape(hole) for hole in sorted(self.holes, key=len, reverse=True))
        parts = re.split(f"({markers})", text) if markers else [text]
        return "".join(self.holes.get(part) or self.escape(part) for part in parts)


def make_patch(
    target: str,
    changed: Mapping[str, str],
    reasons: Mapping[str, str],
    edges: GraphEdits = GraphEdits(),
    models: Mapping[str, str] = FrozenMap(),
) -> str:
    """Make a unified diff against the files of a graph, which `git apply` takes; above it the reason of each change.

    Args:
        target: the graph, as `my_app.graph:graph`.
        changed: new texts by name, as `LayerText.shown` writes them.
        reasons: of these changes, of inserted agents and nodes that are taken out by their names, and of models, as
            "model of NAME".
        edges: the edits of a team to the edges of the graph.
        models: "provider:model" by the names of the prompts that ask it.

    Raises:
        ConfigError: a text, an edge or a model is not there any more, or stands in a form that cannot be written, or
            outside the working directory; the message names it.
    """
    known = _find_places(target, changed)
    edits, whys = list[SourceEdit](), dict[str, str]()
    for name, new in changed.items():
        whys[f"{known[name][0][0].place} {name}"] = reasons.get(name, "")
        for text, place in known[name]:
            if text.setting:
                span = _locate(_read(place.file), place)
                edits.append(SourceEdit(place.file, *span, text.choices.get(new) or repr(text.read_value(new))))
                continue
            described, sections = split_description(place.pieces[0]) if text.tool else ("", "")
            own = LayerText.of(name, (described,) if text.tool else place.pieces, place.holes)
            assert own is not None, "it is one of the texts"
            described_anew = own.show(text.parse(new))
            if place.kind != "docstring":  # its lines stand as far to the right as the sections behind it
                further = get_margin(place.pieces[0]) - get_margin(described) if sections.strip() else 0
                described_anew = re.sub(r"\n(?=[^\n])", f"\n{' ' * further}", described_anew)
            try:
                written = _write(place, own.shown + sections.rstrip(), described_anew + sections)
            except ValueError as error:
                raise ConfigError(f"{text.place} cannot become {new!r}: {error}") from None
            edits.append(SourceEdit(place.file, *_locate(_read(place.file), place), written))
    for edge, names, made in list_edge_edits(target, edges) if any(edges) else ():
        whys |= {f"{edge} {name}": reasons.get(name, "") for name in names}
        edits += made
    for given in list_model_edits(target, models, edges):
        name = f"model of {given.prompt}"
        whys[f"{given.place} {name}"] = reasons.get(name, "")
        edits += [edit for edit in given.edits if edit not in edits]
    files = sorted({edit.file for edit in edits})
    said = say_once(" ".join(why.split()) for why in whys.values())
    head = [f"{change}: {why}" for change, why in zip(whys, said, strict=True)]
    return "\n".join([*head, "", *(_diff(Path(file), [edit for edit in edits if edit.file == file]) for file in files)])


def make_context(target: str, changed: Mapping[str, str], models: Mapping[str, str] = FrozenMap()) -> dict[str, Any]:
    """Make the values of a graph's context that have it use changed texts and models, by the names of its fields.

    Args:
        target, changed, models: as for `make_patch`.

    Raises:
        ConfigError: a text, or a model's name, is the default of no field of the graph's context; or as `make_patch`.
    """
    known, values = _find_places(target, changed), dict[str, Any]()
    for made in list_model_edits(target, models):
        if not made.field:
            raise ConfigError(
                f"the model of {made.prompt} ({made.place}) is the default of no field of the graph's context, so that "
                "no context can change it; export a patch, or make it such a field"
            )
        values[made.field] = made.name
    for name, new in changed.items():
        for text, place in known[name]:
            if not place.context_field:
                raise ConfigError(
                    f"{name} ({text.place}) is the default of no field of the graph's context, so that no context can "
                    "change it; export a patch, or make it such a field"
                )
            if text.setting:
                values[text.setting] = text.read_value(new)
                continue
            own = LayerText.of(name, place.pieces, place.holes)
            assert own is not None, "it is one of the texts"
            whole = _read(place.file)
            begin, end = _locate(whole, place)
            form = _find_form(whole[begin:end], place, own.shown)
            if form is None:
                raise ConfigError(
                    f"{text.place} has this text in a form that cannot be written; write it yourself:\n{new}"
                )
            try:
                values[place.context_field] = form[0].write(own.show(text.parse(new)))
            except ValueError as error:
                raise ConfigError(f"{text.place} cannot become {new!r}: {error}") from None
    return values


def _find_places(target: str, changed: Mapping[str, str]) -> dict[str, list[tuple[LayerText, ProgramText]]]:
    """Find all places of each text; raises ConfigError if a changed one has none."""
    known = dict[str, list[tuple[LayerText, ProgramText]]]()
    for text, place in list_places(target):
        known.setdefault(text.name, []).append((text, place))
    if gone := sorted(changed.keys() - known.keys()):
        raise ConfigError(f"the source of {target!r} has no text {gone[0]!r} any more; evolve the graph anew")
    return known


def _write(place: ProgramText, shown: str, new: str) -> str:
    """Write a new text in the form of the old one.

    Raises:
        ConfigError: the old one is not the whole of what stands there.
    """
    file, where = Path(place.file), f"{place.file}:{place.line}"
    whole, new = _read(file), new.strip()
    begin, end = _locate(whole, place)
    old = whole[begin:end]
    if file.suffix in PLAIN and (plain := _find_template(old, place, shown)) is not None:
        return plain.write(plain.shown.replace(shown, new))
    if file.suffix in TABLES and (cell := _find_template(read_cell(old), place, shown)) is not None:
        return write_cell(cell.write(cell.shown.replace(shown, new)), is_quoted=old != read_cell(old))
    if file.suffix in (".yaml", ".yml", ".json") and isinstance(read := _load_yaml(old), str):
        scalar = _find_template(read, place, shown)
        value = scalar.write(new) if scalar else ""
        written = _write_scalar(old, value, is_yaml=file.suffix != ".json") if value else None
        is_same = written is not None and _load_yaml(written) == value
        if written is not None and is_same and _load_yaml(whole[:begin] + written + whole[end:]) is not None:
            return written
    if file.suffix == ".toml" and (toml := _write_toml(whole, begin, end, place, shown, new)) is not None:
        return toml
    form = _find_form(old, place, shown) if file.suffix == ".py" else None
    if form is None:
        raise ConfigError(f"{where} has this text in a form that a patch cannot write; write it there yourself:\n{new}")
    literal, change = form
    is_docstring = place.kind == "docstring"
    lines = literal.shown.split("\n")[0 if change is textwrap.dedent else 1 :] if change else []
    alone = place.column if is_docstring else 0
    margin = " " * min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=alone)
    text = "\n".join(f"{margin if number and line else ''}{line}" for number, line in enumerate(new.split("\n")))
    text = literal.shown.replace(literal.shown.strip(), text) if literal.shown.strip() else text
    text = text.rstrip() if is_docstring and "\n" not in text.rstrip() else text
    value = literal.write(text)
    single = f"{literal.prefix}{value!r}"  # for a hole of f"..."
    quoted = quote_text(value, literal.prefix, is_docstring=is_docstring)
    outer = _find_outer_quotes(whole, (place.line, place.column))
    forms = sorted(filter(None, (write_parts(old, value), quoted, single)), key=lambda form: not outer.isdisjoint(form))
    for written in forms:
        again = _find_form(written, place, new)
        is_same = again is not None and again[0].holes == literal.holes
        if is_same and is_module(whole[:begin] + written + whole[end:]):
            return written
    raise ConfigError(f"{where}: the new text cannot be written as a literal; write it there yourself:\n{new}")


def _find_outer_quotes(source: str, place: tuple[int, int]) -> set[str]:
    """Find the characters that no literal in a hole of an f-string has before Python 3.12; none outside of holes."""
    outer = list[str]()
    for token in generate_tokens(StringIO(source).readline):
        if token.start >= place:
            break
        if tok_name[token.type] == "FSTRING_START":
            outer.append(token.string[-1])
        elif tok_name[token.type] == "FSTRING_END":
            outer.pop()
    return {*outer, "\\"} if outer else set()


def write_parts(old: str, value: str) -> str:
    """Write a text over several literals side by side, and keep those that it does not change.

    Returns:
        "" if the old one is a single literal, or has a prefix, triple quotes or more than `+` and comments between.
    """
    try:
        found = [*generate_tokens(StringIO(f"({old}\n)").readline)][1:-1]
        spans = [_find_span(old, token) for token in found if token.type == STRING]
        known = [ast.literal_eval(old[begin:end]) for begin, end in spans]
    except (TokenError, SyntaxError, ValueError):
        return ""
    gaps = [old[before[1] : after[0]] for before, after in pairwise(spans)]
    is_plain = all(old[begin] in "'\"" and not old.startswith(('"""', "'''"), begin) for begin, _ in spans)
    is_sum = all(token.type != OP or token.string in "+)" for token in found) and "\\" not in "".join(gaps)
    if not gaps or not is_plain or not is_sum:
        return ""
    whole, ends = "".join(known), [*accumulate(map(len, known))]
    same = _count_same(value, whole)
    left = min(_count_same(value[::-1], whole[::-1]), len(value) - same, len(whole) - same)
    first = min(sum(end <= same for end in ends), len(known) - 1)
    starts = [end - len(text) for end, text in zip(ends, known, strict=True)]
    last = max(len(known) - 1 - sum(start >= len(whole) - left for start in starts), first)
    middle = value[starts[first] : len(value) - (ends[-1] - ends[last])]
    write = repr if old[spans[first][0]] == "'" else partial(json.dumps, ensure_ascii=False)
    gap = re.sub(r"[ \t]*#.*", "", gaps[min(first, len(gaps) - 1)])
    parts = gap.join(map(write, _wrap(middle)))
    return old[: spans[first][0]] + parts + old[spans[last][1] :]


def _count_same(first: str, second: str) -> int:
    """Count the characters with which two texts begin alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _find_span(old: str, token: TokenInfo) -> tuple[int, int]:
    """Find where a token of `(old)` stands in `old`."""
    begin, end = (get_line_offset(old, row) + column - (row == 1) for row, column in (token.start, token.end))
    return begin, end


def _wrap(text: str) -> list[str]:
    """Cut a text behind spaces and ends of lines into parts of a line each."""
    parts = [""]
    for word in re.findall(r"\S*\s*", text):
        if parts[-1].endswith("\n") or len(parts[-1]) + len(word) > WIDTH:
            parts.append("")
        parts[-1] += word
    return [part for part in parts if part] or [""]


def _find_template(text: str, place: ProgramText, shown: str) -> Literal | None:
    """Find how the holes of a text in a file are written; None if it is another text."""
    forms = (_read_template(text, mode, place.holes) for mode in ("", *MODES))
    return next((literal for literal in forms if literal.shown.strip() == shown), None)


def _find_form(source: str, place: ProgramText, shown: str) -> tuple[Literal, Callable[[str], str] | None] | None:
    """Find how a literal is to be read, and how its indentation is taken off, to be a text; None if it is not."""
    for literal in read_literals(source, place.kind, place.holes):
        for change in (None, textwrap.dedent, inspect.cleandoc, squeeze):
            if (change(literal.shown) if change else literal.shown).strip() == shown:
                return literal, change
    return None


def read_literals(source: str, kind: str, holes: Sequence[str] = ()) -> Iterator[Literal]:
    """Read a literal of Python, or a sum of constants, as its text with its holes in braces, in each form it may be.

    Args:
        holes: words of a text that the program replaces are holes too.
    """
    node = parse_expression(f"({source})")
    if node is None:
        return
    if (text := join_constants(node)) is not None:
        for mode in MODES if kind == "template" or (kind == "default" and holes) else [""]:
            yield _read_template(text, mode, holes)
    elif isinstance(node, ast.JoinedStr):
        shown, sources = list[str](), dict[str, str]()
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                hole = f"{{{ast.unparse(part.value)}}}"
                sources[hole] = ast.unparse(ast.JoinedStr([part]))[2:-1]
                shown.append(hole)
            elif isinstance(part, ast.Constant):
                shown.append(str(part.value))
        yield Literal("".join(shown), sources, _double_braces, "f")


def _read_template(text: str, mode: str, holes: Sequence[str] = ()) -> Literal:
    """Read a template: as split at its holes, each with the source that stands for it."""
    pieces, names = split_template(text, mode)
    sources = {f"{{{name}}}": mark for name, mark in zip(names, _list_marks(text, mode), strict=True)}
    words = tuple(hole for hole in holes if hole not in names and hole in text)
    pieces, names = split_marks(pieces, names, words)
    fields = [f"{{{name}}}" for name in names]
    shown = "".join(part for pair in zip(pieces, [*fields, ""], strict=True) for part in pair)

    def escape(static: str) -> str:
        for part in reversed(mode.split("+")):  # what is filled last is escaped first
            static = TEMPLATES.get(part, str)(static)
        return static

    return Literal(shown, {f"{{{word}}}": word for word in words} | sources, escape)


def _list_marks(text: str, mode: str) -> list[str]:
    """List what stands in a template for each of its holes."""
    first, _, others = mode.partition("+")
    if others:
        pieces, _ = split_template(text, first)
        marks = [*_list_marks(text, first), ""]
        listed = [[*_list_marks(piece, others), mark] for piece, mark in zip(pieces, marks, strict=True)]
        return [mark for group in listed for mark in group if mark]
    if mode == "format":
        return [
            f"{{{field}{f'!{conversion}' if conversion else ''}{f':{spec}' if spec else ''}}}"
            for _, field, spec, conversion in Formatter().parse(text if split_template(text, mode)[1] else "")
            if field is not None
        ]
    found = HOLES[mode].finditer(text) if mode else ()
    return [match[0] for match in found if match[0] not in ESCAPES]


def _write_scalar(old: str, new: str, *, is_yaml: bool) -> str | None:
    """Write a text of a YAML or JSON file in the form of the old one; None if that is neither a block nor quoted."""
    if is_yaml and (properties := PROPERTIES.match(old)):
        written = _write_scalar(old[properties.end() :], new, is_yaml=True)
        return None if written is None else properties[0] + written
    head, _, body = old.partition("\n")
    if is_yaml and head.startswith((">", "|")):
        head = head.replace(">", "|", 1)
        margin = " " * (len(body) - len(body.lstrip(" ")))
        lines = [f"{margin}{line}".rstrip() for line in new.split("\n")]
        return "\n".join([head, *lines]) + old[len(old.rstrip()) :]
    return json.dumps(new, ensure_ascii=False) if old.startswith('"') or (is_yaml and old) else None


def _write_toml(whole: str, begin: int, end: int, place: ProgramText, shown: str, new: str) -> str | None:
    """Write a text of a TOML file between its quotes; None if it stands there in another form than it is read."""
    leaves = _list_leaves(tomllib.loads(whole))
    texts = [leaf for leaf in leaves if isinstance(leaf, str) and _find_template(leaf, place, shown) is not None]
    old = texts[0].strip() if texts else ""
    literal = _find_template(old, place, shown)
    forms = (form for form in (old, escape_toml(old)) if form and whole.find(form, begin, end) >= 0)
    if literal is None or (form := next(forms, None)) is None:
        return None
    at = whole.find(form, begin, end)
    before, body = whole[:at].rstrip(), literal.write(new)
    if before.endswith('"""'):
        written = body.replace("\\", "\\\\").replace('"', '\\"')
    else:
        written = escape_toml(body) if before.endswith('"') else body
    made = whole[begin:at] + written + whole[at + len(form) : end]
    try:
        again = _list_leaves(tomllib.loads(whole[:begin] + made + whole[end:]))
    except tomllib.TOMLDecodeError:
        return None
    changed = [leaf for was, leaf in zip(leaves, again, strict=False) if was != leaf]
    return made if len(leaves) == len(again) and [str(leaf).strip() for leaf in changed] == [body] else None


def _list_leaves(value: Any) -> list[Any]:
    """List the values in nested dicts and lists."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if inner is None else [leaf for part in inner for leaf in _list_leaves(part)]


def _load_yaml(source: str) -> Any:
    """Read YAML or JSON, a text without white space around it; None if it is none."""
    import yaml

    try:
        found = yaml.safe_load(source)
    except yaml.YAMLError:
        return None
    return found.strip() if isinstance(found, str) else found


def is_module(source: str) -> bool:
    """Whether a text is a module of valid Python."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _read(file: Path | str) -> str:
    """Read a file without its byte order mark, as the inventory counts its columns."""
    return Path(file).read_text(encoding="utf-8-sig")


def _locate(source: str, place: ProgramText) -> tuple[int, int]:
    begin = get_line_offset(source, place.line) + place.column
    if not place.end_column:  # it ends with its last line
        return begin, get_line_offset(source, place.end_line + 1)
    return begin, get_line_offset(source, place.end_line) + place.end_column


def _diff(file: Path, edits: Iterable[SourceEdit]) -> str:
    """The diff of a file; later places first, so that earlier ones stay where they are."""
    if file.is_absolute():
        why = f"{file} lies outside this folder, where git apply changes nothing"
        raise ConfigError(f"{why}; change to a folder that has it, or write the change there yourself")
    old = new = _read(file)
    ordered = sorted(enumerate(edits), key=lambda numbered: (numbered[1].begin, numbered[0]), reverse=True)
    for number, (_, edit) in enumerate(ordered):  # what is written at the same place keeps its order
        end, text = edit.end, edit.text
        for _, part in ordered[:number]:
            if edit.begin < part.begin < edit.end:  # a text in a hole of another
                end += len(part.text) - (part.end - part.begin)
                held = old[part.begin : part.end]
                text = text.replace(held if held in text else ast.unparse(ast.parse(held)), part.text)
        new = new[: edit.begin] + text + new[end:]
    if file.suffix == ".py" and not is_module(new):
        raise ConfigError(f"the changed texts of {file} cannot be written together; export them one by one")
    name, raw = file.as_posix(), file.read_bytes()
    if raw.startswith(BOM_UTF8):
        old, new = (f"\ufeff{text}" for text in (old, new))
    if 0 < raw.count(b"\r\n") == raw.count(b"\n"):
        old, new = (text.replace("\n", "\r\n") for text in (old, new))
    lines = unified_diff([*StringIO(old)], [*StringIO(new)], f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

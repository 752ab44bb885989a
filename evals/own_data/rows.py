"""Rows of text files: JSONL, JSON, CSV and TSV. What stands in them is untrusted."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError

MOST_BYTES = 500_000_000
"""Size of the largest file that is read."""
MOST_ROWS = 100_000
"""Rows that are read; a note says so if there are more."""
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""Encodings by the bytes that a file begins with."""


@dataclass(frozen=True)
class DataRow:
    """A row as it was read.

    Attributes:
        file, place: where it stands, for messages; the place is such as `line 3`.
        id: name of a task that has no other.
        values: by field.
    """

    file: str
    place: str
    id: str
    values: Mapping[str, Any]

    @property
    def where(self) -> str:
        """File and place."""
        return f"{self.file}, {self.place}"


def make_row(file: object, kind: str, number: int, values: Mapping[str, Any]) -> DataRow:
    """A row by its kind of place and the number of that."""
    return DataRow(str(file), f"{kind} {number}", f"{kind}-{number}", values)


def check_size(path: Path) -> None:
    """Refuse a file that cannot be read, or is too large, with a ConfigError."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ConfigError(f"task file {path} cannot be read: {error.strerror}") from None
    if size > MOST_BYTES:
        raise ConfigError(
            f"{path} has {size / 1e6:,.0f} MB, more than the {MOST_BYTES / 1e6:,.0f} MB that are read; "
            "write a sample of its rows into a file"
        )


def read_file(path: Path) -> bytes:
    """The bytes of a data file; ConfigError if it cannot be read, or is too large."""
    check_size(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"task file {path} cannot be read: {error.strerror}") from None


def read_json_lines(path: Path) -> Iterator[DataRow]:
    """An object per line; blank lines are skipped.

    Raises:
        ConfigError: a line, which the message names, is no JSON object.
    """
    raw = read_file(path)
    raw = _decode(raw, str(path)).encode() if raw[:2] in _MARKS else raw.removeprefix(b"\xef\xbb\xbf")
    for number, line in enumerate(raw.splitlines(), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield make_row(path, "line", number, _require_object(_parse_json(line, where), where))


def read_json(path: Path) -> Iterator[DataRow]:
    """A list of objects, or an object per line."""
    raw = read_file(path)
    if not raw.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        yield from read_json_lines(path)
        return
    for number, entry in enumerate(_parse_json(raw, str(path)), start=1):
        yield make_row(path, "entry", number, _require_object(entry, f"{path}, entry {number}"))


def read_csv(path: Path) -> Iterator[DataRow]:
    """Rows below a line of names, without empty ones; an empty cell is None.

    A .tsv file has tabs, another commas or semicolons.

    Raises:
        ConfigError: a line, which the message names, has too many or too few cells, or one that is too long.
    """
    text = _decode(read_file(path), str(path))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_find_delimiter(path, text), strict=True)
    names = _read_header(reader, path)
    begins = reader.line_num + 1
    while (cells := _next_row(reader, path)) is not None:
        empty = not any(cell.strip() for cell in cells)  # as spreadsheets leave below a table
        if not empty and len(cells) != len(names):
            raise ConfigError(
                f"{path}, line {begins}: {len(cells)} cells, but the first line names {len(names)}; "
                "put cells with a comma, a quote or a line break between double quotes"
            )
        if not empty:
            values = {name: cell or None for name, cell in zip(names, cells, strict=True)}
            yield make_row(path, "line", begins, values)
        begins = reader.line_num + 1


def _find_delimiter(path: Path, text: str) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    first = text.partition("\n")[0]
    return max(",;\t", key=first.count)  # the first of these where none occurs


def _read_header(reader: Any, path: Path) -> list[str]:
    names = [name.strip() for name in _next_row(reader, path) or []]
    if twice := next((name for name in names if name and names.count(name) > 1), None):
        raise ConfigError(f"{path}, line 1: two columns are called {twice!r}; rename one")
    return names


def _next_row(reader: Any, path: Path) -> list[str] | None:
    begins = reader.line_num + 1
    try:
        found: list[str] | None = next(reader, None)
        return found
    except csv.Error as error:
        why = str(error)
        if "field limit" in why:
            why = f"a cell has more than {csv.field_size_limit():,} characters; write such tasks as JSONL"
        raise ConfigError(f"{path}, line {begins}: not CSV ({why})") from None


def _decode(raw: bytes, where: str) -> str:
    encoding = next((name for mark, name in _MARKS.items() if raw.startswith(mark)), "utf-8")
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{where}, line {line}: not {encoding.upper().removesuffix('-SIG')} ({error.reason}); save it as UTF-8"
        ) from None


def _parse_json(raw: bytes, where: str) -> Any:
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: not UTF-8 ({error.reason} at byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise ConfigError(f"{where}: not JSON ({error.msg} at {line}column {error.colno})") from None
    except ValueError:  # Python reads no number of more than 4,300 digits
        raise ConfigError(f"{where}: a number is too long to be read; write it as a text") from None
    except RecursionError:
        raise ConfigError(f"{where}: nested too deeply to be read; write it flatter, or as a text") from None


def _require_object(entry: object, where: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: a task is a JSON object, not {type(entry).__name__}")
    return entry

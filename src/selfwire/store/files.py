"""Files that appear whole, bytes by their hash, and teams as JSON files.

A team's memory is JSON and contains `sha256:...` instead of the bytes. This process keeps recent blobs in memory;
the library stores blobs beside the versions that refer to them, and loads them with a team. History, rollback and
forks need no blobs.
"""

import base64
import hashlib
import os
import re
import sqlite3
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import ValidationError

from selfwire.core.errors import ConfigError, LibraryError, format_first_fault
from selfwire.core.team import Team
from selfwire.core.values import iterate_texts, read_file_text

REFERENCE = re.compile(r"sha256:[0-9a-f]{64}")
KEPT = 8
"""Number of blobs that stay in memory, whatever their size."""
KEPT_BYTES = 2**27
"""Bytes up to which further blobs stay, the recently used ones longest; a training makes many of several megabytes."""

_TEXT = r'"(?:[^"\\]|\\.)*"'
OWN_STARTS = {
    "results": rf'{{"selfwire":{_TEXT},"code":"',
    "scores": rf'{{"benchmark":{_TEXT},"model":{_TEXT},"seed":\d+,"calls_per_task":',
    "rows": rf'{{"head":{{"|{{"seed":\d+,"figures":{{|{{"proof":{_TEXT},"systems":\[',
    "table": r"`selfwire ",
    "page": r"<!doctype html>\n(<!-- a page of selfwire -->"
    r'|<html lang="en">\n<head>\n<meta [^>]*>\n<meta [^>]*>\n'
    r"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-)",
    "picture": r'<svg class="rich-terminal"',
    "probabilities": rf'{{\n {_TEXT}: \[\n  {{\n   "stage": ',
    "proof": r"(<!-- table: proof rows=prove\.jsonl part=summary -->\n)?# What systems are worth with ",
}
"""How files begin that selfwire writes, by what they are; one of these is replaced by another of its kind."""
LONGEST_START = 10_000
"""Most bytes of a beginning, which may have a path or a question in it."""

_kept: OrderedDict[str, bytes] = OrderedDict()
_lock = Lock()


def put_blob(data: bytes) -> str:
    """Keep bytes in this process and return the reference to them."""
    reference = compute_blob_reference(data)
    with _lock:
        _kept[reference] = data
        _kept.move_to_end(reference)
        while len(_kept) > KEPT and sum(map(len, _kept.values())) > KEPT_BYTES:
            _kept.popitem(last=False)
    return reference


def get_blob(reference: str) -> bytes:
    """Return the bytes of a reference; raises LibraryError if they are not in this process."""
    found = find_blob(reference)
    if found is None:
        raise LibraryError(f"the bytes {reference[:19]}... are not loaded; load the team from its library")
    return found


def find_blob(reference: str) -> bytes | None:
    """Return the bytes of a reference; None if they are not in this process."""
    with _lock:
        if reference in _kept:
            _kept.move_to_end(reference)
        return _kept.get(reference)


def encode_blob(reference: str) -> str:
    """Encode the bytes of a reference as base64; raises LibraryError if they are not in this process."""
    return base64.b64encode(get_blob(reference)).decode()


def load_blob(reference: str, text: str) -> None:
    """Keep the bytes that `encode_blob` encoded; raises ValueError if they do not match the reference."""
    data = base64.b64decode(text, validate=True)
    if compute_blob_reference(data) != reference:
        raise ValueError(f"these are not the bytes {reference[:19]}...")
    put_blob(data)


def compute_blob_reference(data: bytes) -> str:
    """Make the reference to bytes: `sha256:` and their hash."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def find_blob_references(memory: Any) -> tuple[str, ...]:
    """Find all references in a JSON value, in order and without repetitions."""
    return tuple(dict.fromkeys(filter(REFERENCE.fullmatch, iterate_texts(memory))))


def refuse_existing(file: Path, what: str, *, force: bool | None = None, way_out: str = "") -> None:
    """Refuse to replace a file that may be the user's.

    Args:
        what: what is to be written, as in `OWN_STARTS`; kinds that are not in there replace no file.
        force: whether the user allows it; None where the command has no option for that.
        way_out: what the user can do, where no other name can be chosen.

    Raises:
        ConfigError: the file is not empty, is not of this kind, and `force` is not given.
    """
    if force or not file.is_file():  # such as /dev/null
        return
    try:
        with file.open("rb") as opened:
            start = opened.read(LONGEST_START).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"{file} exists already, and cannot be read: {error.strerror}; choose another name") from None
    own = OWN_STARTS.get(what)
    if not start or (own and re.match(own, start)):
        return
    foreign = f", and holds no {what} of selfwire" if own else ""
    way_out = way_out or f"choose another name or {'move it away' if force is None else 'add --force'}"
    raise ConfigError(f"{file} exists already{foreign}; {way_out}")


@contextmanager
def make_draft(path: Path) -> Iterator[Path]:
    """Make an empty file beside `path` with mode 0600, and remove it at the end of the block unless it was renamed."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def place_draft(draft: Path, path: Path) -> bool:
    """Link a draft to its final name; False if a file has that name already."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        return _copy(draft, path)
    return True


def _copy(draft: Path, path: Path) -> bool:
    """Copy a draft to its final name; False if the file exists. A failed copy, as on a full disk, leaves no file."""
    try:
        file = path.open("xb")
    except FileExistsError:
        return False
    try:
        with file:
            path.chmod(0o600)
            file.write(draft.read_bytes())
    except BaseException:
        path.unlink()
        raise
    return True


STORED = re.compile(r"CREATE (TABLE|INDEX|UNIQUE INDEX) ")
"""How the definitions begin that SQLite stores of tables and indices; virtual tables are others."""


def find_computed_part(connection: sqlite3.Connection) -> str:
    """Find a view, a trigger, a virtual table or a computed column of a database; "" if none is.

    Their use may compute without an end.
    """
    parts = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    found = next((part for part in parts if part[2] is not None and not STORED.match(str(part[2]))), None)
    if found is None:  # of a column, 2 and 3 are computed ones
        columns = "sqlite_master AS t, pragma_table_xinfo(t.name) AS c WHERE t.type = 'table' AND c.hidden IN (2, 3)"
        found = connection.execute(f"SELECT 'column', c.name FROM {columns}").fetchone()
    return f"{found[0]} {str(found[1])[:80]!r}" if found else ""


def write_team(team: Team, path: Path) -> tuple[Path, ...]:
    """Write a team as JSON and its blobs as files beside it; return the paths of these files."""
    try:
        references = find_blob_references(team.memory)
        blobs = {_make_blob_path(path, reference): get_blob(reference) for reference in references}
        for file, data in blobs.items():
            file.write_bytes(data)
        path.write_text(team.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return tuple(blobs)
    except OSError as error:
        raise LibraryError(f"team cannot be written to {path}: {error}") from None


def read_team(path: Path) -> Team:
    """Read an exported team; raises LibraryError if the file is missing or is not a team."""
    try:
        team = Team.model_validate_json(read_file_text(path))
        for reference in find_blob_references(team.memory):
            _read_blob(path, reference)
        return team
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise LibraryError(f"team file {path} cannot be read: {why}") from None
    except ValidationError as error:
        raise LibraryError(f"{path} is not an exported team: {format_first_fault(error, 'the file')}") from None


def _make_blob_path(path: Path, reference: str) -> Path:
    return path.with_name(f"{path.stem}.{reference.removeprefix('sha256:')[:12]}.bin")


def _read_blob(path: Path, reference: str) -> None:
    if find_blob(reference) is not None:
        return
    file = _make_blob_path(path, reference)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise LibraryError(
            f"{path} needs {file.name} beside it, with bytes such as a router's weights; "
            "copy that file too, or export the team again"
        ) from None
    if compute_blob_reference(data) != reference:
        raise LibraryError(f"{file} is not what {path} refers to; export the team again")
    put_blob(data)

"""Rows of the user's files (JSONL, CSV, Parquet) and of the Hugging Face Hub, and the fields that tasks are in.

Without a revision it is the Hub's own conversion to Parquet, which most public data sets have, else the main branch.
Splits and configs are told by the names of files, as the Hub writes them: `config/split/0000.parquet`,
`config/train-00000-of-00002.parquet`, `test.jsonl`.
"""

import csv
import glob
import io
import json
import math
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

from pydantic import Field

from selfwire.core.errors import ConfigError
from selfwire.core.text import suggest_name
from selfwire.core.values import FrozenJson, FrozenModel
from selfwire.models.providers import ErrorCatcher

MOST_BYTES = 500_000_000
"""Size of the largest file that is read."""
MOST_ROWS = 100_000
"""Rows that are read; a note says so if there are more."""
MOST_COLUMNS = 1_000
"""Columns of a table that is read."""
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
    """Make a row from the kind and the number of its place."""
    return DataRow(str(file), f"{kind} {number}", f"{kind}-{number}", values)


def check_size(path: Path) -> None:
    """Refuse a file that cannot be read, or is too large, with a ConfigError."""
    try:
        found = path.stat()
    except OSError as error:
        raise ConfigError(f"task file {path} cannot be read: {error.strerror}{_find_near_file(path)}") from None
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):  # reading a pipe may wait for ever
        raise ConfigError(f"task file {path} cannot be read: it is a pipe, a socket or a device; save it as a file")
    size = found.st_size
    if size > MOST_BYTES:
        raise ConfigError(
            f"{path} has {size / 1e6:,.0f} MB, more than the {MOST_BYTES / 1e6:,.0f} MB that are read; "
            "write a sample of its rows into a file"
        )


def _find_near_file(path: Path) -> str:
    """Write a hint at a file of a similar name in the same folder; "" if there is none."""
    beside = os.listdir(path.parent) if path.parent.is_dir() else []
    return "" if path.name in beside else suggest_name(path.name, beside, "; did you mean {}?")


def read_file(path: Path) -> bytes:
    """Read the bytes of a data file; ConfigError if it cannot be read, or is too large."""
    check_size(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"task file {path} cannot be read: {error.strerror}{_find_near_file(path)}") from None


def read_json_lines(path: Path) -> Iterator[DataRow]:
    """Read an object per line; blank lines are skipped.

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
    """Read a list of objects, or an object per line."""
    raw = read_file(path)
    if not raw.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        yield from read_json_lines(path)
        return
    for number, entry in enumerate(_parse_json(raw, str(path)), start=1):
        yield make_row(path, "entry", number, _require_object(entry, f"{path}, entry {number}"))


def read_csv(path: Path) -> Iterator[DataRow]:
    """Read the rows below a line of names, without empty rows; an empty cell is None.

    A .tsv file has tabs, another commas or semicolons.

    Raises:
        ConfigError: a line, which the message names, has too many or too few cells, or one that is too long.
    """
    text = _decode(read_file(path), str(path))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_find_delimiter(path, text), strict=True)
    names = [name.strip() for name in _next_row(reader, path) or []]
    _refuse_many_columns(path, len(names))
    counts = Counter(names)
    if twice := next((name for name in names if name and counts[name] > 1), None):
        raise ConfigError(f"{path}, line 1: two columns are called {twice!r}; rename one")
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


def _refuse_many_columns(path: Path, count: int) -> None:
    if count > MOST_COLUMNS:
        raise ConfigError(
            f"{path} has {count:,} columns, more than the {MOST_COLUMNS:,} that are read; "
            "write a file with the columns of the tasks alone"
        )


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
        return json.loads(raw.decode("utf-8-sig"), object_pairs_hook=partial(_make_object, where))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: not UTF-8 ({error.reason} at byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise ConfigError(f"{where}: not JSON ({error.msg} at {line}column {error.colno})") from None
    except ValueError:  # Python reads no number of more than 4,300 digits
        raise ConfigError(f"{where}: a number is too long to be read; write it as a text") from None
    except RecursionError:
        raise ConfigError(f"{where}: nested too deeply to be read; write it flatter, or as a text") from None


def _make_object(where: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object; ConfigError if a name stands twice in it, of whose values Python takes the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ConfigError(f"{where}: {twice!r} stands twice in an object; leave one of them out")
    return found


def _require_object(entry: object, where: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: a task is a JSON object, not {type(entry).__name__}")
    return entry


INSTALL = "pip install 'selfwire[data]'"
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": "1",
    "memory_limit": "1GB",
    "autoinstall_known_extensions": "false",  # what a file asks for is not fetched
    "autoload_known_extensions": "false",
}
_AT_ONCE = 100


def read_parquet(path: Path) -> Iterator[DataRow]:
    """Read rows in the order of the file, some at a time.

    Raises:
        ConfigError: the extra `data` is not installed, or the file cannot be read.
    """
    try:
        import duckdb
    except ImportError:
        raise ConfigError(f"{path}: Parquet files need the extra 'data': {INSTALL}; or save it as JSONL") from None
    check_size(path)
    number = size = columns = 0
    # damage raises errors of several families
    with ErrorCatcher() as caught, duckdb.connect(config=_SETTINGS) as database:
        table = "read_parquet(?, hive_partitioning = false)"
        described = database.execute(f"DESCRIBE SELECT * FROM {table}", [glob.escape(str(path))])
        columns = len(described.fetchall())
        # without a limit all rows are unpacked before the first is read
        limit = MOST_ROWS + 1 if columns <= MOST_COLUMNS else 0
        found = database.execute(f"SELECT * FROM {table} LIMIT {limit}", [glob.escape(str(path))])
        names = [column[0] for column in found.description or ()]
        while size <= MOST_BYTES and (rows := found.fetchmany(_AT_ONCE)):
            for cells in rows:
                number += 1
                size += sum(len(cell) for cell in cells if isinstance(cell, str))
                values = {name: to_json_value(cell) for name, cell in zip(names, cells, strict=True)}
                yield make_row(path, "row", number, values)
    if caught.error:
        after = f"damaged after row {number}" if number else "not Parquet, or damaged"
        raise ConfigError(f"{path}: {after} ({str(caught.error).partition(chr(10))[0]})") from None
    _refuse_many_columns(path, columns)
    if size > MOST_BYTES:
        raise ConfigError(
            f"{path} has more than {MOST_BYTES / 1e6:,.0f} MB of text when it is unpacked; "
            "write a sample of its rows into a file"
        )


def to_json_value(value: object) -> Any:
    """Turn a value into JSON: dates, decimals and UUIDs become texts, NaN and infinities None."""
    if isinstance(value, dict):
        return {str(name): to_json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # tables write NaN for an empty cell
    return str(value) if isinstance(value, Decimal | datetime | date | time | timedelta | UUID) else value


READERS: dict[str, Callable[[Path], Iterator[DataRow]]] = {
    ".parquet": read_parquet,
    ".jsonl": read_json_lines,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_csv,
}
"""Readers by suffix; of a data set that has a split in several formats, the first is read."""


PREFIX = "hf:"
CONVERTED = "refs/convert/parquet"
"""Branch with the Hub's own conversion."""
KEYWORDS = {
    "train": "train", "training": "train", "test": "test", "testing": "test", "eval": "test", "evaluation": "test",
    "validation": "validation", "valid": "validation", "val": "validation", "dev": "validation",
}  # fmt: skip
"""Splits by a word in the name of a file or folder."""
USUAL_SPLITS = ("test", "validation", "train")
"""Usual splits in order of preference."""
_NAME = re.compile(r"hf:(?P<repo>[\w.-]+(?:/[\w.-]+)?)(?::(?P<config>[^@:]+))?(?:@(?P<revision>\S+))?")
_SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?")
TIMEOUT = 30.0
"""Seconds for the list of files."""
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class HubName:
    """The name of a data set; None for parts that are not given."""

    repo: str
    config: str | None = None
    revision: str | None = None

    @classmethod
    def parse(cls, name: str) -> "HubName":
        """Parse `hf:owner/name[:config][@revision]`; ConfigError if it has another form."""
        if (found := _NAME.fullmatch(name)) is None:
            raise ConfigError(
                f"{name!r} names no data set of the Hugging Face Hub; write hf:owner/name, hf:owner/name:config or "
                "hf:owner/name:config@revision"
            )
        return cls(**found.groupdict())

    def __str__(self) -> str:
        """Return the name in the form that users type."""
        config = f":{self.config}" if self.config else ""
        return f"{PREFIX}{self.repo}{config}{f'@{self.revision}' if self.revision else ''}"


@dataclass(frozen=True)
class HubFiles:
    """Files of a data set at one commit: their sizes by path."""

    commit: str
    sizes: Mapping[str, int]


def pin_commit(name: str) -> str:
    """Add the current commit to a name, so that a resumed run reads the same files.

    Raises:
        ConfigError: there is no such data set or revision, or the Hub cannot be reached.
    """
    parsed = HubName.parse(name)
    if parsed.revision and _COMMIT.fullmatch(parsed.revision):
        return name
    return str(replace(parsed, revision=_list_files(parsed).commit))


def read_hub(name: str, split: str | None) -> tuple[Iterator[DataRow], tuple[str, ...]]:
    """Read the rows of a split; return them with notes on the choices made.

    Raises:
        ConfigError: there is no such data set, config or split, or the Hub cannot be reached.
    """
    parsed = HubName.parse(name)
    found = _list_files(parsed)
    splits = _choose_config(parsed, sort_files(found.sizes))
    if split is not None and split not in splits:
        raise ConfigError(f"--data-split {split}: {parsed} has {', '.join(sorted(splits))}")
    chosen = split or next((split for split in USUAL_SPLITS if split in splits), min(splits))
    others = ", ".join(sorted(set(splits) - {chosen}))
    note = f"{parsed.repo}: tasks are from the split {chosen!r}; --data-split chooses another ({others})"
    return _read_files(parsed, found, splits[chosen]), (note,) if others and split is None else ()


def sort_files(paths: Mapping[str, int]) -> dict[str, dict[str, list[str]]]:
    """List paths of data files by config and split; of several formats of a split only the first in `READERS`."""
    found: dict[str, dict[str, list[str]]] = {}
    for suffix in READERS:
        placed = [(place, path) for path in sorted(paths) if (place := find_place(path)) and path.endswith(suffix)]
        taken = {(config, split) for config, splits in found.items() for split in splits}
        for (config, split), path in placed:
            if (config, split) not in taken:
                found.setdefault(config, {}).setdefault(split, []).append(path)
    return found


def find_place(path: str) -> tuple[str, str] | None:
    """Parse config and split of a data file from its path; None if it is no data file."""
    parsed = PurePosixPath(path)
    if parsed.suffix not in READERS or parsed.is_absolute() or ".." in parsed.parts:
        return None
    folders, stem = [folder for folder in parsed.parts[:-1] if folder != "data"], parsed.stem
    if shard := _SHARD.fullmatch(stem):
        split = shard["split"]
    elif stem.isdigit() and folders:
        split = folders.pop()
    else:
        split = _find_keyword(stem) or next(filter(None, map(_find_keyword, folders)), "train")
        folders = [folder for folder in folders if folder.lower() not in KEYWORDS]
    return "/".join(folders) or "default", split


def _find_keyword(name: str) -> str | None:
    return next((KEYWORDS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in KEYWORDS), None)


def _choose_config(name: HubName, configs: Mapping[str, dict[str, list[str]]]) -> dict[str, list[str]]:
    if not configs:
        raise ConfigError(f"{name} has no file of {', '.join(READERS)}; save it as one of them and give its path")
    wanted = name.config or ("default" if "default" in configs else min(configs))
    if wanted not in configs or (name.config is None and wanted != "default" and len(configs) > 1):
        raise ConfigError(
            f"{name} has the configs {', '.join(sorted(configs))}; name one, as in --benchmark "
            f"{replace(name, config=min(configs))}"
        )
    return configs[wanted]


def _read_files(name: HubName, files: HubFiles, paths: list[str]) -> Iterator[DataRow]:
    number = 0
    for path in paths:
        if files.sizes[path] > MOST_BYTES:
            raise ConfigError(
                f"{name}: {path} has {files.sizes[path] / 1e6:,.0f} MB, more than the {MOST_BYTES / 1e6:,.0f} MB that "
                "are read; choose another --data-split, or give a file with a sample of it"
            )
        for row in READERS[PurePosixPath(path).suffix](_download(name, files.commit, path)):
            number += 1
            yield replace(row, file=f"{name.repo}, {path}", id=f"row-{number}")


def _download(name: HubName, commit: str, path: str) -> Path:
    from huggingface_hub import hf_hub_download

    with ErrorCatcher() as caught:
        return Path(hf_hub_download(name.repo, path, repo_type="dataset", revision=commit))
    raise _explain(name, caught.error) from caught.error


@lru_cache(maxsize=8)
def _list_files(name: HubName) -> HubFiles:
    """List the data files at the revision, else of the Hub's conversion, else of the main branch."""
    try:
        from huggingface_hub.errors import RevisionNotFoundError
    except ImportError:
        raise ConfigError(f"{name}: data sets of the Hugging Face Hub need the extra 'data': {INSTALL}") from None

    with ErrorCatcher() as caught:  # a client of another's
        return _ask_hub(name.repo, name.revision or CONVERTED)
    if isinstance(caught.error, RevisionNotFoundError):
        if name.revision is not None:
            raise ConfigError(f"{name.repo} has no revision {name.revision!r}") from None
        with ErrorCatcher() as caught:
            return _ask_hub(name.repo, "main")
    if kept := _find_kept_files(name):
        return kept
    raise _explain(name, caught.error) from caught.error


def _ask_hub(repo: str, revision: str) -> HubFiles:
    from huggingface_hub import HfApi

    found = HfApi().dataset_info(repo, revision=revision, files_metadata=True, timeout=TIMEOUT)
    return HubFiles(found.sha or revision, {file.rfilename: file.size or 0 for file in found.siblings or ()})


def _find_kept_files(name: HubName) -> HubFiles | None:
    """List the files of a commit that the Hub's client has downloaded before."""
    from huggingface_hub.constants import HF_HUB_CACHE

    if name.revision is None:
        return None
    folder = Path(HF_HUB_CACHE) / f"datasets--{name.repo.replace('/', '--')}" / "snapshots" / name.revision
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return HubFiles(name.revision, sizes) if sizes else None


def _explain(name: HubName, error: BaseException | None) -> ConfigError:
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    why = str(error).strip().partition("\n")[0] or type(error).__name__
    if isinstance(error, GatedRepoError):
        return ConfigError(f"{name}: its owner lets in who asks; ask on its page, then set HF_TOKEN ({why})")
    if isinstance(error, RepositoryNotFoundError | HFValidationError):
        return ConfigError(
            f"{name}: there is no data set {name.repo!r} on the Hugging Face Hub; if it is private, set HF_TOKEN"
        )
    return ConfigError(
        f"{name}: the Hugging Face Hub did not answer ({why}); download a file of the data set where there is a "
        "network, and give its path to --benchmark"
    )


class TaskLine(FrozenModel):
    """A task in the form that selfwire writes.

    Args:
        id: name of the task; by default `line-N`.
        reference: the gold answer, or whatever the grader needs.
        entities: subjects of the question; tasks that share one are never in two splits.
        group: name that tasks share which lean the same way; never in two splits, and one observation of a proof.
    """

    id: str | int | None = None
    input: str = Field(pattern=r"\S")
    reference: FrozenJson = None
    kind: str = ""
    entities: tuple[str, ...] = ()
    group: str = ""


INPUTS = ("input", "question", "prompt", "problem", "query", "instruction", "inputs")
REFERENCES = (
    "reference", "answer", "answers", "final_answer", "completion", "output", "response", "solution", "target",
    "targets", "expected", "expected_output", "label", "gold",
)  # fmt: skip
IDS = ("id", "_id", "task_id", "question_id", "qid", "unique_id", "uuid")
KINDS = ("kind", "type", "category", "subject", "topic", "level")


class OwnData(FrozenModel):
    """Options of the user's own data.

    Args:
        input_fields: fields with the question, joined under their names if there are several; () to guess.
        reference_field: field with the reference; None to guess.
        split: of a data set of the Hugging Face Hub; None for its test split, or what it has.
    """

    input_fields: tuple[str, ...] = ()
    reference_field: str | None = None
    split: str | None = None


@dataclass(frozen=True)
class TaskFields:
    """Fields of a row by their part in a task; a dot leads into a nested field.

    Attributes:
        own: rows are tasks as selfwire writes them, and nothing else may stand in them.
        guessed: parts that the user did not name.
    """

    input: tuple[str, ...]
    reference: str | None = None
    id: str | None = None
    kind: str | None = None
    own: bool = False
    guessed: tuple[str, ...] = ()

    def describe(self, names: Iterable[str]) -> str:
        """Describe which parts of a task are read from which fields.

        Args:
            names: of all fields.
        """
        used = {"question": " + ".join(self.input), "reference": self.reference, "id": self.id, "kind": self.kind}
        parts = [f"{part} from {name!r}" for part, name in used.items() if name]
        if self.reference is None:
            parts.append("no reference (--reference-field names one)")
        whole = {name.partition(".")[0] for name in (*self.input, self.reference, self.id, self.kind) if name}
        idle = [name for name in names if name not in whole | set(self.input) | {self.reference}]
        flags = " and ".join(f"--{part}-field" for part in self.guessed)
        return (
            ", ".join(parts)
            + (f"; guessed, {flags} {'says' if len(self.guessed) == 1 else 'say'} otherwise" if flags else "")
            + (f"; not used: {', '.join(idle)}" if idle else "")
        )


def choose_fields(row: DataRow, data: OwnData) -> TaskFields:
    """Choose the fields that make a task.

    Args:
        row: the first; all have its fields.

    Raises:
        ConfigError: a field that the user names is missing, or nobody can tell which one has the question.
    """
    if not row.values:
        raise ConfigError(f'{row.where}: it has no field; write {{"input": ..., "reference": ...}}')
    names = list(row.values)
    if data == OwnData(split=data.split) and "input" in names and set(names) <= TaskLine.model_fields.keys():
        return TaskFields(("input",), own=True)
    for name, flag in ((name, "--input-field") for name in data.input_fields):
        _require_field(row, name, flag)
    if data.reference_field is not None:
        _require_field(row, data.reference_field, "--reference-field")
    guessed = tuple(
        part for part, known in (("input", data.input_fields), ("reference", data.reference_field)) if not known
    )
    taken = {*data.input_fields, data.reference_field}
    free = [name for name in names if name not in taken]
    inputs = data.input_fields or (_guess_input(row, free),)
    free = [name for name in free if name not in inputs]
    reference = data.reference_field or _find_usual(free, REFERENCES)
    return TaskFields(inputs, reference, _find_usual(free, IDS), _find_usual(free, KINDS), guessed=guessed)


def get_field(values: Mapping[str, Any], name: str) -> Any:
    """Get a field, or a nested field behind a dot; KeyError if it is missing."""
    if name in values:
        return values[name]
    outer, dot, inner = name.partition(".")
    if not dot or not isinstance(values.get(outer), Mapping):
        raise KeyError(name)
    return get_field(values[outer], inner)


def read_field(row: DataRow, name: str, flag: str) -> Any:
    """Get a field of a row; ConfigError if it is missing.

    Args:
        flag: the option that names it.
    """
    try:
        return get_field(row.values, name)
    except KeyError:
        fields = f"fields are {_list(row.values)}" if row.values else "the row is empty, take it out"
        raise ConfigError(f"{row.where}: no field {name!r} ({flag}); {fields}") from None


def _require_field(row: DataRow, name: str, flag: str) -> None:
    try:
        get_field(row.values, name)
    except KeyError:
        close = get_close_matches(name, list(row.values), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ConfigError(
            f"{flag} {name}: {row.file} has no such field; {hint}fields are {_list(row.values)}"
        ) from None


def _guess_input(row: DataRow, free: Sequence[str]) -> str:
    found = [name for name in free if _normalise(name) in INPUTS]
    if len(found) == 1:
        return found[0]
    if found:
        both = " ".join(f"--input-field {name!r}" if " " in name else f"--input-field {name}" for name in found)
        raise ConfigError(
            f"{row.file}: the question may be in {' or '.join(map(repr, found))}; name one with --input-field, or "
            f"join them with {both}"
        )
    raise ConfigError(
        f"{row.where}: no field has a usual name for a question ({', '.join(INPUTS)}); call it input, "
        f"or name one on the command line with --input-field, fields are {_list(row.values)}"
    )


def _find_usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    by_form = {_normalise(name): name for name in reversed(names)}
    return next((by_form[form] for form in usual if form in by_form), None)


def _normalise(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _list(names: Iterable[str], most: int = 20) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")

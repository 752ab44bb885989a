"""The user's own tasks: where they lie, and how they are split."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from selfwire.core.errors import ConfigError
from selfwire.core.task import Task
from selfwire.core.values import (
    UNKNOWN,
    describe_half_character,
    format_object,
    format_validation_error,
    iterate_texts,
)
from selfwire.evals.readers import (
    MOST_ROWS,
    PREFIX,
    READERS,
    DataRow,
    OwnData,
    TaskFields,
    TaskLine,
    choose_fields,
    pin_commit,
    read_field,
    read_hub,
)

FORMS = f"a {', '.join(list(READERS)[:-1])} or {list(READERS)[-1]} file, or hf:owner/name"
"""Forms of the files with own tasks, as a text."""


@dataclass(frozen=True)
class OwnTasks:
    """Tasks, and notes for the user on how they were read."""

    tasks: tuple[Task, ...]
    notes: tuple[str, ...] = ()


def is_own_data(name: str) -> bool:
    """Whether the name of a benchmark means the user's own data."""
    return name.startswith(PREFIX) or Path(name).suffix.lower() in READERS


def resolve_name(name: str) -> str:
    """Name data so that a run finds the same from any folder: by a whole path, or a commit of a data set.

    A link keeps its name, whose ending says the form of the file.

    Raises:
        ConfigError: there is no such data set, the Hub cannot be reached, or a file is a link to itself.
    """
    if name.startswith(PREFIX):
        return pin_commit(name)
    try:
        path, target = Path(name), Path(name).resolve()
        return str(path.parent.resolve() / path.name if path.is_symlink() else target)
    except (RuntimeError, OSError):
        raise ConfigError(f"task file {name} cannot be read: it is a link that leads to itself") from None


def read_tasks(name: str | Path, data: OwnData = OwnData()) -> OwnTasks:
    """Read tasks; the first `MOST_ROWS` rows.

    Args:
        name: path of a file, or name of a data set.

    Raises:
        ConfigError: the data cannot be read or holds no task, or a row, which the message names, is none or repeats an
            id.
    """
    rows, notes = _open(str(name), data)
    found = list(islice(rows, MOST_ROWS))
    if not found:
        form = 'one JSON object per line: {"input": ..., "reference": ...}'
        if str(name).endswith((".csv", ".tsv")):
            form = "a header line such as question,answer, and one line per task"
        raise ConfigError(f"task file {name} holds no task; write {form}")
    if len(found) == MOST_ROWS and next(rows, None) is not None:
        notes = (*notes, f"only the first {MOST_ROWS:,} rows are read")
    read = _read_rows(found, _shorten(str(name)), data)
    return OwnTasks(read.tasks, (*notes, *read.notes))


def list_tasks(given: Sequence[Task | Mapping[str, Any]], name: str, ids: str) -> OwnTasks:
    """Make tasks from Python: ready tasks, or mappings with the fields of a line of a file.

    Args:
        name: of the list, in messages.
        ids: beginning of the ids of mappings without one: `trainset` for `trainset-1`.

    Raises:
        ConfigError: there is none, an entry is no task, or an id occurs twice.
    """
    if not isinstance(given, Sequence):
        way = {"generator": "; give list(...) of it", "DataFrame": '; give its to_dict("records")'}
        raise ConfigError(
            f"{name}: tasks are a list of dicts or of Tasks, a file or a name, not {format_object(given)}"
            + way.get(type(given).__name__, "")
        )
    if not given:
        raise ConfigError(f'{name} holds no task; give {{"input": ..., "reference": ...}} for each')
    if ready := [task for task in given if isinstance(task, Task)]:
        if len(ready) < len(given):
            raise ConfigError(f"{name} has tasks of two kinds; give either mappings or Task objects")
        if twice := [task for task, count in Counter(task.id for task in ready).items() if count > 1]:
            raise ConfigError(f"{name}: id {twice[0]!r} occurs twice; give every task its own")
        return OwnTasks(tuple(ready), _find_repeats(ready))
    rows = []
    for number, entry in enumerate(given, start=1):
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{name}, entry {number}: a task is a mapping or a Task, not {type(entry).__name__}")
        rows.append(DataRow(name, f"entry {number}", f"{ids}-{number}", entry))
    return _read_rows(rows, name, OwnData())


def _read_rows(rows: Sequence[DataRow], name: str, data: OwnData) -> OwnTasks:
    fields = choose_fields(rows[0], data)
    tasks, notes = _drop_repeated_ids(rows, [_make_task(row, fields) for row in rows], fields)
    if not fields.own:
        notes = (f"{name}: {fields.describe(rows[0].values)}", *notes)
    return OwnTasks(tuple(tasks), (*notes, *_find_repeats(tasks)))


def _open(name: str, data: OwnData) -> tuple[Iterator[DataRow], tuple[str, ...]]:
    if name.startswith(PREFIX):
        return read_hub(name, data.split)
    if data.split is not None:
        raise ConfigError(f"--data-split {data.split} is for data sets of the Hugging Face Hub; {name} is a file")
    return READERS[Path(name).suffix.lower()](Path(name)), ()


def _shorten(name: str) -> str:
    return name if name.startswith(PREFIX) else Path(name).name


def _make_task(row: DataRow, fields: TaskFields) -> Task:
    values = dict(row.values) if fields.own else _pick_values(row, fields)
    for name, value in values.items():
        for text in iterate_texts(value):
            if why := describe_half_character(text):
                raise ConfigError(f"{row.where}: {name} {why}")
    try:
        parsed = TaskLine.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        first["loc"] = first["loc"][:1]  # nothing of what pydantic tries within a value
        if first["type"] == "missing":
            what = "null" if "input" in values else "missing"
            raise ConfigError(f"{row.where}: input is {what}; write the question") from None
        if first["loc"] == ("input",) and isinstance(first.get("input"), str):
            raise ConfigError(f"{row.where}: the input is blank; write the question") from None
        known = f"; fields are {', '.join(TaskLine.model_fields)}" if first["type"] == UNKNOWN else ""
        raise ConfigError(f"{row.where}: {format_validation_error(first)}{known}") from None
    name = row.id if parsed.id is None else str(parsed.id)
    return Task(**{**dict(parsed), "id": name})


def _pick_values(row: DataRow, fields: TaskFields) -> dict[str, Any]:
    identity, kind = (row.values.get(name) if name else None for name in (fields.id, fields.kind))
    entities = row.values.get("entities")
    return {
        "input": _read_question(row, fields.input),
        "reference": None if fields.reference is None else read_field(row, fields.reference, "--reference-field"),
        "id": identity if isinstance(identity, str | int) else None,
        "kind": str(kind) if isinstance(kind, str | int) else "",
        "entities": entities if isinstance(entities, list) else (),
    }


def _read_question(row: DataRow, names: Sequence[str]) -> str:
    values = {name: read_field(row, name, "--input-field") for name in names}
    if len(names) > 1:
        return "\n\n".join(f"{name}: {_format(row, name, value)}" for name, value in values.items() if value)
    [(name, value)] = values.items()
    if not isinstance(value, str) or not value.strip():
        what = "empty" if value is None or value == "" or isinstance(value, str) else type(value).__name__
        raise ConfigError(f"{row.where}: {name!r} is {what}, not a question; choose a field of text with --input-field")
    return value


def _format(row: DataRow, name: str, value: Any) -> str:
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(entry, str | int | float) for entry in value):
        return "".join(f"\n- {entry}" for entry in value)
    raise ConfigError(f"{row.where}: {name!r} is nested; choose a field of text or a list of texts with --input-field")


def _drop_repeated_ids(
    rows: Sequence[DataRow], tasks: list[Task], fields: TaskFields
) -> tuple[list[Task], tuple[str, ...]]:
    seen: dict[str, int] = {}
    for index, task in enumerate(tasks):
        if (earlier := seen.setdefault(task.id, index)) != index:
            if not fields.own and fields.id:
                numbered = [task.replace(id=row.id) for row, task in zip(rows, tasks, strict=True)]
                return numbered, (f"{fields.id!r} repeats itself, so tasks are called by their rows",)
            raise ConfigError(f"{rows[index].where}: id {task.id!r} is already in {rows[earlier].place}")
    return tasks, ()


def _find_repeats(tasks: Sequence[Task]) -> tuple[str, ...]:
    if repeats := len(tasks) - len(Counter(task.input for task in tasks)):
        of = f"{repeats} of {len(tasks)} tasks repeat the question of another"
        return (f"{of}; these are never in two splits, and proofs and comparisons ask them once",)
    return ()

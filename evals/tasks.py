"""The user's own tasks from a JSONL file: one object per line with `input` and, if a grader needs it, `reference`."""

import json
from pathlib import Path

from pydantic import Field, ValidationError

from selfwire.core.errors import ConfigError
from selfwire.core.task import Task
from selfwire.core.values import FrozenJson, FrozenModel


class TaskLine(FrozenModel):
    """One line of a task file.

    Args:
        id: name of the task; by default `line-N`.
        input: the text that the team reads; not blank.
        reference: the gold answer, or whatever the grader needs.
        kind: the sort of question.
        entities: subjects of the question; tasks that share one are never in two splits.
    """

    id: str | int | None = None
    input: str = Field(pattern=r"\S")
    reference: FrozenJson = None
    kind: str = ""
    entities: tuple[str, ...] = ()


def read_tasks(path: Path) -> tuple[Task, ...]:
    """Read a JSONL file; blank lines are skipped.

    Raises:
        ConfigError: the file cannot be read or has no task, or a line, which the message names, is not a JSON object of
            these fields or repeats an id.
    """
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    except OSError as error:
        raise ConfigError(f"task file {path} cannot be read: {error.strerror}") from None
    tasks: list[Task] = []
    line_numbers: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        task = _parse_line(line, number, f"{path}, line {number}")
        if task.id in line_numbers:
            raise ConfigError(f"{path}, line {number}: id {task.id!r} is already in line {line_numbers[task.id]}")
        line_numbers[task.id] = number
        tasks.append(task)
    if not tasks:
        raise ConfigError(f'task file {path} holds no task; write one JSON object per line: {{"input": ...}}')
    return tuple(tasks)


def _parse_line(line: bytes, number: int, where: str) -> Task:
    try:
        fields = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: not UTF-8 ({error.reason} at byte {error.start + 1})") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where}: not JSON ({error.msg} at column {error.colno})") from None
    except ValueError:  # Python reads no number of more than 4,300 digits
        raise ConfigError(f"{where}: a number is too long to be read; write it as a text") from None
    except RecursionError:
        raise ConfigError(f"{where}: nested too deeply to be read; write it flatter, or as a text") from None
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}: a task is a JSON object, not {type(fields).__name__}")
    try:
        parsed = TaskLine.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"][:1]))
        raise ConfigError(f"{where}: {field}: {first['msg']}") from None
    name = f"line-{number}" if parsed.id is None else str(parsed.id)
    return Task(id=name, input=parsed.input, kind=parsed.kind, reference=parsed.reference, entities=parsed.entities)

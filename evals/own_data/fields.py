"""Which fields of the user's data make a task: those that the user names, else the usual ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenModel
from selfwire.evals.own_data.rows import DataRow

OWN = ("id", "input", "reference", "kind", "entities")
"""Fields of a task as selfwire writes it."""
INPUTS = ("input", "question", "prompt", "problem", "query", "instruction", "inputs")
REFERENCES = (
    "reference", "answer", "answers", "final_answer", "completion", "output", "response", "solution", "target",
    "targets", "expected", "expected_output", "label", "gold",
)  # fmt: skip
IDS = ("id", "_id", "task_id", "question_id", "qid", "unique_id", "uuid")
KINDS = ("kind", "type", "category", "subject", "topic", "level")


class OwnData(FrozenModel):
    """What the user says about data of their own.

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
    """Fields of a row by their part in a task; a dot leads into a nested one.

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
        """What is read from where, for people.

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
    """The fields that make a task.

    Args:
        row: the first; all have its fields.

    Raises:
        ConfigError: a field that the user names is missing, or nobody can tell which one has the question.
    """
    names = list(row.values)
    if data == OwnData(split=data.split) and "input" in names and set(names) <= set(OWN):
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
    """A field, or one that a dot leads into; KeyError if it is missing."""
    if name in values:
        return values[name]
    outer, dot, inner = name.partition(".")
    if not dot or not isinstance(values.get(outer), Mapping):
        raise KeyError(name)
    return get_field(values[outer], inner)


def read_field(row: DataRow, name: str, flag: str) -> Any:
    """A field of a row; ConfigError if it is missing.

    Args:
        flag: the option that names it.
    """
    try:
        return get_field(row.values, name)
    except KeyError:
        raise ConfigError(f"{row.where}: no field {name!r} ({flag}); fields are {_list(row.values)}") from None


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
        f"{row.where}: no field has a usual name for a question ({', '.join(INPUTS)}); name one with --input-field, "
        f"fields are {_list(row.values)}"
    )


def _find_usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    by_form = {_normalise(name): name for name in reversed(names)}
    return next((by_form[form] for form in usual if form in by_form), None)


def _normalise(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _list(names: Iterable[str], most: int = 20) -> str:
    listed = [repr(name) for name in names]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")

"""The base of all values: frozen models, frozen JSON, fingerprints."""

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, NoReturn, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, JsonValue, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
Id = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
"""A name of a node, agent or tool: letters, digits, `_` and `-` (LangGraph forbids `:` and `|`)."""


def replace_surrogates(text: str) -> str:
    """Join surrogates to characters, or replace them by U+FFFD, as no file can store them."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def describe_half_character(text: str) -> str:
    """Describe where a text has half of a surrogate pair, which no file can store; "" where it has none."""
    if text.isascii() or not (half := _SURROGATE.search(text)):
        return ""
    return f"has half of a surrogate pair as its character {half.start() + 1}; write the whole character"


_SURROGATE = re.compile("[\ud800-\udfff]")


def _refuse_half_character(text: str) -> str:
    if why := describe_half_character(text):
        raise ValueError(f"it {why}")
    return text


WholeText = Annotated[str, AfterValidator(_refuse_half_character)]
"""A text of whole characters, which files and requests can hold."""
AnyText = Annotated[str, AfterValidator(replace_surrogates)]
"""A text from outside, such as the result of a tool, without surrogates, so that it can be stored."""


def sort_by(*fields: str) -> AfterValidator:
    """Make the validator that sorts a tuple by fields of its entries."""
    return AfterValidator(lambda entries: tuple(sorted(entries, key=attrgetter(*fields))))


class FrozenModel(BaseModel):
    """A frozen value without unknown fields or non-finite floats; `replace` builds a changed one."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, /, **fields: Any) -> None:
        """Make a value of its fields.

        Raises:
            ValueError: a field is missing or unknown, or a value does not validate.
        """
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _make_clear(error, type(self)) from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # values inside of values are made without it

    def replace(self, **changes: Any) -> Self:
        """Return a new, validated value with some fields changed.

        Raises:
            ValueError: a field is unknown or a value does not validate.
        """
        fields = {name: getattr(self, name) for name in self.__pydantic_fields__}
        try:
            replaced: Self = self.__pydantic_validator__.validate_python({**fields, **changes})
        except ValidationError as error:
            raise _make_clear(error, type(self)) from None
        return replaced

    def __eq__(self, other: object) -> bool:
        """Compare by content; the identical object needs no comparison."""
        return self is other or super().__eq__(other)


UNKNOWN = "extra_forbidden"
"""Pydantic's name for the error of a field that does not exist."""
_REASONS = {UNKNOWN: "there is no such field", "tuple_type": "Input should be a list or a tuple"}
"""Reasons by pydantic's name for the error, where its own words mislead."""
_MOST_TOLD = 5
"""Most faults that an error names."""
_VALUES = Repr()
_VALUES.maxstring = _VALUES.maxother = 60


def format_validation_error(details: ErrorDetails) -> str:
    """Format an error of a ValidationError with field, reason and value, if the field is known and has one."""
    has_value = details["loc"] and details["type"] not in ("missing", UNKNOWN)
    return format_fault(details) + (f", not {' '.join(_VALUES.repr(details['input']).split())}" if has_value else "")


def format_fault(details: ErrorDetails, whole: str = "") -> str:
    """Format an error of a ValidationError with field and reason; `whole` replaces the field if there is none."""
    field = mask_controls(f"{'.'.join(map(str, details['loc'])):.200}") or whole
    reason = details["msg"].removeprefix("Value error, ")  # pydantic's word before a message of ours
    reason = _REASONS.get(details["type"], reason)
    if details.get("ctx", {}).get("pattern") == ID_PATTERN:
        reason = "it must have up to 64 letters, digits, _ and -, and begin with a letter or digit"
    return f"{field}: {reason}" if field else reason


def _make_clear(error: ValidationError, kind: type[BaseModel]) -> ValueError:
    """Make an error that names each wrong field and its value, and the fields that there are where one is not known."""
    faults = error.errors()
    told = "; ".join(map(format_validation_error, faults[:_MOST_TOLD]))
    told += f"; and {len(faults) - _MOST_TOLD} more" if len(faults) > _MOST_TOLD else ""
    if {"missing", UNKNOWN} & {fault["type"] for fault in faults}:
        told += f"; its fields are {', '.join(kind.model_fields)}"
    return ValueError(f"{kind.__name__}: {told}" if faults[0]["loc"] else told)


class FrozenMap(dict[str, Any]):
    """A JSON object that cannot be changed; readers see a `dict`."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping is frozen; build a new value instead")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(to_canonical_json(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenMap, (dict(self),))


def freeze_json(value: Any) -> Any:
    """Freeze JSON deeply: objects to `FrozenMap`, arrays to tuples."""
    return _rebuild(value, FrozenMap, tuple)


def to_plain_json(value: Any) -> Any:
    """Undo `freeze_json`: plain dicts and lists that can be changed."""
    return _rebuild(value, dict, list)


def _rebuild(value: Any, to_object: type[dict[str, Any]], to_array: type[tuple[Any, ...] | list[Any]]) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return to_object({key: _rebuild(item, to_object, to_array) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return to_array(_rebuild(item, to_object, to_array) for item in value)
    return value


_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue, config=ConfigDict(allow_inf_nan=False))


def _validate_json(value: Any) -> Any:
    if isinstance(value, dict) and not value:
        return FrozenMap()
    return freeze_json(_JSON.validate_python(to_plain_json(value)))


FrozenJson = Annotated[Any, AfterValidator(_validate_json)]
"""Any JSON value, validated and frozen."""


def parse_object(text: str) -> FrozenMap:
    """Parse a model's text as a JSON object.

    Raises:
        ValueError: the text is no object, nested too deeply, or has a number or a character that cannot be stored.
    """
    try:
        found = _validate_json(from_json(text, allow_inf_nan=False))
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from None
    if not isinstance(found, FrozenMap):
        raise ValueError(f"it must be an object, not {text[:100]!r}")
    return found


_PLAIN = frozenset({str, int, bool, type(None)})


MOST_READ = 200_000_000
"""Most characters of what is read whole and is no regular file; a regular file with more is taken from a directory that
is another user's only with consent."""
MOST_OF_A_FILE = 2_000_000_000
"""Most characters of a regular file that is read whole."""


def read_file_text(path: Path, encoding: str = "utf-8") -> str:
    """Read a whole file as text; a link in another user's folder may lead to a device that never ends.

    Raises:
        OSError: it cannot be read, or has more than `MOST_OF_A_FILE` characters (`MOST_READ` if it is no regular file).
        UnicodeDecodeError: it is no such text.
    """
    with path.open(encoding=encoding) as file:
        most = MOST_OF_A_FILE if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else MOST_READ
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"it has more than the {most:,} characters that are read")
    return found


def is_large_file(path: Path) -> bool:
    """Whether there is a file with more than `MOST_READ` bytes."""
    try:
        return path.stat().st_size > MOST_READ
    except (OSError, ValueError):
        return False


def to_canonical_json(value: Any) -> str:
    """Write a value as canonical JSON: sorted keys, no spaces, finite numbers only, 1.0 written as 1."""
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return _ENCODER.encode(_replace_whole_floats(plain))


def iterate_texts(value: Any) -> Iterator[str]:
    """Iterate over the texts in a JSON value, frozen or not; keys of objects are not among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from iterate_texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from iterate_texts(part)


def format_count(count: int, what: str) -> str:
    """Format a count with its noun: 1 task, 2 tasks."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def format_value(value: object) -> str:
    """Format a JSON value for readers: numbers to four digits, texts unchanged, the rest as JSON."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else to_canonical_json(to_plain_json(value))


def format_object(value: object) -> str:
    """Format a value that was not expected in a line: as in Python; of a long one its type, and how it begins."""
    text = repr(value)
    fits = len(text) <= LONG and "\n" not in text
    return text if fits else f"{type(value).__name__} {' '.join(text.split())[:LONG]}..."


LONG = 80
"""Most characters of an unexpected value in a message."""


def mask_controls(text: str) -> str:
    r"""Write control characters, which can mislead a terminal or its reader, as escapes like \x1b; \n and \t stay."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
"""Control characters, other ends of lines, marks that reverse the order of a text, and tags, which nobody sees."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _replace_whole_floats(value: Any) -> Any:
    """Replace whole floats by integers, as 1 == 1.0 and both need the same text."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return [item if type(item) in _PLAIN else _replace_whole_floats(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: item if type(item) in _PLAIN else _replace_whole_floats(item) for key, item in value.items()}
    return value


def fingerprint(value: Any) -> str:
    """Hash a value: 16 hexadecimal digits of SHA-256 over `to_canonical_json(value)`, equal in every process."""
    return hashlib.sha256(to_canonical_json(value).encode()).hexdigest()[:16]


def is_id(value: object) -> bool:
    """Whether a value is a valid name of an agent, tool or saved team."""
    return isinstance(value, str) and re.fullmatch(ID_PATTERN, value) is not None

"""Runs in the sandbox, never imported: tests in one process, and the program that they call in another.

Reads {"before", "program", "name", "tests", "word"} from standard input; the tests may build on the code in `before`.
Writes the word and then the result as JSON: null if every test passed, else the reason.

The program sees only the arguments of its functions: its process is forked before the tests are read, their text is
erased after that, and the process that runs them cannot be inspected. Results are read as plain values, so no object of
the program can claim to equal another; objects of its own classes stay in its process, and tests hold pointers to them.
Changes to asserts, builtins or modules affect only the program's process.
"""

import builtins
import ctypes
import datetime
import importlib
import json
import os
import signal
import sys
from ast import Name, parse, walk
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import Any

EXACT = 2**53
"""Bound below which whole numbers are exact in JSON."""
KNOWN = frozenset(dir(builtins)) | sys.stdlib_module_names
DUMPABLE, DIE_WITH_PARENT = 4, 1  # of prctl(2)


class ConnectionClosed(BaseException):
    """The process at the other end has ended."""


class ProgramError(Exception):
    """The program has raised an error of its own class."""


class Pointer:
    """In the tests' process: a reference to an object of the program's process."""

    def __init__(self, wire: "Wire", number: int) -> None:
        self.__dict__.update(_wire=wire, _number=number)

    def _ask(self, act: str, *given: Any, **named: Any) -> Any:
        return self._wire.ask(act, self, given, named)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Let the program call the object."""
        return self._ask("call", *given, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy and pickle look for such
            raise AttributeError(name)
        return self._ask("getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("setattr", name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._ask("getitem", key)

    def __contains__(self, value: Any) -> bool:
        return any(item == value for item in self)  # the program's own word for it counts nothing

    def __iter__(self) -> Any:
        return self._ask("iter")

    def __next__(self) -> Any:
        return self._ask("next")

    def __len__(self) -> int:
        return int(self._ask("len"))

    def __bool__(self) -> bool:
        return bool(self._ask("bool"))

    def __str__(self) -> str:
        return str(self._ask("str"))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Pointer) and self._number == other._number

    def __hash__(self) -> int:
        return int(self._number)


ACTS: dict[str, Callable[..., Any]] = {
    "call": lambda it, *given, **named: it(*given, **named),
    "getattr": getattr,
    "setattr": setattr,
    "getitem": lambda it, key: it[key],
    "iter": iter,
    "next": next,
    "len": len,
    "bool": bool,
    "str": str,
}


def pack(value: Any, wire: "Wire") -> Any:
    """Turn a value into JSON: the builtin that its class derives from, else the number of an object stored here."""
    kind: type = type(value)
    if value is None or kind in (bool, float, str) or (kind is int and abs(value) < EXACT):
        return value
    if kind is Pointer:
        return ["pointer", value._number]
    if isinstance(value, ModuleType):
        return ["module", value.__name__]
    name = value.__name__ if isinstance(value, type) else ""
    if name and vars(builtins).get(name) is value:
        return ["class", name]
    for base, (to_json, _) in PLAIN.items():
        if isinstance(value, base):
            parts = to_json(value)
            return [base.__name__, [pack(part, wire) for part in parts] if isinstance(parts, list) else parts]
    return ["pointer", wire.keep(value)]


PLAIN: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    bool: (lambda value: str(int(value)), lambda found: found == "1"),
    int: (lambda value: hex(int.__int__(value)), lambda found: int(found, 16)),
    float: (lambda value: float.__float__(value).hex(), float.fromhex),
    str: (lambda value: str.__str__(value), str),
    complex: (lambda value: [value.real, value.imag], lambda found: complex(*found)),
    bytes: (lambda value: bytes.hex(value), bytes.fromhex),
    bytearray: (lambda value: bytearray.hex(value), bytearray.fromhex),
    list: (lambda value: list(list.__iter__(value)), list),
    tuple: (lambda value: list(tuple.__iter__(value)), tuple),
    set: (lambda value: list(set.__iter__(value)), set),
    frozenset: (lambda value: list(frozenset.__iter__(value)), frozenset),
    dict: (lambda value: list(dict.items(value)), dict),
    type({}.keys()): (list, set),
    type({}.items()): (list, set),
    range: (lambda value: [value.start, value.stop, value.step], lambda found: range(*found)),
    Decimal: (lambda value: Decimal.__str__(value), Decimal),
    Fraction: (lambda value: [value.numerator, value.denominator], lambda found: Fraction(*found)),
    datetime.datetime: (lambda value: datetime.datetime.isoformat(value), datetime.datetime.fromisoformat),
    datetime.date: (lambda value: datetime.date.isoformat(value), datetime.date.fromisoformat),
    datetime.time: (lambda value: datetime.time.isoformat(value), datetime.time.fromisoformat),
    datetime.timedelta: (
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda found: datetime.timedelta(*found),
    ),
}
"""By type: a function that makes a value JSON, and a function that makes the JSON a value again."""
FROM_JSON = {base.__name__: back for base, (_, back) in PLAIN.items()}


def unpack(packed: Any, wire: "Wire") -> Any:
    """Turn JSON into a value: a plain value, a pointer, a builtin class or a module of the standard library."""
    if not isinstance(packed, list):
        return packed
    kind, parts = packed
    if kind == "pointer":
        return wire.found(parts)
    if kind == "module":
        return importlib.import_module(parts) if parts in sys.stdlib_module_names else None
    if kind == "class":
        return vars(builtins)[parts]
    return FROM_JSON[kind]([unpack(part, wire) for part in parts] if isinstance(parts, list) else parts)


class Wire:
    """An end of the two pipes between the processes; only the program's end stores objects."""

    def __init__(self, read: int, write: int, *, keeps: bool) -> None:
        self._read, self._write, self._keeps = os.fdopen(read, "rb"), os.fdopen(write, "wb"), keeps
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}

    def keep(self, value: Any) -> int:
        """Store an object on this side and return its number."""
        if not self._keeps:
            raise TypeError(f"tests cannot give a program {type(value).__name__}")
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._kept)
            self._kept.append(value)
        return self._numbers[id(value)]

    def found(self, number: int) -> Any:
        """Find the object of a number: a stored object at the program's end, else a pointer."""
        return self._kept[number] if self._keeps else Pointer(self, int(number))

    def send(self, value: Any) -> None:
        """Send a value to the other end."""
        body = json.dumps(pack(value, self)).encode()
        try:
            self._write.write(len(body).to_bytes(8, "big") + body)
            self._write.flush()
        except BrokenPipeError:
            raise ConnectionClosed from None

    def receive(self) -> Any:
        """Receive the next value from the other end."""
        size = int.from_bytes(self._read.read(8), "big")
        body = self._read.read(size)
        if not size or len(body) < size:
            raise ConnectionClosed
        return unpack(json.loads(body), self)

    def ask(self, *asked: Any) -> Any:
        """Return the program's result of an act; raise the program's error."""
        self.send(asked)
        kind, value = self.receive()
        if kind == "gave":
            return value
        raised = getattr(builtins, value, None)
        if raised is StopIteration and asked[0] != "next":  # it would end an iteration of the tests
            raise RuntimeError("the program raised StopIteration")
        raise raised() if isinstance(raised, type) and issubclass(raised, Exception) else ProgramError


def serve(wire: Wire) -> None:
    """Be the program: run its text, then serve requests until the other end closes."""
    text, module = wire.receive(), ModuleType("answer")
    sys.modules["answer"] = module

    def started() -> dict[str, Any]:
        exec(compile(text, "/answer.py", "exec"), module.__dict__)
        return {name: value for name, value in module.__dict__.items() if not name.startswith("__")}

    answer(wire, started)
    while True:
        act, it, given, named = wire.receive()
        answer(wire, lambda: ACTS[act](it, *given, **named))  # noqa: B023  # called at once


class ErrorRecorder:
    """A context that notes the name of an error inside, except the end of a process."""

    def __init__(self) -> None:
        self.raised: str | None = None

    def __enter__(self) -> "ErrorRecorder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> bool:
        if kind is None or isinstance(error, SystemExit | ConnectionClosed):
            return False
        self.raised = kind.__name__
        return True


def answer(wire: Wire, act: Callable[[], Any]) -> None:
    """Send the result of an act."""
    with ErrorRecorder() as outcome:
        wire.send(("gave", act()))
    if outcome.raised:
        wire.send(("raised", outcome.raised))


def run_tests(asked: dict[str, str], wire: Wire) -> str | None:
    """Run the tests; return None if every test passes, else the name of the error."""
    wire.send(asked["program"])
    with ErrorRecorder() as outcome:
        kind, given = wire.receive()
        if kind == "raised":
            return str(given)
        place: dict[str, Any] = {"__name__": "tests"}
        exec(compile(asked["before"], "/before.py", "exec"), place)
        place.update({name: given[name] for name in find_names(asked, given, place)})
        exec(compile(asked["tests"], "/tests.py", "exec"), place)
    return outcome.raised


def find_names(asked: dict[str, str], given: dict[str, Any], before: dict[str, Any]) -> set[str]:
    """List the names that the tests use of the program, except names that `before` defines beside the function.

    A function with the name of a builtin or a module replaces that only if the tests use nothing else of the program:
    some tests are about a function `sum`, others apply `set` to results.
    """
    named = {node.id for node in walk(parse(asked["tests"])) if isinstance(node, Name)}
    fresh = {name for name in named & given.keys() if name not in before or name == asked["name"]}
    modules = {name for name in fresh if isinstance(given[name], ModuleType)}
    own = fresh - modules - KNOWN
    return modules | (own or fresh)


def main() -> None:
    """Fork the program's process, then read the tests and run them."""
    there, here = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.close(there[1])
        os.close(here[0])
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
        with suppress(ConnectionClosed):
            serve(Wire(there[0], here[1], keeps=True))
        os._exit(0)
    os.close(there[0])
    os.close(here[1])
    ctypes.CDLL(None).prctl(DUMPABLE, 0)
    asked = json.load(sys.stdin)
    os.ftruncate(0, 0)  # it can be opened anew through /proc
    try:
        why = run_tests(asked, Wire(here[0], there[1], keeps=False))
    except ConnectionClosed:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        why = "late" if status == -signal.SIGXCPU else "left" if status == 0 else "broken"
    os.write(1, f"{asked['word']}{json.dumps(why)}".encode())  # at once, so that nothing stands in between
    os._exit(0)


main()

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
"""Smaller whole numbers are exact in JSON."""
KNOWN = frozenset(dir(builtins)) | sys.stdlib_module_names
DUMPABLE, DIE_WITH_PARENT = 4, 1  # of prctl(2)


class ConnectionClosed(BaseException):
    """The process at the other end has ended."""


class UnknownError(Exception):
    """The program has raised an error of its own class."""


class Pointer:
    """In the tests' process: a reference to an object of the program's process."""

    def __init__(self, wire: "Wire", number: int) -> None:
        self.__dict__.update(_wire=wire, _number=number)

    def _ask(self, act: str, *given: Any, **named: Any) -> Any:
        return self._wire.ask(act, self, given, named)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Have the program call it."""
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
        return any(one == value for one in self)  # the program's own word for it counts nothing

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


def pack(one: Any, wire: "Wire") -> Any:
    """A value as JSON: as the builtin that its class derives from, else as the number of an object that stays here."""
    kind: type = type(one)
    if one is None or kind in (bool, float, str) or (kind is int and abs(one) < EXACT):
        return one
    if kind is Pointer:
        return ["pointer", one._number]
    if isinstance(one, ModuleType):
        return ["module", one.__name__]
    name = one.__name__ if isinstance(one, type) else ""
    if name and vars(builtins).get(name) is one:
        return ["class", name]
    for base, (to_json, _) in PLAIN.items():
        if isinstance(one, base):
            parts = to_json(one)
            return [base.__name__, [pack(part, wire) for part in parts] if isinstance(parts, list) else parts]
    return ["pointer", wire.keep(one)]


PLAIN: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    bool: (lambda one: str(int(one)), lambda found: found == "1"),
    int: (lambda one: hex(int.__int__(one)), lambda found: int(found, 16)),
    float: (lambda one: float.__float__(one).hex(), float.fromhex),
    str: (lambda one: str.__str__(one), str),
    complex: (lambda one: [one.real, one.imag], lambda found: complex(*found)),
    bytes: (lambda one: bytes.hex(one), bytes.fromhex),
    bytearray: (lambda one: bytearray.hex(one), bytearray.fromhex),
    list: (lambda one: list(list.__iter__(one)), list),
    tuple: (lambda one: list(tuple.__iter__(one)), tuple),
    set: (lambda one: list(set.__iter__(one)), set),
    frozenset: (lambda one: list(frozenset.__iter__(one)), frozenset),
    dict: (lambda one: list(dict.items(one)), dict),
    type({}.keys()): (list, set),
    type({}.items()): (list, set),
    range: (lambda one: [one.start, one.stop, one.step], lambda found: range(*found)),
    Decimal: (lambda one: Decimal.__str__(one), Decimal),
    Fraction: (lambda one: [one.numerator, one.denominator], lambda found: Fraction(*found)),
    datetime.datetime: (lambda one: datetime.datetime.isoformat(one), datetime.datetime.fromisoformat),
    datetime.date: (lambda one: datetime.date.isoformat(one), datetime.date.fromisoformat),
    datetime.time: (lambda one: datetime.time.isoformat(one), datetime.time.fromisoformat),
    datetime.timedelta: (
        lambda one: [one.days, one.seconds, one.microseconds],
        lambda found: datetime.timedelta(*found),
    ),
}
"""What makes a value of a type JSON, and what makes it a value again."""
FROM_JSON = {base.__name__: back for base, (_, back) in PLAIN.items()}


def unpack(packed: Any, wire: "Wire") -> Any:
    """The packed value: a plain one, a pointer, a builtin class or a module of the standard library."""
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
    """One end of the two pipes between the processes; only the program's end stores objects."""

    def __init__(self, read: int, write: int, *, keeps: bool) -> None:
        self._read, self._write, self._keeps = os.fdopen(read, "rb"), os.fdopen(write, "wb"), keeps
        self._kept: list[Any] = []
        self._numbers: dict[int, int] = {}

    def keep(self, one: Any) -> int:
        """The number of an object that stays here."""
        if not self._keeps:
            raise TypeError(f"tests cannot give a program {type(one).__name__}")
        if id(one) not in self._numbers:
            self._numbers[id(one)] = len(self._kept)
            self._kept.append(one)
        return self._numbers[id(one)]

    def found(self, number: int) -> Any:
        """The object of a number: a stored one at the program's end, else a pointer."""
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
        """The next value from the other end."""
        size = int.from_bytes(self._read.read(8), "big")
        body = self._read.read(size)
        if not size or len(body) < size:
            raise ConnectionClosed
        return unpack(json.loads(body), self)

    def ask(self, *asked: Any) -> Any:
        """The program's result of an act; raises the program's error."""
        self.send(asked)
        kind, value = self.receive()
        if kind == "gave":
            return value
        raised = getattr(builtins, value, None)
        if raised is StopIteration and asked[0] != "next":  # it would end an iteration of the tests
            raise RuntimeError("the program raised StopIteration")
        raise raised() if isinstance(raised, type) and issubclass(raised, Exception) else UnknownError


def serve(wire: Wire) -> None:
    """Be the program: run its text, then serve requests until the other end closes."""
    text, module = wire.receive(), ModuleType("answer")
    sys.modules["answer"] = module

    def started() -> dict[str, Any]:
        exec(compile(text, "/answer.py", "exec"), module.__dict__)
        return {name: one for name, one in module.__dict__.items() if not name.startswith("__")}

    answer(wire, started)
    while True:
        act, it, given, named = wire.receive()
        answer(wire, lambda: ACTS[act](it, *given, **named))  # noqa: B023  # called at once


class ErrorRecorder:
    """Notes the name of an error inside, except the end of a process."""

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
    """None if every test passes, else the name of the error."""
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
    """Names that the tests take from the program: all that they use, except what `before` defines beside the function.

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
        why = format_exit(child)
    os.write(1, f"{asked['word']}{json.dumps(why)}".encode())  # at once, so that nothing stands in between
    os._exit(0)


def format_exit(child: int) -> str:
    """How the program's process ended."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "late" if status == -signal.SIGXCPU else "left" if status == 0 else "broken"


main()

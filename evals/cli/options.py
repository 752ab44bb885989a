"""Options and arguments that several commands share, and how commands reach the library."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from selfwire.core.errors import ConfigError
from selfwire.runtime.library import Library, open_library

T = TypeVar("T")

Home = Annotated[
    str | None,
    typer.Option(
        envvar="SELFWIRE_HOME",
        show_default="./.selfwire",
        help="Folder of saved workflows and runs; for saved workflows also a postgres:// address.",
    ),
]
Ref = Annotated[
    str,
    typer.Argument(help="A name, name@version, a fingerprint (6 digits or more) or an exported .json file."),
]
Knobs = Annotated[
    list[str] | None,
    typer.Option("--set", help="Knob of the method, as name=value or outer.inner=value; may be given again."),
]


def with_library(home: str | None, act: Callable[[Library], Awaitable[T]]) -> T:
    """Open the library that is there, without making one, and do something with it.

    Raises:
        LibraryError: the library cannot be used, or `act` asks for what it does not hold.
    """

    async def opened() -> T:
        with await asyncio.to_thread(open_library, home, create=False) as library:
            return await act(library)

    return asyncio.run(opened())


def local_folder(home: str | None) -> Path | None:
    """The home as a folder, which runs need.

    Raises:
        ConfigError: it is an address.
    """
    if home and "://" in home:
        raise ConfigError(f"runs lie in a folder, not at {home.partition('://')[0]}://; name a folder with --home")
    return Path(home) if home else None


def knobs(given: list[str]) -> dict[str, Any]:
    """Knobs of a method from `name=value` texts; a dot leads into a nested one, as in `routing.k=3`.

    Raises:
        ConfigError: a text has no `=`, or leads into a knob that has a value.
    """
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set takes name=value, not {text!r}")
        place = found
        *path, last = name.split(".")
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set gives {part!r} a value and leads into it as well, in {text!r}; choose one")
        try:
            place[last] = json.loads(value)
        except json.JSONDecodeError:
            place[last] = value
    return found

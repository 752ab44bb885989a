"""Chooses the sandbox for programs and tools that a model wrote, by trying."""

import os
from collections.abc import Callable

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Sandbox
from selfwire.runtime.bubblewrap import find_working_bubblewrap
from selfwire.runtime.monty import find_working_monty

SETTING = "SELFWIRE_SANDBOX"
"""The variable that names the only sandbox to be used."""

_SANDBOXES: dict[str, Callable[[], Sandbox]] = {
    "bubblewrap": find_working_bubblewrap,  # runs all of Python
    "monty": find_working_monty,
}


def find_sandbox(*, full: bool = False) -> Sandbox:
    """The first sandbox that works here, bubblewrap before Monty; `full` asks for one that runs all of Python.

    Raises:
        ConfigError: none works; it says why and the way out.
    """
    chosen = os.environ.get(SETTING, "")
    if chosen and chosen not in _SANDBOXES:
        raise ConfigError(f"{SETTING} is {chosen!r}; choose {' or '.join(_SANDBOXES)}, or leave it out")
    if full and chosen == "monty":
        raise ConfigError(f"{SETTING} is monty, which runs a part of Python only, and this needs all of it: unset it")
    complaints = []
    for name in [chosen] if chosen else list(_SANDBOXES)[: 1 if full else None]:
        try:
            return _SANDBOXES[name]()
        except ConfigError as error:
            complaints.append(str(error))
    raise ConfigError("; and ".join(complaints) + ("; this needs all of Python, so Monty will not do" if full else ""))

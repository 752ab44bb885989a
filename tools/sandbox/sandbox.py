"""Chooses a sandbox that works on this machine, for programs and tools that a model wrote."""

import os
from collections.abc import Callable

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Sandbox
from selfwire.tools.sandbox.bubblewrap import find_working_bubblewrap
from selfwire.tools.sandbox.monty import find_working_monty

SETTING = "SELFWIRE_SANDBOX"
"""Environment variable with the name of the only sandbox to use."""

_SANDBOXES: dict[str, Callable[[], Sandbox]] = {
    "bubblewrap": find_working_bubblewrap,  # runs all of Python
    "monty": find_working_monty,
}


def find_sandbox(*, full: bool = False) -> Sandbox:
    """Find the first sandbox that works here, bubblewrap before Monty.

    Args:
        full: whether the sandbox must run all of Python, which Monty does not.

    Raises:
        ConfigError: no sandbox works; the message says why and the way out.
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

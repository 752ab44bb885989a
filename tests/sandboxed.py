"""Marks of tests that run programs in a real sandbox, and the base of those that are none."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from selfwire.core.errors import ConfigError
from selfwire.core.protocols import Execution, Limits, Sandbox
from selfwire.tools.sandbox.bubblewrap import find_working_bubblewrap
from selfwire.tools.sandbox.monty import find_working_monty


def _why_not(find: Callable[[], Sandbox]) -> str:
    try:
        find()
    except ConfigError as error:
        return str(error)
    return ""


def _needs(find: Callable[[], Sandbox]) -> pytest.MarkDecorator:
    why_not = _why_not(find)
    return pytest.mark.skipif(bool(why_not), reason=why_not or "the sandbox works")


needs_sandbox = _needs(find_working_bubblewrap)
needs_monty = _needs(find_working_monty)
every_sandbox = pytest.mark.parametrize(
    "find",
    [
        pytest.param(find_working_bubblewrap, id="bubblewrap", marks=needs_sandbox),
        pytest.param(find_working_monty, id="monty", marks=needs_monty),
    ],
)
"""Runs a test with each backend; `find` finds it."""


class CallsNothing:
    """What a sandbox for tests inherits that only runs programs."""

    name = "test"

    async def call(self, source: str, arguments: Mapping[str, Any], *, limits: Limits = Limits()) -> Execution:
        raise NotImplementedError

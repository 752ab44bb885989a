"""The mark of tests that run programs in the real sandbox, and the base of those that are none."""

from collections.abc import Mapping
from typing import Any

import pytest

from selfwire.core.errors import ConfigError
from selfwire.core.execution import Execution, Limits
from selfwire.runtime.sandbox import find_sandbox


def _missing() -> str:
    try:
        find_sandbox()
    except ConfigError as error:
        return str(error)
    return ""


needs_sandbox = pytest.mark.skipif(bool(_missing()), reason=_missing() or "the sandbox works")


class CallsNothing:
    """What a sandbox for tests inherits that only runs programs."""

    name = "test"

    async def call(self, source: str, arguments: Mapping[str, Any], *, limits: Limits = Limits()) -> Execution:
        raise NotImplementedError

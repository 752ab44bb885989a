"""The mark of tests that run programs in the real sandbox."""

import pytest

from selfwire.core.errors import ConfigError
from selfwire.runtime.sandbox import find_sandbox


def _missing() -> str:
    try:
        find_sandbox()
    except ConfigError as error:
        return str(error)
    return ""


needs_sandbox = pytest.mark.skipif(bool(_missing()), reason=_missing() or "the sandbox works")

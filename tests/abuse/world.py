"""What programs of the abuse suite could harm: planted secrets, open sockets, files, a process."""

import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.abuse.bombs import CANARY, UNTOUCHED
from tests.abuse.program import Program

VARIABLE = "SELFWIRE_ABUSE_SECRET"
BARE = """
import json, os, sys
at = json.load(sys.stdin)
exec(compile(at["source"], "x", "exec"), globals())
sys.stdin = open("/dev/null")
print(tool_function(at), flush=True)
if at["canary"]:
    print(end="canary ")
    exec(at["canary"])
"""
"""Runs a program with nothing to hold it, and the canary after it in the same process."""


class World:
    """The places of all that was planted, and what has become of it."""

    def __init__(self, folder: Path, shared: Path, home: Path) -> None:
        self.secret, mark = f"zanzibar-{secrets.token_hex(8)}", f"mark-{secrets.token_hex(8)}"
        self._outside, self._scratch = folder / "outside", folder / "scratch"
        self._victim = self._outside / "victim"
        self.file, temporary = home / "secret", folder / "temporary"
        for one in (self.file, temporary, shared, home / f"name-{self.secret}"):
            one.write_text(self.secret)
        (home / "planted.py").write_text(f"SECRET = {self.secret!r}\n")
        with sqlite3.connect(home / "database") as connection:
            connection.execute("CREATE TABLE secrets AS SELECT ? AS word", [self.secret])
        connection.close()
        keeper = [sys.executable, "-I", str(Path(__file__).with_name("keeper.py")), self.secret, mark, str(folder)]
        pipe = subprocess.PIPE
        self._keeper = subprocess.Popen(
            keeper, stdin=pipe, stdout=pipe, text=True, env={VARIABLE: self.secret}, process_group=0
        )
        self.at: Mapping[str, Any] = {
            **self._read_note(),
            **{"file": str(self.file), "folder": str(home), "home": str(home.parent), "temporary": str(temporary)},
            **{"name": f"{home.name}/secret", "shared": str(shared), "database": str(home / "database")},
            **{"variable": VARIABLE, "mark": mark, "outside": str(self._outside), "victim": str(self._victim)},
        }
        self._restore()

    def end(self) -> None:
        self._keeper.communicate()

    def _read_note(self) -> Any:
        assert self._keeper.stdout
        return json.loads(self._keeper.stdout.readline())

    def _restore(self) -> None:
        for one in (self._outside, self._scratch):
            shutil.rmtree(one, ignore_errors=True)
            one.mkdir()
            one.chmod(0o777)
        self._victim.write_text("victim")
        self._victim.chmod(0o666)

    def _is_untouched(self) -> bool:
        with suppress(OSError):
            found = os.listdir(self._outside), self._victim.read_text(), self._victim.stat().st_mode & 0o777
            return found == (["victim"], "victim", 0o666)
        return False

    def find_harm(self, *texts: str | None) -> set[str]:
        """What harm was done since the last time: in texts that came of a program, to files, to the process."""
        harm = {"secret"} if any(self.secret in (text or "") for text in texts) else set()
        assert self._keeper.stdin
        self._keeper.stdin.write("\n")
        self._keeper.stdin.flush()
        if self._read_note():
            harm.add("reached")
        if not self._is_untouched():
            harm.add("written")
            self._restore()
        return harm

    def do_harm(self, program: Program) -> set[str]:
        """Run a program with nothing that holds it; return the harm that it does."""
        canary = CANARY if program.harm == "left" else ""
        done = subprocess.run(
            [sys.executable, "-I", "-c", BARE],
            input=json.dumps({**self.at, "source": program.source, "canary": canary}),
            capture_output=True,
            text=True,
            errors="replace",
            close_fds=False,
            cwd=self._scratch,
            timeout=60,
            check=False,
        )
        found = self.find_harm(done.stdout)
        self._restore()
        _, ran, left = done.stdout.partition("canary ")
        return found | ({"left"} if ran and left != UNTOUCHED else set())


@contextmanager
def planted() -> Iterator[World]:
    """A world, with an inheritable file that holds the secret; its variable is still to be set."""
    home = Path(tempfile.mkdtemp(prefix=".selfwire-abuse-", dir=Path.home()))
    shared = Path("/dev/shm", home.name)
    folder = Path(tempfile.mkdtemp(prefix="selfwire-abuse-"))
    for one in (home, folder):
        one.chmod(0o755)
    world = World(folder, shared, home)
    inherited = os.open(world.file, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        yield world
    finally:
        os.close(inherited)
        world.end()
        shared.unlink()
        for one in (home, folder):
            shutil.rmtree(one)
        for one in (Path("/tmp/left"), Path("/dev/shm/left")):
            one.unlink(missing_ok=True)

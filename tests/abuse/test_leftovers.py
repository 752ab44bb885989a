"""Many programs at once, among them those that are stopped, leave nothing behind."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from selfwire.core.protocols import Execution, Limits, Sandbox
from tests.abuse.leftovers import count_leftovers
from tests.sandboxed import every_sandbox

PROGRAMS = (
    "print(1)",
    "raise ValueError('odd')",
    "while True: print('x' * 99)",
    "import time\ntime.sleep(60)",
    "import os\nif os.fork():\n    os.setsid()",
    "import os\nopen('/tmp/x', 'w').write('y')\nos.kill(os.getpid(), 9)",
)
LIMITS = Limits(seconds=0.5, output=2000)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts by /proc")


@every_sandbox
def test_many_at_once_leave_nothing_behind(find: Callable[[], Sandbox]) -> None:
    sandbox = find()

    async def run() -> list[Execution]:
        return await asyncio.gather(*(sandbox.run(code, limits=LIMITS) for code in PROGRAMS * 4))

    left = count_leftovers(lambda: asyncio.run(run()))
    assert {"processes", "namespaces", "open files", "mounts"} <= left.keys()
    assert left == dict.fromkeys(left, 0)


def test_what_is_left_is_counted(tmp_path: Path) -> None:
    with ExitStack() as left:

        def leave() -> None:
            sleeper = left.enter_context(subprocess.Popen(["sleep", "60"]))
            left.callback(sleeper.kill)
            left.enter_context(open(tmp_path / "x", "w"))

        found = count_leftovers(leave)
    assert found["processes"] == 1
    assert found["open files"] >= 1

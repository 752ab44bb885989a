"""A program's own time: what it computes and what it sleeps, and not what others take."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from selfwire.tools.sandbox.sandbox_waiting import ProcessTimer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def running(code: str) -> Iterator[ProcessTimer]:
    command = [sys.executable, "-S", "-c", f"print(flush=True)\n{code}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout
    process.stdout.readline()
    try:
        yield ProcessTimer(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # with its children
        process.communicate()


def looked_until_it_computes(own: ProcessTimer, passed: float) -> float:
    while own.look(passed) < 0.3:
        time.sleep(0.05)
    return own.seconds


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import threading\nthreading.Thread(target=exec, args=('while True: pass',)).start()",
        "import os\nos.fork()\nwhile True: pass",
        "import os\nif os.fork(): os.wait()\nwhile True: pass",
    ],
)
def test_who_is_ready_takes_what_it_computes(code: str) -> None:
    with running(code) as own:
        time.sleep(0.2)  # until its threads and children run
        assert looked_until_it_computes(own, 1000) < 100


def test_who_sleeps_takes_the_clock() -> None:
    with running("import time\ntime.sleep(600)") as own:
        time.sleep(0.2)
        assert own.look(1000) >= 1000
        assert own.look(1000) >= 2000


def test_what_ended_children_computed_counts() -> None:
    code = "import os, time\nif not os.fork():\n    while time.process_time() < 0.5: pass\n    os._exit(0)\nos.wait()"
    with running(f"{code}\nprint(flush=True)\ntime.sleep(600)") as own:
        assert looked_until_it_computes(own, 0) >= 0.3


def test_who_has_ended_takes_no_more_than_the_clock() -> None:
    with running("") as own:
        pass
    assert own.look(1) == 1

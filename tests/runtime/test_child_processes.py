"""Worker processes end with their parent, however that ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from selfwire.runtime.child_processes import open_process_pool

PROGRAM = """
import os, sys, time
from pathlib import Path
from selfwire.runtime.child_processes import open_process_pool
from tests.runtime.test_child_processes import note_and_sleep

if __name__ == "__main__":
    with open_process_pool(2) as pool:
        for name in ("a", "b"):
            pool.submit(note_and_sleep, Path(sys.argv[1]) / name)
"""


def note_and_sleep(path: Path) -> None:
    path.with_suffix(".draft").write_text(str(os.getpid()))
    path.with_suffix(".draft").rename(path)
    time.sleep(600)


def wait_until_gone(*processes: int) -> None:
    for process in processes:
        while Path(f"/proc/{process}/stat").exists() and " Z " not in Path(f"/proc/{process}/stat").read_text():
            time.sleep(0.02)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's list of processes")
def test_a_killed_parent_leaves_no_worker_behind(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    folders = os.pathsep.join([os.getcwd(), *sys.path])
    parent = subprocess.Popen([sys.executable, str(program), str(tmp_path)], env={**os.environ, "PYTHONPATH": folders})
    while not all((tmp_path / name).exists() for name in "ab"):
        assert parent.poll() is None
        time.sleep(0.02)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_until_gone(*(int((tmp_path / name).read_text()) for name in "ab"))


def test_an_error_ends_the_workers_at_once(tmp_path: Path) -> None:
    def interrupt() -> None:
        with open_process_pool(1) as pool:
            pool.submit(note_and_sleep, tmp_path / "a")
            while not (tmp_path / "a").exists():
                time.sleep(0.02)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    wait_until_gone(int((tmp_path / "a").read_text()))

"""Worker processes end with their parent, however that ends, and give back the jobs at which they die."""

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest

from selfwire.core.errors import OutageError, ToolSourceError, WorkerError
from selfwire.extras.cluster import child_processes
from selfwire.extras.cluster.child_processes import HAS_FORK_SERVER, ProcessExecutor
from selfwire.extras.cluster.executors import open_workers
from selfwire.extras.cluster.jobs import DEATHS, Ended, Event, Job, LocalExecutor, Report, run_jobs
from selfwire.runs.spec import WorkerOptions

PROGRAM = """
import sys
from collections import deque
from selfwire.extras.cluster.child_processes import ProcessExecutor
from selfwire.extras.cluster.jobs import Job, run_jobs
from tests.extras.cluster.test_child_processes import note_and_sleep

if __name__ == "__main__":
    jobs = deque(Job.of(name, note_and_sleep, path=f"{sys.argv[1]}/{name}") for name in ("a", "b"))
    with ProcessExecutor(2) as executor:
        list(run_jobs(jobs, executor))
"""


ADDING = """
from collections import deque
from selfwire.extras.cluster.child_processes import ProcessExecutor
from selfwire.extras.cluster.jobs import Job, run_jobs
from tests.extras.cluster.test_child_processes import add

if __name__ == "__main__":
    with ProcessExecutor(1) as executor:
        print([one.result for one in run_jobs(deque([Job.of("sum", add, numbers=[1, 2])]), executor)])
"""


HOLDING = """
from collections import deque
from selfwire.extras.cluster.child_processes import ProcessExecutor
from selfwire.extras.cluster.jobs import Job, run_jobs
from tests.extras.cluster.test_child_processes import hold_a_lock

def stop(event):
    raise KeyboardInterrupt

if __name__ == "__main__":
    with ProcessExecutor(1) as executor:
        list(run_jobs(deque([Job.of("job", hold_a_lock)]), executor, stop))
"""


def hold_a_lock(report: Report) -> None:
    held.append(multiprocessing.get_context("spawn").Lock())
    report({"holds": True})
    time.sleep(600)


held: list[Any] = []


def note_and_sleep(report: Report, path: str) -> None:
    Path(path).with_suffix(".draft").write_text(str(os.getpid()))
    Path(path).with_suffix(".draft").rename(path)
    time.sleep(600)


def die_at_first(report: Report, folder: str, name: str, deaths: int) -> str:
    """Note the try, and die in the first of them."""
    tries = len(list(Path(folder).glob(f"{name}.*")))
    Path(folder, f"{name}.{tries}").touch()
    report({"name": name, "try": tries})
    if tries < deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{name} done"


def fail(report: Report, kind: str) -> None:
    if kind == "ours":
        raise OutageError("the provider is down")
    if kind == "of parts":
        raise ToolSourceError(3, "it imports os")
    if kind == "a value's":
        raise UnicodeError("the text is odd")
    raise KeyError("nothing")


def wait_until_gone(*processes: int) -> None:
    for process in processes:
        while Path(f"/proc/{process}/stat").exists() and " Z " not in Path(f"/proc/{process}/stat").read_text():
            time.sleep(0.02)


def run_program(folder: Path, text: str, *arguments: str, **variables: str) -> "subprocess.Popen[str]":
    program = folder / "program.py"
    program.write_text(text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path]), **variables}
    piped = subprocess.PIPE
    return subprocess.Popen([sys.executable, str(program), *arguments], env=env, stdout=piped, stderr=piped, text=True)


def test_workers_that_are_stopped_give_back_what_they_hold_of_the_system(tmp_path: Path) -> None:
    with run_program(tmp_path, HOLDING) as parent:
        _, told = parent.communicate()
    assert "KeyboardInterrupt" in told
    assert "leaked" not in told


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's list of processes")
def test_a_killed_parent_leaves_no_worker_behind(tmp_path: Path) -> None:
    with run_program(tmp_path, PROGRAM, str(tmp_path)) as parent:
        while not all((tmp_path / name).exists() for name in "ab"):
            assert parent.poll() is None
            time.sleep(0.02)
        parent.send_signal(signal.SIGKILL)
    wait_until_gone(*(int((tmp_path / name).read_text()) for name in "ab"))


def test_an_error_ends_the_workers_at_once(tmp_path: Path) -> None:
    def interrupt() -> None:
        with ProcessExecutor(1) as executor:
            executor.start(Job.of("a", note_and_sleep, path=tmp_path / "a"))
            while not (tmp_path / "a").exists():
                time.sleep(0.02)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    wait_until_gone(int((tmp_path / "a").read_text()))


def test_a_job_is_done_again_whose_worker_dies_and_not_for_ever(tmp_path: Path) -> None:
    def make(name: str, deaths: int) -> Job:
        return Job.of(name, die_at_first, folder=tmp_path, name=name, deaths=deaths)

    events = list[Event]()
    with ProcessExecutor(2) as executor:
        ended = list(run_jobs(deque([make("twice", 2), make("never", 0)]), executor))
        assert {one.result for one in ended} == {"twice done", "never done"}
        with pytest.raises(WorkerError, match=f"{DEATHS} workers in a row have died at deadly"):
            list(run_jobs(deque([make("deadly", 99)]), executor, events.append))
    assert len(list(tmp_path.glob("deadly.*"))) == DEATHS
    assert {"name": "deadly", "try": 2} in events


@pytest.mark.parametrize(
    ("kind", "schema", "told"),
    [
        ("ours", OutageError, "the provider is down"),
        ("of parts", ValueError, "line 3: it imports os"),
        ("a value's", UnicodeError, "the text is odd"),
        ("another", RuntimeError, "Traceback.*KeyError"),
    ],
)
def test_errors_travel_as_text(kind: str, schema: type[Exception], told: str) -> None:
    with open_workers(WorkerOptions()) as executor, pytest.raises(schema, match=f"(?s){told}"):
        list(run_jobs(deque([Job.of("it", fail, kind=kind), Job.of("later", fail, kind="never started")]), executor))


def note_the_end(report: Report, path: str) -> None:
    atexit.register(Path(path).touch)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_what_a_worker_would_do_at_its_exit_is_done(tmp_path: Path, error: type[BaseException] | None) -> None:
    with suppress(KeyboardInterrupt), ProcessExecutor(1) as executor:
        list(run_jobs(deque([Job.of("it", note_the_end, path=tmp_path / "ended")]), executor))
        if error:
            raise error
    assert (tmp_path / "ended").exists()


def read_environment(report: Report, name: str) -> Any:
    return os.environ.get(name)


def test_workers_have_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> Any:
        with ProcessExecutor(1) as executor:
            [ended] = run_jobs(deque([Job.of("it", read_environment, name="SELFWIRE_OF_NOW")]), executor)
        return ended.result

    assert read() is None
    monkeypatch.setenv("SELFWIRE_OF_NOW", "yes")
    assert read() == "yes"


def read_parent(report: Report) -> Any:
    return os.getppid()


@pytest.mark.skipif(not HAS_FORK_SERVER, reason="each worker is a process of its own")
def test_ctrl_c_does_not_reach_the_process_that_imports() -> None:
    with ProcessExecutor(1) as executor:
        [ended] = run_jobs(deque([Job.of("it", read_parent)]), executor)
    status = dict(line.split(":\t") for line in Path(f"/proc/{ended.result}/status").read_text().splitlines())
    assert int(status["SigBlk"], 16) & 1 << (signal.SIGINT - 1)


@pytest.mark.skipif(not HAS_FORK_SERVER, reason="each worker is a process of its own")
def test_workers_outlive_the_process_that_they_are_forked_from_and_others_start_anew() -> None:
    with ProcessExecutor(1) as executor:
        [ended] = run_jobs(deque([Job.of("it", read_parent)]), executor)
        os.kill(ended.result, signal.SIGKILL)
        wait_until_gone(ended.result)
        assert [one.result for one in run_jobs(deque([Job.of("sum", add, numbers=[1, 2])]), executor)] == [3]
    with ProcessExecutor(1) as executor:
        assert [one.result for one in run_jobs(deque([Job.of("sum", add, numbers=[1, 2])]), executor)] == [3]


def test_workers_start_where_the_path_of_temporary_files_is_too_long_for_a_socket(tmp_path: Path) -> None:
    temporary = tmp_path / ("long" * 30)
    temporary.mkdir()
    with run_program(tmp_path, ADDING, TMPDIR=str(temporary)) as program:
        printed, told = program.communicate()
    assert (printed, told) == ("[3]\n", "")


class PipeOfAnotherClass:
    """A pipe that is no `Connection`, as those of Windows are."""

    def __init__(self, pipe: Any) -> None:
        self.fileno, self.send, self.recv, self.close = pipe.fileno, pipe.send, pipe.recv, pipe.close


def test_what_a_pipe_of_another_class_brings_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(forks: bool) -> Any:
        worker: Any = start_worker(forks)
        return worker._replace(pipe=PipeOfAnotherClass(worker.pipe))

    start_worker = child_processes._start_worker
    monkeypatch.setattr(child_processes, "_start_worker", start)
    late = time.monotonic() + 100
    with ProcessExecutor(1) as executor:
        executor.start(Job.of("sum", add, numbers=[1, 2]))
        found = list[Event | Ended]()
        while not found and time.monotonic() < late:
            found.extend(executor.wait())
    assert [one.result for one in found if isinstance(one, Ended)] == [3]


def test_windows_has_no_process_that_removes_what_killed_workers_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(resource_tracker, "ensure_running", lambda: pytest.fail("it cannot be started there"))
    child_processes._start_resource_tracker()


def add(report: Report, numbers: list[Any]) -> Any:
    return sum(numbers)


def test_jobs_may_be_added_while_others_end() -> None:
    jobs, found = deque([Job.of("1", add, numbers=[1, 2])]), list[int]()
    for ended in run_jobs(jobs, LocalExecutor()):
        found.append(ended.result)
        if len(found) < 3:
            jobs.append(Job.of("next", add, numbers=[ended.result, 1]))
    assert found == [3, 4, 5]


def count_to(report: Report, number: int) -> int:
    for one in range(number):
        report({"counted": one})
    return number


def test_a_job_in_this_process_tells_its_events() -> None:
    told = list[Event]()
    [ended] = run_jobs(deque([Job.of("it", count_to, number=2)]), LocalExecutor(), told.append)
    assert (told, ended.result) == ([{"counted": 0}, {"counted": 1}], 2)


def test_no_worker_waits_for_what_is_done_with_a_result() -> None:
    waiting = deque(Job.of(f"job {number}", add, numbers=[number]) for number in range(3))
    assert [len(waiting) for _ in run_jobs(waiting, LocalExecutor())] == [1, 0, 0]


KILLED = """
import multiprocessing, os, signal
from selfwire.extras.cluster.child_processes import _start_worker, import_for_workers

CONTEXT = multiprocessing.get_context("forkserver")

def die():
    lock = CONTEXT.Lock()
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    import_for_workers(())
    worker = CONTEXT.Process(target=die)
    worker.start()
    worker.join()
    print(worker.exitcode)
"""


def test_a_killed_worker_leaves_no_message_about_what_it_held(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "-9\n", "")

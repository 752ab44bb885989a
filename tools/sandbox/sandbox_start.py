"""The first process in the sandbox, which starts the program and supervises it; never imported.

The kernel limits each process; this process checks the memory and files of all processes together, and stops the
program at the limits. The program can neither trace this process nor read its memory; when this process ends, all
processes that the program left behind end too. It reports the start of the program, and at the end the exit status,
which is 128 + n after signal n.
"""

import _ctypes  # ctypes itself would take as long as the rest of the start
import _signal  # type: ignore[import-not-found]  # signal would take as long
import os
import resource
import sys

TYPE_CHECKING = False  # as in typing, which would take as long as the rest of the start
if TYPE_CHECKING:
    from selfwire.tools.sandbox.result_text import format_result  # its text comes before this file's

CHECK_INTERVAL = 0.1
"""Seconds between two checks."""
FOLDER = "/tmp"
SPARE = 64 * 2**20
"""Bytes for the interpreters, in addition to the program's memory."""
PAGE = os.sysconf("SC_PAGE_SIZE")
DUMPABLE = 4  # of prctl(2)
KILLED = 137
STARTED, RETURNED = b"+", b"="
PROGRAM = "/main.py"


def set_traceable(traceable: bool) -> None:
    """Allow or forbid other processes of this user to trace this process."""
    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is this program
    _ctypes.call_function(prctl, (DUMPABLE, int(traceable)))


def watch(program: int, memory: int, entries: int) -> int:
    """Wait for the program's end, stop it at the limits on memory and files, and return its exit status."""
    while True:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                status = os.waitstatus_to_exitcode(ended[1])
                return status if status >= 0 else 128 - status
        _signal.sigtimedwait({_signal.SIGCHLD}, CHECK_INTERVAL)
        # once more, as processes that end between two reads leave the pages that they shared to those read later
        if measure_memory(memory) > memory and measure_memory(memory) > memory:
            return stop(f"MemoryError: the program's processes together held more than {memory // 2**20} MiB")
        if count_entries() > entries:
            return stop(f"OSError: the program made more than {entries} files and folders")


def stop(why: str) -> int:
    """Kill all processes of the program and write the reason; return the exit status."""
    os.kill(-1, _signal.SIGKILL)
    os.write(2, f"\n{why}\n".encode())
    return KILLED


def count_entries() -> int:
    """Count files and folders in the program's private folder."""
    folder = os.statvfs(FOLDER)
    return folder.f_files - folder.f_ffree


def measure_memory(limit: int) -> int:
    """Measure the bytes of all processes; near the limit, shared pages count once."""
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    resident = sum(map(read_resident, processes))
    if resident > limit:
        resident = sum(map(read_proportional, processes))
    return resident + measure_unmapped(processes) + measure_segments()


def read_resident(process: str) -> int:
    """Read the resident bytes of a process; 0 if it has ended."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * PAGE
    except OSError:
        return 0


def read_proportional(process: str) -> int:
    """Read the resident bytes of a process, where a page shared by n processes counts as 1/n."""
    try:
        with open(f"/proc/{process}/smaps_rollup") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except OSError:
        return read_resident(process)


def measure_unmapped(processes: list[str]) -> int:
    """Measure open files that exist only in memory, which the filter of system calls refuses, if it works."""
    found = {}
    for process in processes:
        try:
            for name in os.listdir(f"/proc/{process}/fd"):
                path = f"/proc/{process}/fd/{name}"
                if os.readlink(path).startswith("/memfd:"):
                    file = os.stat(path)
                    found[file.st_ino] = file.st_blocks * 512
        except OSError:  # it has ended, or may not be looked into
            continue
    return sum(found.values())


def measure_segments() -> int:
    """Measure System V shared memory."""
    try:
        with open("/proc/sysvipc/shm") as file:
            names = file.readline().split()
            return sum(int(line.split()[names.index("rss")]) for line in file)
    except OSError:
        return 0


def main() -> tuple[str, int]:
    """Fork: the parent supervises; the child sets its limits, and returns the act and the handle for the result."""
    seconds, memory, files, entries, processes, report, result = map(int, sys.argv[2:])
    set_traceable(False)
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # the first process then ignores this signal of the program
    _signal.pthread_sigmask(_signal.SIG_BLOCK, {_signal.SIGCHLD})
    if program := os.fork():
        os.write(report, b"%d\n" % watch(program, memory + SPARE, entries))
        os._exit(0)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {_signal.SIGCHLD})
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    set_traceable(True)
    for name, value in (("AS", memory), ("FSIZE", files), ("NPROC", processes), ("NOFILE", 64), ("CORE", 0)):
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    os.write(report, STARTED)
    os.close(report)
    return sys.argv[1], result


def become_program() -> None:
    """Run the program as Python runs a file: in the main module, cleared of this file's names."""
    code = compile(read_program(), PROGRAM, "exec")
    place, name = sys.modules["__main__"].__dict__, PROGRAM
    names = ("__name__", "__builtins__", "__loader__", "__package__", "__spec__")
    fresh = {**{kept: place[kept] for kept in names}, "__doc__": None, "__file__": name}
    place.clear()
    place.update(fresh)
    exec(code, place)


def call_tool(result: int) -> None:
    """Call the source's function with the arguments on standard input; write a mark and the result as text."""
    import json

    with open(0, encoding="utf-8", closefd=False) as file:
        arguments = json.load(file)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    module = sys.modules["tool"] = type(sys)("tool")
    module.__file__ = PROGRAM
    try:
        exec(compile(read_program(), PROGRAM, "exec"), module.__dict__)
        if not hasattr(module, "tool_function"):
            raise NameError("the source defines no function tool_function")
        text = format_result(module.tool_function(**arguments))
    except Exception as error:  # noqa: BLE001  # whatever the source raises is its result
        frame = error.__traceback__
        sys.excepthook(type(error), error.with_traceback(frame and frame.tb_next), None)
        sys.exit(1)
    with open(result, "wb") as file:
        file.write(RETURNED + text.encode("utf-8", "replace"))


def read_program() -> str:
    """Read the text of the program."""
    with open(PROGRAM, encoding="utf-8") as file:
        return file.read()


act, where = main()
sys.argv = [PROGRAM]
if act == "call":
    call_tool(where)
else:
    os.close(where)
    become_program()

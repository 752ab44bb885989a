"""Runs in the sandbox, never imported: its first process, which starts the program and watches over it.

The kernel limits each process; this one checks what all of them hold together, in memory and in files, and stops the
program for too much. The program cannot trace it or look into it, and it dies with all that the program left behind.
It reports the start of the program, and at the end its exit status, which is 128 + n after signal n.
"""

import _ctypes  # ctypes itself would take as long as the rest of the start
import _signal  # type: ignore[import-not-found]  # signal would take as long
import os
import resource
import sys

TYPE_CHECKING = False  # as in typing, which would take as long as the rest of the start
if TYPE_CHECKING:
    from selfwire.runtime.result_text import format_result  # its text comes before this file's

EVERY = 0.1
"""Seconds between two checks."""
FOLDER = "/tmp"
SPARE = 64 * 2**20
"""Bytes that the interpreters may hold beside the program's own memory."""
PAGE = os.sysconf("SC_PAGE_SIZE")
DUMPABLE = 4  # of prctl(2)
KILLED = 137
STARTED, RETURNED = b"+", b"="
PROGRAM = "/main.py"


def set_traceable(traceable: bool) -> None:
    """Let other processes of this user look into this one, or not."""
    prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is this program
    _ctypes.call_function(prctl, (DUMPABLE, int(traceable)))


def watch(program: int, memory: int, entries: int) -> int:
    """Wait for the program's end, and stop it if its processes hold too much; return its exit status."""
    while True:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                status = os.waitstatus_to_exitcode(ended[1])
                return status if status >= 0 else 128 - status
        _signal.sigtimedwait({_signal.SIGCHLD}, EVERY)
        # once more, as processes that end between two reads leave the pages that they shared to those read later
        if measure_memory(memory) > memory and measure_memory(memory) > memory:
            return stop(f"MemoryError: the program's processes together held more than {memory // 2**20} MiB")
        if count_entries() > entries:
            return stop(f"OSError: the program made more than {entries} files and folders")


def stop(why: str) -> int:
    """Kill all processes of the program and say why; return the exit status."""
    os.kill(-1, _signal.SIGKILL)
    os.write(2, f"\n{why}\n".encode())
    return KILLED


def count_entries() -> int:
    """Files and folders in the program's private folder."""
    folder = os.statvfs(FOLDER)
    return folder.f_files - folder.f_ffree


def measure_memory(limit: int) -> int:
    """Bytes that the processes hold; pages that they share count once if it matters."""
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    resident = sum(map(read_resident, processes))
    if resident > limit:
        resident = sum(map(read_proportional, processes))
    return resident + measure_unmapped(processes) + measure_segments()


def read_resident(process: str) -> int:
    """Resident bytes of a process, 0 if it has ended."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * PAGE
    except OSError:
        return 0


def read_proportional(process: str) -> int:
    """Resident bytes of a process, in which a page shared by n processes counts as 1/n."""
    try:
        with open(f"/proc/{process}/smaps_rollup") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except OSError:
        return read_resident(process)


def measure_unmapped(processes: list[str]) -> int:
    """Bytes of open files that exist in memory only; the system call filter refuses them where it works."""
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
    """Bytes of System V shared memory."""
    try:
        with open("/proc/sysvipc/shm") as file:
            names = file.readline().split()
            return sum(int(line.split()[names.index("rss")]) for line in file)
    except OSError:
        return 0


def main() -> tuple[str, int]:
    """Watch in this process; in the one that becomes the program set its limits, return the act and where to write."""
    seconds, memory, files, entries, processes, report, result = map(int, sys.argv[2:])
    set_traceable(False)
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # which the program could send; the first process ignores it then
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
    """Run the program as Python runs a file: in the main module, in which nothing of this one is left."""
    code = compile(read_program(), PROGRAM, "exec")
    place, name = sys.modules["__main__"].__dict__, PROGRAM
    names = ("__name__", "__builtins__", "__loader__", "__package__", "__spec__")
    fresh = {**{one: place[one] for one in names}, "__doc__": None, "__file__": name}
    place.clear()
    place.update(fresh)
    exec(code, place)


def call_tool(result: int) -> None:
    """Call the source's function with the arguments on standard input; write what it returns as text, after a sign."""
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
    """The text of the program."""
    with open(PROGRAM, encoding="utf-8") as file:
        return file.read()


act, where = main()
sys.argv = [PROGRAM]
if act == "call":
    call_tool(where)
else:
    os.close(where)
    become_program()

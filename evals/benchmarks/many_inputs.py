"""Runs in the sandbox, never imported: one program on several inputs, each in a fork of this fresh interpreter.

Reads {"program", "inputs", "seconds"} from standard input; prints a list with [exit status, stdout, stderr] for each
input up to the first that did not end well, the status null where it ran out of time. What the program does to this
process it does to itself: nothing here knows what it should print.
"""

import json
import os
import signal
import sys

KEPT = 200_000


def _become(program: str, given: str) -> None:
    """Be the program; it ends as any program does, with what it raises."""
    for stream, name in ((0, "in"), (1, "out"), (2, "err")):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if name == "in":
            with open(handle, "w", encoding="utf-8", closefd=False) as file:
                file.write(given)
            os.lseek(handle, 0, os.SEEK_SET)
        os.dup2(handle, stream)
        os.close(handle)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # lives as long as the program
    exec(compile(program, "/main.py", "exec"), {"__name__": "__main__"})
    sys.exit()  # as any program ends; nobody here catches it


def _ended(child: int, seconds: float) -> int | None:
    """Exit status of a child; None if its time ran out."""

    def late(*_: object) -> None:
        os.kill(child, signal.SIGKILL)
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except TimeoutError:
        os.waitpid(child, 0)
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _written(name: str) -> str:
    with open(name, "rb") as file:
        return file.read(KEPT).decode("utf-8", "replace")


asked = json.load(sys.stdin)
found = []
for given in asked["inputs"]:
    child = os.fork()
    if not child:
        _become(asked["program"], given)
    status = _ended(child, asked["seconds"])
    found.append([status, _written("out"), _written("err")])
    if status != 0:
        break
sys.stdout.write(json.dumps(found))

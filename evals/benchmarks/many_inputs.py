"""Runs in the sandbox, never imported: one program on several inputs, each in a fork of this fresh interpreter.

Reads {"program", "inputs", "seconds"} from standard input; prints a list with [exit status, stdout, stderr] for each
input up to the first failure, with status null if the program slept for its whole time. A program that changes this
process gains nothing, as nothing here knows the expected output.
"""

import gc
import json
import os
import signal
import sys
from contextlib import suppress
from types import CodeType

KEPT = 200_000
LOOK_EVERY = 0.25


def _become(program: str | CodeType, given: str) -> None:
    """Become the program, which ends by itself or with its own exceptions."""
    for stream, name in ((0, "in"), (1, "out"), (2, "err")):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if name == "in":
            with open(handle, "w", encoding="utf-8", closefd=False) as file:
                file.write(given)
            os.lseek(handle, 0, os.SEEK_SET)
        os.dup2(handle, stream)
        os.close(handle)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # open as long as the program runs
    code = compile(program, "/main.py", "exec") if isinstance(program, str) else program
    exec(code, {"__name__": "__main__"})
    sys.exit()  # as any program ends; nothing here catches it


def _ended(child: int, seconds: float) -> int | None:
    """Wait for a child; return its exit status, or None if it was stopped, as all processes had slept too long."""
    slept = 0.0

    def look(*_: object) -> None:
        nonlocal slept
        slept += LOOK_EVERY * _all_sleep()
        if slept >= seconds:
            os.kill(child, signal.SIGKILL)
            raise TimeoutError

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY, LOOK_EVERY)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except TimeoutError:
        os.waitpid(child, 0)
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _all_sleep() -> bool:
    """Whether no other thread runs or waits for a processor."""
    for name in set(filter(str.isdigit, os.listdir("/proc"))) - {str(os.getpid())}:
        try:
            for thread in os.listdir(f"/proc/{name}/task"):
                with open(f"/proc/{name}/task/{thread}/stat", errors="replace") as file:
                    if file.read().rpartition(")")[2].split()[0] in "RD":
                        return False
        except OSError:  # it has ended meanwhile
            continue
    return True


def _written(name: str) -> str:
    with open(name, "rb") as file:
        return file.read(KEPT).decode("utf-8", "replace")


asked = json.load(sys.stdin)
program, found = asked["program"], []
with suppress(Exception):  # what is no program fails in its own process
    program = compile(program, "/main.py", "exec")
gc.freeze()  # the end of a fork need not look through what it shares with this process
for given in asked["inputs"]:
    child = os.fork()
    if not child:
        _become(program, given)
    status = _ended(child, asked["seconds"])
    found.append([status, _written("out"), _written("err")])
    if status != 0:
        break
sys.stdout.write(json.dumps(found))

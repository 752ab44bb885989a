"""The process that starts an MCP server and ends with selfwire; run as a script, and never imported.

The server, and what it starts in turn, stands in this process's group. On Linux what leaves the group, as a browser
does, becomes a child of this process when its parent ends. The kernel tells this process when selfwire has ended,
however that was, and all of them are killed then. They are killed too when the server ends, or stays `GRACE` seconds
after its standard input was closed. The last lines of the server's standard error are kept in this process's own, which
is a file.

    python mcp_start.py PID COMMAND [ARGUMENT ...]        PID is selfwire's process
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

DEATH_SIGNAL, SUBREAPER = 1, 36  # of prctl(2)
GRACE = 1
"""Seconds for the server to end by itself."""
KEPT = 2000
"""Most bytes of the server's standard error that are kept."""


def list_children() -> list[int]:
    """List the children of this process that run, by /proc."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = place.read_bytes().rpartition(b")")[2].split()[:2]
            if int(parent) == os.getpid() and state != b"Z":
                found.append(int(place.parent.name))
    return found


def end(*_: object) -> NoReturn:
    """Kill all that descends from this process, then the whole group, this process included."""
    for _round in range(100):  # children of one that is killed become this process's
        for child in (children := list_children()):
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        if not children:
            break
        time.sleep(0.01)
    os.killpg(0, signal.SIGKILL)
    os._exit(1)


def watch(errors: int) -> None:
    """Keep what the server prints as errors until it ends; kill it some time after its standard input was closed."""
    kept = b""
    events = select.poll()
    events.register(errors)
    events.register(0, 0)  # tells only that the other end was closed
    while True:
        for stream, _ in events.poll():
            if stream == 0:
                events.unregister(0)
                signal.alarm(GRACE)
            elif said := os.read(errors, 65536):
                kept = (kept + said)[-KEPT:]
                os.ftruncate(2, 0)
                os.pwrite(2, kept, 0)
            else:
                return


def main() -> None:
    """Start the server, wait for its end, and kill what it has left behind."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, end)
    with suppress(AttributeError):  # other systems than Linux have none: there the closed standard input tells
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGTERM)
        ctypes.CDLL(None).prctl(SUBREAPER, 1)
    if os.getppid() != int(sys.argv[1]):
        return  # selfwire ended before this process could be told
    server = subprocess.Popen(sys.argv[2:], stderr=subprocess.PIPE)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that were left to this process and end are no zombies
    with suppress(ChildProcessError):  # nor those that ended before the line above, the server among them
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    os.close(1)  # it is the server's alone
    assert server.stderr is not None
    watch(server.stderr.fileno())
    server.wait()
    end()


if __name__ == "__main__":
    main()

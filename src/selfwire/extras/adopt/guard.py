"""Limits of a confirming run: no network, no files outside a folder, no other programs, and not too much memory.

An audit hook of Python refuses it, which code in Python cannot take off. It does not see native code that opens sockets
or files by itself, nor calls of which Python tells it nothing; where bubblewrap works the kernel refuses those
(`confirm`). On Linux the process leaves the network too, and opens no socket in the file system, where the kernel lets
it.
"""

import ctypes
import os
import platform
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from selfwire.tools.sandbox.syscall_filter import make_socket_filter

CONNECTING = {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"}
STARTING = {
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "os.kill",
}
CHANGING: dict[str, tuple[tuple[int, int | None], ...]] = {
    **dict.fromkeys(("os.remove", "os.rmdir"), ((0, 1),)),
    **dict.fromkeys(("os.mkdir", "os.chmod"), ((0, 2),)),
    **dict.fromkeys(("os.chown", "os.utime"), ((0, 3),)),
    **dict.fromkeys(("os.rename", "os.link"), ((0, 2), (1, 3))),
    "os.symlink": ((0, None), (1, 2)),
    **dict.fromkeys(("open", "sqlite3.connect", "os.truncate", "os.setxattr", "os.removexattr"), ((0, None),)),
}
"""Audit events of Python, https://docs.python.org/3/library/audit_events.html, each with the places of the paths among
what it is given, and of the open folders that these begin in."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
MEMORY = 4 << 30
"""Most bytes of data of the process."""
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
"""Flags of the system call unshare."""
NO_NEW_RIGHTS = 38
"""Operation of prctl that a filter of system calls needs."""
SECCOMP = {"x86_64": 317, "aarch64": 277}
"""Numbers of the system call seccomp."""


LIBRARY = Path(os.__file__).parent
"""Folder of Python's own modules."""


class NotAllowedError(PermissionError):
    """A confirming run does not allow it."""

    way_out = "move it into a function that the graph calls when it is asked"


def restrict(folder: Path, report: Callable[[str, str], None]) -> None:
    """Restrict this process for good.

    Args:
        folder: below which files may be written.
        report: gets each refusal: what was tried, and the file and line in the program; "" if no frame shows it.
    """
    inside, place = os.path.realpath(folder), Path.cwd()

    def refuse(event: str, given: tuple[Any, ...]) -> None:
        if event in CONNECTING:
            _refuse(f"connects to {_format_address(given)}")
        elif event == "socket.__new__" and _is_local(given[1]) and sys._getframe(1).f_locals.get("fileno") is None:
            _refuse("opens a socket in the file system")  # those of a pair have a number
        elif event in STARTING:
            _refuse(f"starts another program ({event})")
        elif event in CHANGING:
            for path in _list_written(event, given, inside):
                is_there = event == "os.mkdir" and Path(path).is_dir()  # fails by itself
                where = os.path.realpath(path)
                if not is_there and where != os.devnull and not where.startswith(inside + os.sep):
                    _refuse(f"writes {_show(path)}")

    def _refuse(what: str) -> None:
        if "starts" not in what or _is_own_call(sys._getframe(2), place):
            report(what, find_place(sys._getframe(2), place))
        raise NotAllowedError(f"a confirming run does not allow this: the program {what}")

    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with suppress(AttributeError, OSError, TypeError):  # not Linux
        unshare = ctypes.CDLL(None).unshare
        _ = unshare(NEW_NETWORK) and unshare(NEW_USER | NEW_NETWORK)
        _refuse_local_sockets()
    sys.addaudithook(refuse)


def _is_local(family: int) -> bool:
    return family == getattr(socket, "AF_UNIX", None)


class _Filter(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _refuse_local_sockets() -> None:
    """Have Linux refuse sockets of no network in all threads, where it can."""
    steps, libc, zero = make_socket_filter(), ctypes.CDLL(None), ctypes.c_ulong(0)
    if steps and sys.maxsize > 1 << 32:
        libc.prctl(NO_NEW_RIGHTS, ctypes.c_ulong(1), zero, zero, zero)
        given = ctypes.byref(_Filter(len(steps) // 8, steps))
        libc.syscall(ctypes.c_long(SECCOMP[platform.machine()]), ctypes.c_uint(1), ctypes.c_uint(1), given)


def _format_address(given: tuple[Any, ...]) -> str:
    """Format the address of an event: a socket and a pair, or a host and a port."""
    address = given[-1] if given and isinstance(given[-1], tuple) else given[:2]
    parts = address if isinstance(address, tuple) else (address,)
    return ":".join(part.decode() if isinstance(part, bytes) else str(part) for part in parts[:2])


def _list_written(event: str, given: tuple[Any, ...], folder: str) -> Iterator[str]:
    """List the paths that an event would change; `folder` is the one below which open folders are looked for."""
    if event == "open" and not (isinstance(given[2], int) and given[2] & WRITING):
        return
    for place, opened in CHANGING[event]:
        path, within = given[place], -1 if opened is None else given[opened]
        if isinstance(path, int):
            yield from () if event == "open" else [_find_open_path(path, folder)]
        elif isinstance(path, str | bytes | os.PathLike):
            found = os.fsdecode(path)
            if event == "sqlite3.connect":
                found = found.removeprefix("file:").partition("?")[0]
            if found and not found.startswith(":memory:"):
                yield found if within in (-1, None) else os.path.join(_find_open_path(within, folder), found)


def _find_open_path(descriptor: int, folder: str) -> str:
    """Find the path of an open file or folder; where the system shows none, that of a folder below one, else "/"."""
    with suppress(OSError):
        return os.readlink(f"/proc/self/fd/{descriptor}")
    with suppress(OSError):
        opened = os.fstat(descriptor)
        paths = (path for path, _, _ in os.walk(folder) if os.path.samestat(os.lstat(path), opened))
        return next(paths, os.sep)
    return os.sep


def _show(path: str) -> str:
    here = Path.cwd()
    found = Path(os.path.realpath(path))
    return str(found.relative_to(here)) if found.is_relative_to(here) else path


def find_place(frame: FrameType | None, folder: Path) -> str:
    """Find the innermost line of the program in a stack, as `shop.py:4`; "" if none is."""
    for found, line in [*traceback.walk_stack(frame)]:
        if place := show_place(found.f_code.co_filename, line, folder):
            return place
    return ""


def _is_own_call(frame: FrameType, folder: Path) -> bool:
    """Whether the program calls, and not a package of its own accord, as some ask the system for its name."""
    files = [found.f_code.co_filename for found, _ in traceback.walk_stack(frame)]
    callers = [file for file in files if Path(file).parent not in (LIBRARY, LIBRARY / "asyncio") and file != __file__]
    return bool(callers and show_place(callers[0], 1, folder))


def show_place(file: str, line: int, folder: Path) -> str:
    """Show a line of a file below a folder, but not of an installed package; "" for any other."""
    path = Path(file)
    if not path.is_relative_to(folder) or {"site-packages", "dist-packages"} & {*path.parts}:
        return ""
    return f"{path.relative_to(folder).as_posix()}:{line}"

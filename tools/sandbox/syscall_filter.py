"""A seccomp filter that refuses system calls which evade the sandbox's limits or reach into other processes.

Memory of `memfd_create`, System V segments and message queues belongs to no process, so no limit on processes counts
it. The other refused calls are never needed by a program for a task: tracing, namespaces, mounts, keys, io_uring.
Neither are sockets that no namespace holds, such as those to the host of a virtual machine (vsock).
"""

import platform
import struct
from collections.abc import Sequence
from functools import cache

_REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "fsopen": (430, 430),
    "open_tree": (428, 428),
}
"""Numbers of the refused calls on x86_64 and on aarch64."""
_SOCKET = (41, 198)
"""Numbers of the call that makes a socket."""
_NETWORKS = (2, 10, 16)
"""Families of sockets of a network: IPv4, IPv6 and netlink."""
_OF_NAMESPACES = (1, *_NETWORKS)
"""Families of sockets that a namespace holds: those, and Unix's."""
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Architectures as the kernel numbers them (AUDIT_ARCH)."""
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in the kernel's seccomp_data."""
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
"""Operations of the classic BPF."""
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # the latter: error number 1, EPERM
_OTHER_CALLS = 0x40000000
"""The first number of the x32 calls, which repeat all calls under other numbers."""


@cache
def make_filter(machine: str = platform.machine()) -> bytes:
    """Make the filter for bubblewrap's --seccomp; empty on a machine whose call numbers are unknown."""
    return _make_filter(machine, [*_REFUSED], _OF_NAMESPACES)


@cache
def make_socket_filter(machine: str = platform.machine()) -> bytes:
    """Make a filter that refuses sockets of no network, such as those in the file system, where a program may listen.

    It is empty on a machine whose call numbers are unknown. Pairs of sockets stay.
    """
    return _make_filter(machine, ["io_uring_setup"], _NETWORKS)


def _make_filter(machine: str, refused: Sequence[str], families: Sequence[int]) -> bytes:
    """Make a filter that refuses some calls, and sockets of other families."""
    if machine not in _MACHINES:
        return b""
    at = [*_MACHINES].index(machine)
    refuse = 6 + len(refused) + len(families)  # place of the step that refuses; the one that allows comes next
    tests = [
        (_LOAD, _ARCHITECTURE, 0, 0),
        (_EQUAL, _MACHINES[machine], 2, refuse),
        (_LOAD, _NUMBER, 0, 0),
        (_AT_LEAST, _OTHER_CALLS, refuse, 4),
        *((_EQUAL, _REFUSED[name][at], refuse, place) for place, name in enumerate(refused, 5)),
        (_EQUAL, _SOCKET[at], 5 + len(refused), refuse + 1),
        (_LOAD, _FIRST_ARGUMENT, 0, 0),
        *((_EQUAL, family, refuse + 1, place) for place, family in enumerate(families, 7 + len(refused))),
        (_RETURN, _REFUSE, 0, 0),
        (_RETURN, _ALLOW, 0, 0),
    ]
    steps = [
        struct.pack("HBBI", operation, *(max(0, there - place - 1) for there in (yes, no)), value)
        for place, (operation, value, yes, no) in enumerate(tests)
    ]
    return b"".join(steps)

"""A seccomp filter that refuses system calls which evade the sandbox's limits or reach into other processes.

Memory of `memfd_create`, System V segments and message queues belongs to no process, so no limit on processes counts
it. The other refused calls are never needed by a program for a task: tracing, namespaces, mounts, keys, io_uring.
"""

import platform
import struct
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
    if machine not in _MACHINES:
        return b""
    numbers = sorted(both[list(_MACHINES).index(machine)] for both in _REFUSED.values())
    left = range(len(numbers), 0, -1)  # steps from each test to the refusal at the end
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, len(numbers) + 3, _MACHINES[machine]),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, len(numbers) + 1, 0, _OTHER_CALLS),
        *((_EQUAL, away, 0, number) for away, number in zip(left, numbers, strict=True)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


@cache
def make_socket_filter(machine: str = platform.machine()) -> bytes:
    """Make a filter that refuses sockets of no network, such as those in the file system, where a program may listen.

    It is empty on a machine whose call numbers are unknown. Pairs of sockets stay.
    """
    if machine not in _MACHINES:
        return b""
    at = [*_MACHINES].index(machine)
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, 9, _MACHINES[machine]),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 7, 0, _OTHER_CALLS),
        (_EQUAL, 6, 0, _REFUSED["io_uring_setup"][at]),
        (_EQUAL, 0, 4, _SOCKET[at]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        *((_EQUAL, 2 - number, number // 2, family) for number, family in enumerate(_NETWORKS)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)

"""Runs of programs that a model wrote: their limits and results."""

from pydantic import Field

from selfwire.core.values import FrozenModel

MEBIBYTE = 2**20


class Limits(FrozenModel):
    """Limits of one run of a program.

    Args:
        seconds: with the start of the interpreter: processor time of all its processes together, plus time in which all
            of them sleep. Time in which others keep the processors busy does not count.
        processor: seconds of processor time of each process.
        memory: bytes of address space of each process, and of memory of all its processes together.
        output: bytes of each of the two output streams, and of a result; a program that writes more is stopped.
        files: bytes in its private folder at a time.
        entries: files and folders in its private folder at a time.
        processes: processes and threads at a time.
    """

    seconds: float = Field(default=30.0, gt=0, le=600)
    processor: int = Field(default=10, ge=1, le=600)
    memory: int = Field(default=512 * MEBIBYTE, ge=64 * MEBIBYTE)
    output: int = Field(default=MEBIBYTE, ge=1)
    files: int = Field(default=32 * MEBIBYTE, ge=1)
    entries: int = Field(default=10_000, ge=1)
    processes: int = Field(default=16, ge=1)


class Execution(FrozenModel):
    """What a program wrote and returned, and how it ended.

    Args:
        stdout, stderr: its output up to the limit; bytes that are not UTF-8 are replaced.
        exit_status: 0 if it ended well, 128 + n if signal n ended it; None if it was stopped.
        timed_out: whether it was stopped by a limit on time.
        truncated: whether it was stopped by the limit on output.
        result: what a called function returned: a str as it is, else as JSON, else its repr; None if it raised or was
            stopped.
    """

    stdout: str = ""
    stderr: str = ""
    exit_status: int | None
    timed_out: bool = False
    truncated: bool = False
    result: str | None = None

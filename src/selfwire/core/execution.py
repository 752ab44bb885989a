"""Runs of programs that a model wrote: their limits and results."""

from pydantic import Field

from selfwire.core.values import FrozenModel

MEBIBYTE = 2**20


class Limits(FrozenModel):
    """Limits of one run of a program.

    Args:
        seconds: time to run, the start of the interpreter included: processor time of all processes together, plus time
            in which all of them sleep. Time spent waiting for a busy processor does not count.
        processor: seconds of processor time of each process.
        memory: bytes of address space of each process, and of memory of all its processes together.
        output: bytes of each of the two output streams, and of a result; a program that writes more is stopped.
        files: most bytes in its private folder at any time.
        entries: most files and folders in its private folder at any time.
        processes: most processes and threads at any time.
    """

    seconds: float = Field(default=30.0, gt=0, le=600)
    processor: int = Field(default=10, ge=1, le=600)
    memory: int = Field(default=512 * MEBIBYTE, ge=64 * MEBIBYTE)
    output: int = Field(default=MEBIBYTE, ge=1)
    files: int = Field(default=32 * MEBIBYTE, ge=1)
    entries: int = Field(default=10_000, ge=1)
    processes: int = Field(default=16, ge=1)


class Execution(FrozenModel):
    """The output, exit status and result of a program.

    Args:
        stdout, stderr: its output up to the limit; bytes that are not UTF-8 are replaced.
        exit_status: 0 for success, 128 + n if signal n ended it; None if it was stopped.
        timed_out: whether it was stopped by a limit on time.
        truncated: whether it was stopped by the limit on output.
        result: return value of a called function as text: a str unchanged, else JSON, else its repr; None if it raised
            or was stopped.
    """

    stdout: str = ""
    stderr: str = ""
    exit_status: int | None
    timed_out: bool = False
    truncated: bool = False
    result: str | None = None

"""Programs that a model wrote: the limits they run under and what became of them."""

from pydantic import Field

from selfwire.core.values import FrozenModel

MEBIBYTE = 2**20


class Limits(FrozenModel):
    """What one run of a program may take.

    Args:
        seconds: of its own time, start of the interpreter included: what all of its processes compute together, and
            what passes while all of them sleep. Time in which others keep the processors busy does not count.
        processor: seconds of processor time of each process.
        memory: bytes of address space of each process.
        output: bytes kept of each of the two output streams; a program that writes more is stopped.
        files: bytes that may lie in its private folder at a time.
        processes: processes and threads at a time.
    """

    seconds: float = Field(default=30.0, gt=0, le=600)
    processor: int = Field(default=10, ge=1, le=600)
    memory: int = Field(default=512 * MEBIBYTE, ge=64 * MEBIBYTE)
    output: int = Field(default=MEBIBYTE, ge=1)
    files: int = Field(default=32 * MEBIBYTE, ge=1)
    processes: int = Field(default=16, ge=1)


class Execution(FrozenModel):
    """What became of a program.

    Args:
        stdout, stderr: what it wrote, up to the limit; bytes that are no UTF-8 are replaced.
        exit_status: 0 if it ended well, 128 + n if signal n ended it; None if it was stopped.
        timed_out: whether it was stopped because it had taken its time.
        truncated: whether it was stopped for its output.
    """

    stdout: str = ""
    stderr: str = ""
    exit_status: int | None
    timed_out: bool = False
    truncated: bool = False

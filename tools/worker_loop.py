"""The loop of a worker process: it reads a JSON request per line and writes a JSON reply per line.

The field "seconds" of a request limits its processor time; at the limit the process ends, if the system supports that.
The parent (`worker_pool.py`) limits wall time and starts another process.
"""

import json
import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

MEMORY = 4 * 2**30
"""Most bytes of address space of a worker process."""

if sys.platform == "win32":

    def _limit_memory() -> None:
        """Do nothing: this system cannot bound memory."""

    def _limit_time(seconds: float) -> None:
        """Do nothing: this system cannot bound processor time."""

else:
    import resource

    def _limit_memory() -> None:
        with suppress(ValueError):  # macOS refuses it, and so does a lower limit that holds already
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # it writes no files

    def _limit_time(seconds: float) -> None:
        """End this process after `seconds` more of processor time."""
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), most))


def serve(reply: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Reply to the requests on standard input until it ends."""
    _limit_memory()
    for line in sys.stdin:
        request = json.loads(line)
        _limit_time(request["seconds"])
        sys.stdout.write(json.dumps(reply(request)) + "\n")
        sys.stdout.flush()

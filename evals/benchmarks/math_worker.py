"""A worker process that compares mathematical expressions with math-verify; run as a module, never imported.

Reads one JSON object {"gold", "answer", "seconds"} per line and writes {"read", "right"}: whether the answer could be
read as mathematics, and whether it equals the gold answer. A comparison that takes more seconds of processor time ends
the process, if the system supports that; the parent process bounds wall time.
"""

import json
import math
import sys
import time

from math_verify import parse, verify

if sys.platform == "win32":

    def bound(seconds: float) -> None:
        """Do nothing: this system cannot bound processor time."""

else:
    import resource

    MEMORY = 4 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def bound(seconds: float) -> None:
        """End this process after that much more processor time."""
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), most))


for line in sys.stdin:
    asked = json.loads(line)
    bound(asked["seconds"])
    gold, answer = (parse(f"\\boxed{{{asked[name]}}}", parsing_timeout=None) for name in ("gold", "answer"))
    right = verify(gold, answer, timeout_seconds=None)
    sys.stdout.write(json.dumps({"read": bool(answer), "right": right}) + "\n")
    sys.stdout.flush()

"""A process of its own that compares mathematical expressions with math-verify; run as a module, never imported.

Reads one JSON object {"gold", "answer", "seconds"} per line and writes {"read", "right"}: whether the answer holds
anything mathematical, and whether that equals the gold answer. A comparison that takes more seconds of processor time
ends the process, where the system can do that; whoever started it ends it for the clock on the wall.
"""

import json
import math
import sys
import time

from math_verify import parse, verify

if sys.platform == "win32":

    def bound(seconds: float) -> None:
        """Nothing here bounds processor time."""

else:
    import resource

    MEMORY = 4 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def bound(seconds: float) -> None:
        """End this process when it has computed for so long from now on."""
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), most))


for line in sys.stdin:
    asked = json.loads(line)
    bound(asked["seconds"])
    gold, answer = (parse(f"\\boxed{{{asked[name]}}}", parsing_timeout=None) for name in ("gold", "answer"))
    right = verify(gold, answer, timeout_seconds=None)
    sys.stdout.write(json.dumps({"read": bool(answer), "right": right}) + "\n")
    sys.stdout.flush()

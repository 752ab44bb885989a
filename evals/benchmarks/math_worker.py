"""A process of its own that compares mathematical expressions with math-verify; run as a module, never imported.

Reads one JSON object {"gold", "answer"} per line and writes {"read", "right"}: whether the answer holds anything
mathematical, and whether that equals the gold answer. Whoever started it bounds its time by ending it.
"""

import json
import sys

from math_verify import parse, verify

if sys.platform != "win32":
    import resource

    MEMORY = 4 * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

for line in sys.stdin:
    asked = json.loads(line)
    gold, answer = (parse(f"\\boxed{{{asked[name]}}}", parsing_timeout=None) for name in ("gold", "answer"))
    right = verify(gold, answer, timeout_seconds=None)
    sys.stdout.write(json.dumps({"read": bool(answer), "right": right}) + "\n")
    sys.stdout.flush()

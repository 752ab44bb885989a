"""How much memory this process has held at most."""

import sys


def measure_peak() -> int:
    """Bytes; 0 on Windows, where Python cannot tell."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

"""The command line: `selfwire`."""

import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def main() -> None:
    """Run the command line; exit code 2 is for input that cannot be used, 130 for Ctrl-C."""
    try:
        from selfwire.evals.cli.app import build  # takes seconds, in which somebody may think better of it
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    build()()

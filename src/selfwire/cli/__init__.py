"""The command line: `selfwire`."""

import signal
import sys

from selfwire.cli.commands import INTERRUPTED


def main() -> None:
    """Run the command line; exit code 2 is for input that cannot be used, 130 for Ctrl-C, or SIGTERM in its place."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a scheduler's end leaves as much as Ctrl-C
    try:
        from selfwire.cli.app import build

        app = build()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    app()

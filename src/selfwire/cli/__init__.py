"""The command line: `selfwire`."""

import _thread
import gc
import signal
import sys
import threading

from selfwire.cli.commands import INTERRUPTED


def main() -> None:
    """Run the command line; exit code 2 is for input that cannot be used, 130 for Ctrl-C, or SIGTERM in its place."""
    gc.set_threshold(10_000)  # Python's 700 looks through all that was imported again and again: a sixth of a start
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a scheduler's end leaves as much as Ctrl-C
    sys.unraisablehook = _interrupt_again
    try:
        from selfwire.cli.app import build

        build()()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        sys.unraisablehook = sys.__unraisablehook__  # an interrupt at exit ends one clean-up, and not all in turn


def _interrupt_again(lost: "sys.UnraisableHookArgs") -> None:
    """Interrupt once more after an interrupt in a callback, as of an import, where Python prints it and goes on."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        again = threading.Timer(0.01, _thread.interrupt_main, [signal.SIGTERM])  # here it would be lost as well
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)

"""`make demo`: evolve HiVA on Plancraft with the offline model, make its page, and print time and memory."""

import os
import sys
import time

import typer

from selfwire.cli.app import build
from selfwire.extras.pages.page import write_report
from selfwire.runs.record import list_run_names

ARGUMENTS = (
    "evolve", "hiva", "--benchmark", "plancraft", "--name", "plancraft-demo", "--model", "offline",
    "--iterations", "10", "--batch", "10", "--gate-tasks", "30",
    "--train", "100", "--gate-size", "300", "--test", "150",
)  # fmt: skip


def measure_peak() -> int:
    """The most memory that this process has held, in bytes; 0 on Windows, where Python cannot tell."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> int:
    """Run the command line's `evolve` and print wall time and peak memory; returns its exit code."""
    typer.echo(f"$ selfwire {' '.join(ARGUMENTS)}")
    since = time.monotonic()
    code = build()(ARGUMENTS, standalone_mode=False) or 0
    if not code:
        home = os.environ.get("SELFWIRE_HOME")
        page = write_report(home, list_run_names(home)[-1])
        typer.echo(f"\nsee how the team changed: open {page.resolve()} in a browser")
    typer.echo(f"\ndemo: {time.monotonic() - since:.0f} s run time, {measure_peak() / 2**20:.0f} MB peak memory")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())

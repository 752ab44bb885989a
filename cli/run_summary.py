"""The end of a run, printed: the cost, and how to resume a run that stopped."""

from pathlib import Path

from selfwire.cli import output
from selfwire.cli.progress import format_spend
from selfwire.runs.lifecycle import Run


def print_summary(run: Run, home: str | Path | None, *, finished: bool) -> None:
    """Print the cost of a run, and the command that resumes it unless it is finished."""
    out, (rows, tokens) = output.make_console(), run.journal.unknown()
    lost = f"; {rows} calls never settled (at most {tokens:,} tokens)" if rows else ""
    out.print(f"spent: {format_spend(run.spent)}{lost}")
    if not finished:
        out.print(f"go on with: selfwire {run.command} --resume {run.journal.run}{output.format_home_option(home)}")

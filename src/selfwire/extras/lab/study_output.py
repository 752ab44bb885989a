"""Output of commands of studies: lines of progress, and the page at the end."""

from collections.abc import Sequence
from pathlib import Path

import typer

from selfwire.core.values import FrozenModel
from selfwire.extras.lab.ablation.subjects import Subject


def tell(line: str) -> None:
    """Print a line on how a study goes on."""
    typer.echo(line, err=True)


def write_page(subject: Subject, rows: Sequence[FrozenModel], file: Path | None, page: Path | None) -> None:
    """Write the page of a study if one is asked for.

    Args:
        file: of its rows, by which the page is named.
    """
    if page is None:
        return
    from selfwire.extras.pages.page import save_page  # most studies need no page
    from selfwire.extras.pages.studies import describe_rows

    name = file.name if file else page.name
    written = save_page(describe_rows(subject, [row.model_dump(mode="json") for row in rows], name), page)
    tell(f"its page is {written.resolve()}")

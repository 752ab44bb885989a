"""The command that computes the tables of pages from rows of results: results."""

from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli import output
from selfwire.cli.commands import FAILED
from selfwire.cli.json_output import add_result
from selfwire.core.errors import ConfigError
from selfwire.evals.table import keep_scores
from selfwire.extras.lab.code_version import find_code_version
from selfwire.extras.lab.result_pages import check_pages, fill_page


def results(
    pages: Annotated[
        list[Path] | None,
        typer.Argument(help="Markdown pages; README.md, docs/*.md and docs/papers/*.md if none is named."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare; exit with 1 where a page differs.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Put the computed tables into the pages.")] = False,
    keep: Annotated[
        list[Path] | None,
        typer.Option(help="Keep the scores of a results.jsonl in --out instead, without answers; may be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for --keep.")] = None,
) -> None:
    """Compute the tables of pages anew from the rows that are kept."""
    if keep or out:
        if not keep or out is None or check or write or pages:
            raise ConfigError("--keep RESULTS goes with --out FILE, and with nothing else")
        version = find_code_version()
        keep_scores(keep, out, {version.code: version.commit})
        return
    if check == write:
        raise ConfigError("choose what to do with the pages: --check or --write")
    named = pages or _find_pages()
    if write:
        for page in named:
            output.write_text(page, fill_page(page), "the page")
    found = check_pages(named)
    add_result(pages=[str(page) for page in named], differences=found)
    for fault in found:
        typer.echo(f"{fault.page}, {fault.where}:\n{fault.text}\n")
    typer.echo(f"{len(named)} pages, {len(found)} differences")
    if found:
        raise typer.Exit(FAILED)


def _find_pages() -> list[Path]:
    listed = (Path("README.md"), *sorted(Path("docs").glob("*.md")), *sorted(Path("docs/papers").glob("*.md")))
    found = [page for page in listed if page.exists()]
    if not found:
        raise ConfigError("there is no README.md and no docs/ here; name the pages")
    return found

"""The command that computes the tables of pages from rows of results: results."""

from pathlib import Path
from typing import Annotated

import typer

from selfwire.cli import output
from selfwire.cli.commands import FAILED
from selfwire.cli.json_output import add_result
from selfwire.core.errors import ConfigError
from selfwire.evals.table import keep_scores
from selfwire.extras.lab.claims import LOCK, check_claims, list_locked_pages, lock_claims
from selfwire.extras.lab.code_version import find_code_version
from selfwire.extras.lab.result_pages import check_pages, fill_page


def results(
    pages: Annotated[
        list[Path] | None,
        typer.Argument(help="Markdown pages; README.md, docs/*.md and docs/papers/*.md if none is named."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Compare; exit with 1 where a page differs.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Put the computed tables into the pages.")] = False,
    lock: Annotated[
        bool, typer.Option("--lock", help="Lock the claims of the pages as they stand, in docs/claims.lock.")
    ] = False,
    keep: Annotated[
        list[Path] | None,
        typer.Option(help="Keep the scores of a results.jsonl in --out instead, without answers; may be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File for --keep.")] = None,
) -> None:
    """Compute the tables of pages anew from the rows that are kept, and check what their text says of them."""
    if keep:
        if out is None or check or write or lock or pages:
            raise ConfigError("--keep RESULTS goes with --out FILE, and with nothing else")
        version = find_code_version()
        keep_scores(keep, out, {version.code: version.commit})
        return
    if check + write + lock != 1:
        raise ConfigError("choose what to do with the pages: --check, --write or --lock")
    named = pages or _find_pages()
    if write:
        for page in named:
            output.write_text(page, fill_page(page), "the page")
    locked = list_locked_pages(LOCK) if LOCK.exists() else []
    if lock:
        for claim in lock_claims([*dict.fromkeys((*locked, *named))], LOCK):
            typer.echo(f"locked: {claim}")
        locked = list_locked_pages(LOCK)
    looked = {page.resolve() for page in (*named, LOCK)}
    found = check_pages(named)
    found += [fault for fault in check_claims(locked, LOCK) if fault.page.resolve() in looked] if locked else []
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

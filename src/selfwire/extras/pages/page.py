"""Makes the page of a run: one HTML file that needs no network and runs no script but its own."""

import base64
import hashlib
import secrets
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from selfwire.cli.output import write_text
from selfwire.core.errors import ConfigError
from selfwire.extras.pages.charts import Chart, draw_costs, draw_front, draw_gate, draw_scores
from selfwire.extras.pages.comparison_charts import draw_differences, draw_mechanisms, draw_seeds
from selfwire.extras.pages.data import RunReport
from selfwire.extras.pages.layout import lay_out_team
from selfwire.extras.pages.pack import cut_text, pack_panels_of_versions, pack_runs, pack_team, to_json
from selfwire.extras.pages.reading import read_report
from selfwire.extras.pages.studies import read_study_file
from selfwire.extras.pages.training_charts import draw_training
from selfwire.extras.pages.verdicts import format_gain
from selfwire.runs.record import explain_foreign, get_run_folder
from selfwire.store.files import refuse_existing

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPTS = ("page.js", "pictures.js", "team.js", "tasks.js")
STYLES = ("page.css", "pictures.css")
FILE = "report.html"
"""Name of a run's page in the run's folder."""


def write_report(home: str | Path | None, run: str, file: Path | None = None) -> Path:
    """Write the page of a run and return its path.

    Args:
        file: None for `report.html` in the run's folder, which replaces a link of that name and is not written
            through it, as somebody else may have made the run.

    Raises:
        ConfigError: the extra is missing, the run has no page, or the file cannot be written.
    """
    if file is not None:
        refuse_existing(file, "page")
    own = get_run_folder(home, run) / FILE
    with explain_foreign(run):
        page = save_page(read_report(home, run), file or own.with_name(f".{secrets.token_hex(8)}.html"))
    if file is not None:
        return page
    try:
        page.replace(own)
    except OSError as error:
        page.unlink()
        raise ConfigError(f"the page cannot be written to {own}: {error.strerror}; give a file with --out") from None
    return own


def write_study_page(rows: Path, file: Path) -> Path:
    """Write the page of a study's file and return its path; raises as `write_report`."""
    refuse_existing(file, "page")
    return save_page(read_study_file(rows), file)


def save_page(report: RunReport, file: Path) -> Path:
    """Write a page over whatever is there and return its path; raises as `write_report`."""
    write_text(file, render_page(report), "the page")
    return file


def render_page(
    report: RunReport,
    *,
    template: str = "page.html",
    scripts: tuple[str, ...] = SCRIPTS,
    styles: tuple[str, ...] = STYLES,
) -> str:
    """The page as HTML.

    Raises:
        ConfigError: the extra is missing.
    """
    try:
        layout = lay_out_team(report.versions)
    except ImportError as error:
        raise _explain_missing(error) from None
    runs = pack_runs(report)
    return (
        make_environment()
        .get_template(template)
        .render(
            report=report,
            charts=_draw_charts(report),
            spent=sum(line.tokens for line in report.spend),
            team=_embed(pack_team(report, layout)),
            pictures=pack_panels_of_versions(report),
            runs=_embed(runs.places),
            chunks=runs.chunks,
            left_out=runs.left_out,
            **sign(styles, scripts),
        )
    )


@cache
def make_environment() -> "Environment":
    """Where templates are found and texts are escaped; raises ConfigError if the extra is missing."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise _explain_missing(error) from None
    found = Environment(
        loader=PackageLoader("selfwire.extras.pages"),
        autoescape=True,
        finalize=_make_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["format_gain"] = format_gain
    return found


def sign(styles: tuple[str, ...], scripts: tuple[str, ...]) -> dict[str, str]:
    """Style and script of a page, and the hashes by which its policy lets them run."""
    style, script = _read_all(*styles), _read_all(*scripts)
    return {"style": style, "script": script, "style_hash": _hash(style), "script_hash": _hash(script)}


def _explain_missing(error: ImportError) -> ConfigError:
    return ConfigError(f"pages of runs need the extra 'report': pip install 'selfwire[report]' ({error})")


def _make_visible(value: object) -> object:
    """A text of a template as it can be shown and stored; what is marked as safe, such as scripts, stays."""
    return cut_text(value) if type(value) is str else value


def _draw_charts(report: RunReport) -> list[Chart]:
    drawn = (
        *draw_training(report.learning),
        draw_mechanisms(report.mechanisms),
        draw_differences(report.systems),
        draw_seeds(report.systems),
        draw_gate(report.versions),
        draw_scores(report.places),
        draw_costs(report.places),
        draw_front(report.systems, report.places, report.front),
    )
    return [chart for chart in drawn if chart is not None]


def _embed(value: object) -> str:
    """JSON for a script element that holds data: no `<`, so that nothing in it can end the element."""
    return to_json(value).replace("<", "\\u003c")


@cache
def _read_all(*names: str) -> str:
    folder = files("selfwire.extras.pages") / "templates"
    return "\n" + "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

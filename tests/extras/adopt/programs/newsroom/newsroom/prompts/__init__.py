"""All wording of the newsroom in one place."""
from importlib import resources as _res
from pathlib import Path
import tomllib

from ._inline import HEADLINE_RULES, TONE as HOUSE_TONE

_here = Path(__file__).resolve().parent


def load(name: str) -> str:
    """Read a Markdown prompt."""
    return (_here / f"{name}.md").read_text(encoding="utf-8").strip()


REPORTER = load("reporter")
EDITOR = _res.files(__package__).joinpath("editor.md").read_text()
with open(_here / "desk.toml", "rb") as fh:
    DESK = tomllib.load(fh)

__all__ = ["REPORTER", "EDITOR", "DESK", "HEADLINE_RULES", "HOUSE_TONE", "load"]

"""All that selfwire needs but its largest packages: `python -m tests.light_requirements` writes the file."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "requirements-light.txt"
LARGE = {"torch", "sentence-transformers"}
HEAD = """\
# Written by `make lock`: what selfwire needs without torch and sentence-transformers.
# pip install -r requirements-light.txt && pip install --no-deps .
"""


def make_light_requirements() -> str:
    """The text of the file."""
    given = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return HEAD + "".join(f"{one}\n" for one in given if Requirement(one).name not in LARGE)


if __name__ == "__main__":
    PAGE.write_text(make_light_requirements())

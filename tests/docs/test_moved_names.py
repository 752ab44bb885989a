"""Names of the Python interface that moved: each place that CHANGELOG names is there."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

TEXT = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
TABLE = TEXT[TEXT.index("| before | now |") : TEXT.index("\n- ", TEXT.index("  Unchanged: `"))]
MOVED = re.findall(r"`(selfwire\.[\w.]+)`", "".join(re.findall(r"^  \| .*? \| (.*) \|$", TABLE, re.MULTILINE)))
UNCHANGED = [f"selfwire.{name}" for name in re.findall(r"`([\w.]+)`", TABLE[TABLE.index("Unchanged: ") :])]


@pytest.mark.parametrize("name", [*MOVED, *UNCHANGED])
def test_a_name_is_where_the_changelog_says(name: str) -> None:
    assert resolve_name(name) is not None

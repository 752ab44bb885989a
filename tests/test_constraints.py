"""The versions that CI installs fit what the project needs; the search for vulnerabilities reads what it is told."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.audit import NobodyAnswersError, read_answer

ROOT = Path(__file__).parent.parent
PINS = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


def test_constraints_pin_a_version_of_every_requirement_that_fits() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [Requirement(line) for lines in (project["dependencies"], *extras) for line in lines]
    pins = {
        pin.name.lower(): pin for line in PINS if (pin := Requirement(line)).marker is None or pin.marker.evaluate()
    }
    for one in wanted:
        if one.name != "selfwire" and (one.marker is None or one.marker.evaluate()):
            (exact,) = pins[one.name.lower()].specifier
            assert exact.operator == "=="
            assert one.specifier.contains(exact.version), f"{one} and {exact}: run `make lock`"


def test_constraints_name_versions_and_no_place() -> None:
    assert len(PINS) > 100
    assert not [line for line in PINS if "/" in line or "--" in line or "+" in line or "==" not in line]


def test_a_vulnerability_is_told_with_the_version_that_mends_it() -> None:
    sound = {"name": "a", "version": "1", "vulns": []}
    unsound = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
    unknown = {"name": "c", "skip_reason": "not found"}
    assert read_answer([sound, unsound, unknown]) == (2, ["b 2: PYSEC-1, mended in 3"])
    with pytest.raises(NobodyAnswersError, match="knows nothing"):
        read_answer([unknown])

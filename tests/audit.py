"""`make check`'s search for known vulnerabilities of what is installed, where the index knows of any.

Exits with 1 where one is found. Where nobody can be asked, it says so and exits with 0.
"""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PATIENCE = 300
"""Seconds for all packages; a probe of one takes a second."""
ACCEPTED: dict[str, str] = {}
"""Why a vulnerability does not concern selfwire, by its id."""


class NobodyAnswersError(Exception):
    """The index cannot be asked; the message says why."""


def find_vulnerabilities(*arguments: str, patience: float = PATIENCE) -> tuple[int, list[str]]:
    """The number of packages of which vulnerabilities are known or known not to be, and a line for each vulnerability.

    Args:
        arguments: further ones of pip-audit.

    Raises:
        NobodyAnswersError: the index cannot be reached, or knows nothing about vulnerabilities.
    """
    command = [sys.executable, "-m", "pip_audit", "-f", "json", "--progress-spinner", "off", "--timeout", "10"]
    try:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        raise NobodyAnswersError(f"no answer within {patience:g} s") from None
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        raise NobodyAnswersError((done.stderr.strip().splitlines() or ["no answer"])[-1][:300]) from None
    return read_answer(packages)


def read_answer(packages: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """What `find_vulnerabilities` returns, out of pip-audit's packages; raises as it does."""
    known = [one for one in packages if "vulns" in one]
    if not known:
        raise NobodyAnswersError("the index knows nothing about vulnerabilities")
    return len(known), [
        f"{one['name']} {one['version']}: {vulnerability['id']}, mended in "
        f"{', '.join(vulnerability['fix_versions']) or 'no version'}"
        for one in known
        for vulnerability in one["vulns"]
        if vulnerability["id"] not in ACCEPTED
    ]


def main() -> int:
    """Search, after a probe of one package, and print what was found."""
    try:
        with TemporaryDirectory() as folder:
            probe = Path(folder) / "probe.txt"
            probe.write_text(f"pydantic=={version('pydantic')}\n")
            find_vulnerabilities("--no-deps", "--disable-pip", "-r", str(probe), patience=30)
        audited, found = find_vulnerabilities("--skip-editable")
    except NobodyAnswersError as why:
        print(f"skipped: {why}")  # noqa: T201
        return 0
    print("\n".join([*found, f"{audited} packages audited, {len(found)} vulnerabilities"]))  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

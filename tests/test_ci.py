"""`.ci/run` with a `make` that does nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TARGETS = ("setup", ".venv-light/.installed", "compile", "demo", "light", "check", "test")
MAKE = """#!/usr/bin/env bash
for target in "$@"; do
    [ "$target" != "$FAILS" ] || exit 2
    if [ "$target" = demo ]; then echo "the demo's output"; fi
done
"""


@pytest.mark.parametrize("fails", ["none", *TARGETS])
def test_ci_fails_with_any_of_its_targets_and_shows_the_demos_output_even_where_tests_fail(
    fails: str, tmp_path: Path
) -> None:
    (tmp_path / ".ci").mkdir()
    script = shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    for name in ("make", "chromium", "chromedriver"):
        (tmp_path / name).write_text(MAKE)
        (tmp_path / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "FAILS": fails, "TMPDIR": str(tmp_path)}
    done = subprocess.run([script], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) == (fails == "none"), done.stderr
    said = "the demo's output" in done.stdout
    assert said == (fails in ("none", "light", "test")), done.stdout
    assert not list(tmp_path.glob("tmp.*"))

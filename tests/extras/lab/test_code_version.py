"""The code that made rows: its commit where git knows one, in the head of every kind of rows, and the table of it."""

import json
import subprocess
from pathlib import Path

from bench.measuring import Row, keep_lines
from selfwire.extras.lab.ablation.plan import Study, WorldStudy
from selfwire.extras.lab.ablation.rows import keep_study, read_study
from selfwire.extras.lab.code_version import find_code_version, find_commit
from selfwire.extras.lab.result_pages import fill_page, keep_world
from selfwire.extras.lab.worlds.gains import WorldResult


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e")
    return subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True, text=True).stdout


def test_a_commit_is_named_for_unchanged_files_of_a_repository_alone(tmp_path: Path) -> None:
    file, installed = tmp_path / "a.py", tmp_path / "venv" / "b.py"
    installed.parent.mkdir()
    for path in (file, installed):
        path.write_text("1")
    assert find_commit(file) == ""
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-qm", "one")
    assert find_commit(file) == git(tmp_path, "rev-parse", "--short=8", "HEAD").strip()
    assert find_commit(installed) == ""
    file.write_text("2")
    assert find_commit(file) == ""


def test_rows_of_every_kind_name_their_code_and_older_ones_are_read_without(tmp_path: Path) -> None:
    rows, version = tmp_path / "rows", find_code_version()
    rows.mkdir()
    keep_study(Study(), [], rows / "study.jsonl")
    keep_world(WorldStudy(method="hiva", world="kabb"), [WorldResult(seed=0, figures={})], rows / "world.jsonl")
    keep_lines([Row(what="a", value=1.0, unit="ms")], rows / "table.jsonl")
    (rows / "old-world.jsonl").write_text('{"seed":0,"figures":{}}\n')
    assert read_study(rows / "study.jsonl")[0] == Study()
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- table: code rows=rows -->\n<!-- end of table -->\n\n"
        "<!-- table: cells rows=rows/table.jsonl -->\n<!-- end of table -->\n"
    )
    shown = fill_page(page)
    assert version.code
    for name in ("study", "world", "table"):
        assert f"| `{name}.jsonl` | {version} |" in shown
        assert json.loads((rows / f"{name}.jsonl").read_text().splitlines()[0])["code"] == version.code
    assert "| `old-world.jsonl` | code not named |" in shown
    assert "| a | 1.00 | ms |  |" in shown

"""The page of a study: each variant beside the method, and what had nothing to decide."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from selfwire.cli.app import build
from selfwire.extras.lab.ablation.plan import Study
from selfwire.extras.lab.ablation.rows import EvolutionRow, read_study
from selfwire.extras.pages.comparison_charts import draw_differences, draw_seeds
from selfwire.extras.pages.data import RunReport
from selfwire.extras.pages.page import render_page
from selfwire.extras.pages.studies import describe_study
from tests.extras.pages.stored_runs import HOSTILE, assert_harmless, make_row, store_study


def read(file: Path) -> RunReport:
    study, rows = read_study(file)
    return describe_study(study, rows, file.name)


@pytest.fixture
def report(tmp_path: Path) -> RunReport:
    store_study(tmp_path / "study.jsonl")
    return read(tmp_path / "study.jsonl")


def call(*arguments: str) -> Result:
    return CliRunner().invoke(build(), arguments)


def test_the_verdict_names_the_variants_that_do_worse(report: RunReport) -> None:
    assert report.verdict.startswith("4 of 4 variants of hiva score lower: w/o TEV -0.50 [-0.52, -0.48], random edits")
    assert report.verdict.endswith("and 1 more.")
    assert "3 seeds per variant" in report.standfirst
    assert ("evolutions", "1,500 calls, $7.50") in report.facts


def test_every_variant_stands_beside_the_method_with_its_interval(report: RunReport) -> None:
    lines = {line.name: line for line in report.systems}
    assert list(lines) == ["seed team", "full", "w/o TEV", "w/o SEV", "w/o KABB", "random edits"]
    assert lines["full"].main
    assert lines["full"].gain is lines["seed team"].gain is None
    gain = lines["w/o TEV"].gain
    assert gain is not None
    assert (round(gain.value, 2), gain.n) == (-0.5, 3)
    assert lines["w/o TEV"].samples == pytest.approx((0.3, 0.32, 0.26))
    assert lines["w/o TEV"].details["free decisions"] == "15 of 120"


def test_an_ablation_that_had_nothing_to_decide_is_shown_as_that(tmp_path: Path) -> None:
    store_study(tmp_path / "study.jsonl", free=0)
    report = read(tmp_path / "study.jsonl")
    line = next(line for line in report.systems if line.name == "w/o KABB")
    assert (line.gain, line.note.startswith("nothing to decide")) == (None, True)
    assert "of 3 variants" in report.verdict
    assert "1 variant had nothing to decide" in report.standfirst
    chart = draw_differences(report.systems)
    assert chart
    assert any(
        mark.text == "nothing to decide" and "0 of 120" in mark.title for mark in chart.marks
    )  # the name has room
    assert "nothing to decide" in render_page(report).partition('id="result"')[2].partition("</section>")[0]


def test_a_study_without_a_difference_says_so(tmp_path: Path) -> None:
    study, rows = read_study(_store(tmp_path))
    level = [row.replace(after=0.5 + 0.1 * (row.seed if row.variant == "full" else 2 - row.seed)) for row in rows]
    assert describe_study(study, level, "s").verdict.startswith("No effect shown: none of 4 variants of hiva")
    single = [row for row in rows if row.seed == 0]
    assert describe_study(study, single, "s").verdict.startswith("Nothing to compare yet")
    better = [row.replace(after=0.1 + 0.01 * row.seed) if row.variant == "full" else row for row in rows]
    assert describe_study(study, better, "s").verdict.startswith("4 of 4 variants score higher: w/o SEV +0.6")


def _store(folder: Path) -> Path:
    store_study(folder / "study.jsonl")
    return folder / "study.jsonl"


def test_the_score_of_every_seed_is_drawn(report: RunReport) -> None:
    chart = draw_seeds(report.systems)
    assert chart
    assert sum(mark.look == "seed" for mark in chart.marks) == 18


def test_the_command_makes_a_page_of_a_file(tmp_path: Path) -> None:
    file = _store(tmp_path)
    result = call("report", str(file))
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "study.html") in result.output
    page = (tmp_path / "study.html").read_text()
    assert "<title>ablation of hiva on archive: study.jsonl</title>" in page
    assert '<th scope="row">random edits</th>' in page
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    for name in ("other.jsonl", "missing.jsonl"):
        refused = call("report", str(tmp_path / name))
        assert (refused.exit_code, "holds no study" in refused.output) == (2, True)


def test_an_ablation_keeps_what_it_compares_beside_its_rows_and_writes_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(study: Study, key: str, name: str, seed: int, edits: object, parent: object) -> EvolutionRow:
        return make_row(name, seed, 0.5, study=key)

    monkeypatch.setattr("selfwire.extras.lab.ablation.run.measure_evolution", measure)
    rows, page = tmp_path / "rows.jsonl", tmp_path / "page.html"
    for seeds in ("1", "2"):
        given = (
            "--variants",
            "full,no-tev",
            "--seeds",
            seeds,
            "--workers",
            "1",
            "--out",
            str(rows),
            "--report",
            str(page),
        )
        result = call("ablate", "hiva", *given, "--home", str(tmp_path))
        assert result.exit_code == 0, result.output
    assert [line.startswith('{"head":') for line in rows.read_text().splitlines()] == [True, False, False, False, False]
    assert "2 seeds per variant" in page.read_text()
    assert [line.name for line in read(rows).systems] == ["seed team", "full", "w/o TEV"]


def test_hostile_texts_of_a_study_stay_texts(tmp_path: Path) -> None:
    store_study(tmp_path / "study.jsonl", benchmark=HOSTILE)
    page = render_page(read(tmp_path / "study.jsonl"))
    assert_harmless(page)
    assert "{{ 7 * 7 }}" in page

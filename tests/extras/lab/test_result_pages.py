"""Pages whose tables are computed from rows, and what a changed page or row is told."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from selfwire.cli.app import build
from selfwire.core.errors import ConfigError
from selfwire.evals.table import (
    Header,
    SystemInfo,
    SystemSummary,
    TaskRow,
    compute_difference,
    keep_scores,
    read_kept_runs,
    read_results,
)
from selfwire.extras.lab.ablation.plan import Study
from selfwire.extras.lab.ablation.rows import EvaluationRow, EvolutionRow, keep_study
from selfwire.extras.lab.ablation.table import build_table
from selfwire.extras.lab.result_pages import check_pages, fill_page
from selfwire.runs.spec import Sizes

ROOT = Path(__file__).parents[3]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "docs" / "rows", tmp_path / "rows")
    page = tmp_path / "page.md"
    page.write_text(
        "# Results\n\n<!-- table: systems rows=rows/compare-archive-200.jsonl against=single -->\n"
        "<!-- end of table -->\n\n"
        "One agent scores 0.25; `0.333` and [a link](x-0.123.md) are no results.\n"
    )
    page.write_text(fill_page(page))
    return page


def test_a_page_that_was_just_filled_has_no_differences(page: Path) -> None:
    assert check_pages([page]) == []
    assert fill_page(page) == page.read_text()
    assert "| single | 0.25 " in page.read_text()


def test_a_changed_digit_of_a_table_is_found(page: Path) -> None:
    page.write_text(page.read_text().replace("| single | 0.25 ", "| single | 0.26 "))
    [found] = check_pages([page])
    assert (found.page, found.where) == (page, "tables")
    assert "-| single | 0.26 " in found.text
    assert "+| single | 0.25 " in found.text


def test_a_comment_in_a_block_of_code_is_an_example(page: Path) -> None:
    example = "\n```\n<!-- table: systems rows=nothing -->\n<!-- end of table -->\n```\n"
    page.write_text(page.read_text() + example)
    assert check_pages([page]) == []
    assert fill_page(page).endswith(example)


def test_a_changed_row_is_found(page: Path) -> None:
    rows = page.parent / "rows" / "compare-archive-200.jsonl"
    head, *lines = rows.read_text().splitlines()
    changed = json.loads(lines[-1])
    changed["scores"] = [1.0] * len(changed["scores"])
    rows.write_text("\n".join([head, *lines[:-1], json.dumps(changed)]))
    assert [one.where for one in check_pages([page])] == ["tables"]


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("<!-- table: magic rows=x -->\n<!-- end of table -->", "no kind of table 'magic'"),
        ("<!-- table: systems rows=rows/none.jsonl against=single -->\n<!-- end of table -->", "holds no scores"),
        ("<!-- table: systems against=single -->\n<!-- end of table -->", "lacks 'rows'"),
        ("<!-- table: ablation rows=rows/hiva-rooms.jsonl -->\n<!-- end of table -->", "holds no study"),
        (
            "<!-- table: world method=hiva name=kabb rows=rows/none -->\n<!-- end of table -->",
            "holds no rows of a world",
        ),
        (
            "<!-- table: world method=hiva name=x rows=rows/none -->\n<!-- end of table -->",
            "holds no rows|no world 'x'",
        ),
        ("<!-- table: claims -->\n", "has no end"),
    ],
)
def test_a_comment_that_cannot_be_used_is_an_error_in_words(page: Path, comment: str, message: str) -> None:
    page.write_text(comment)
    with pytest.raises(ConfigError, match=message):
        check_pages([page])


def test_a_page_that_is_not_there_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the page .*none\.md cannot be read"):
        check_pages([tmp_path / "none.md"])


def test_an_ablation_is_kept_with_its_study(page: Path) -> None:
    study = Study(method="tacomas", seeds=2, variants=("full", "fixed"))
    shared = {
        "study": study.key,
        "compared": 4,
        "errors": 0,
        "calls": 9.0,
        "tokens": 90.0,
        "efficiency": None,
        "paths": {},
    }
    rows = [
        EvaluationRow.model_validate(
            {**shared, "variant": name, "seed": seed, "after": after, "seconds": 1, "rounds": 2}
        )
        for name, after in (("full", 0.75), ("fixed", 0.25))
        for seed in range(2)
    ]
    keep_study(study, rows, page.parent / "rows" / "study.jsonl")
    page.write_text("<!-- table: ablation rows=rows/study.jsonl -->\n<!-- end of table -->\n")
    assert build_table(study, rows).strip() in fill_page(page)
    page.write_text("<!-- table: studies rows=rows/study.jsonl against=tacomas/full -->\n<!-- end of table -->\n")
    assert fill_page(page).splitlines()[1].endswith("| tacomas, full − this [95 %] | calls/task |")
    with pytest.raises(ConfigError, match="cannot be written"):
        keep_study(study, rows, page.parent)


def test_studies_of_several_methods_are_compared_on_the_seeds_that_both_have(tmp_path: Path) -> None:
    made = (("a", "hiva", (0.6, 0.8, 0.9), 9), ("b", "hera", (0.5, 0.6), 9), ("c", "hera", (1.0,), 8))
    for name, method, scores, test in made:
        study = Study(method=method, variants=("full",), sizes=Sizes(test=test))
        rows = [make_evolution_row(study, seed, after) for seed, after in enumerate(scores)]
        keep_study(study, rows, tmp_path / f"{name}.jsonl")
    page = tmp_path / "page.md"
    page.write_text("<!-- table: studies rows=a.jsonl,b.jsonl against=hiva/full -->\n<!-- end of table -->\n")
    assert "| hera, full | 2 | 0.550 ± 0.071 | +0.150 [-0.485, +0.785] | 9.0 | 100 |" in fill_page(page)
    for rows_of, against, message in (
        ("a.jsonl,c.jsonl", "hiva/full", "one set of sizes"),
        ("a.jsonl systems=hiva/full,hera/full", "hiva/full", "no rows of 'hera/full'"),
        ("a.jsonl", "hiva/none", "no rows of 'hiva/none'; there are hiva/full"),
    ):
        page.write_text(f"<!-- table: studies rows={rows_of} against={against} -->\n<!-- end of table -->\n")
        with pytest.raises(ConfigError, match=message):
            fill_page(page)


def make_evolution_row(study: Study, seed: int, after: float) -> EvolutionRow:
    fields: dict[str, Any] = {"study": study.key, "variant": "full", "seed": seed, "compared": 4, "errors": 0}
    fields |= {
        "calls": 9.0,
        "tokens": 9.0,
        "efficiency": None,
        "paths": {},
        "seconds": 1.0,
        "before": 0.1,
        "nodes": 2,
        "calls_before": 3.0,
    }
    fields |= {"evolution_calls": 100, "dollars": 0.0, "edits": [], "operations": [], "accepted": 1, "rejected": 0}
    return EvolutionRow.model_validate({**fields, "unchanged": 0, "workflow": "w", "after": after})


def write_results(path: Path, scores: Mapping[str, Sequence[float | None]], seed: int, complete: bool = True) -> Path:
    """Write a file of results with these scores of systems."""
    rows = [
        TaskRow(
            target=name, task=f"t{number}", kind="bridge" if number else "single", score=score,
            solved=None if score is None else score == 1,
            error="it broke" if score is None else None, calls=number, input_tokens=10 * number, output_tokens=number,
            dollars=0.5 if name == "b" else 0.0, seconds=1.0, answer="a secret answer",
        )
        for name, listed in scores.items()
        for number, score in enumerate(listed)
    ]  # fmt: skip
    infos = tuple(SystemInfo(name=name, target=name, method="", workflow="") for name in scores)
    header = Header(
        selfwire="0", code="c", run="r", benchmark="archive", grader="exact", split="test", seed=seed, tasks=3,
        models={"agent": "offline"}, embedder="hashing", calls_per_task=30, systems=infos, oracle=False,
        stand_in=True, complete=complete,
    )  # fmt: skip
    path.write_text("\n".join(line.model_dump_json() for line in (header, *rows)))
    return path


def test_a_table_of_systems_is_over_all_seeds_of_its_rows(tmp_path: Path) -> None:
    first = write_results(
        tmp_path / "1.jsonl", {"rule": (0.0,) * 3, "a": (1.0, 0.0, 0.0), "b": (1.0, 1.0, 0.0)}, seed=0
    )
    second = write_results(
        tmp_path / "2.jsonl", {"rule": (0.0,) * 3, "a": (0.0, 0.0, 0.0), "b": (1.0, 1.0, 1.0)}, seed=1
    )
    keep_scores([first, second], tmp_path / "kept.jsonl")
    page = tmp_path / "page.md"

    def fill(kind: str) -> str:
        page.write_text(f"<!-- table: {kind} against=a -->\n<!-- end of table -->\n")
        return next(line for line in fill_page(page).splitlines() if line.startswith("| b |"))

    whole = fill("systems rows=kept.jsonl")
    assert "| 0.67 1.00 | +0.67 [-1.00, +1.00] |" in whole
    assert "| 0.5000 |" in whole
    assert "| solved |" not in page.read_text()
    half = write_results(tmp_path / "3.jsonl", {"rule": (0.0,) * 3, "a": (0.0,) * 3, "b": (0.5, 1.0, 1.0)}, seed=2)
    keep_scores([half], tmp_path / "half.jsonl")
    assert fill("systems rows=half.jsonl").startswith("| b | 0.83 [")
    assert "] | 0.67 | +" in fill("systems rows=half.jsonl")
    assert fill("paired rows=kept.jsonl") == "| b | +0.67 [-1.00, +1.00] |"
    assert fill("scores one=kept.jsonl two=kept.jsonl").count("+0.67 [-1.00, +1.00]") == 2


def test_runs_that_differ_by_more_than_their_seed_are_no_table(tmp_path: Path) -> None:
    page, scores = tmp_path / "page.md", {"rule": (0.0, 0.0, 0.0), "a": (1.0, 0.0, 0.0)}
    page.write_text("<!-- table: systems rows=kept.jsonl against=a -->\n<!-- end of table -->\n")
    first = write_results(tmp_path / "1.jsonl", scores, seed=0)
    others = {
        "two runs of a with seed 0": write_results(tmp_path / "2.jsonl", scores, seed=0),
        "different systems": write_results(tmp_path / "3.jsonl", {**scores, "b": (1.0, 1.0, 1.0)}, seed=1),
        "runs of benchmark archive and x": tmp_path / "4.jsonl",
        "runs of seed 0 on different tasks": tmp_path / "5.jsonl",
    }
    (tmp_path / "5.jsonl").write_text(first.read_text().replace('"t0"', '"t9"'))
    text = write_results(tmp_path / "4.jsonl", scores, seed=1).read_text()
    (tmp_path / "4.jsonl").write_text(text.replace('"archive"', '"x"'))
    for told, other in others.items():
        keep_scores([first, other], tmp_path / "kept.jsonl")
        with pytest.raises(ConfigError, match=told):
            fill_page(page)


def test_scores_are_kept_without_answers(tmp_path: Path) -> None:
    results, kept = tmp_path / "results.jsonl", tmp_path / "kept.jsonl"
    scores = {"a": (1.0, 0.0, None), "b": (0.5, 1.0, 1.0)}
    write_results(results, scores, seed=3)
    with pytest.raises(ConfigError, match="cannot be written"):
        keep_scores([results], tmp_path)
    keep_scores([results], kept)
    assert "secret" not in kept.read_text()
    [(head, lines)] = read_kept_runs(kept)
    assert (head.seed, head.tasks) == (3, ("t0", "t1", "t2"))
    header, rows = read_results(results)
    for info, line in zip(header.systems, lines, strict=True):
        whole = SystemSummary(info)
        for row in rows:
            if row.target == info.name:
                whole.add(row)
        assert (line.scores, line.interval, line.solved, line.errors) == (
            whole.scores, whole.interval, whole.solved, whole.errors,
        )  # fmt: skip
        assert line.spend == whole.spend.replace(seconds=0.0)
    assert compute_difference(lines[1], lines[0]) is not None
    keep_scores([results, results], kept)
    assert len(read_kept_runs(kept)) == 2
    write_results(results, scores, seed=3, complete=False)
    with pytest.raises(ConfigError, match="resume the run r"):
        keep_scores([results], kept)


def test_a_table_of_methods_has_a_row_for_each_with_what_it_was_before_its_control_and_votes(tmp_path: Path) -> None:
    def score(right: int) -> list[float]:
        return [1.0] * right + [0.0] * (4 - right)

    runs = [
        {"hiva": 3, "hiva-before": 1, "hiva-control": 2, "dytopo": 2, "self-refine": 1},
        {"hiva": 4, "hiva-before": 1, "hiva-control": 1, "dytopo": 1, "self-refine": 2},
    ]
    votes = {"best-of-1": score(0), "best-of-2": score(2)}
    results = [
        write_results(tmp_path / f"{seed}.jsonl", {name: score(right) for name, right in run.items()}, seed)
        for seed, run in enumerate(runs)
    ]
    results += [write_results(tmp_path / f"{seed}-votes.jsonl", votes, seed) for seed in range(2)]
    keep_scores(results, tmp_path / "kept.jsonl")
    page = tmp_path / "page.md"
    page.write_text("<!-- table: methods rows=kept.jsonl beside=self-refine -->\n<!-- end of table -->\n")
    table = [line.strip("|").split("|") for line in fill_page(page).splitlines() if line.startswith("|")]
    cells = {row[0].strip(): dict(zip(map(str.strip, table[0]), map(str.strip, row), strict=True)) for row in table}
    assert [*cells] == ["system", "---", "hiva", "dytopo", "self-refine"]
    assert cells["hiva"]["before"].startswith("0.25 [")
    assert cells["hiva"]["score [95 %]"].startswith("0.88 [")
    assert cells["hiva"]["control"].startswith("0.38 [")
    assert cells["hiva"]["votes at its price"].startswith("0.00 [")  # of single answers, which cost as much here
    assert cells["hiva"]["calls of votes"] == "1.5"
    assert cells["hiva"]["from self-refine"].startswith("+0.50 [")
    assert cells["dytopo"]["before"] == "-"
    assert cells["dytopo"]["from self-refine"].startswith("+0.00 [")
    assert cells["hiva"]["calls/task"] == "1.5"
    keep_scores(results[:2], tmp_path / "kept.jsonl")
    [line] = [line for line in fill_page(page).splitlines() if line.startswith("| hiva |")]
    assert line.split(" | ")[4:6] == ["-", "-"]


def test_claims_say_which_stand_among_all_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "kabb.jsonl").write_text((ROOT / "docs" / "rows" / "kabb-world.jsonl").read_text())
    table = "<!-- table: {} -->\n<!-- end of table -->\n"
    world = table.format("world method=hiva name=kabb rows=kabb.jsonl")
    (page := tmp_path / "page.md").write_text(table.format("claims") + world)
    lines = {line.split(" | ")[1]: line for line in fill_page(page).splitlines() if line.startswith("| hiva, kabb")}
    assert "not 0 over all 6" in fill_page(page)
    assert " | yes | " in lines["knowledge distance"]
    assert " | no | " in lines["synergy"]


def test_the_command_checks_writes_and_keeps(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def invoke(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(build(), ["results", *arguments])
        return done.exit_code, done.output

    assert invoke("--check", str(page)) == (0, "1 pages, 0 differences\n")
    page.write_text(page.read_text().replace("| single | 0.25 ", "| single | 0.26 "))
    code, said = invoke("--check", str(page))
    assert code == 1
    assert "+| single | 0.25 " in said
    assert invoke("--write", str(page))[0] == 0
    monkeypatch.chdir(page.parent / "rows")
    for arguments, message in (
        (("--check",), "name the pages"),
        ((), "--check or --write"),
        (("--keep", "x", "--check"), "goes with --out"),
        ((str(page), "--check", "--out", "y"), "goes with --out"),
        (("--keep", str(page), "--out", "y"), "holds no results"),
    ):
        code, said = invoke(*arguments)
        assert code != 0
        assert message in said


def test_runs_of_a_seed_join_their_systems_and_a_table_of_votes_needs_those_of_their_price(tmp_path: Path) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "kept.jsonl"
    page.write_text(
        "<!-- table: systems rows=kept.jsonl against=a -->\n<!-- end of table -->\n\n"
        "<!-- table: votes rows=kept.jsonl -->\n<!-- end of table -->\n"
    )
    first = write_results(tmp_path / "1.jsonl", {"rule": (0.0,) * 3, "a": (1.0, 0.0, 0.0)}, seed=0)
    second = write_results(tmp_path / "2.jsonl", {"c": (1.0, 1.0, 1.0), "best-of-1": (0.0, 0.0, 1.0)}, seed=0)
    keep_scores([first, second], kept)
    shown = fill_page(page)
    assert "| c | 1.00 [" in shown
    assert "| best-of-1 |" not in shown
    line = [line for line in shown.splitlines() if line.startswith("| c |")][-1]
    assert line.split(" | ")[3:5] == ["1", "0.33 [0.06, 0.79]"]
    keep_scores([first], kept)
    with pytest.raises(ConfigError, match="lacks 'best-of-1'"):
        fill_page(page)


def test_scores_are_told_by_kind_of_task_over_all_seeds(tmp_path: Path) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "kept.jsonl"
    page.write_text("<!-- table: kinds rows=kept.jsonl systems=a,c -->\n<!-- end of table -->\n")
    scores = ({"rule": (0.0,) * 3, "a": (1.0, 0.0, None), "c": (0.0, 0.5, 1.0)},) * 2
    keep_scores([write_results(tmp_path / f"{seed}.jsonl", found, seed) for seed, found in enumerate(scores)], kept)
    head, _, *rows = [line for line in fill_page(page).splitlines() if line.startswith("|")]
    assert head == "| system | bridge, 4 tasks [95 %] | single, 2 tasks [95 %] |"
    assert rows[0].startswith("| a | 0.00 [")
    assert rows[1].startswith("| c | 0.75 [")
    assert " | 1.00 [" in rows[0]
    assert " | 0.00 [" in rows[1]
    kept.write_text(kept.read_text().replace('"kinds":["single","bridge","bridge"]', '"kinds":[]'))
    with pytest.raises(ConfigError, match="does not name the kinds of its tasks"):
        fill_page(page)


def test_only_best_of_and_a_number_is_the_name_of_votes(tmp_path: Path) -> None:
    page, kept = tmp_path / "page.md", tmp_path / "kept.jsonl"
    page.write_text("<!-- table: systems rows=kept.jsonl against=a -->\n<!-- end of table -->\n")
    scores = {"rule": (0.0,) * 3, "a": (1.0, 0.0, 0.0), "best-of-breed": (1.0, 1.0, 0.0), "best-of-2": (1.0,) * 3}
    keep_scores([write_results(tmp_path / "1.jsonl", scores, seed=0)], kept)
    assert [row[2:].split(" | ")[0] for row in fill_page(page).splitlines()[3:-1]] == ["rule", "a", "best-of-breed"]


def test_rows_of_votes_alone_are_no_comparison(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- table: systems rows=kept.jsonl against=single -->\n<!-- end of table -->\n")
    votes = write_results(tmp_path / "1.jsonl", {"trivial": (0.0,) * 3, "best-of-2": (1.0,) * 3}, seed=0)
    keep_scores([votes], tmp_path / "kept.jsonl")
    with pytest.raises(ConfigError, match="holds votes alone; keep the results of their comparison"):
        fill_page(page)

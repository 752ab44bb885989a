"""Rows of training by quarter: of the evolutions that a comparison began."""

import re
from pathlib import Path

import pytest

from bench.training import main
from selfwire.evals.topology_metrics import PHASES
from selfwire.extras.lab.result_pages import fill_page
from tests.commands import call


def test_evolutions_of_a_comparison_become_tables_by_quarter_and_type_of_question(tmp_path: Path) -> None:
    sizes = ("--tasks", "2", "--iterations", "2", "--batch", "4", "--train", "8", "--gate", "off")
    told = call(tmp_path, "compare", "hera", "direct", "--benchmark", "archive", *sizes)
    evolved = tmp_path / "runs" / re.findall(r"run (compare-archive-\w+):", told.output)[0] / "evolved"
    page = tmp_path / "page.md"
    page.write_text("<!-- table: cells rows=rows.jsonl -->\n<!-- end of table -->\n")

    main([str(tmp_path / "rows.jsonl"), f"mine={evolved}/hera", f"again={evolved}/hera"])
    head, _, *quarters = fill_page(page).splitlines()[1:-1]
    assert head.startswith("| evolution | quarter | queries | score | tokens | agents |")
    assert [line.split(" | ")[:3] for line in quarters[:4]] == [["| mine", phase, "2"] for phase in PHASES]
    assert [line.replace("mine", "again") for line in quarters[:4]] == quarters[4:]

    main([str(tmp_path / "rows.jsonl"), f"{evolved}/hera", "--crossed"])
    head, _, *crossed = fill_page(page).splitlines()[1:-1]
    assert len(crossed) > 4
    assert head.startswith("| quarter | type of question | queries |")
    assert sum(int(line.split(" | ")[2]) for line in crossed) == 8


def test_a_folder_without_an_evolution_is_told_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "rows.jsonl"), "nowhere"])
    assert f"there is no run 'evolution' in {Path('nowhere').absolute()}" in capsys.readouterr().err

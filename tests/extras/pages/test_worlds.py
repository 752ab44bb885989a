"""Pages of worlds, and studies as runs that pages follow while they go on."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from selfwire.core.errors import BudgetError, JournalError
from selfwire.extras.lab.ablation.plan import Study, WorldStudy
from selfwire.extras.lab.ablation.record import NoteRow, RecordedStudy, record_study
from selfwire.extras.lab.worlds.catalogue import load_world
from selfwire.extras.lab.worlds.gains import WorldResult
from selfwire.extras.pages.comparison_charts import draw_mechanisms
from selfwire.extras.pages.page import render_page
from selfwire.extras.pages.reading import read_report
from selfwire.extras.pages.studies import describe_study, describe_world
from selfwire.extras.pages.view.site import Site, describe_live
from selfwire.graphs.method import FULL
from tests.commands import call
from tests.extras.pages.stored_runs import HOSTILE, assert_harmless, make_row

GROWTH = WorldStudy(method="hiva", world="growth")


def make_results(seeds: int, extra: str = "") -> list[WorldResult]:
    """Results in which the first mechanism gains 0.3 and the others nothing for sure."""
    world = load_world("hiva", "growth")
    names = {world.scale.least, world.scale.most, world.scale.main}
    names |= {name for claim in world.claims for name in (claim.main, claim.control)}
    scores = {name: 0.5 for name in sorted(names)} | {world.scale.most: 1.0, world.claims[0].control: 0.2}
    scores |= {world.scale.least: 0.2, **({extra: 0.1} if extra else {})}

    def make(score: float, seed: int) -> dict[str, float]:
        return {"score": score + 0.01 * (seed % 2), "made": 9, "free": 4}

    return [
        WorldResult(seed=seed, figures={name: make(score, seed) for name, score in scores.items()})
        for seed in range(seeds)
    ]


def test_a_world_shows_what_each_mechanism_is_worth_and_what_there_was_to_gain() -> None:
    report = describe_world(GROWTH, make_results(3), "growth.jsonl")
    first = report.mechanisms[0]
    assert first.gain is not None
    assert (round(first.gain.value, 2), round(first.possible, 2)) == (0.3, 0.8)
    assert first.samples == pytest.approx((0.3,) * 3)
    assert first.decisions == "12 of 27"
    assert first.name in report.verdict
    assert "in the world growth" in report.verdict
    chart = draw_mechanisms(report.mechanisms)
    assert chart
    assert sum(mark.look == "seed" for mark in chart.marks) == 3 * len(report.mechanisms)
    assert sum(mark.look == "possible" for mark in chart.marks) == len(report.mechanisms)
    scores = [line.score.value for line in report.systems if line.score]
    assert scores == sorted(scores, reverse=True)
    page = render_page(report)
    table = page.partition('id="mechanisms"')[2].partition("</section>")[0]
    assert "+0.30 [+0.30, +0.30]" in table
    assert "calls per task" not in page  # nobody asked a model
    assert "<th" in table


@pytest.mark.parametrize("seeds", [0, 1])
def test_a_study_has_a_page_before_anything_can_be_compared(seeds: int) -> None:
    world = make_results(seeds)
    study = Study(variants=(FULL,))
    assert "Nothing to compare yet" in render_page(describe_world(GROWTH, world, "w"))
    assert "Nothing to compare yet" in render_page(describe_study(study, [make_row(FULL, 0, 0.5)] * seeds, "a"))


def test_hostile_names_of_a_world_stay_texts() -> None:
    assert_harmless(render_page(describe_world(GROWTH, make_results(2, HOSTILE), HOSTILE)))


def test_a_page_is_followed_while_a_study_goes_on(tmp_path: Path) -> None:
    site, study, rows = Site(tmp_path), RecordedStudy(head=GROWTH, total=3), make_results(2)

    def record() -> AbstractContextManager[NoteRow]:
        return record_study(tmp_path, None, study, "key")

    def follow() -> None:
        with record() as note:
            note("0000", rows[0])
            (run,) = [path.name for path in (tmp_path / "runs").iterdir()]
            live = describe_live(*site.get_run(run))
            assert (live["status"], live["where"], live["done"], live["total"]) == ("running", "seeds", 1, 3)
            with pytest.raises(JournalError, match="is held by process"):
                record().__enter__()
            note("0001", rows[1])
            assert site.get_run(run)[1].done == 2
            raise BudgetError("enough")

    with pytest.raises(BudgetError):
        follow()
    (run,) = [path.name for path in (tmp_path / "runs").iterdir()]
    live = describe_live(*site.get_run(run))
    assert (live["active"], live["status"]) == (False, "stopped: BudgetError: enough")
    assert "the same command again goes on with it" in str(live["where"])
    listed = call(tmp_path, "runs")
    assert "go on with: the same" in listed.output
    assert "+" in read_report(tmp_path, run).verdict
    with record():
        pass
    assert site.get_run(run)[1].status == "finished"


def test_the_commands_of_worlds_put_them_on_record_and_write_their_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = replace(load_world("hiva", "growth"), run=lambda study, seed: make_results(seed + 1)[seed])
    monkeypatch.setattr("selfwire.extras.lab.ablate.load_world", lambda method, name: quick)
    out, page, home = tmp_path / "rows.jsonl", tmp_path / "page.html", tmp_path / "home"
    given = ("--world", "growth", "--workers", "1", "--out", str(out))
    call(home, "ablate", "hiva", *given, "--seeds", "2", "--report", str(page))
    assert "What each mechanism is worth" in page.read_text()
    call(home, "ablate", "hiva", *given, "--seeds", "3")
    (run,) = [path.name for path in (home / "runs").iterdir()]  # the second went on with the first
    for name in (run, str(out)):
        call(home, "report", name, "-o", str(page))
        assert '<p class="standfirst">3 seeds.' in page.read_text()

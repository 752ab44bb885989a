"""The page of a training: what the router learned update by update, and what it was worth on held-out tasks."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from selfwire.cli.app import build
from selfwire.extras.pages.data import RunReport
from selfwire.extras.pages.page import render_page
from selfwire.extras.pages.reading import read_report
from selfwire.extras.pages.training_charts import draw_training
from tests.extras.pages.stored_runs import HOSTILE, assert_harmless, store_training


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> RunReport:
    home = tmp_path_factory.mktemp("home")
    store_training(home)
    return read_report(home, "t")


def test_the_verdict_compares_the_trained_router_with_the_one_that_training_began_with(report: RunReport) -> None:
    assert report.verdict.startswith("The router got better: 0.00 → 1.00 on 6 held-out tasks, +1.00 [+")
    assert "1 of them without effect" in report.standfirst
    assert "the probability of search grew most, from 0.33 to 0.77" in report.standfirst
    assert "from the untrained router" in report.standfirst
    assert [line.name for line in report.systems] == ["choices by chance", "untrained router", "trained router"]
    assert [line.main for line in report.systems] == [False, False, True]
    assert report.systems[2].dollars == pytest.approx(0.002)


def test_what_the_router_learned_is_told_by_agent(report: RunReport) -> None:
    assert report.learning
    search, *others = report.learning.shares
    assert (search.name, report.learning.span) == ("search", 2)
    assert [search.first, search.last] == pytest.approx([0.328, 0.772], abs=1e-3)
    assert [search.untrained, search.trained] == pytest.approx([0.3, 0.8])
    assert search.with_it is not None
    assert (search.with_it.value, search.with_it.n) == (1.0, 30)
    assert search.without_it is not None
    assert (search.without_it.value, search.without_it.n) == (0.0, 9)  # the error is no zero
    assert [one.name for one in others] == ["check", "solve"]
    assert others[0].with_it is None


def test_the_charts_show_scores_openness_and_choices(report: RunReport) -> None:
    rewards, openness, choices = draw_training(report.learning)
    assert any(mark.title.startswith("update 2: 0.75") and "train" in mark.look for mark in rewards.marks)
    assert any(mark.title.startswith("update 1: 1.00") and "over 3 runs" in mark.title for mark in rewards.marks)
    assert any(mark.text == "by chance" for mark in openness.marks)
    assert "search from 0.33 to 0.77" in choices.summary
    assert [mark.text for mark in choices.marks if mark.look == "label end"] == ["search", "check", "solve"]


def test_places_are_updates_and_ways_to_route(report: RunReport) -> None:
    assert [place.row for place in report.places][:2] == ["update 1", "update 2"]
    assert [place.key for place in report.places][-3:] == ["0/test-random", "0/test-untrained", "0/test-trained"]
    assert {place.method for place in report.places} == {"evomas"}


def test_a_training_that_has_just_begun_has_a_page(tmp_path: Path) -> None:
    store_training(tmp_path, updates=0, tested=False)
    report = read_report(tmp_path, "t")
    assert report.verdict == "No test yet: this training of evomas's router is finished."
    assert report.standfirst == "There has been no update yet."
    assert draw_training(report.learning) == []
    assert "<h2" in render_page(report)


def test_notes_that_are_no_episode_teach_the_page_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.extras.pages.stored_runs.Episode.model_dump", lambda *_, **__: {"decisions": "none"})
    store_training(tmp_path, updates=1)
    learning = read_report(tmp_path, "t").learning
    assert learning
    assert (learning.shares, learning.chance) == ((), 0.0)
    assert len(draw_training(learning)) == 2


def test_hostile_texts_of_a_training_stay_texts(tmp_path: Path) -> None:
    store_training(tmp_path, updates=2, text=HOSTILE + "x" * 1_000_000)
    page = render_page(read_report(tmp_path, "t"))
    assert_harmless(page)
    assert len(page) < 200_000


def test_a_real_training_has_a_page(tmp_path: Path) -> None:
    small = ["--updates", "2", "--batch", "2", "--train", "2", "--test", "2", "--set", "stages=1", "--set", "samples=2"]
    file = tmp_path / "page.html"
    for command in (
        ["train", "evomas", "--benchmark", "archive", *small],
        ["report", "evomas-archive", "-o", str(file)],
    ):
        result = CliRunner().invoke(build(), [*command, "--home", str(tmp_path)])
        assert result.exit_code == 0, result.output
    page = file.read_text()
    learned = page.partition('id="learned"')[2].partition("</section>")[0]
    assert re.search(r'<th scope="row">web_search</th><td class="number">0\.\d\d</td>', learned)
    assert 'id="choices-title"' in page
    assert '<th scope="row">trained router</th>' in page

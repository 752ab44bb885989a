"""Insights from the command line: listed with the runs they came from, exported, taken into another team."""

import json
from pathlib import Path

import pytest

from selfwire.core.team import Team
from selfwire.evolvers.hera.library import get_library, with_library
from selfwire.models.sync import run_sync
from selfwire.store.library import open_library
from tests.commands import call
from tests.evolvers.hera.doubles import known, pool
from tests.graphs.scripted import trio


def saved(home: Path, name: str, team: Team, run: str = "r1", step: int = 1) -> None:
    with open_library(home) as library:
        run_sync(library.save(name, team, run=run, step=step))


def loaded(home: Path, name: str) -> Team:
    with open_library(home, create=False) as library:
        return run_sync(library.load(name))


def learned() -> Team:
    return with_library(pool(), (known("search twice", 4, 1), known("read twice", 4, 3)))


def test_insights_are_listed_best_first_with_the_run_that_first_saved_them(tmp_path: Path) -> None:
    saved(tmp_path, "mine", with_library(pool(), (known("search twice"),)), run="first")
    saved(tmp_path, "mine", learned(), run="second")
    lines = call(tmp_path, "insights", "list", "mine").stdout.splitlines()
    assert [("search twice" in line, "read twice" in line) for line in lines[1:]] == [(False, True), (True, False)]
    assert "0.67" in lines[1]
    assert "second/0/q#10" in lines[1]
    assert "first/0/q#12" in lines[2]


def test_a_workflow_without_insights_says_so(tmp_path: Path) -> None:
    saved(tmp_path, "mine", pool())
    assert call(tmp_path, "insights", "list", "mine").stdout == "mine has learned no insights\n"


def test_exported_insights_are_taken_into_another_workflow_as_a_new_version(tmp_path: Path) -> None:
    saved(tmp_path, "mine", learned())
    saved(tmp_path, "yours", with_library(pool(), (known("read twice", 1, 1),)))
    file = tmp_path / "insights.json"
    call(tmp_path, "insights", "export", "mine", str(file))
    body = json.loads(file.read_text())
    assert [one["sources"][0]["run"] for one in body["insights"]] == ["r1", "r1"]
    result = call(tmp_path, "insights", "import", "yours", str(file))
    assert "has 2 insights; there were 1" in result.stdout
    after = loaded(tmp_path, "yours")
    assert {one.text: (one.uses, one.successes) for one in get_library(after)} == {
        "search twice": (4, 1), "read twice": (5, 4)
    }  # fmt: skip
    assert (after.agents, after.topology) == (pool().agents, pool().topology)
    assert loaded(tmp_path, "yours@r1.1") != after  # nothing is overwritten
    assert "r1/0/q#12" in call(tmp_path, "insights", "list", "yours").stdout


def test_insights_that_are_taken_in_twice_count_once(tmp_path: Path) -> None:
    saved(tmp_path, "mine", learned())
    saved(tmp_path, "yours", with_library(pool(), (known("read twice", 1, 1),)))
    file, later = tmp_path / "insights.json", tmp_path / "later.json"
    call(tmp_path, "insights", "export", "mine", str(file))
    call(tmp_path, "insights", "import", "yours", str(file))
    once = loaded(tmp_path, "yours")
    again = call(tmp_path, "insights", "import", "yours", str(file))
    assert "has taken in these insights before" in again.stdout
    assert loaded(tmp_path, "yours") == once

    grown = tuple(one.with_uses(2, 1) for one in get_library(loaded(tmp_path, "mine")))
    saved(tmp_path, "mine", with_library(pool(), grown), run="r2")
    call(tmp_path, "insights", "export", "mine", str(later))
    call(tmp_path, "insights", "import", "yours", str(later))
    assert {one.text: (one.uses, one.successes) for one in get_library(loaded(tmp_path, "yours"))} == {
        "search twice": (6, 2), "read twice": (7, 5)
    }  # fmt: skip

    body = json.loads(file.read_text())
    del body["origin"]  # as older exports are
    file.write_text(json.dumps(body))
    saved(tmp_path, "theirs", pool())
    assert "has 2 insights" in call(tmp_path, "insights", "import", "theirs", str(file)).stdout
    assert "before" in call(tmp_path, "insights", "import", "theirs", str(file)).stdout


def test_a_workflow_gains_nothing_from_its_own_export(tmp_path: Path) -> None:
    saved(tmp_path, "mine", learned())
    file = tmp_path / "insights.json"
    call(tmp_path, "insights", "export", "mine", str(file))
    again = call(tmp_path, "insights", "import", "mine", str(file))
    assert "has taken in these insights before" in again.stdout
    assert loaded(tmp_path, "mine") == learned()


def test_a_workflow_that_went_back_gains_what_it_learned_since(tmp_path: Path) -> None:
    saved(tmp_path, "mine", learned())
    grown = tuple(one.with_uses(2, 1) for one in get_library(loaded(tmp_path, "mine")))
    saved(tmp_path, "mine", with_library(pool(), grown), step=2)
    file = tmp_path / "insights.json"
    call(tmp_path, "insights", "export", "mine", str(file))
    with open_library(tmp_path) as library:
        run_sync(library.rollback("mine", "1"))
    call(tmp_path, "insights", "import", "mine", str(file))
    assert {one.text: (one.uses, one.successes) for one in get_library(loaded(tmp_path, "mine"))} == {
        "search twice": (6, 2), "read twice": (6, 4)
    }  # fmt: skip


def test_export_to_standard_output_and_over_a_file(tmp_path: Path) -> None:
    saved(tmp_path, "mine", learned())
    assert len(json.loads(call(tmp_path, "insights", "export", "mine", "-").stdout)["insights"]) == 2
    file = tmp_path / "there.json"
    file.write_text("mine")
    assert "exists already" in call(tmp_path, "insights", "export", "mine", str(file), code=2).stderr
    assert file.read_text() == "mine"
    call(tmp_path, "insights", "export", "mine", str(file), "--force")
    for nowhere in (tmp_path / "no such folder" / "a.json", tmp_path):
        result = call(tmp_path, "insights", "export", "mine", str(nowhere), "--force", code=2)
        assert "cannot be written" in result.stderr


@pytest.mark.parametrize(
    "body",
    ["", "[]", "{}", '{"format": "selfwire-insights-1"}', '{"format": "selfwire-insights-1", "insights": [{}]}',
     '{"format": "selfwire-insights-1", "insights": [1]}', "[" * 100_000],
)  # fmt: skip
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, body: str) -> None:
    saved(tmp_path, "mine", learned())
    file = tmp_path / "bad.json"
    file.write_text(body)
    result = call(tmp_path, "insights", "import", "mine", str(file), code=2)
    assert "is no export of insights" in result.stderr


def test_insights_that_succeeded_more_often_than_they_were_used_are_refused(tmp_path: Path) -> None:
    saved(tmp_path, "mine", learned())
    file = tmp_path / "insights.json"
    call(tmp_path, "insights", "export", "mine", str(file))
    body = json.loads(file.read_text())
    body["insights"][0] |= {"uses": 0, "successes": 5}  # a utility of 3, ahead of all that is honest
    file.write_text(json.dumps(body))
    result = call(tmp_path, "insights", "import", "mine", str(file), code=2)
    assert "5 successes are more than 0 uses" in result.stderr
    assert len(get_library(loaded(tmp_path, "mine"))) == 2


def test_other_methods_have_no_insights(tmp_path: Path) -> None:
    saved(tmp_path, "hiva", trio())
    saved(tmp_path, "mine", learned())
    file = tmp_path / "insights.json"
    call(tmp_path, "insights", "export", "mine", str(file))
    for arguments in (("list", "team:hiva"), ("import", "hiva", str(file))):
        result = call(tmp_path, "insights", *arguments, code=2)
        assert "belongs to hiva" in result.stderr
    assert "there is no team" in call(tmp_path, "insights", "list", "nobody", code=2).stderr


def test_insights_that_cannot_be_read_are_an_error_in_words(tmp_path: Path) -> None:
    team = learned()
    saved(tmp_path, "mine", team.replace(memory={**team.memory, "experience": [{"text": 3}]}))
    result = call(tmp_path, "insights", "export", "mine", str(tmp_path / "insights.json"), code=2)
    assert "'mine' holds insights that cannot be read" in result.stderr
    assert not (tmp_path / "insights.json").exists()

"""The page of a run: whole, small, safe, and of what the run has on record."""

import base64
import gzip
import hashlib
import json
import re
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from selfwire.cli.app import build
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.extras.pages.charts import draw_costs, draw_front, draw_gate, draw_scores
from selfwire.extras.pages.evolution import compare_gate, read_places
from selfwire.extras.pages.layout import lay_out_team
from selfwire.extras.pages.pack import BODY, TRAILS, pack_runs
from selfwire.extras.pages.page import render_page
from selfwire.extras.pages.pictures import format_notes
from selfwire.graphs.rollouts import keep_trajectories
from selfwire.models.sync import run_sync
from selfwire.runs.record import JOURNAL, SUMMARY, summarise_run
from selfwire.store.journal import Journal
from selfwire.store.journal_file import JournalReader
from tests.extras.pages.samples import make_place, make_report, make_trail, make_version, restore_texts

SMALL = "--gate mean --iterations 2 --batch 4 --gate-tasks 6 --train 8 --gate-size 12 --test 6".split()
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> <!-- \ud800 \x1b[2J\u202e {{ 7 * 7 }} &amp;"


def call(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(build(), [*arguments, "--home", str(home)])


def read_data(page: str, name: str) -> Any:
    found = re.search(rf'<script type="application/json" id="data-{name}">(.*?)</script>', page, re.DOTALL)
    assert found
    return restore_texts(json.loads(found[1]))


def read_trails(page: str) -> list[list[dict[str, Any]]]:
    chunks = re.findall(r'<script type="text/plain" id="trails-[\d-]+">(.*?)</script>', page)
    return [restore_texts(json.loads(gzip.decompress(base64.b64decode(chunk)))) for chunk in chunks]


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    result = call(home, "evolve", "hiva", "--benchmark", "archive", "--name", "mine", *SMALL)
    assert result.exit_code == 0, result.output
    return home


@pytest.fixture(scope="module")
def page(evolved: Path) -> str:
    result = call(evolved, "report", "mine", "-o", str(evolved / "page.html"))
    assert result.exit_code == 0, result.output
    assert str((evolved / "page.html").resolve()) in result.output
    return (evolved / "page.html").read_text()


def test_the_page_of_an_evolution_has_what_the_run_has_on_record(page: str) -> None:
    team, runs = read_data(page, "team"), read_data(page, "runs")
    assert [one["number"] for one in team["versions"]] == [0, 1, 2]
    assert team["versions"][0]["accepted"] is None
    assert all(one["edits"] for one in team["versions"][1:])
    assert set(team["nodes"]) == {node for one in team["versions"] for node in one["nodes"]}
    assert any(link["traffic"] > 0 for link in team["versions"][0]["links"])
    keys = [one["key"] for one in runs]
    assert keys[:3] == ["0/rollout", "0/gate/incumbent", "0/gate/candidate"]
    assert keys[-2:] == ["0/test/before", "0/test/after"] or "0/baseline/single" in keys
    for place in runs:
        assert {row[2] for row in place["rows"]} <= {"right", "wrong", "error"}
    assert sum(map(len, read_trails(page))) == sum(len(place["rows"]) for place in runs)


def test_the_verdict_comes_first_with_its_interval_and_the_systems_below(page: str) -> None:
    verdict = re.search(r"<h1>(.*?)</h1>", page)
    assert verdict
    assert re.search(
        r"\d\.\d\d → \d\.\d\d on 6 held-out tasks, [+-]\d\.\d\d \[[+-]\d\.\d\d, [+-]\d\.\d\d\]", verdict[1]
    )
    for name in ("trivial baseline", "single agent with votes", "seed team", "evolved team"):
        assert f'<th scope="row">{name}</th>' in page
    assert "Offline stand-in model: shows the machinery" in page


def test_a_run_is_named_by_itself_too_and_its_page_lies_in_its_folder(evolved: Path, page: str) -> None:
    (folder,) = (evolved / "runs").iterdir()
    result = call(evolved, "report", folder.name)
    assert result.exit_code == 0
    assert (folder / "report.html").read_text() == page


def test_what_is_neither_a_run_nor_a_saved_workflow_is_an_error_in_words(evolved: Path) -> None:
    result = call(evolved, "report", "nobody")
    assert result.exit_code == 2
    assert "nobody" in result.output


def test_a_page_that_cannot_be_made_is_an_error_in_words(evolved: Path, tmp_path: Path) -> None:
    result = call(evolved, "report", "mine", "-o", str(tmp_path))
    assert (result.exit_code, "the page cannot be written to" in result.output) == (2, True)
    shutil.copy(evolved / "library.sqlite", tmp_path)
    result = call(tmp_path, "report", "mine")
    assert (result.exit_code, "which made 'mine', has been removed" in result.output) == (2, True)
    (tmp_path / "runs" / "other").mkdir(parents=True)
    with closing(Journal.create(tmp_path / "runs" / "other" / JOURNAL, run="other")) as journal:
        run_sync(journal.put_note(SUMMARY, {"command": "other"}))
    result = call(tmp_path, "report", "other")
    assert (result.exit_code, "is of `selfwire other`; pages are of" in result.output) == (2, True)


def test_notes_that_a_method_cannot_read_are_left_out() -> None:
    assert format_notes("tacomas", {"rounds": 3}) == ()


def test_a_missing_extra_names_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch, evolved: Path) -> None:
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    result = call(evolved, "report", "mine")
    assert result.exit_code == 2
    assert "pip install 'selfwire[report]'" in result.output


def test_only_its_own_script_and_style_may_run(page: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    (script,), (style,) = (
        re.findall(r"<script>(.*?)</script>", page, re.DOTALL),
        re.findall(r"<style>(.*?)</style>", page, re.DOTALL),
    )
    for text in (script, style):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy[1]
    markup = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert not re.search(r"\son\w+\s*=|\sstyle\s*=|javascript:|https?://(?!www\.w3\.org)", markup)


def test_hostile_texts_stay_texts() -> None:
    long = HOSTILE + "x" * 1_000_000
    versions = [make_version(0, ("a", "b")), make_version(1, ("a", "b", "c"), text=long)]
    report = make_report(versions, [make_place("0/test/after", [make_trail("t1", long)], 1)], text=HOSTILE)
    page = render_page(report)
    assert page.count("<script") == page.count("</script>") == 4  # two of data, one of trails, the page's own
    assert "<img" not in page
    assert "{{ 7 * 7 }}" in page
    assert "\x1b" not in page
    assert len(page) < 200_000
    ((trail,),) = read_trails(page)
    assert f"{len(long) - BODY:,} more characters are in the run's journal" in json.dumps(trail)
    (agent, *_) = read_data(page, "team")["versions"][1]["agents"].values()
    assert agent["prompt"].startswith("</script><script>alert(1)")


def test_nodes_keep_their_places_and_do_not_overlap() -> None:
    versions = [
        make_version(0, ("a", "z")),
        make_version(1, ("a", "b", "c", "z")),
        make_version(2, ("b", "a", "z", "q")),
    ]
    layout = lay_out_team(versions)
    assert layout == lay_out_team(reversed(versions))
    assert set(layout.nodes) == {"a", "b", "c", "q", "z"}
    for one, (x, y) in layout.nodes.items():
        for other, (x2, y2) in layout.nodes.items():
            assert one == other or abs(x - x2) >= 170 or abs(y - y2) >= 60
    assert {(route.source, route.target) for route in layout.routes} == {
        (link.source, link.target) for version in versions for link in version.links
    }
    for route in layout.routes:
        assert (route.points[0], route.points[-1]) == (layout.nodes[route.source], layout.nodes[route.target])


def test_agents_without_an_edge_have_a_place() -> None:
    assert set(lay_out_team([make_version(0, ("alone",))]).nodes) == {"alone"}


def test_trails_that_have_no_room_are_counted_and_tests_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfwire.extras.pages.pack.TRAILS", 3000)
    noise = [hashlib.sha512(str(number).encode()).hexdigest() for number in range(120)]
    many = [make_trail(f"t{number}", text) for number, text in enumerate(noise)]
    places = [make_place("0/rollout", many[:80]), make_place("0/test/after", many[80:90], 1)]
    report = make_report([make_version(0, ("a", "b"))], places)
    packed = pack_runs(report)
    assert set(packed.chunks) == {"1-0"}
    assert packed.left_out == 80
    assert "80 of the trails had no room" in render_page(report)


def test_charts_of_a_run_that_has_just_begun_are_left_out() -> None:
    versions = [make_version(0, ("a", "b"))]
    assert draw_gate(versions) is draw_scores([]) is draw_costs([]) is draw_front([], []) is None
    assert "<h2" in render_page(make_report(versions, []))


def test_errors_are_no_zeros_in_a_chart() -> None:
    trails = [make_trail("a"), make_trail("b", score=None), make_trail("c", score=0.0)]
    chart = draw_scores([make_place("0/gate/incumbent", trails)])
    assert chart
    assert any("version 0 on 2 gate tasks of iteration 1: 0.50" in mark.title for mark in chart.marks)


def test_the_gain_of_a_proof_has_errors_of_the_candidate_as_wrong_answers() -> None:
    scores = {"incumbent": [0.0, 1.0, None], "candidate": [1.0, None, 1.0]}
    places = [
        make_place(f"0/gate/{side}", [make_trail(f"t{at}", score=score) for at, score in enumerate(found)])
        for side, found in scores.items()
    ]
    gain = compare_gate(places, 0, is_proof=True)
    assert gain
    assert (gain.value, gain.n) == (0.0, 2)
    assert compare_gate(places, 0, is_proof=False) is None  # a single task that both finished


def test_a_comparison_shows_differences_and_what_methods_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("--benchmark", "archive", "--tasks", "4", "--evolve", "none", "--calls-per-task", "12")
    result = call(tmp_path, "compare", "single", "dytopo", *asked)
    assert result.exit_code == 0, result.output
    (folder,) = (tmp_path / "runs").iterdir()
    result = call(tmp_path, "report", folder.name)
    assert result.exit_code == 0, result.output
    page = (folder / "report.html").read_text()
    assert [one["key"] for one in read_data(page, "runs")] == ["dytopo", "single", "trivial"]
    assert re.search(r'<th scope="row">dytopo</th>.*?[+-]\d\.\d\d \[[+-]\d\.\d\d, [+-]\d\.\d\d\]', page)
    assert '<th scope="col" class="number">cut</th>' in page
    noted = [text for chunk in read_trails(page) for done in chunk for text in done["notes"]]
    assert len(noted) >= 4
    assert 'id="team"' not in page
    monkeypatch.setattr(JournalReader, "bodies", lambda journal, digests, read: {})
    result = call(tmp_path, "report", folder.name)
    assert (result.exit_code, "has no trajectory of task" in result.output) == (2, True)


def test_a_comparison_counts_what_its_evolutions_have_spent(tmp_path: Path) -> None:
    sizes = ("--tasks", "4", "--train", "20", "--gate-size", "20", "--gate", "mean", "--iterations", "1")
    result = call(tmp_path, "compare", "single", "hiva", "--benchmark", "archive", *sizes)
    assert result.exit_code == 0, result.output
    (folder,) = (tmp_path / "runs").iterdir()
    assert call(tmp_path, "report", folder.name).exit_code == 0
    spent = summarise_run(tmp_path, folder.name).spend
    assert spent is not None
    page = (folder / "report.html").read_text()
    assert f"<dt>spent</dt><dd>{spent.calls:,} calls, {spent.tokens:,} tokens</dd>" in page
    lines = page.partition('id="spend"')[2].partition("</section>")[0]
    assert "train tasks" in lines
    assert "gate tasks" in lines
    tokens = re.findall(r'<td class="number">([\d,]+)</td><td class="number">[\d,]+</td>', lines)
    assert sum(int(number.replace(",", "")) for number in tokens) == spent.tokens


def test_what_a_team_has_learned_stands_in_the_page_of_its_run(tmp_path: Path) -> None:
    result = call(tmp_path, "evolve", "hera", "--benchmark", "archive", "--name", "mine", *SMALL, "--no-baselines")
    assert result.exit_code == 0, result.output
    result = call(tmp_path, "report", "mine", "-o", str(tmp_path / "page.html"))
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text()
    learned = [line for line in call(tmp_path, "insights", "list", "mine").output.splitlines()[1:] if line.strip()]
    assert page.partition('id="insights"')[2].partition("</section>")[0].count("<tr><td>") == len(learned) > 0


def test_one_question_has_a_page_too(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    asked = load_benchmark("archive", seed=0, size=40).splits(0, train=1, gate=0, test=1).test[0].input
    result = call(tmp_path, "run", "dytopo", asked, "--benchmark", "archive", "--report", str(file))
    assert result.exit_code == 0, result.output
    page = file.read_text()
    team = read_data(page, "team")
    assert [one["label"] for one in team["versions"]][:1] == ["Round 1"]
    assert team["nodes"]
    assert any(one["links"] for one in team["versions"])
    assert "<title>dytopo on one question" in page


@pytest.mark.slow
def test_a_large_run_makes_a_small_page() -> None:
    names = [f"agent-{number}" for number in range(12)]
    versions = [make_version(number, names, text=f"Prompt {number}. " * 60) for number in range(50)]
    texts = [
        " ".join(hashlib.sha256(f"{one} {two}".encode()).hexdigest()[:12] for two in range(60)) for one in range(5000)
    ]
    trails = [make_trail(f"task-{number % 500}", text, steps=12) for number, text in enumerate(texts)]
    places = [make_place(f"{one}/gate/incumbent", trails[100 * one : 100 * one + 100], one) for one in range(50)]
    page = render_page(make_report(versions, places))
    assert len(page.encode()) <= 2_000_000
    assert len(read_trails(page)) > TRAILS / 200_000


def test_a_draft_is_tried_on_train_tasks(tmp_path: Path) -> None:
    done = Trajectory(question=Question(id="t1", input="Who?"), workflow="f", answer="Ada")
    with closing(Journal.create(tmp_path / JOURNAL, run="r")) as journal:
        at = Scope(run="r/candidate", iteration=1, phase="draft")
        run_sync(keep_trajectories(journal, [done], at, {}))
        run_sync(keep_trajectories(journal, [done], at.at(phase="gate"), {}))
    with JournalReader(tmp_path / JOURNAL) as reader:
        titles = {place.title for place in read_places(reader, {}, "hiva")}
    assert titles == {
        "iteration 2, candidate, on train tasks of a draft",
        "iteration 2, candidate, on gate tasks",
    }

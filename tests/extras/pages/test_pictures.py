"""What methods show of their rounds and of what they learned: its data, and how a page shows it."""

import base64
import gzip
import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait
from typer.testing import CliRunner

from selfwire.cli.app import build
from selfwire.core.agent import Agent
from selfwire.core.edits import ReplaceAgent, Rewiring
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, Topology
from selfwire.core.trajectory import Message, Step, Trajectory
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evolvers.dytopo.induction import RoundGraph, ScoredEdge
from selfwire.evolvers.evomas.stages import Stage
from selfwire.evolvers.evomas.state import Assessment, Subtask, TaskState
from selfwire.evolvers.hera.groups import make_groups
from selfwire.evolvers.hera.pictures import RUNS, note_groups
from selfwire.evolvers.hiva.gradients import Backward, Gradient
from selfwire.evolvers.hiva.pictures import GRADIENTS, note_passes
from selfwire.evolvers.pictures import Cell, Entry, Match, Matching, Panel, Picture, Table, TextList
from selfwire.evolvers.router.decisions import LayeredWorkflow
from selfwire.evolvers.tacomas.judge import Contribution, RubricItem
from selfwire.evolvers.tacomas.rounds import TacomasRound, compute_figures
from selfwire.extras.pages.layout import lay_out_team
from selfwire.extras.pages.pack import PANELS, ROWS, dump_panels, pack, pack_panels_of_versions, pack_team
from selfwire.extras.pages.page import render_page
from selfwire.extras.pages.pictures import draw_learning, draw_run
from selfwire.extras.pages.question import describe_question
from selfwire.graphs.hiva import Hiva
from tests.extras.pages.browser import Browser, needs_browser
from tests.extras.pages.samples import make_place, make_report, make_trail, make_version, restore_texts

HOSTILE = (
    "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\"> \x1b {{ 7 * 7 }}"
)
SIZES = ["--batch", "4", "--train", "8", "--gate-size", "12", "--gate", "off", "--test", "1", "--no-baselines"]
TITLES = {
    "tacomas": {
        "What the judge found",
        "How the team changed after this round",
        "Weight of each agent after each round",
    },
    "dytopo": {"Offers, and the needs that they met", "The manager"},
    "evomas": {"Who was drawn, layer by layer", "The task state before and after this stage"},
    "hera": {"Groups that were compared", "New insights, and what became of them"},
    "hiva": {"Textual gradients as they flowed back", "Beliefs about the agents"},
}
"""Panels that the page of a small run has, by method."""


def call(home: Path, *arguments: str) -> None:
    result = CliRunner().invoke(build(), [*arguments, "--home", str(home)])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of a small offline run of each method."""
    home = tmp_path_factory.mktemp("pictures")
    tasks = load_benchmark("archive", seed=0, size=60).splits(0, train=40, gate=0, test=1).train
    found = {name: home / f"{name}.html" for name in TITLES}
    for name in ("tacomas", "dytopo", "evomas"):
        call(home, "run", name, tasks[9].input, "--benchmark", "archive", "--report", str(found[name]))
    for name in ("hera", "hiva"):
        call(home, "evolve", name, "--benchmark", "archive", "--name", f"{name}-team", "--iterations", "1", *SIZES)
        call(home, "report", f"{name}-team", "-o", str(found[name]))
    return found


def read_pictures(page: str) -> dict[str, Any]:
    packed = re.search(r'<script type="text/plain" id="data-pictures">(.*?)</script>', page)
    assert packed
    found: dict[str, Any] = restore_texts(json.loads(gzip.decompress(base64.b64decode(packed[1]))))
    return found


def test_the_page_of_a_run_has_the_panels_of_its_method(pages: dict[str, Path]) -> None:
    for method, titles in TITLES.items():
        found = read_pictures(pages[method].read_text())
        panels = [*found["panels"], *(panel for frame in found["frames"] for panel in frame)]
        assert {panel["title"] for panel in panels} >= titles, method


def make_topology(*chain: str) -> Topology:
    nodes = tuple(Node(id=name, agent=name) for name in chain)
    edges = tuple(Edge(source=a, target=b) for a, b in pairwise(chain))
    return Topology(nodes=nodes, edges=edges, entry=chain[0], sink=chain[-1])


def make_run(task: str, *, score: float, sample: int = 0) -> Trajectory:
    """A run of plan → write."""
    heard = Message(source="plan", target="write", text="the plan")
    return Trajectory(
        question=Question(id=task, input="Where?"),
        workflow="w",
        steps=(
            Step(node="plan", agent="plan", output="the plan", sent=(heard,)),
            Step(node="write", agent="write", inbox=(heard,), output="Rome"),
        ),
        answer="Rome",
        feedback=Feedback(score=score, solved=score == 1, text="wrong"),
        sample=sample,
    )


def find(panels: tuple[Panel, ...], title: str) -> Any:
    return next(panel for panel in panels if panel.title == title)


def test_rounds_show_the_judge_the_births_and_who_has_which_weight() -> None:
    born = Rewiring(
        ReplaceAgent("plan", Agent(id="count", prompt="Count.")), why="because", operation="REPLACE", by="meta"
    )
    first = TacomasRound(
        number=0,
        goal="Answer the task.",
        answer="six",
        score=0.5,
        failed=("It is short.",),
        contributions=(Contribution(agent="plan", score=0.3, reason="nothing new"),),
        weights={"plan": 0.4, "write": 0.6},
        topology=make_topology("plan", "write"),
        slow=True,
        applied=(born,),
        births=("count",),
        deaths=("plan",),
        rationale="nobody counts",
    )
    last = TacomasRound(
        number=1, goal="It is short.", answer="6", score=1.0, confirmed=True, topology=make_topology("count", "write")
    )
    figures = compute_figures([first, last], stop="threshold", calls=9)
    items = [RubricItem(criterion="It is a number."), RubricItem(criterion="It is short.")]
    notes = {
        "rounds": [one.model_dump(mode="json") for one in (first, last)],
        "figures": figures.model_dump(mode="json"),
        "checklist": [one.model_dump(mode="json") for one in items],
        "threshold": 0.8,
    }
    picture = draw_run("tacomas", notes)
    one, two = picture.frames
    found = find(one.panels, "What the judge found")
    assert [(entry.text, entry.look) for entry in found.entries] == [
        ("It is a number.", "good"),
        ("It is short.", "bad"),
    ]
    changed = find(one.panels, "How the team changed after this round")
    assert [(entry.look, entry.text) for entry in changed.entries] == [("new", "ReplaceAgent(plan, count)")]
    assert "Births: count. Deaths: plan. Why: nobody counts" in changed.note
    assert two.graph
    assert {node.id: node.prompt for node in two.graph.nodes} == {"count": "Count.", "write": ""}
    assert "The run ended here: the judge's score reached the threshold twice." in two.text
    score, contributions, weights = picture.panels
    assert isinstance(score, Table)
    assert isinstance(contributions, Table)
    assert isinstance(weights, Table)
    assert (score.rows, score.mark) == ((("score", 0.5, 1.0),), 0.8)
    assert contributions.rows[0] == ("plan", 0.3, None)
    assert {row[0]: row[1:] for row in weights.rows}["plan"] == (0.4, None)


def test_needs_and_offers_stand_beside_the_edges_that_they_made() -> None:
    graph = RoundGraph(
        edges=(ScoredEdge(source="a", target="b", score=0.62),),
        order=("a", "b"),
        density=0.5,
        best_rejected=ScoredEdge(source="b", target="a", score=0.21),
        threshold=0.3,
        most_providers=3,
    )
    needs = {"a": {"query": "a proof", "key": "a lemma"}, "b": {"query": "the lemma", "key": "a check"}}
    managed = {"complete": False, "goal": "Prove it.", "claimed": True, "why": "b has not passed it", "public": "Done."}
    one = {"goal": "task", "graph": graph.model_dump(), "needs": needs, "failed": {}, "managed": managed}
    (frame,) = draw_run("dytopo", {"rounds": [one], "stopped": "rounds"}).frames
    found = find(frame.panels, "Offers, and the needs that they met")
    assert [entry.text for entry in found.left] == ["a lemma", "a check"]
    assert [(one.left, one.right, one.value, one.look) for one in found.matches] == [
        (0, 1, 0.62, ""),
        (1, 0, 0.21, "faint"),
    ]
    assert (found.mark, "tau = 0.3" in found.note) == (0.3, True)
    said = find(frame.panels, "The manager").entries
    assert [entry.text for entry in said] == ["b has not passed it", "Done.", "Prove it."]
    assert "no round was left" in frame.text


def test_stages_show_probabilities_and_the_state_before_and_after() -> None:
    before = TaskState(objective="all", subtasks=(Subtask(id="s1", goal="find"), Subtask(id="s2", goal="drop me")))
    after = TaskState(
        objective="all",
        subtasks=(Subtask(id="s1", goal="find", status="completed", artifact="Rome"), Subtask(id="s3", goal="say")),
    )
    layered = LayeredWorkflow(
        layers=(("io",), ("io", "search")), probabilities=({"io": 0.7}, {"io": 0.4, "search": 0.6})
    )
    given = {"goal": "find", "agents": ("io", "search"), "layered": layered, "rows": ("Active subtask: find",)}
    verdict = Assessment(verdict="success", confidence=0.9)
    stages = [Stage(number=0, state=before), Stage(number=1, state=after, outcome="Rome", assessment=verdict, **given)]
    picture = draw_run("evomas", {"stages": [one.model_dump(mode="json") for one in stages], "status": "stages"})
    frame = picture.frames[1]
    drawn = find(frame.panels, "Who was drawn, layer by layer")
    assert drawn.rows == (
        ("io", Cell(value=0.7, look="good"), Cell(value=0.4, look="good")),
        ("search", None, Cell(value=0.6, look="good")),
    )
    state = find(frame.panels, "The task state before and after this stage")
    assert [tuple(getattr(cell, "text", cell) for cell in row[:3]) for row in state.rows] == [
        ("s1: find", "pending", "completed"),
        ("s3: say", "planned in this stage", "pending"),
        ("s2: drop me", "pending", "dropped from the plan"),
    ]
    assert frame.graph
    assert {(edge.source, edge.target) for edge in frame.graph.edges} >= {
        ("task-state", "layer-1-1"),
        ("layer-1-1", "layer-2-2"),
    }
    assert {node.id: (node.name, node.caption) for node in frame.graph.nodes}["layer-2-2"] == (
        "search",
        "probability 0.60",
    )


def test_gradients_keep_the_way_that_they_flowed_and_have_a_bound() -> None:
    done = make_run("t1", score=0.0)
    gradients = tuple(
        Gradient(task="t1", node=node, agent=node, overall="x" * 900, sentiment="critical", concerns="both")
        for node in ("write", "plan")
    )
    noted = note_passes([done] * 40, [Backward(gradients=gradients)] * 40)
    assert sum(len(one["gradients"]) for one in noted) <= GRADIENTS
    assert max(len(gradient["text"]) for one in noted for gradient in one["gradients"]) < 420
    team = Team(method="hiva", agents=(Agent(id="write", prompt="W."),), topology=make_topology("write"))
    panels = draw_learning(team, team, {"gradients": noted, "unsolved": 40, "declined": []})
    entries = find(panels, "Textual gradients as they flowed back").entries
    assert [(entry.head, entry.depth) for entry in entries[:3]] == [
        ("task t1", 0),
        ("the environment → write: critical, concerns both", 1),
        ("write → plan: critical, concerns both", 2),
    ]


def test_groups_are_kept_in_short_those_that_teach_first() -> None:
    runs = [
        make_run(f"t{number}", score=float(number == 29 and sample), sample=sample)
        for number in range(30)
        for sample in range(2)
    ]
    noted = note_groups(make_groups(runs, 0.5), runs)
    assert sum(len(one["runs"]) for one in noted) <= RUNS
    assert (noted[0]["question"], [one["score"] for one in noted[0]["runs"]]) == ("t29", [1.0, 0.0])
    assert noted[0]["runs"][0]["plan"] == "plan → write"


HOSTILE_PANELS: tuple[Panel, ...] = (
    Table(title=HOSTILE, note=HOSTILE, columns=(HOSTILE, HOSTILE), rows=((HOSTILE, Cell(text=HOSTILE, look="bad")),)),
    TextList(title=HOSTILE, note=HOSTILE, entries=(Entry(head=HOSTILE, text=HOSTILE, depth=6),)),
    Matching(
        title=HOSTILE,
        sides=(HOSTILE, HOSTILE),
        left=(Entry(head=HOSTILE),),
        right=(Entry(head=HOSTILE, text=HOSTILE),),
        matches=(Match(left=0, right=0, value=0.5),),
    ),
)


def make_hostile_page() -> str:
    version = make_version(1, ("a", "constructor")).replace(
        panels=HOSTILE_PANELS, captions={"a": HOSTILE}, tag=HOSTILE, label=HOSTILE
    )
    return render_page(
        make_report([version], [make_place("0/test/after", [make_trail("t")])]).replace(panels=HOSTILE_PANELS)
    )


def test_hostile_texts_of_panels_stay_texts() -> None:
    page = make_hostile_page()
    assert page.count("<script") == page.count("</script>") == 5  # three of data, one of trails, the page's own
    assert "<img" not in page
    assert "\\u001b" not in page
    for panel in read_pictures(page)["panels"]:
        assert panel["title"].startswith("</script><script>document")
        assert "\\x1b {{ 7 * 7 }}" in panel["title"]


def test_panels_are_cut_with_a_note() -> None:
    rows = tuple((f"row {number}", 0.5) for number in range(ROWS + 5))
    table = Table(title="many", columns=("name", "value"), rows=rows)
    dumped = dump_panels([table] * (PANELS + 3))
    assert (len(dumped), len(dumped[0]["rows"])) == (PANELS, ROWS)
    assert dumped[0]["note"] == "5 more rows had no room here."


def test_the_first_versions_lose_their_panels_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = [hashlib.sha512(str(number).encode()).hexdigest() * 8 for number in range(8)]
    versions = [
        make_version(number, ("a", "b")).replace(panels=(TextList(title=text, entries=()),))
        for number, text in enumerate(noise)
    ]
    report = make_report(versions, [])
    whole = len(pack_panels_of_versions(report))
    monkeypatch.setattr("selfwire.extras.pages.pack.PICTURES", 0.7 * whole)
    found = read_pictures(render_page(report))
    assert [frame is None for frame in found["frames"]] == [True] * 4 + [False] * 4
    monkeypatch.setattr("selfwire.extras.pages.pack.PICTURES", 10)
    assert pack_panels_of_versions(report) == ""


def test_a_stage_in_which_nobody_worked_is_shown_too() -> None:
    done = make_run("t1", score=0.0).replace(steps=())
    failed = Stage(number=0, fault="the planner is down").model_dump(mode="json")
    team = Team(method="evomas", agents=(Agent(id="io", prompt="A."),), topology=make_topology("io"))
    report = describe_question(team, done.replace(notes={"stages": [failed], "status": "failure"}), offline=False)
    (version,) = report.versions
    assert (version.nodes, version.links) == ({}, ())
    assert "The planner or the evaluator failed: the planner is down" in version.why
    assert "The planner or the evaluator failed" in json.dumps(pack_team(report, lay_out_team(report.versions)))


def test_a_prompt_that_differs_beyond_the_cut_is_marked_as_rewritten() -> None:
    versions = [make_version(0, ["a", "b"], text="x" * 5000), make_version(1, ["a", "b", "c"], text=f"{'x' * 4999}y")]
    versions.append(versions[1].replace(number=2))
    report = make_report(versions, [])
    packed = pack_team(report, lay_out_team(versions))["value"]["versions"]
    assert [version["rewritten"] for version in packed] == [[], ["a", "b"], []]


@pytest.mark.parametrize(
    ("number", "kept"), [(1_234_567.0, 1_234_567), (1_234_567.8, 1_234_568), (123.4567891, 123.457), (1e-9, 1e-9)]
)
def test_a_page_has_all_digits_before_the_point(number: float, kept: float) -> None:
    assert pack(number)["value"] == pack(-number)["value"] * -1 == kept


def test_notes_that_a_method_cannot_read_give_no_picture() -> None:
    assert draw_run("tacomas", {"rounds": [{"number": "x"}]}) == draw_run("dytopo", {"rounds": 3}) == Picture()
    assert draw_run("", {"rounds": []}) == draw_run("tacomas", None) == Picture()
    team = Team(method="hiva", agents=(Agent(id="a", prompt="A."),), topology=make_topology("a"))
    assert draw_learning(team, team, {"gradients": 3}) == ()


def test_an_outside_method_brings_its_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of docs/method.md."""
    page = (Path(__file__).parents[3] / "docs" / "method.md").read_text()
    code = re.search(r"```python\n(from selfwire.evolvers.pictures.*?)```", page, re.DOTALL)
    assert code
    scope: dict[str, Any] = {}
    exec(code[1], scope)
    outside = type("Outside", (Hiva,), {"draw_learning": scope["draw_learning"]})
    monkeypatch.setattr("selfwire.extras.pages.pictures.find_method", lambda name: outside)
    team = Team(method="prune", agents=(Agent(id="a", prompt="A."),), topology=make_topology("a"))
    (found,) = draw_learning(team, team, {"worth": {"a -> b": 0.5}})
    assert found == Table(title="Worth of each edge", columns=("edge", "worth"), rows=(("a -> b", 0.5),))
    assert draw_learning(team, team, {}) == ()


@pytest.mark.slow
@needs_browser
def test_pictures_follow_the_scrubber_and_everybody_can_read_them(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    hostile = tmp_path / "hostile.html"
    hostile.write_text(make_hostile_page(), encoding="utf-8")
    for name, page in {**pages, "hostile": hostile}.items():
        number = 1 if name in ("hiva", "hera", "hostile") else 2
        for width, scheme in ((1600, "light"), (390, "dark")):
            browser.show(page, f"#version={number}", width=width, scheme=scheme)
            assert browser.find("#pictures .drawing h4")
            assert browser.find("#moves").is_displayed() == (name != "hostile")  # it has one version
            browser.take(f"{name}-{scheme}-{width}")
            assert browser.run("document.documentElement.scrollWidth") <= width, name
        browser.check_access()
        assert [one for one in browser.get_log("browser") if one["level"] in ("SEVERE", "WARNING")] == []
        assert browser.driver.title != "broken"
    browser.show(pages["dytopo"])
    assert browser.driver.find_elements(By.CSS_SELECTOR, ".tie")
    before = browser.find("#pictures").text
    browser.find("#scrub").send_keys(Keys.ARROW_RIGHT)
    WebDriverWait(browser.driver, 5).until(lambda _: browser.find("#pictures").text != before)
    browser.check_quiet(*pages.values(), hostile)

"""The versions of a team by score and price: who is compared with whom, and what nothing beats."""

import json
import re
import shutil
from collections.abc import Sequence
from math import hypot
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.cli.commands import WRONG
from selfwire.cli.teams import build_front_table
from selfwire.core.errors import ConfigError
from selfwire.core.task import Feedback, Question
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.evals.statistics import IntervalEstimate, compute_wilson_interval
from selfwire.models.sync import run_sync
from selfwire.runs.front import (
    FrontEntry,
    FrontLine,
    HeldOutRun,
    collect_entries,
    compute_front,
    find_version,
    subtract_intervals,
)
from selfwire.store.library import History, Version, open_library
from tests.commands import call

EVOLVED = "--gate mean --iterations 2 --batch 4 --gate-tasks 6 --train 8 --gate-size 12 --test 6".split()


def make_entry(name: str, scores: Sequence[float], calls: float, *, start: int = 0, split: str = "gate") -> FrontEntry:
    """An entry that was asked tasks from a number on, some calls each; a fraction is an average over ten tasks."""
    whole, tenths = divmod(round(calls * 10), 10)
    runs = {
        str(start + place): [HeldOutRun(split, score, Usage(calls=whole + (place % 10 < tenths), input_tokens=100))]
        for place, score in enumerate(scores)
    }
    return FrontEntry(name, make_version(0, name) if name.startswith("v") else None, runs=runs)


def make_version(step: int, fingerprint: str, run: str = "run", *, accepted: bool = True) -> Version:
    gate = {"gate": {"accepted": accepted, "why": ""}} if step else {}
    return Version(name="mine", run=run, step=step, fingerprint=fingerprint, saved="2026-01-01", facts=gate)


def find(lines: Sequence[FrontLine], name: str) -> FrontLine:
    return next(line for line in lines if line.name == name)


def test_what_is_as_good_and_cheaper_or_better_and_no_dearer_beats_another() -> None:
    half, most = [0.0, 1.0] * 10, [0.0] + [1.0] * 19
    lines = compute_front([
        make_entry("v0", half, 2),
        make_entry("v1", half, 5),  # no better, dearer
        make_entry("v2", most, 8),
        make_entry("v3", [0.0] * 20, 2),  # worse, as dear
        make_entry("v4", most, 8),  # the same as v2: neither beats the other
        FrontEntry("v5", make_version(5, "v5")),
        make_entry("votes", half, 2.5),
    ])  # fmt: skip
    assert [line.name for line in lines] == ["v0", "v3", "votes", "v1", "v2", "v4", "v5"]
    assert [line.name for line in lines if line.on_front] == ["v0", "v2", "v4"]
    dear = find(lines, "v1")
    assert (dear.against, dear.extra, dear.shared) == ("v0", 3.0, 20)
    assert re.fullmatch(
        r"behind v0: \+0.00 \[-0.\d\d, \+0.\d\d\] at \+3.00 calls, on the same 20 tasks", dear.describe("calls")
    )
    assert find(lines, "v0").describe("calls") == "on the front"
    best = find(lines, "v2").describe("calls")
    assert best.startswith("on the front; over v0: +0.45 [")
    assert find(lines, "v5").describe("calls") == "not measured"


def test_a_baseline_beats_a_version_too() -> None:
    lines = compute_front([make_entry("v0", [1.0, 0.0], 3), make_entry("single", [1.0, 1.0], 2)])
    assert find(lines, "v0").against == "single"
    assert (find(lines, "single").on_front, find(lines, "single").ref) == (True, "")
    history = History(name="mine", head="run.0", versions=(make_version(0, "v0"),))
    ask = build_front_table(history, lines, "calls", (), "my home").notes[-1]
    assert ask.startswith(
        """ask one with `selfwire run mine@VERSION "..." --home 'my home'`; `selfwire rollback mine """
    )
    assert "VERSION --home 'my home'` makes it" in ask


def test_the_price_of_a_cheap_task_is_not_shown_as_nothing() -> None:
    cheap = find(compute_front([make_entry("v0", [1.0, 0.0], 3)]), "v0").replace(dollars=0.00004)
    history = History(name="mine", head="run.0", versions=(make_version(0, "v0"),))
    assert "0.000040" in build_front_table(history, [cheap], "calls", ()).rows[0]


def test_two_are_compared_on_the_tasks_of_both_and_by_wider_intervals_without_any() -> None:
    """On the tasks of both, v1 does as well as v0; its other tasks are hard ones and count for nothing here."""
    easy = make_entry("v0", [1.0] * 10, 4)
    both = make_entry("v1", [1.0] * 10, 3)
    both.runs |= make_entry("v1", [0.0] * 10, 9, start=100).runs
    lines = compute_front([easy, both])
    assert (find(lines, "v0").against, find(lines, "v0").shared, find(lines, "v0").extra) == ("v1", 10, 1.0)
    assert find(lines, "v1").on_front
    other = make_entry("v2", [1.0] * 5 + [0.0] * 5, 5, start=200)
    line = find(compute_front([easy, other]), "v2")
    assert (line.against, line.shared, line.describe("calls").endswith("on other tasks")) == ("v0", 0, True)
    first, second = compute_wilson_interval(5, 10), compute_wilson_interval(10, 10)
    assert line.gain
    assert line.gain.value == -0.5
    assert line.gain.low == pytest.approx(-0.5 - hypot(0.5 - first.low, second.high - 1))
    assert line.gain.high == pytest.approx(-0.5 + hypot(first.high - 0.5, 1 - second.low))
    mixed, worse = [0.0, 1.0] * 10, [0.0, 1.0] * 9 + [0.0, 0.0]
    alike, apart = (
        find(compute_front([make_entry("v0", mixed, 4), make_entry("v2", worse, 5, start=start)]), "v2").gain
        for start in (0, 200)
    )
    assert alike
    assert apart
    assert [alike.value, apart.value] == pytest.approx([-0.05, -0.05])
    assert 2 * (alike.high - alike.low) < apart.high - apart.low


def test_an_interval_of_a_difference_by_hand() -> None:
    first = IntervalEstimate(value=0.8, low=0.5, high=0.9, n=10)
    second = IntervalEstimate(value=0.3, low=0.1, high=0.7, n=8)
    found = subtract_intervals(first, second)
    assert (found.value, found.low, found.high, found.n) == pytest.approx((0.5, 0.0, 0.5 + 0.05**0.5, 8))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=4, max_size=4), st.integers(1, 4)),
        min_size=1,
        max_size=6,
    )
)
def test_where_all_are_asked_the_same_tasks_it_is_the_pareto_front(drawn: list[tuple[list[float], int]]) -> None:
    lines = compute_front([make_entry(f"v{place}", *entry) for place, entry in enumerate(drawn)])
    points = {f"v{place}": (sum(scores), -calls) for place, (scores, calls) in enumerate(drawn)}
    front = {
        name
        for name, (score, cheap) in points.items()
        if not any(s >= score and c >= cheap and (s, c) != (score, cheap) for s, c in points.values())
    }
    assert {line.name for line in lines if line.on_front} == front != set()
    assert all(line.against in points for line in lines if not line.on_front)


def test_prices_other_than_calls_and_those_that_are_not_known() -> None:
    cheap, dear = make_entry("v0", [1.0, 0.0], 3), make_entry("v1", [1.0, 0.0], 2)
    for runs in dear.runs.values():
        runs[0] = HeldOutRun("gate", runs[0].score, Usage(calls=2, input_tokens=900, dollars=None))
    assert find(compute_front([cheap, dear]), "v0").against == "v1"
    assert find(compute_front([cheap, dear], "tokens"), "v1").against == "v0"
    assert find(compute_front([cheap, dear]), "v1").dollars is None
    with pytest.raises(ConfigError, match="--price calls or --price tokens"):
        compute_front([cheap, dear], "dollars")
    with pytest.raises(ConfigError, match="calls, tokens, dollars or seconds, not 'euros'"):
        compute_front([cheap, dear], "euros")


def make_run(task: str, score: float | None, calls: int) -> Trajectory:
    question = Question(id=task, input=f"What is {task}?")
    step = Step(node="a", agent="a", output="x", usage=Usage(calls=calls))
    feedback = None if score is None else Feedback(score=score, solved=score == 1, text="")
    return Trajectory(question=question, workflow="w", steps=(step,), answer="x", feedback=feedback)


def test_runs_belong_to_the_version_that_ran_and_rejected_candidates_to_none() -> None:
    versions = {
        0: make_version(0, "seed"),
        1: make_version(1, "first"),
        2: make_version(2, "first", accepted=False),
    }
    phases = [
        (0, "rollout", "", [make_run("t", 1.0, 50)]),
        (0, "gate", "incumbent", [make_run("a", 0.0, 1), make_run("b", None, 1)]),
        (0, "gate", "candidate", [make_run("a", 1.0, 2), make_run("b", 0.0, 4)]),
        (1, "gate", "incumbent", [make_run("a", 0.0, 2)]),
        (1, "gate", "candidate", [make_run("a", 1.0, 70)]),
        (0, "test", "before", [make_run("a", 1.0, 3)]),
        (0, "test", "after", [make_run("a", 1.0, 9)]),
        (0, "baseline", "single", [make_run("a", 0.0, 7)]),
        (0, "baseline", "trivial", [make_run("a", 1.0, 0)]),
    ]
    assert find_version(1, "gate", "candidate", versions) is None
    entries = dict[str, FrontEntry]()
    names = {f"run.{step}": f"mine@{step}" for step in versions}
    collect_entries(phases, versions, names, entries)
    assert [(entry.name, entry.also) for entry in entries.values()] == [
        ("mine@0", []), ("mine@1", ["mine@2"]), ("single agent with votes", []),
    ]  # fmt: skip
    lines = compute_front(entries.values())
    seed, first, single = (find(lines, name) for name in ("mine@0", "mine@1", "single agent with votes"))
    assert (seed.gate, seed.test, seed.calls, seed.score and seed.score.value) == (1, 1, 2.0, 0.5)
    # a at the gate twice (1.0 and 0.0), b once, a in the test once: a test task is another one
    assert (first.gate, first.test, first.calls) == (2, 1, 5.0)  # 2, 4 and 9
    assert first.score
    assert first.score.value == pytest.approx((0.5 + 0.0 + 1.0) / 3)
    assert (single.calls, single.test, single.ref) == (7.0, 1, "")
    assert (first.ref, first.fingerprint) == ("mine@run.1", "first")


def test_the_front_of_a_saved_team_is_a_table_and_stands_in_the_page_of_its_run(tmp_path: Path) -> None:
    call(tmp_path, "evolve", "hiva", "--benchmark", "archive", "--name", "mine", *EVOLVED)
    before = call(tmp_path, "runs").stdout
    told = call(tmp_path, "front", "mine").stdout
    assert call(tmp_path, "runs").stdout == before  # no model was asked
    for name in ("mine@0", "mine@1", "* mine@2", "single agent with votes"):
        assert re.search(rf"^ {re.escape(name)} +(\d\.\d\d|-)", told, re.MULTILINE), told
    found = json.loads(call(tmp_path, "front", "mine", "--price", "tokens", "--json").stdout)
    lines = [FrontLine.model_validate(line) for line in found["front"]]
    assert found["price"] == "tokens"
    assert [line.tokens for line in lines if line.score] == sorted(line.tokens for line in lines if line.score)
    assert any(line.on_front for line in lines)
    seed = find(lines, "mine@0")
    assert (seed.gate, seed.test) == (6, 6)
    asked = json.loads(call(tmp_path, "show", seed.ref, "--json").stdout)
    assert asked["version"]["fingerprint"] == seed.fingerprint
    call(tmp_path, "report", "mine", "-o", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text()
    for line in lines:
        assert not line.ref or f"<small>{line.ref}</small>" in page
    assert page.count("<small>also") == sum(bool(line.also) for line in lines)
    assert 'class="trend main"' in page
    assert f"{seed.ref}</title>" in page
    assert "not 'euros'" in call(tmp_path, "front", "mine", "--price", "euros", code=WRONG).stderr
    assert "there is no team 'nine'; did you mean mine" in call(tmp_path, "front", "nine", code=WRONG).stderr.replace(
        f" in library {tmp_path / 'library.sqlite'}", ""
    )
    with open_library(tmp_path) as library:
        run_sync(library.save("mine", run_sync(library.load(seed.ref)), run="adopted-1", step=0, facts={}))
    assert "adopted-1 are not measured" not in call(tmp_path, "front", "mine").stdout  # it is the team of a run
    shutil.rmtree(tmp_path / "runs")
    gone = call(tmp_path, "front", "mine").stdout
    assert "versions of adopted-1 are not measured: that run is no evolution, or has been removed" in gone
    assert "0.0" not in call(tmp_path, "front", "mine", "--price", "seconds").stdout  # of what is not measured


def test_versions_of_a_run_on_other_tasks_are_left_out(tmp_path: Path) -> None:
    none = ("--iterations", "1", "--train", "4", "--batch", "4", "--no-baselines")
    sizes = ("--gate", "mean", "--gate-size", "4", "--gate-tasks", "4", "--test", "4")
    call(tmp_path, "evolve", "hera", "--benchmark", "archive", "--name", "mine", *none, *sizes)
    call(tmp_path, "evolve", "hera", "--benchmark", "plancraft", "--name", "mine", *none, *sizes)
    told = call(tmp_path, "front", "mine")
    names = re.findall(r"mine@\S+", told.stdout)
    assert names
    assert "are left out: other tasks; see" in told.stdout
    assert not any("archive" in name for name in names)


def test_a_run_that_names_a_model_more_is_on_the_same_front(tmp_path: Path) -> None:
    sizes = ("--iterations", "1", "--train", "4", "--batch", "4", "--gate-size", "4", "--test", "4")
    given = (*"evolve hera --benchmark archive --name mine --no-baselines --gate mean --model offline".split(), *sizes)
    call(tmp_path, *given)
    call(tmp_path, *given, "--models", "cheap=offline")
    found = call(tmp_path, "front", "mine", "--json").stdout
    assert "are left out" not in found
    lines = [FrontLine.model_validate(line) for line in json.loads(found)["front"]]
    names = [name for line in lines for name in (line.name, *line.also)]
    assert len({name.rpartition(".")[0] for name in names}) == 2, names

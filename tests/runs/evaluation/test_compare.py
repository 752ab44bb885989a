"""Several systems in one run: equal caps, evolution first, what was learned from is left out."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from selfwire.cli.commands import STOPPED
from selfwire.cli.compare import parse_systems
from selfwire.core.errors import ConfigError
from selfwire.core.usage import Budget, Usage
from selfwire.evals.baselines import ANSWERS
from selfwire.evals.statistics import compute_paired_interval
from selfwire.evals.table import Column, SystemInfo, SystemSummary, build_table, compute_difference, read_results
from selfwire.runs.evaluation import OpenEvaluation, load_request_tasks, validate_request
from selfwire.runs.evolution import load_tasks
from selfwire.runs.pre_evolution import PreEvolution, compute_left
from selfwire.runs.record import JOURNAL, ContaminatedTasks, find_contaminated_tasks, list_run_names
from selfwire.runs.spec import STAMP, EvaluateSpec, PreEvolutionSpec, SystemSpec
from selfwire.runs.systems import LoadedTeam, describe_origin, make_seed_team
from tests.commands import call

SIZES = ("--gate", "mean", "--iterations", "1", "--batch", "3", "--gate-tasks", "3", "--train", "6", "--gate-size", "6")


def compared(home: Path, *arguments: str, code: int = 0) -> Result:
    usual = ("--benchmark", "archive", "--tasks", "5", "--out", str(home / "o.jsonl"))
    return call(home, "compare", *arguments, *usual, code=code)


def test_all_run_on_the_same_tasks_under_one_cap_and_differ_from_the_chosen_one(tmp_path: Path) -> None:
    result = compared(tmp_path, "dytopo", "single", "cot", "--calls-per-task", "9", "--against", "cot")
    header, rows = read_results(tmp_path / "o.jsonl")
    assert [one.name for one in header.systems] == ["trivial", "dytopo", "single", "cot"]
    tasks = [[row.task for row in rows if row.target == one.name] for one in header.systems]
    assert all(one == tasks[0] for one in tasks)
    assert all(row.calls <= 9 for row in rows)
    assert "intervals are over tasks; differences are paired by task, from cot" in result.stdout
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if "[" in line}
    assert "+" in lines["single"]
    assert "evolution" not in result.stdout


def test_a_method_in_rounds_gives_the_answer_of_the_rounds_that_its_calls_sufficed_for(tmp_path: Path) -> None:
    compared(tmp_path, "dytopo", "--calls-per-task", "12")
    _, rows = read_results(tmp_path / "o.jsonl")
    cut = [row for row in rows if row.target == "dytopo" and row.calls == 12]
    assert cut, "the third round needs more"
    assert all(row.rounds == 2 and row.answer and row.cut and not row.capped for row in cut)


@pytest.mark.parametrize(("seeds", "cut"), [("1", "2"), ("2", "3")])
def test_runs_that_the_cap_cuts_short_stand_in_the_table_of_a_seed_and_of_all(
    tmp_path: Path, seeds: str, cut: str
) -> None:
    asked = ("dytopo", "cot", "--benchmark", "archive", "--tasks", "2", "--calls-per-task", "12", "--seeds", seeds)
    result = call(tmp_path, "compare", *asked)
    head = next(line for line in result.stdout.splitlines()[::-1] if line.lstrip().startswith("system"))
    last = next(line for line in result.stdout.splitlines()[::-1] if line.lstrip().startswith("dytopo "))
    assert " cut " in head, "a table that says nothing of runs that were cut"
    assert last[head.index(" cut") + 1 :].split()[0] == cut


@pytest.mark.parametrize("benchmark", ["archive", "shelfmarks"])
def test_the_tasks_of_a_seed_do_not_depend_on_who_takes_part(benchmark: str) -> None:
    def deal(**given: Any) -> list[str]:
        request = EvaluateSpec(
            command="compare",
            benchmark=benchmark,
            tasks=6,
            seed=3,
            entries=(SystemSpec(name="cot", target="cot"),),
            **given,
        )
        return [task.id for task in load_request_tasks(request, ContaminatedTasks())[1]]

    assert deal() == deal(evolving=PreEvolutionSpec(names=("cot",))) == deal(evolving=PreEvolutionSpec())


def test_who_is_evolved_inside_is_not_measured_on_its_own_tasks_beside_a_team_that_has_learned(tmp_path: Path) -> None:
    path, hiva = tmp_path / "mine.jsonl", SystemSpec(name="hiva", target="hiva")
    path.write_text("".join(json.dumps({"input": f"{at}?", "reference": "1"}) + "\n" for at in range(200)))
    sizes = PreEvolutionSpec(names=("hiva",), train=12, gate_size=12)
    request = EvaluateSpec(command="compare", benchmark=str(path), tasks=10, entries=(hiva,), evolving=sizes)
    inside = load_tasks(PreEvolution(request, sizes, hiva, tmp_path, None).evolve_request)[1]
    known = ContaminatedTasks.of(inside.test[:10], request.benchmark)._replace(tasks=24)
    _, found = load_request_tasks(request, known)
    assert len(found) == 10
    assert not {*found} & {*inside.train, *inside.gate}
    assert not any(known.has_task(task, request.benchmark) for task in found)


@pytest.mark.parametrize(("command", "measured"), [("compare", 4), ("eval", 8)])
def test_a_question_that_repeats_is_measured_once_in_a_comparison(tmp_path: Path, command: str, measured: int) -> None:
    path, singles = tmp_path / "mine.jsonl", (SystemSpec(name="cot", target="cot"),)
    path.write_text("".join(json.dumps({"input": f"{at // 2}?", "reference": "1"}) + "\n" for at in range(8)))
    request = EvaluateSpec.model_validate({"command": command, "benchmark": str(path), "tasks": 8, "entries": singles})
    tasks = load_request_tasks(request, ContaminatedTasks())[1]
    assert (len({task.input for task in tasks}), len(tasks)) == (4, measured)
    told = [note for note in validate_request(request, tmp_path).notices if "tasks are left out" in note]
    assert all("they repeat the question of another" in note and "learned" not in note for note in told)
    assert len(told) == (command == "compare")


@pytest.mark.slow
def test_who_is_evolved_first_is_measured_on_other_tasks_and_its_cost_stands_in_the_table(tmp_path: Path) -> None:
    given = ("hiva", "seed=hiva", "--evolve", "hiva", *SIZES)
    stopped = compared(tmp_path, *given, "--budget-calls", "25", code=STOPPED)
    header, _ = read_results(tmp_path / "o.jsonl")
    assert f"go on with: selfwire compare --resume {header.run}" in stopped.stdout
    again = call(tmp_path, "compare", "--resume", header.run, "--budget-calls", "900")
    header, rows = read_results(tmp_path / "o.jsonl")
    hiva, seed = header.systems[1:]
    assert (hiva.learned, seed.learned) == (True, False)
    assert hiva.evolution is not None
    assert f"  {hiva.evolution.calls:,} calls\n" in re.sub(" +\n", "\n", again.stdout)
    spent = hiva.evolution.calls + sum(row.calls for row in rows)
    assert f"spent: {spent:,} calls" in again.stdout
    whole = tmp_path / "whole"
    whole.mkdir()
    compared(whole, *given)
    expected_header, expected = read_results(whole / "o.jsonl")
    assert expected_header.systems[1].workflow == hiva.workflow
    assert [(row.task, row.score, row.calls) for row in expected] == [(row.task, row.score, row.calls) for row in rows]
    saved = f"{header.run}-hiva"
    assert hiva.workflow in call(tmp_path, "show", saved).stdout
    asked = EvaluateSpec(benchmark="archive", tasks=30, entries=(SystemSpec(name="mine", target=saved),))
    trial = validate_request(asked, tmp_path)
    known = find_contaminated_tasks((team.run for team in trial.workflows.values() if team.run), tmp_path)
    assert known.tasks == 12
    assert not any(known.has_task(task, asked.benchmark) for task in trial.tasks)
    assert len(trial.tasks) == 30
    plain = validate_request(asked.replace(entries=(SystemSpec(name="mine", target="single"),)), tmp_path)
    assert {task.id for task in plain.tasks} != {task.id for task in trial.tasks}


def test_what_evolutions_inside_a_comparison_cost_stands_in_the_list_of_runs_and_by_model(tmp_path: Path) -> None:
    given = ("hiva", *SIZES, "--budget-calls", "10", "--models", "cheap=offline:user")
    stopped = compared(tmp_path, *given, code=STOPPED)
    [spent] = re.findall(r"spent: (\d+ calls, [\d,]+ tokens)", stopped.stdout)
    assert f"\n    offline: {spent}" in stopped.stdout
    assert spent in call(tmp_path, "runs").stdout
    [inner] = tmp_path.glob(f"runs/*/evolved/hiva/runs/*/{JOURNAL}")
    with closing(sqlite3.connect(inner)) as connection, connection:
        connection.execute("UPDATE calls SET state = 'reserved', at_most = 70, calls = NULL WHERE rowid = 1")
    lost = "1 call without a reply may have cost up to 70 tokens"
    assert lost in call(tmp_path, "runs").stdout
    [run] = list_run_names(tmp_path)
    assert lost in call(tmp_path, "compare", "--resume", run, "--budget-calls", "1", code=STOPPED).stdout


def test_a_resumed_comparison_calls_no_evolved_team_a_seed_team() -> None:
    entry, seed = SystemSpec(name="h", target="hiva"), LoadedTeam(workflow=make_seed_team("hiva"))
    assert "its seed team" in describe_origin(entry, seed, "offline", evolves=True)
    evolved = describe_origin(entry, seed.replace(learned=True), "offline", evolves=True)
    assert evolved == f"h: method hiva, its team {seed.workflow.fingerprint}, which this run has evolved"


def test_a_run_without_a_journal_is_a_caution(tmp_path: Path) -> None:
    evolve = ("evolve", "hiva", "--benchmark", "archive", "--name", "mine", "--no-baselines", "--test", "0", *SIZES)
    call(tmp_path, *evolve)
    call(tmp_path, "clean", "--all", "--yes")
    asked = EvaluateSpec(benchmark="archive", tasks=5, entries=(SystemSpec(name="mine", target="mine"),))
    [caution] = validate_request(asked, tmp_path).notices
    assert "has no journal here, so nobody knows" in caution


def test_names_words_config_fields_and_parts_of_systems() -> None:
    found = parse_systems(["hiva", "b=hiva", "cot", "baselines"], {"b": {"routing": {"k": 3}}}, ["b.kabb"])
    assert [one.name for one in found[:4]] == ["hiva", "b", "cot", "direct"]
    assert found[0].config == {}
    assert found[1].config == {"kabb": False, "routing": {"k": 3}}
    assert len({one.name for one in found}) == len(found)
    votes = {one.name: (one.target, one.config) for one in found if one.name.endswith("-at-cap")}
    assert votes == {"direct-at-cap": ("direct", {"samples": None}), "cot-at-cap": ("cot", {"samples": None})}
    [alone] = parse_systems(["direct-at-cap"], {"direct-at-cap": {"samples": 4}}, [])
    assert (alone.name, alone.target, alone.config) == ("direct-at-cap", "direct", {"samples": 4})
    lone = parse_systems(["single", "one=single", "more=single", "cot"], {"more": {"samples": 40}}, [])
    assert [one.config for one in lone] == [{"samples": ANSWERS}, {"samples": ANSWERS}, {"samples": 40}, {}]
    with pytest.raises(ConfigError, match="'c' does not take part; systems are hiva"):
        parse_systems(["hiva"], {"c": {"k": 1}}, [])
    with pytest.raises(ConfigError, match=r"as hiva\.field=value"):
        parse_systems(["hiva"], {"hiva": 3}, [])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("compare", "hiva"), "compare needs systems and --benchmark"),
        (("compare", "hiva", "--benchmark", "archive", "--against", "x"), "nobody is called 'x'"),
        (("compare", "cot", "--benchmark", "archive", "--evolve", "cot"), "'cot' cannot be evolved here"),
        (("compare", "hiva", "--benchmark", "archive", "--evolve", "all", "--split", "val"), "the test split"),
        (("eval", "hiva"), "eval needs --benchmark, on which hiva is measured"),
        (("eval", "hiva", "--benchmark", "archive", "--split", "all"), "splits are train, val and test"),
        (("eval", "hiva", "--benchmark", "archive", "--tasks", "0"), "--tasks must be 1 or more, not 0"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    result = call(tmp_path / "home", *arguments, code=2)
    assert told in result.stderr
    assert not (tmp_path / "home").exists()


def test_a_part_of_a_run_may_spend_what_the_other_parts_have_left() -> None:
    whole = Budget(calls=100, tokens=None, dollars=2.0, seconds=60)
    spent, own = Usage(calls=70, dollars=1.5, seconds=30), Usage(calls=20, dollars=0.5, seconds=10)
    assert compute_left(whole, spent, own) == Budget(calls=50, dollars=1.0, seconds=40)
    assert compute_left(Budget(), spent, own) == Budget()
    assert compute_left(Budget(calls=10), spent, own) == Budget(calls=0)


def scored(name: str, *scores: float) -> SystemSummary:
    info = SystemInfo(name=name, target=name, method="single", workflow="w")
    return SystemSummary(info, {f"t{number}": score for number, score in enumerate(scores)})


def test_differences_that_are_all_equal_claim_no_more_than_so_few_tasks_can_exclude() -> None:
    found = compute_difference(scored("a", 0, 0), scored("b", 0, 0))
    assert found is not None
    unseen = 1 - 0.05**0.5  # of two tasks
    assert (found.value, found.low, found.high, found.n) == pytest.approx((0, -unseen, unseen, 2))
    ahead = compute_difference(scored("a", *[1] * 10), scored("b", *[0] * 10))
    assert ahead is not None
    assert (ahead.value, ahead.low, ahead.high) == pytest.approx((1, 1 - 2 * (1 - 0.05**0.1), 1))
    differing = compute_difference(scored("a", 1, 0, 1), scored("b", 0, 0, 0))
    assert differing == compute_paired_interval([0, 0, 0], [1, 0, 1])
    assert compute_difference(scored("a", 1), scored("b", 0)) is None


@pytest.mark.parametrize("place", ["/proc/none/results.jsonl", "."])
def test_results_that_cannot_be_written_are_refused_before_anything_is_paid_for(place: str, tmp_path: Path) -> None:
    out = place if place.startswith("/") else str(tmp_path)
    refused = call(tmp_path, "compare", "single", "cot", "--benchmark", "archive", "--tasks", "2", "--out", out, code=2)
    assert "results cannot be written to" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_the_table_fits_a_terminal_and_can_be_had_as_markdown(tmp_path: Path) -> None:
    given = ("tacomas", "single", "self-consistency", "--calls-per-task", "6", "--markdown", str(tmp_path / "table.md"))
    result = compared(tmp_path, *given)
    assert "paired by task, from single" in result.stdout
    head, *_ = [at for at, line in enumerate(result.stdout.splitlines()) if line.startswith("system")]
    rows = result.stdout.splitlines()[head + 1 : head + 5]
    assert [row.split("  ")[0] for row in rows] == ["trivial baseline", "tacomas", "single", "self-consistency"]
    assert max(map(len, rows)) <= 120
    command, _, titles, _, *lines = (tmp_path / "table.md").read_text().splitlines()
    assert command.startswith("`selfwire")
    assert titles.startswith("| system | score [95 %] |")
    assert [line.split(" | ")[0] for line in lines[:4]] == [f"| {row.split('  ')[0]}" for row in rows]
    assert all(line.count("|") == titles.count("|") for line in lines[:4])
    assert f"- {STAMP}" in lines


def test_results_that_cannot_be_written_at_a_stop_are_said_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: OpenEvaluation, *, complete: bool) -> tuple[SystemSummary, ...]:
        raise ConfigError("the results cannot be written: disk full")

    monkeypatch.setattr(OpenEvaluation, "write_results", refuse)
    result = compared(tmp_path, "single", "cot", "--budget-calls", "2", code=STOPPED)
    stopped, unwritten = result.stderr.splitlines()[:2]
    assert stopped.startswith("stopped: budget exhausted")
    assert unwritten == "the results cannot be written: disk full"
    assert "results so far are in" not in result.stdout
    assert "look at a task with" in result.stdout


def test_two_columns_of_one_name_keep_their_own_cells() -> None:
    columns = [
        Column("score", str),
        Column("score", lambda row: str(10 * row)),
        Column("", lambda row: "-", silent="-"),
    ]
    table = build_table(columns, [1, 2])
    assert table.head == ("score", "score")
    assert table.rows == (("1", "10"), ("2", "20"))


@pytest.mark.parametrize("seeds", ["1", "2"])
def test_what_json_and_markdown_say_beside_votes_is_of_the_comparison(tmp_path: Path, seeds: str) -> None:
    page, asked = tmp_path / "m.md", ("self-refine", "single", "--benchmark", "archive", "--tasks", "2")
    more = ("--votes", "single", "--seeds", seeds, "--json", "--markdown", str(page))
    found = json.loads(call(tmp_path, "compare", *asked, *more).stdout)
    assert [system["name"] for system in found["systems"]][-3:] == ["self-refine", "single", "best-of-1"]
    assert found["against"] == "single"
    assert not found["run"].endswith("-votes")
    assert [len(votes) > 3 for votes in found["votes"]] == [True] * int(seeds)
    priced = [[name for name in votes if name.startswith("best-of-")] for votes in found["votes"]]
    assert all(len(names) == 2 for names in priced), "votes at the price of votes"
    text = page.read_text()
    assert "difference [95 %]" in text
    assert "difference from votes" in text

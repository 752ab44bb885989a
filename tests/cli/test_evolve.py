"""evolve, run, runs and show, end to end with the offline stand-in."""

import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import selfwire
from bench.shelfmarks import make_branching
from selfwire.cli.commands import FAILED, STOPPED
from selfwire.cli.evolve import list_new_powers
from selfwire.core.edits import AddAgent, Grant, Rewiring, RewriteTool
from selfwire.core.own_tool import OwnTool
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.extras.offline.critics import CRITICS
from selfwire.extras.pages.reading import find_run, read_report
from selfwire.graphs.rollouts import UNGRADED
from selfwire.models.providers import make_chat_model
from tests.commands import call
from tests.kills import run_of
from tests.wire.server import WireServer, served

SMALL = "--gate mean --iterations 2 --batch 4 --gate-tasks 4 --train 8 --gate-size 8 --test 6".split()
REWRITTEN = ("--name", "mine", *SMALL, "--gate", "off", "--without", "tev")
"""Options under which every seed ends with rewritten prompts, in a team whose router has no choice."""


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    home = tmp_path_factory.mktemp("home")
    result = call(home, "evolve", "hiva", "--benchmark", "archive", "--seed", "1", *REWRITTEN)
    return home, result.output


def test_it_reports_before_and_after_beside_baselines_and_says_where_the_workflow_is(evolved: tuple[Path, str]) -> None:
    _, output = evolved
    for said in (
        "team before",
        "team after",
        "trivial baseline: first option",
        "single agent with votes",
        "seed team",
        "evolved team",
    ):
        assert said in output
    assert re.search(r"iteration 2/2 train \d\.\d\d, accepted: the gate is off; ", output)
    [gain] = re.findall(r"evolved - seed, paired over 6 tasks: ([+-]\d\.\d\d)", output)
    best = "best team" if float(gain) > 0 else "evolved team, which has gained nothing on the test tasks,"
    assert f"the {best} is 'mine' in" in output
    assert "shows the machinery, not a method's accuracy" in output
    assert "teams in training" not in output  # without --details
    assert "free decisions" not in output  # the router had no choice in a team of one


def test_free_decisions_are_told_with_their_regret_at_the_end_and_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "team.json").write_text(make_branching("hiva", rooms=True).model_dump_json())
    start = ("--team", str(tmp_path / "team.json"), "--without", "tev", "--without", "sev", "--gate", "off")
    sizes = "--iterations 2 --batch 5 --train 10 --gate-size 10 --test 5".split()
    output = call(tmp_path, "evolve", "hiva", "--benchmark", "shelfmarks", "--name", "rooms", *start, *sizes).output
    [(free, made)] = re.findall(r"free decisions of the router in the whole run: (\d+) of (\d+);", output)
    [(regret, best)] = re.findall(r"regret of these by its own beliefs: ([^;\n]+)(; it always took)?", output)
    assert bool(best) == (regret == "0%")
    assert 0 < int(free) < int(made)
    facts = dict(read_report(tmp_path, find_run(tmp_path, "rooms")).facts)
    assert (facts["free decisions"], facts["regret by own beliefs"]) == (f"{free} of {made}", regret)


def test_the_printed_way_to_use_it_from_python_works(evolved: tuple[Path, str]) -> None:
    _, output = evolved
    snippet = textwrap.dedent(output.partition("use it so:\n")[2])
    known: dict[str, Any] = {"print": (said := list[str]()).append}
    exec(snippet, known)
    assert len(said) == 1
    assert known["graph"].invoke({"question": "Who founded Klumeileth Works?"})["answer"]


def test_what_a_change_is_worth_is_counted_by_the_objective(tmp_path: Path) -> None:
    sizes = "--iterations 1 --batch 8 --train 8 --gate-size 8 --gate-tasks 4 --test 0 --anyway --no-baselines".split()
    asked = ("evolve", "hiva", "--benchmark", "archive", *sizes)
    for objective, said in (("score - tokens/1000", r"[+-][\d,]+ tokens"), ("score", r"[+-]\d+\.\d\d calls")):
        told = call(tmp_path, *asked, "--name", "mine", "--objective", objective).output
        assert re.search(rf"a gain above 0 is not proved: mean difference \S+ at {said} per task over 4 tasks", told)
    saving = call(tmp_path, *asked, "--objective", "cheapest", "--margin", "0.3").output
    assert "what saves calls is kept where it is shown, with 8 gate tasks, to lose at most 0.3 of the score" in saving
    assert re.search(r"rejected: it saves no calls: mean difference", saving)


def test_the_printed_way_to_use_it_keeps_the_address_of_the_model(tmp_path: Path) -> None:
    with WireServer(served(make_chat_model("offline"))) as server:
        given = ("--model", "openai:mine", "--base-url", server.url, "--embedder", "hashing", "--no-baselines")
        tiny = ("--train", "1", "--gate", "off", "--gate-size", "0", "--test", "0", "--batch", "1", "--iterations", "1")
        result = call(tmp_path, "evolve", "hiva", "--benchmark", "archive", *given, *tiny)
    assert f'model=make_chat_model("openai:mine", base_url="{server.url}"), tools=' in result.stdout
    assert "from selfwire.models.providers import make_chat_model\n" in result.stdout


def test_its_versions_runs_and_tasks_can_be_looked_at(evolved: tuple[Path, str]) -> None:
    home, output = evolved
    run = re.findall(r"run (hiva-archive-\w+):", output)[0]
    assert "finished" in call(home, "runs").output
    history = call(home, "history", "mine").output
    assert f"{run}.0" in history
    assert f"{run}.2" in history
    listing = call(home, "show", run).output
    assert "0/rollout" in listing
    assert "test/after" in listing
    task = re.findall(r"test/after\n\s+(\S+)", listing)[0]
    shown = call(home, "show", run, "--task", task).output
    for said in ("source (source)", "from source:", "hands on to aggregator", "feedback: ", "spent: "):
        assert said in shown
    missing = call(home, "show", run, "--task", "nobody", code=2)
    assert "nobody" in missing.output


@pytest.mark.parametrize("option", [("--task", "x"), ("--at", "0")])
def test_options_of_runs_are_refused_of_a_workflow_and_the_other_way_round(
    evolved: tuple[Path, str], option: tuple[str, str]
) -> None:
    home, said = evolved
    team = call(home, "show", "mine", *option, code=2)
    assert team.stdout == ""
    assert f"{option[0]} would do nothing: mine is no run; name one" in team.stderr
    run = call(home, "show", said.split("run ")[1].split(":")[0], "--mermaid", code=2)
    assert run.stdout == ""
    assert "--mermaid would do nothing: " in run.stderr


def test_run_puts_one_question_to_a_saved_team(evolved: tuple[Path, str]) -> None:
    home, _ = evolved
    result = call(home, "run", "hiva", "Who?", "--team", "mine", "--benchmark", "archive", "--show")
    assert "hands on to" in result.output


def test_the_table_says_why_tasks_ended_as_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tasks.jsonl").write_text(
        "".join(f'{{"input": "What is {n} + 1?", "reference": {n}}}\n' for n in (1, 7))
    )
    (tmp_path / "seven_grader.py").write_text("def grade(task, answer):\n    return task.reference\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    given = ("--benchmark", str(tmp_path / "tasks.jsonl"), "--tasks", "2", "--grader", "seven_grader:grade")
    table = " ".join(call(tmp_path / "home", "eval", "single", *given).stdout.split())
    assert "single: 1 error, such as GradingError: grader 'seven_grader:grade'" in table
    assert "S = 100" not in table  # offline nothing has a price, and there is no such column


def test_where_all_tasks_ended_as_errors_the_last_line_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = "from langchain_core.runnables import RunnableLambda\ngraph = RunnableLambda(lambda question: {}[question])\n"
    (tmp_path / "broken_app.py").write_text(app)
    (tmp_path / "tasks.jsonl").write_text('{"input": "What is 1 + 1?", "reference": "2"}\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    given = ("--benchmark", str(tmp_path / "tasks.jsonl"), "--tasks", "1", "--grader", "exact")
    result = call(tmp_path / "home", "eval", "broken_app:graph", *given, code=FAILED)
    assert result.stderr.endswith(
        "error: all tasks of broken-app-graph ended as errors; mend the cause; what models have answered is kept, and "
        f"graded anew; go on with: selfwire eval --resume {run_of(tmp_path / 'home')}\n"
    )


@pytest.mark.parametrize(("command", "target"), [("evolve", ("hiva", *SMALL)), ("eval", ("direct", "--tasks", "2"))])
def test_a_finished_run_that_is_resumed_says_first_that_nothing_was_run(
    tmp_path: Path, command: str, target: tuple[str, ...]
) -> None:
    begun = call(tmp_path, command, *target, "--benchmark", "archive")
    assert "was finished already" not in begun.stdout
    [run] = re.findall(r"^run (\S+): ", begun.stdout, re.MULTILINE)
    again = [line for line in call(tmp_path, command, "--resume", run).stdout.splitlines() if line.startswith("run ")]
    assert again[1] == f"run {run} was finished already: nothing was run, and this is its report"


def write_sums(folder: Path, module: str, grader: str) -> tuple[str, ...]:
    tasks = [f'{{"input": "What is {n} + 1?", "reference": "{n + 1}"}}\n' for n in range(30)]
    (folder / "tasks.jsonl").write_text("".join(tasks))
    (folder / f"{module}.py").write_text(f"def grade(task, answer):\n    {grader}\n")
    return "--benchmark", str(folder / "tasks.jsonl"), "--grader", f"{module}:grade"


def test_a_grader_that_fails_on_all_first_answers_stops_the_run_which_goes_on_with_its_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    given = write_sums(tmp_path, "failing", 'return answer["x"] == task.reference')
    stopped = call(tmp_path / "home", "eval", "single", *given, "--concurrency", "2", "--json", code=STOPPED)
    said = json.loads(stopped.stdout)
    assert (said["status"], said["spend"]["calls"]) == ("stopped", UNGRADED + 1)
    assert "the grader has failed on all of the first 9 answers, the last time with: GradingError: " in stopped.stderr
    assert "mend it and resume the run: what models have answered is kept, and graded anew" in stopped.stderr

    monkeypatch.setattr(sys.modules["failing"], "grade", lambda task, answer: 0.5)
    done = json.loads(call(tmp_path / "home", "eval", "--resume", said["run"], "--json").stdout)
    single = done["systems"][-1]
    assert (single["score"], single["errors"], done["spend"]["calls"]) == (0.5, 0, 30)  # 9 of them are not paid again


def test_a_grader_that_fails_on_most_answers_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    given = write_sums(tmp_path, "mostly", "return 0.5 if int(task.reference) % 5 == 0 else answer['x']")
    said = json.loads(call(tmp_path / "home", "eval", "single", *given, "--seed", "1", "--json").stdout)
    assert (said["status"], said["systems"][-1]["errors"]) == ("finished", 24)
    assert "finished, 24 errors" in call(tmp_path / "home", "runs").stdout


@pytest.mark.parametrize(("command", "there", "taken"), [("eval", 3, 3), ("eval", 103, 100), ("compare", 61, 60)])
def test_all_of_a_short_file_are_taken_where_no_number_is_given(
    tmp_path: Path, command: str, there: int, taken: int
) -> None:
    lines = [f'{{"input": "What is {number} + 1?", "reference": "{number + 1}"}}\n' for number in range(there)]
    (tmp_path / "tasks.jsonl").write_text("".join(lines))
    given = ("--benchmark", str(tmp_path / "tasks.jsonl"), "--grader", "numeric", "--dry-run")
    result = call(tmp_path / "home", command, "direct", *given)
    assert f"{taken} tasks" in result.stdout


def test_run_needs_the_tools_that_a_team_holds(evolved: tuple[Path, str]) -> None:
    home, _ = evolved
    result = call(home, "run", "hiva", "Who?", "--team", "mine", code=2)
    assert "search" in result.output


def test_hiva_takes_gate_tasks_without_a_gate_to_fit_omega_to(tmp_path: Path) -> None:
    call(tmp_path, "evolve", "hiva", "--benchmark", "archive", "--dry-run", *SMALL, "--gate", "off")


def test_a_dry_run_estimates_and_writes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    result = call(home, "evolve", "hiva", "--benchmark", "archive", "--dry-run", *SMALL)
    assert re.search(r"calls: +about \d+ \(\d+ to [\d,]+\)", result.output)
    assert not home.exists()


def test_the_same_seed_evolves_the_same_workflow(evolved: tuple[Path, str], tmp_path: Path) -> None:
    home, _ = evolved
    again = tmp_path / "again"
    call(again, "evolve", "hiva", "--benchmark", "archive", "--no-baselines", "--seed", "1", *REWRITTEN)
    first, second = (re.findall(r"\b[0-9a-f]{16}\b", call(h, "history", "mine").output)[-1] for h in (home, again))
    assert first == second
    other = tmp_path / "other"
    call(other, "evolve", "hiva", "--benchmark", "archive", "--no-baselines", *REWRITTEN)
    assert re.findall(r"\b[0-9a-f]{16}\b", call(other, "history", "mine").output)[-1] != first


def test_without_environment_the_critics_agreement_with_the_truth_is_printed(tmp_path: Path) -> None:
    given = ("evolve", "hiva", "--benchmark", "archive", "--set", "environment=false", *SMALL)
    output = call(tmp_path, *given).output
    assert re.search(r"own answers was the environment's in \d+ of [1-8] cases", output), output


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("tacomas", ["contribution", "ended: ", "the answer is that of round"]),
        ("dytopo", ["edges: ", "density ", "manager: not complete", "ended: "]),
    ],
)
def test_methods_that_rewire_while_they_work_show_every_round(tmp_path: Path, method: str, told: list[str]) -> None:
    for task in load_benchmark("archive").splits(0, train=1, gate=0, test=8).test:
        result = call(tmp_path, "run", method, task.input, "--benchmark", "archive", "--show")
        assert "round 1: " in result.stdout
        if "round 2: " in result.stdout:  # some are answered in one round
            break
    assert "round 2: " in result.stdout
    assert [part for part in told if part not in result.stdout] == []
    assert "Answer:" in result.stdout
    last = result.stdout.partition("topology that ran last\n")[2]
    assert "(answers)" in last or " -> " in last
    assert "flowchart TD" in last


def test_hera_shows_how_it_planned(tmp_path: Path) -> None:
    question = load_benchmark("archive").splits(0, train=1, gate=0, test=1).test[0].input
    result = call(tmp_path, "run", "hera", question, "--benchmark", "archive", "--show")
    for part in ("profile: ", "insights shown: none", "plan:", "(answers)", "Answer:"):
        assert part in result.stdout


@pytest.mark.slow
def test_hera_evolves_and_tells_how_its_teams_changed_and_what_it_learned(tmp_path: Path) -> None:
    small = "--iterations 1 --batch 3 --gate off --train 3 --test 2 --no-baselines".split()
    given = ("evolve", "hera", "--benchmark", "archive", "--name", "mine", "--set", "group=3", *small, "--details")
    result = call(tmp_path, *given)
    assert "teams in training" in result.stdout
    assert '    team = selfwire.load("mine", home=' in result.stdout
    listed = call(tmp_path, "insights", "list", "mine").stdout
    assert re.search(r"hera-archive-[0-9a-f]{6}/0/archive-0-\d+#0", listed)
    run = re.findall(r"run (hera-archive-\w+):", result.stdout)[0]
    second = re.findall(r"archive-0-\d+#1", call(tmp_path, "show", run).stdout)[0]
    shown = call(tmp_path, "show", run, "--task", second).stdout
    for part in (f"task {second.removesuffix('#1')}  ", "profile: ", "insights shown: none", "plan:"):
        assert part in shown


def test_a_part_can_be_switched_off_and_an_unknown_one_is_named(tmp_path: Path) -> None:
    given = ("evolve", "hera", "--benchmark", "archive", "--dry-run", *SMALL)
    call(tmp_path, *given, "--without", "library", "--without", "rope")
    told = call(tmp_path, *given, "--without", "magic", code=2).stderr
    assert "hera has no part 'magic' to do without; it has library, rope, mutation" in told


@pytest.mark.slow
def test_run_shows_the_stages_of_evomas_with_probabilities_and_verdicts(tmp_path: Path) -> None:
    question = load_benchmark("archive").splits(0, train=1, gate=0, test=1).test[0].input
    given = ("run", "evomas", question, "--benchmark", "archive", "--show")
    learned, fixed = (call(tmp_path, *given, *more) for more in ((), ("--set", "adapter=fixed")))
    layer, verdict = r"  layer 1: \w+.*  \(of \w+ 0\.\d\d, ", r"  verdict: \w+ \(0\.\d\d\): "
    for said in ("stage 1: ", layer, verdict, "  plan: ", "ended: "):
        assert re.search(said, learned.stdout), said
    assert "  layer 1: io\n  layer 2: web_search\n  layer 3: ensemble\n" in fixed.stdout
    assert "Answer:" in learned.stdout


@pytest.mark.slow
def test_evomas_evolves_its_router_and_the_printed_way_to_use_it_works(tmp_path: Path) -> None:
    fields = ("--set", "samples=2", "--set", "stages=2", "--no-baselines")
    result = call(tmp_path, "evolve", "evomas", "--benchmark", "archive", "--name", "mine", *SMALL, *fields)
    assert "learned\n  router: " in call(tmp_path, "show", "mine").output
    told = result.output.partition("use it so:\n")[2]
    snippet = "\n".join(line[4:] for line in told.splitlines())
    said: list[str] = []
    exec(snippet, {"print": said.append})
    assert len(said) == 1


def test_run_knows_its_methods(tmp_path: Path) -> None:
    result = call(tmp_path, "run", "hora", "Who?", code=2)
    assert result.stderr.endswith(f"no team 'hora' in library {tmp_path}/library.sqlite; did you mean hera?\n")
    result = call(tmp_path, "run", "nosuch", "Who?", code=2)
    assert "; methods are dytopo, evomas, hera, hiva, tacomas, aflow, gepa; baselines are direct" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "fields"), [("dytopo", ["search=near"]), ("tacomas", ["lessons=true", "fast.kept=2"])]
)
def test_compare_tries_what_a_team_that_rewires_while_it_works_can_learn_beside(
    tmp_path: Path, method: str, fields: list[str]
) -> None:
    small = (
        "--tasks 2 --evolve mine --iterations 1 --batch 2 --gate mean --gate-tasks 2 --train 2 --gate-size 2".split()
    )
    given = [word for field in (*fields, "rounds=3") for word in ("--set", f"mine.{field}")]
    result = call(tmp_path, "compare", f"mine={method}", "single", "--benchmark", "archive", *small, *given)
    run = re.findall(r"run (compare-archive-\w+):", result.stdout)[0]
    assert run in call(tmp_path, "history", f"{run}-mine").output


@pytest.mark.parametrize("method", ["tacomas", "dytopo"])
@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--set", "rounds=2")])
def test_a_method_that_learns_nothing_between_questions_is_not_evolved(
    tmp_path: Path, method: str, more: tuple[str, ...]
) -> None:
    home = tmp_path / "home"
    told = call(home, "evolve", method, "--benchmark", "archive", *SMALL, *more, code=2)
    assert f"{method} cannot be evolved: " in told.stderr
    assert f"measure it with `selfwire eval {method} --benchmark archive`" in told.stderr
    assert told.stdout == ""
    assert not home.exists()


def test_the_end_lists_sentences_of_train_tasks_that_stand_in_new_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A critic that always finds fault has the sentences of all tasks written into the prompt."""
    inks = "red blue green black white brown grey pink violet orange golden silver".split()
    told = [f"Write it down in {ink} ink." for ink in inks]
    blamed = {"system_prompt_feedback": "How?", "tool_feedback": "", "overall_feedback": "", "concerns": "semantics"}
    monkeypatch.setitem(CRITICS, "AgentGradient", lambda brief: {**blamed, "sentiment": "critical"})
    monkeypatch.setitem(CRITICS, "PromptRewrite", lambda brief: {"prompt": "\n".join([brief["prompt"], *told])})
    tasks, home = tmp_path / "tasks.jsonl", tmp_path / "home"
    lines = [json.dumps({"input": f"What was signed there? {said}", "reference": "never"}) for said in told]
    tasks.write_text("\n".join(lines))
    sizes = "--iterations 1 --batch 2 --train 4 --gate-size 4 --gate off --test 0 --no-baselines --without tev".split()
    said = call(home, "evolve", "hiva", "--benchmark", str(tasks), "--grader", "exact", *sizes).output
    _, listed = said.split("sentences that stand in train tasks word by word; read them before use:\n")
    of_source = [line.removeprefix("source: ") for line in listed.split("\n\n")[0].splitlines() if "source: " in line]
    assert len(of_source) == 4  # those of the train tasks
    assert {*of_source} < {*told}


def test_the_end_names_new_programs_and_tools_that_agents_were_given() -> None:
    """A newcomer's tools are new to it; a program is new, or has other code; controls in a description are masked."""
    tool = OwnTool(
        name="add", description="Adds\x1b[2J one.", source="def tool_function(n: int) -> int:\n    return n + 1\n"
    )
    seed = selfwire.load("hiva").replace(tools=(tool,))
    worker = seed.agents_by_id["source"]
    assert list_new_powers(seed, seed) == []
    given = seed.apply(
        Rewiring(Grant("source", "add"), AddAgent(worker.replace(id="twin", tools=("search",))), why="test")
    )
    assert list_new_powers(seed, given) == ["source holds add", "twin holds search"]
    mended = seed.apply(Rewiring(RewriteTool("add", tool.source.replace("1", "2")), why="test"))
    [line] = list_new_powers(seed, mended)
    assert line.startswith("a changed program, add: Adds")
    assert "\x1b" not in line
    assert list_new_powers(seed.replace(tools=()), seed)[0].startswith("a new program, add")

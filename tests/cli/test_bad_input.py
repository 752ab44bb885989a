"""evolve with what cannot be used: one line on stderr, exit code 2, and nothing written."""

import asyncio
import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import ValidationError
from rich.table import Table

from selfwire.cli import main
from selfwire.cli.commands import INTERRUPTED, WRONG
from selfwire.cli.json_output import format_in_one_line
from selfwire.cli.output import make_console
from selfwire.core.usage import Budget
from selfwire.evals.baselines import make_baseline
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.graphs.method import make_method
from selfwire.models.sync import run_sync
from selfwire.runs.evolution import start_evolution
from selfwire.runs.record import JOURNAL, load_request
from selfwire.runs.spec import EvolveSpec, Sizes
from selfwire.store.journal import Journal
from selfwire.store.library import open_library
from tests.commands import call

EVOLVE = ("evolve", "hiva", "--benchmark", "archive")
TASKS = "".join(f'{{"input": "What is {n} + {n}?", "reference": "{2 * n}"}}\n' for n in range(12))
NOWHERE = "http://127.0.0.1:9/v1"
SMALL = tuple("--gate mean --train 4 --gate-size 4 --gate-tasks 4 --batch 4 --test 4 --iterations 1".split())


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def refused(home: Path, *arguments: str) -> str:
    """The one line that is said; what is there before is there after, and nothing else."""
    before = contents(home)
    result = call(home, *arguments, code=WRONG, OPENAI_API_KEY="")
    assert result.stdout == ""
    assert contents(home) == before
    # click says how a command is used before it says what is wrong with an option
    lines = [line for line in result.stderr.splitlines() if not line.startswith(("Usage:", "Try "))]
    [line] = [line for line in lines if line.strip()]
    assert line.lower().startswith("error: ")
    return line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("evolve", "hvia", "--benchmark", "archive"), "library.sqlite; did you mean hiva?"),
        (
            ("evolve", "hiva", "--benchmark", "arxiv"),
            "unknown benchmark 'arxiv'; did you mean archive? Or choose archive, plancraft",
        ),
        (("evolve", "hiva"), "needs a method and --benchmark"),
        ((*EVOLVE, "--model", "gpt"), "unknown model 'gpt'"),
        ((*EVOLVE, "--model", "nobody:gpt"), "model 'nobody:gpt' cannot be used: there is no provider 'nobody'; "),
        ((*EVOLVE, "--model", "OpenAI:gpt"), "there is no provider 'OpenAI'; did you mean openai:gpt? providers are"),
        ((*EVOLVE, "--model", "opnai:gpt"), "there is no provider 'opnai'; did you mean openai:gpt? providers are"),
        ((*EVOLVE, "--model", "openai:gpt-4o-mini"), "model openai:gpt-4o-mini needs a key; set OPENAI_API_KEY"),
        ((*EVOLVE, "--meta-model", "gpt"), "unknown model 'gpt'"),
        ((*EVOLVE, "--embedder", "bert"), "embedder"),
        ((*EVOLVE, "--team", "nobody"), "there is no team 'nobody'"),
        ((*EVOLVE, "--team", "none.json"), "team file none.json cannot be read"),
        ((*EVOLVE, "--name", "my team"), "--name must be at most 64 letters"),
        ((*EVOLVE, "--budget-calls", "-1"), "--budget-calls must be 0 or more, not -1"),
        ((*EVOLVE, "--iterations", "999999"), "--iterations must be 100000 or less, not 999999"),
        ((*EVOLVE, "--budget-usd", "-0.5"), "--budget-usd must be 0 or more, not -0.5"),
        ((*EVOLVE, "--budget-seconds", "nan"), "--budget-seconds must be a"),
        ((*EVOLVE, "--budget-calls", "many"), "must be a whole number"),
        (
            (*EVOLVE, "--model", "openai:local", "--base-url", "http://127.0.0.1:9/v1", "--budget-usd", "1"),
            "the price of openai:local is not known",
        ),
        ((*EVOLVE, "--set", "colour=red"), "config of hiva: colour: "),
        ((*EVOLVE, "--set", "nodess=3"), "config of hiva: nodess: there is no such field; did you mean nodes?; fields"),
        ((*EVOLVE, "--set", "nodes=0"), "config of hiva: nodes: "),
        ((*EVOLVE, "--set", "nodes"), "--set takes name=value, not 'nodes'"),
        ((*EVOLVE, "--set", "nodes=3", "--set", "nodes.deep=1"), "--set gives 'nodes' a value and leads into it"),
        (("eval", "tacomas", *EVOLVE[2:], "--set", "fast.speed=1"), "fast.speed: there is no such field"),
        (("run", "tacomas", "Who?", "--set", "fast.rate=11"), "config of tacomas: fast.rate: Input should be less"),
        (("run", "dytopo", "Who?", "--set", "domain=law"), "config of dytopo: domain: Input should be 'general'"),
        (("run", "nosuch", "Who?"), "; methods are dytopo, evomas, hera, hiva"),
        ((*EVOLVE, "--gate", "mean", "--error", "0.1"), "--error would do nothing: --gate mean proves nothing"),
        ((*EVOLVE, "--gate", "off", "--objective", "score"), "--objective would do nothing: --gate off proves nothing"),
        (
            (*EVOLVE, "--objective", "score - 0.01*call"),
            "--objective: it has no name 'call'; write a sum of score and costs (calls, tokens, dollars, seconds), "
            "such as 'score - 0.01*calls', or 'cheapest', not 'score - 0.01*call'",
        ),
        (
            (*EVOLVE, "--model", "openai:local", "--base-url", "http://127.0.0.1:9/v1", "--objective", "score-dollars"),
            "the objective 'score-dollars' cannot be computed: the price of openai:local is not known; give it "
            "in prices.json in the home folder, or on the command line with --prices FILE, or count tokens or calls in",
        ),
        (
            (*EVOLVE, "--objective", "cheapest", "--gate-size", "60"),
            "with 60 gate tasks a loss of 0.02 cannot be ruled out, even if no answer changes; give 2",
        ),
        (
            (*EVOLVE, "--objective", "cheapest", "--margin", "0"),
            "a loss of 0 cannot be ruled out, even if no answer changes, and no number of them is enough; give a ",
        ),
        (
            (*EVOLVE, "--gate", "better", "--margin", "0.999999", "--objective", "score"),
            "--gate better cannot accept anything at a --margin of 0.999999, however many gate tasks are won; give a ",
        ),
        (
            (*EVOLVE, "--gate", "better", "--gate-size", "6"),
            "--gate better cannot accept anything with 6 gate tasks: at an error of 0.05 over 10 iterations a proof",
        ),
        (
            (*EVOLVE, "--gate", "better", "--gate-size", "8", "--iterations", "5"),
            "cannot accept anything before the last iteration with 8 gate tasks: at an error of 0.05 over 5 iterations "
            "a proof before the last iteration needs at least 9, all of them won; give 9 or more (--gate-size)",
        ),
        (
            (*EVOLVE, "--gate", "better", "--gate-size", "9", "--iterations", "5", "--margin", "0.5"),
            "cannot accept anything with 9 gate tasks: at an error of 0.05 over 5 iterations a proof needs at least",
        ),
        ((*EVOLVE, "--gate", "maybe"), "--gate must be 'better', 'no-worse', 'mean' or 'off', not 'maybe'"),
        ((*EVOLVE, "--gate-tasks", "0"), "--gate-tasks must be 1 or more, not 0"),
        ((*EVOLVE, "--gate-size", "0"), "the gate needs gate tasks"),
        ((*EVOLVE, "--train", "0"), "--train must be"),
        ((*EVOLVE, "--test", "-1"), "--test must be"),
        ((*EVOLVE, "--iterations", "-1"), "--iterations must be 0 or more"),
        ((*EVOLVE, "--concurrency", "0"), "--concurrency must be"),
        ((*EVOLVE, "--seed", "-1"), "--seed must be"),
        ((*EVOLVE, "--timeout", "0"), "--timeout must be more than 0, not 0.0"),
        (("evolve", "hiva", "--benchmark", "plancraft", "--train", "100000"), "100000"),
        (("evolve", "--resume", "r9"), "there is no run 'r9'"),
        (
            (*EVOLVE, "--train", "99999999999"),
            "there are from 1 to 100,000 tasks of an archive, not 400,000,000,476; ask",
        ),
        (
            ("eval", "hiva", "--benchmark", "archive", "--tasks", "99999999999"),
            "there are from 1 to 100,000 tasks of an archive",
        ),
        (("eval", "hvia", "--benchmark", "archive"), "there is no team 'hvia'"),
        (
            ("eval", "nosuch", "--benchmark", "archive"),
            "; methods are dytopo, evomas, hera, hiva, tacomas, aflow, gepa; baselines are",
        ),
        (("compare", "cot", "singel", "--benchmark", "archive"), "library.sqlite; did you mean single?"),
        (("eval", "my_app.py", "--benchmark", "archive"), "a graph in a file is named as my_app.py:graph"),
        ((*EVOLVE, "--set", "nodes=5000"), "nodes: Input should be less than or equal to 1000, not 5000"),
        ((*EVOLVE, "--set", "=3"), "--set takes name=value, not '=3'"),
        ((*EVOLVE, "--rubric", ""), "the rubric is blank"),
        (
            ("compare", "cot", "single", "--benchmark", "archive", "--evolve", "nobody"),
            "error: nobody is called 'nobody' who could be evolved",
        ),
        (("ablate", "hiva", "--out", "."), "results cannot be kept in .: Is a directory; choose another --out"),
        (
            ("compare", "cot", "single", "--benchmark", "archive", "--markdown", "."),
            "the table cannot be written to .: it is a folder",
        ),
        (
            ("compare", "cot", "single", "--benchmark", "archive", "--markdown", "/no/such/t.md"),
            "the table cannot be written to /no/such/t.md: /no/such is no folder",
        ),
        (("eval", "hiva", "--benchmark", "archive", "--grader", "f1"), "archive has its own rule"),
        (("eval", "hiva", "--benchmark", __file__, "--grader", "f1"), "as its ending says no form; give a .parquet, "),
        (("eval", "hiva", "--benchmark", ".", "--grader", "f1"), "'.' is a folder; give a .parquet, "),
        (("eval", "hiva", "--benchmark", ""), "unknown benchmark ''; choose archive, "),
        (("eval", "hiva", "--benchmark", "archve", "--grader", "f1"), "did you mean archive?"),
        (("evolve", "single", "--benchmark", "archive"), "'single' is a baseline, which stays as it is; methods are"),
        ((*EVOLVE, "--home", "postgres://db/x"), "runs lie in a folder, not at postgres://"),
        (("evolve", "--resume", "../x"), "there is no run '../x'"),
        (("evolve", "--resume", "r9", "--seed", "3"), "--seed cannot be given beside it; only --budget-calls"),
        (("evolve", "hiva", "--resume", "r9", "--set", "nodes=3"), "--set, METHOD cannot be given"),
        (("evolve", "--resume", "r9", "--no-baselines"), "--baselines cannot be given"),
        ((*EVOLVE, "--base-url", NOWHERE), f"--base-url {NOWHERE} is an address of models, and the offline model"),
        ((*EVOLVE, "--base-url", NOWHERE, "--dry-run"), "the offline model calls no server"),
        (("run", "dytopo", "Who?", "--base-url", NOWHERE), "the offline model calls no server"),
        (("eval", "single", "--benchmark", "archive", "--base-url", NOWHERE), "the offline model calls no server"),
        (("compare", "cot", "--benchmark", "archive", "--base-url", NOWHERE), "the offline model calls no server"),
        (("ablate", "hiva", "--base-url", NOWHERE), "the offline model calls no server"),
        (("ablate", "dytopo", "--base-url", NOWHERE), "the offline model calls no server"),
        (
            ("evolve", "hera", "--benchmark", "archive", "--gate", "off", "--gate-tasks", "5"),
            "--gate-tasks would do nothing: with --gate off nothing is",
        ),
        (
            ("compare", "hiva", "--benchmark", "archive", "--evolve", "none", "--iterations", "3", "--train", "9"),
            "--iterations, --train would do nothing: nobody is evolved first; name whom with --evolve",
        ),
        (("ablate", "tacomas", "--batch", "3"), "--batch would do nothing: tacomas is measured as it is"),
        (("eval",), "eval needs a target and --benchmark"),
        (("eval", "hiva"), "eval needs --benchmark, on which hiva is measured"),
        (
            ("eval", "hiva", "--benchmark", "archive", "--workers", "2", "--executor", "slurm"),
            "there is no executor 'slurm'; give process or ray",
        ),
        (
            ("eval", "hiva", "--benchmark", "archive", "--split", "all"),
            "there is no split 'all'; splits are train, val",
        ),
        (
            ("eval", "hiva", "--benchmark", "archive", "--upload-references"),
            "--upload-references says what --langsmith",
        ),
        (("compare", "cot", "single"), "compare needs systems and --benchmark"),
        (
            ("compare", "cot", "--benchmark", "archive", "--votes", "hiva"),
            "--votes names a baseline whose answers vote, single, cot, direct, and not 'hiva'",
        ),
        (
            ("compare", "cot", "more=single", "--benchmark", "archive", "--votes", "cot"),
            "--votes are beside systems that are not one agent which votes itself",
        ),
        (("measures", "x", "--curve", "--crossed"), "--curve and --crossed are two tables; ask for one of them"),
        (
            ("compare", "best-of-3=cot", "--benchmark", "archive"),
            "'best-of-3' is the name of votes at a system's price; give the system another",
        ),
        (
            ("compare", "cot", "--benchmark", "archive", "--set", "cot=3"),
            "--set names a system and its field, as cot.field=value",
        ),
        (
            ("compare", "cot", "--benchmark", "archive", "--set", "hiva.nodes=3"),
            "and 'hiva' does not take part; systems are cot, as in --set cot.field=value",
        ),
        (("run", "tacomas", " "), "the question is empty"),
        (("prove", "--benchmark", "archive", "--seeds", str(10**9)), "--seeds must be 1000 or less, not 1000000000"),
        (("compare", "single", *EVOLVE[2:], "--seeds", str(10**9)), "--seeds must be 1000 or less, not 1000000000"),
        (("ablate", "hiva", "--seeds", str(10**9)), "--seeds must be 1000 or less, not 1000000000"),
        (("tasks", "from-jsonl", "a.jsonl", "b.jsonl", "--least", "nan"), "--least must be a finite number, not nan"),
        (("selection", "team.json", "Who?", "--training"), "an exported team has no other versions"),
        (("run", "evomas", "Who?", "--set", "plan=fixed", "--set", "adapter=auto"), "config of evomas: "),
    ],
)
def test_options_that_cannot_be_used(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    assert told in refused(tmp_path / "home", *arguments)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--workers", "0"), "--workers must be 1 or more, not 0"),
        (("--workers", "two"), "--workers must be a whole number, not 'two'"),
        (("--budget-usd", "abc"), "--budget-usd must be a number, not 'abc'"),
        (("--budget-calls", "1.5"), "--budget-calls must be a whole number, not '1.5'"),
    ],
)
def test_an_option_that_is_no_number_is_told_in_our_words(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    refused = call(tmp_path, "eval", "single", "--benchmark", "archive", *words, code=2)
    assert refused.stderr == f"error: {told}\n"


@pytest.mark.parametrize("words", [("history", "mine", "--home"), ("init",)])
def test_a_name_that_is_too_long_for_a_file_is_told_in_a_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = "x" * 300
    told = refused(tmp_path, *words, path)
    assert told == (
        f"error: home {path[:60]!r} cannot be used: File name too long; choose another with --home"
        if "--home" in words
        else f"error: {path[:60]!r}... is too long for the name of a file or folder; give a shorter one"
    )


def test_a_page_that_is_not_there_is_told_without_an_errno(tmp_path: Path) -> None:
    page = tmp_path / "nosuch.md"
    told = f"error: the page {page} cannot be read: No such file or directory; name pages that are there\n"
    assert call(tmp_path, "results", "--check", str(page), code=2).stderr == told


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_cluster_that_is_not_there_is_told_at_once(tmp_path: Path, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"{scheme}127.0.0.1:{closed.getsockname()[1]}"
    arguments = ("eval", "cot", "--benchmark", "archive", "--tasks", "1", "--executor", "ray")
    told = refused(tmp_path, *arguments, "--ray-address", address)
    assert f"no Ray cluster answers at '{address}'" in told
    assert "start one with `ray start --head`, or leave out --executor ray" in told


@pytest.mark.parametrize("url", ["", "localhost:8000", "notaurl", "ftp://host/v1", "http://", "http://h:99999/v1"])
def test_addresses_that_nothing_can_be_sent_to(tmp_path: Path, url: str) -> None:
    line = refused(tmp_path / "home", *EVOLVE, "--model", "openai:mine", "--base-url", url)
    assert f"--base-url {url!r} is no address of a server; write it as http://HOST:PORT/v1" in line
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("{oops", "cannot be used: Invalid JSON: key must be a string at line 1 column 2; write {"),
        ("[1]", "cannot be used: Input should be an object; write {"),
        (
            '{"openai:x": {"input": -1, "output": 1}}',
            "openai:x.input: Input should be greater than or equal to 0, not -1",
        ),
    ],
)
def test_prices_that_cannot_be_used_are_told_in_a_few_words(tmp_path: Path, said: str, told: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(said)
    line = refused(tmp_path / "home", "eval", "hiva", "--benchmark", "archive", "--prices", str(file))
    assert told in line
    assert "validation error" not in line
    assert "pydantic" not in line


def test_results_of_a_study_in_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(bytes(range(256)))
    line = refused(tmp_path / "home", "ablate", "hiva", "--out", str(tmp_path / "rows.jsonl"))
    assert "rows.jsonl: what is there is no UTF-8 text; choose another --out" in line


def test_a_request_that_contradicts_itself_is_not_told_as_a_whole(tmp_path: Path) -> None:
    line = refused(tmp_path / "home", "compare", "a=hiva", "a=single", "--benchmark", "archive")
    assert line.endswith("'a' stands twice among the systems; give each a name, as in mine=hiva")


@pytest.mark.parametrize(
    ("lines", "grader", "told"),
    [
        (TASKS + "{oops\n", "exact", "tasks.jsonl, line 13: not JSON"),
        (TASKS + '{"reference": "x"}\n', "exact", "tasks.jsonl, line 13: input"),
        (TASKS + '{"input": "x", "answer": "y"}\n', "exact", "tasks.jsonl, line 13: answer"),
        (
            TASKS + '{"input": "x", "reference": ' + "9" * 5000 + "}\n",
            "exact",
            "line 13: a number is too long to be read",
        ),
        (TASKS + "[" * 100_000 + "]" * 100_000, "exact", "line 13: nested too deeply to be read"),
        (TASKS, "F1", "did you mean f1?"),
        (TASKS + "[1]\n", "exact", "tasks.jsonl, line 13: a task is a JSON object"),
        ("\n", "exact", "holds no task"),
        ('{"input": "x", "reference": "y"}\n', "exact", "1 tasks are not enough for train=4, gate=4, test=4"),
        ('{"input": "x", "reference": "y"}\n' * 12, "exact", "those that share one are dealt out together, as 1; give"),
        (TASKS + '{"input": "x"}\n', "exact", "reference of task 'line-13', which has none; mend the task"),
        (TASKS + '{"input": "x", "reference": []}\n', "f1", "reference of task 'line-13', not list"),
        (TASKS + '{"input": "x", "reference": "many"}\n', "numeric", "a reference with a number for task 'line-13'"),
        (TASKS + '{"input": "x"}\n', "judge", "task 'line-13' has no reference that a judge could compare"),
        (TASKS, "exakt", "did you mean exact?"),
        (TASKS, "no_such_module_anywhere:grade", "grader 'no_such_module_anywhere:grade' cannot be imported"),
        (TASKS, "json:nothing", "grader 'json:nothing': json has no 'nothing'; it has dump, dumps"),
        (
            TASKS,
            "broken_grader:grade",
            "cannot be imported: RuntimeError: half a module (broken_grader.py:1); named ones are exact, em",
        ),
        (TASKS, "nowhere_at_all:grade", "named ones are exact, em, f1, contains, numeric, judge"),
        (TASKS, "json:__name__", "not a function"),
    ],
)
def test_tasks_and_graders_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, grader: str, told: str
) -> None:
    (tmp_path / "tasks.jsonl").write_text(lines)
    (tmp_path / "broken_grader.py").write_text('raise RuntimeError("half a module")\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    given = ("evolve", "hiva", "--benchmark", str(tmp_path / "tasks.jsonl"), "--grader", grader, *SMALL)
    assert told in refused(tmp_path / "home", *given)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("found", [b"garbage" * 60, b"SQLite format 3\0" + b"\0" * 500, b""])
def test_a_library_that_is_none_stops_a_run_before_it_begins(tmp_path: Path, found: bytes) -> None:
    (tmp_path / "library.sqlite").write_bytes(found)
    assert "library.sqlite" in refused(tmp_path, *EVOLVE)


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("mine")
    assert "choose another" in refused(tmp_path / "home", *EVOLVE)
    assert (tmp_path / "home").read_text() == "mine"


def small(name: str = "seeded") -> EvolveSpec:
    return EvolveSpec(
        benchmark="archive",
        sizes=Sizes(train=2, gate=2, test=2),
        evolution=EvolutionConfig(name=name, iterations=1, batch=2, gate="mean", gate_tasks=2),
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a run r1 that has not done anything yet."""
    with start_evolution(small(), tmp_path, run="r1"):
        pass
    return tmp_path


@pytest.mark.parametrize("found", [b"garbage" * 60, b"SQLite format 3\0" + b"\0" * 500, b""])
def test_a_journal_that_is_none(home: Path, found: bytes) -> None:
    (home / "runs" / "r1" / JOURNAL).write_bytes(found)
    assert JOURNAL in refused(home, "evolve", "--resume", "r1")


def test_a_journal_that_was_cut_off(home: Path) -> None:
    path = home / "runs" / "r1" / JOURNAL
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert "corrupt" in refused(home, "evolve", "--resume", "r1")


def test_a_journal_without_a_request(tmp_path: Path) -> None:
    Journal.create(tmp_path / "runs" / "r1" / JOURNAL, run="r1").close()
    assert "it ended before it had begun" in refused(tmp_path, "evolve", "--resume", "r1")


@pytest.mark.parametrize("option", ["--budget-calls", "--budget-tokens", "--budget-usd", "--budget-seconds"])
def test_a_budget_of_nothing_is_refused(home: Path, option: str) -> None:
    for command in (EVOLVE, ("eval", "single", *EVOLVE[2:]), ("evolve", "--resume", "r1")):
        assert f"{option} 0 allows no call; give more" in refused(home, *command, option, "0")


def test_calls_per_task_may_be_others_on_resume(home: Path) -> None:
    call(home, "evolve", "--resume", "r1", "--calls-per-task", "200")
    assert load_request(home / "runs" / "r1" / JOURNAL, EvolveSpec).evolution.calls_per_task == 200
    other = refused(home, "eval", "--resume", "r1", "--calls-per-task", "9")
    assert "--calls-per-task cannot be given beside it" in other


def test_limits_that_cannot_be_used_on_resume(home: Path) -> None:
    assert "--budget-calls must be" in refused(home, "evolve", "--resume", "r1", "--budget-calls", "-3")


def test_a_run_that_was_started_with_other_code(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfwire.runs.record.compute_code_hash", lambda: "other")
    assert "goes on only under the code that began it" in refused(home, "evolve", "--resume", "r1")


def test_tasks_that_have_changed_since(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(TASKS)
    request = small().replace(benchmark=str(tasks))
    with start_evolution(request, tmp_path / "home", run="r1"):
        pass
    tasks.write_text(TASKS.replace('"22"', '"23"'))
    assert "was started with another task set" in refused(tmp_path / "home", "evolve", "--resume", "r1")


HOLDER = """
import sys
from selfwire.store.journal import Journal
from tests.commands import call
journal = Journal.open(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_run_that_another_process_is_resuming(home: Path) -> None:
    path = home / "runs" / "r1" / JOURNAL
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        told = refused(home, "evolve", "--resume", "r1")
    finally:
        holder.communicate()
    assert f"is held by process {holder.pid} since " in told


def test_a_seed_team_of_another_method_or_with_tools_that_are_not_there(home: Path, tmp_path: Path) -> None:
    with open_library(home) as library:
        seed = asyncio.run(library.load("seeded")) if "seeded" in asyncio.run(library.names()) else None
    assert seed is None  # nothing is saved before a run begins
    with start_evolution(small(), home, run="r2") as run:
        team = run.seed_team
    file = home / "team.json"
    file.write_text(json.dumps(team.replace(method="other").model_dump(mode="json")))
    assert "belongs to other, not to hiva" in refused(home, *EVOLVE, "--team", str(file))
    (home / "tasks.jsonl").write_text(TASKS)
    file.write_text(json.dumps(team.model_dump(mode="json")))
    given = ("evolve", "hiva", "--benchmark", str(home / "tasks.jsonl"), *SMALL, "--team", str(file))
    assert "which" in refused(home, *given)


@pytest.mark.parametrize("garbage", [5, "x", [1, 2], {"a": 1}], ids=str)
@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("hiva", "hiva"),
        ("hera", "experience"),
        ("hera", "failures"),
        ("hera", "mutated"),
        ("tacomas", "lessons"),
        ("dytopo", "dytopo"),
    ],
)
def test_a_workflow_file_with_garbage_for_memory_is_refused_in_words(
    tmp_path: Path, method: str, name: str, garbage: object
) -> None:
    file = tmp_path / "team.json"
    file.write_text(make_method(method).seed().with_memory(**{name: garbage}).model_dump_json())
    evolve = f"evolve {method} --benchmark archive --team {file} --train 2 --gate-size 2 --test 0"
    evolves = [] if method in ("tacomas", "dytopo") else [evolve]
    for command in (f"run {method} Who? --team {file}", *evolves, f"eval {file} --benchmark archive --tasks 2"):
        called = call(tmp_path / "home", *command.split(), code=WRONG)
        assert called.stdout == "", command
        assert f"has learned what {method} cannot read" in called.stderr, command


@pytest.mark.parametrize("garbage", ["[1, 2]", "null", "7", '{"schema": 1}', "{", '{"schema": 1, "version": 5}'])
def test_library_values_that_are_no_versions_are_errors_in_words(tmp_path: Path, garbage: str) -> None:
    with open_library(tmp_path) as library:
        run_sync(library.save("team", make_baseline("single").seed(()), run="r", step=0))
    with closing(sqlite3.connect(tmp_path / "library.sqlite")) as file:
        file.execute("UPDATE store SET value = ?", (garbage,))
        file.commit()
    for command in (["show", "team"], ["history", "team"], ["rollback", "team", "0"]):
        called = call(tmp_path, *command, code=WRONG)
        assert "library" in called.stderr
        assert not isinstance(called.exception, ValueError | AttributeError)


def test_control_characters_are_shown_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    make_console().print("red \x1b[31m text\twith\x07 bell and \U000e0041 tag")
    table = Table("insight")
    table.add_row("clear \x1b[2J\r all")
    make_console().print(table)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert r"red \x1b[31m text" in shown
    assert r"bell and \U000e0041 tag" in shown
    assert r"clear \x1b[2J\r all" in shown
    assert r"\x1b[2J" in format_in_one_line(ValueError("clear \x1b[2J all"))


def test_an_error_about_a_fault_says_its_own_words() -> None:
    error = ValueError("the file has no budget: it is -1")
    with pytest.raises(ValidationError) as fault:
        Budget.model_validate({"calls": -1})
    error.__context__ = fault.value
    assert format_in_one_line(error) == "the file has no budget: it is -1"


@pytest.mark.parametrize("command", ["evolve hiva", "eval hiva", "compare hiva single", "train evomas"])
def test_only_a_resumed_run_has_replies_to_ask_for_again(tmp_path: Path, command: str) -> None:
    told = refused(tmp_path, *command.split(), "--benchmark", "archive", "--retry-failed")
    assert "--retry-failed would do nothing: a new run has no replies on record" in told


@pytest.mark.parametrize(
    ("command", "told"),
    [("measures", "has no trajectories of training yet"), ("show", "has no trajectory: no phase has begun")],
)
def test_a_run_that_has_done_nothing_yet_has_nothing_to_show(home: Path, command: str, told: str) -> None:
    assert told in refused(home, command, "r1")


class Callback:
    """Raises SIGTERM in a callback, as soon as nobody holds it."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


@pytest.fixture
def own_main(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """`main`, and what it changes in the process put back at the end."""
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    before = signal.getsignal(signal.SIGTERM)
    yield main
    signal.signal(signal.SIGTERM, before)


def test_sigterm_in_a_callback_ends_the_command_all_the_same(
    monkeypatch: pytest.MonkeyPatch, own_main: Callable[[], None]
) -> None:
    def work() -> None:
        Callback()
        time.sleep(5)

    monkeypatch.setattr("selfwire.cli.app.build", lambda: work)
    with pytest.raises(SystemExit) as end:
        own_main()
    assert end.value.code == INTERRUPTED


def test_sigterm_in_a_callback_after_a_command_ends_nothing_else(
    monkeypatch: pytest.MonkeyPatch, own_main: Callable[[], None]
) -> None:
    monkeypatch.setattr("selfwire.cli.app.build", lambda: lambda: None)
    own_main()
    Callback()
    time.sleep(0.2)  # as clean-up when Python ends


def test_ctrl_c_while_the_command_line_is_imported_is_an_end_like_any_other(
    monkeypatch: pytest.MonkeyPatch, own_main: Callable[[], None]
) -> None:
    class Slow(ModuleType):
        def __getattr__(self, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "selfwire.cli.app", Slow("selfwire.cli.app"))
    with pytest.raises(SystemExit) as end:
        own_main()
    assert end.value.code == INTERRUPTED

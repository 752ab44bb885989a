"""`import selfwire`: verbs and values, as a program or a notebook uses them."""

import asyncio
import inspect
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

import selfwire
from selfwire import Feedback, Rewiring, Task, Team
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.extras.contestants.aflow.method import Aflow
from selfwire.graphs import evomas, hera, hiva
from selfwire.graphs.dytopo import Dytopo
from selfwire.runs.inputs import CallOptions, find_team

VERBS = ("run", "evolve", "prune", "evaluate", "compare", "load", "save")
SUMS = [{"input": f"What is {n} plus {n}?", "reference": str(2 * n)} for n in range(1, 31)]
UNTYPED: Any = selfwire
"""The verbs for arguments that type checkers refuse too."""
SMALL: dict[str, Any] = {"iterations": 1, "batch": 2, "limit": 6, "gate": "mean"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SELFWIRE_HOME", str(tmp_path))
    return tmp_path


def grade(task: Task, answer: str) -> tuple[bool, str]:
    right = str(task.reference) in answer
    return right, "" if right else "the number is missing"


def test_the_import_loads_nothing_and_takes_less_than_50_ms_of_cpu() -> None:
    code = """
import resource, sys
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
since = cpu()
import selfwire
print(cpu() - since, [name for name in sys.modules if name.startswith("selfwire.")], hasattr(selfwire, "edits"))
"""
    told = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    assert min(float(one.stdout.split()[0]) for one in told) < 0.05
    assert told[0].stdout.split()[1:] == ["[]", "True"]


def test_every_name_has_a_docstring_and_a_sync_form_has_the_signature_of_its_twin() -> None:
    assert {*dir(selfwire)} == {*selfwire.__all__, "__version__"}
    for name in selfwire.__all__:
        assert getattr(selfwire, name).__doc__, name
    for verb in VERBS:
        sync, twin = getattr(selfwire, verb), getattr(selfwire, f"a{verb}")
        assert inspect.iscoroutinefunction(twin)
        assert not inspect.iscoroutinefunction(sync)
        assert (sync.__name__, inspect.signature(sync)) == (verb, inspect.signature(twin))
    assert selfwire.__version__
    with pytest.raises(AttributeError, match="no attribute 'evovle'"):
        _ = selfwire.evovle


def test_a_team_is_evolved_on_dicts_with_a_function_as_the_grader(home: Path) -> None:
    events: list[dict[str, Any]] = []
    found = selfwire.evolve("hiva", SUMS, grade, name="sums", run_name="first", on_event=events.append, **SMALL)
    assert (found.run, found.name, found.folder) == ("first", "sums", home / "runs" / "first")
    assert found.score is not None
    assert (found.score.n, found.score.value) == (6, 0.0)
    assert found.team.fingerprint == selfwire.load("sums").fingerprint
    assert [version.run for version in found.versions] == ["first"] * len(found.versions)
    assert found.cost.calls > 20
    assert {event["phase"] for event in events} >= {"rollout", "gate", "test"}
    assert "| evolved team |" in found.summary() == found._repr_markdown_() == found.__rich__()
    assert repr(found).startswith("<Evolution of 'sums' (hiva): ")
    assert repr(found.cost) == f"<{found.cost.calls} calls, {found.cost.tokens:,} tokens, $0.00>"
    assert repr(found.score) == f"<{found.score}, n=6>"
    assert repr(found.versions).startswith("(<sums@first.0: seed>, <sums@first.1: ")


def test_what_was_wrong_reaches_the_team_that_learns() -> None:
    found = selfwire.evolve("hiva", SUMS, grade, run_name="told", **{**SMALL, "gate": "off"})
    journal = (found.folder / "journal.sqlite").read_bytes()
    assert b"the number is missing" in journal


def test_a_critic_whose_replies_are_noise_is_named_in_the_result() -> None:
    noise = FakeListChatModel(responses=["noise {{{"])
    found = selfwire.evolve("hera", SUMS, grade, model=noise, name="sums", **SMALL)
    assert any("structured requests had no valid reply" in notice for notice in found.notices)
    assert "this model cannot serve as critic or judge; take another --model" in found.summary()
    measured = selfwire.evaluate("hera", SUMS, grade, model=noise, limit=2)
    assert any("structured requests had no valid reply" in notice for notice in measured.notices)


def test_a_run_of_the_same_name_goes_on_without_paying_twice() -> None:
    asked = {"grader": grade, "name": "sums", "run_name": "twice", **SMALL}
    with pytest.raises(selfwire.errors.BudgetError):
        selfwire.evolve("hiva", SUMS, budget={"calls": 30}, **asked)
    found = selfwire.evolve("hiva", SUMS, **asked)
    again = selfwire.evolve("hiva", SUMS, **asked)
    assert again.cost.calls == found.cost.calls
    assert selfwire.evolve("hiva", SUMS, **{**asked, "run_name": "whole"}).cost.calls == found.cost.calls
    with pytest.raises(selfwire.errors.JournalError, match=r"began with benchmark .tasks:\w+., not"):
        selfwire.evolve("hiva", [{**task, "input": f"{task['input']}!"} for task in SUMS], **asked)


def test_a_run_that_a_budget_ctrl_c_or_code_of_the_user_stops_says_how_it_goes_on() -> None:
    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        raise KeyboardInterrupt

    def divide(event: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(selfwire.errors.BudgetError) as stopped:
        selfwire.evaluate("single", SUMS[:6], grade, budget={"calls": 3})
    here, before = threading.get_ident(), signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt) as ended:
            selfwire.evolve(
                "hiva", SUMS, grade, on_event=lambda event: signal.pthread_kill(here, signal.SIGALRM), **SMALL
            )
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ZeroDivisionError) as own:
        selfwire.evolve("hiva", SUMS, grade, on_event=divide, **SMALL)
    for raised, verb in ((stopped.value, "eval"), (ended.value, "hiva"), (own.value, "hiva")):
        *_, note = raised.__notes__  # LangGraph notes its node first
        assert re.search(rf"the same call with run_name='{verb}-tasks-[\w-]+' goes on,", note)


def test_tasks_that_a_saved_team_has_learned_from_are_left_out_wherever_they_come_from() -> None:
    selfwire.evolve("hiva", SUMS[:8], grade, valset=SUMS[8:14], iterations=1, batch=2, gate="mean", name="sums")
    found = selfwire.evaluate("sums", SUMS, grade)
    assert {row.task for row in found.rows} == {f"testset-{number}" for number in range(15, 31)}
    assert "14 of 30 tasks are left out" in found.summary()


def test_splits_of_ones_own_are_taken_whole() -> None:
    parts = {"valset": SUMS[10:18], "testset": SUMS[18:23]}
    found = selfwire.evolve("hiva", SUMS[:10], grade, iterations=1, batch=2, gate="mean", **parts)  # type: ignore[arg-type]
    assert found.after is not None
    assert list(found.after.scores) == [f"testset-{number}" for number in range(1, 6)]
    untested = selfwire.evolve("hiva", SUMS[:10], grade, iterations=1, batch=2, gate="mean", valset=SUMS[8:16])
    assert (untested.score, untested.systems) == (None, ())
    assert "2 questions are in more than one of trainset, valset" in untested.summary()


def test_a_file_is_read_and_a_benchmark_goes_by_its_name(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "sums.jsonl"
    file.write_text("".join(f"{json.dumps(task)}\n" for task in SUMS))
    by_name = selfwire.evaluate("hiva", file, "contains", limit=3)
    by_function = selfwire.evaluate("hiva", str(file), grade, limit=3)
    assert [row.task for row in by_name.rows] == [row.task for row in by_function.rows]
    assert len(by_name.rows) == 3
    archive = selfwire.evaluate("hiva", "archive", limit=2)
    assert len(archive.rows) == 2
    with pytest.raises(selfwire.errors.ConfigError, match="'archive' is no file of tasks"):
        selfwire.evaluate("hiva", "archive", grade)


def test_a_call_that_goes_on_says_again_that_there_are_few_tasks(tmp_path: Path) -> None:
    file = tmp_path / "sums.jsonl"
    file.write_text("".join(f"{json.dumps(task)}\n" for task in SUMS[:4]))
    for _ in range(2):
        found = selfwire.evaluate("single", file, "contains", run_name="few")
        assert any("there are fewer tasks than usual: --tasks 4 (not 100)" in notice for notice in found.notices)


def test_a_run_goes_on_with_the_same_tools(tmp_path: Path) -> None:
    def area(side: int) -> int:
        """Area of a square."""
        return side * side

    file = tmp_path / "sums.jsonl"
    file.write_text("\n".join(map(json.dumps, SUMS)))
    for tasks, name in ((SUMS, "objects"), (file, "named")):
        selfwire.evaluate("single", tasks, grade, tools=[area], run_name=name, limit=2)
        selfwire.evaluate("single", tasks, grade, tools=[area], run_name=name, limit=2)
        with pytest.raises(
            selfwire.errors.JournalError, match=f"{name}' began with tools 'python:area', not None; give"
        ):
            selfwire.evaluate("single", tasks, grade, run_name=name, limit=2)
    found = selfwire.evolve("hiva", SUMS, grade, tools=[area], name="squares", **SMALL)
    assert "tools" not in found.versions[-1].facts
    with pytest.raises(
        selfwire.errors.ConfigError, match="tool 'area' was given in Python and is not stored; go on there"
    ):
        selfwire.run("single", "Who?", tools="python:area")


def test_a_run_of_other_code_is_refused_for_its_code_before_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    selfwire.evaluate("single", SUMS, grade, run_name="old", limit=2)
    monkeypatch.setattr("selfwire.runs.record.compute_code_hash", lambda: "new")
    with pytest.raises(selfwire.errors.JournalError, match=r"goes on only under the code that began it.*code new"):
        selfwire.evaluate("single", SUMS, "exact", run_name="old", limit=2)


def test_a_run_on_tasks_of_python_says_how_it_goes_on(home: Path) -> None:
    from selfwire.runs.evolution import resume_evolution

    selfwire.evolve("hiva", SUMS, grade, run_name="python", **SMALL)
    with pytest.raises(selfwire.errors.ConfigError, match="were given in Python"), resume_evolution("python", home):
        pass
    more = SMALL | {"iterations": 2}
    with pytest.raises(selfwire.errors.JournalError, match=r"'python' began with evolution\.iterations 1, not 2;"):
        selfwire.evolve("hiva", SUMS, grade, run_name="python", **more)


@pytest.mark.parametrize(
    ("graded", "score"),
    [(True, 1.0), (0.25, 0.25), ((0.5, "half"), 0.5), (Feedback(score=0.75, solved=False, text="near"), 0.75)],
)
def test_a_grader_returns_what_it_likes_at_once_or_awaited(graded: Any, score: float) -> None:
    async def later(task: Task, answer: str) -> Any:
        return graded

    for grader in (lambda task, answer: graded, later):
        found = selfwire.evaluate("cot", SUMS[:2], grader)
        assert [row.score for row in found.rows] == [score] * 2
        assert found.score is not None
        assert found.score.value == score


def test_half_a_character_is_refused_in_a_team_and_replaced_in_what_a_grader_says() -> None:
    with pytest.raises(
        ValueError, match=r"prompt: it has half of a surrogate pair as its character 2; write the whole"
    ):
        selfwire.Agent(id="a", prompt="a\ud800b")

    def said(task: Task, answer: str) -> tuple[float, str]:
        return 0.5, "wrong: \ud800"

    [row] = selfwire.evaluate("direct", SUMS[:1], said).rows
    assert (row.score, row.error) == (0.5, None)


def test_an_evaluation_counts_errors_apart_and_repeats_tasks() -> None:
    def fail_on_first(task: Task, answer: str) -> float:
        if task.id.endswith("-1"):
            raise OSError("no ruler")
        return 0.5

    found = selfwire.evaluate("cot", SUMS[:3], fail_on_first, repeats=2)
    assert (len(found.rows), len(found.errors), len(found.scores)) == (6, 2, 2)
    assert repr(found).startswith(
        "<Evaluation of cot: score 0.50 [0.50, 0.50] on 2 tasks, 2 errors, such as GradingError: "
    )


def test_a_grader_that_changes_the_directory_leaves_the_run_in_its_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)

    def go_elsewhere(task: Task, answer: str) -> float:
        monkeypatch.chdir(elsewhere)
        return 1.0

    found = selfwire.evaluate("cot", SUMS[:2], go_elsewhere, home="mine")
    assert [*elsewhere.iterdir()] == []
    assert found.folder == tmp_path / "mine" / "runs" / found.run


def test_teams_are_compared_under_one_cap_of_calls() -> None:
    better = Team.model_validate(selfwire.load("cot").model_dump())
    found = selfwire.compare({"mine": better, "single": "single", "hiva": "hiva"}, SUMS[:4], grade, calls_per_task=3)
    assert list(found.systems) == ["trivial", "mine", "single", "hiva"]
    assert found.against == "mine"
    assert {*found.differences} == {"trivial", "single", "hiva"}
    assert all(system.spend.calls <= 3 * 4 for system in found.systems.values())
    with pytest.raises(selfwire.errors.ConfigError, match="two teams are called 'cot'"):
        selfwire.compare(["cot", "cot"], SUMS[:4], grade)
    with pytest.raises(selfwire.errors.ConfigError, match="not 'one agent'"):
        selfwire.compare({"one agent": "single"}, SUMS[:4], grade)


def test_models_may_be_objects_and_a_saved_team_remembers_the_name_of_its_own() -> None:
    said = selfwire.run("cot", "How high?", model=FakeListChatModel(responses=["Answer: 29 m"]))
    assert said.answer == "Answer: 29 m"
    selfwire.evolve("hiva", SUMS, grade, name="sums", model="offline:system", **SMALL)
    saved = find_team("sums", None)
    assert saved.model == "offline:system"
    assert CallOptions().find_models(saved.model)[0].agent == "offline:system"
    assert CallOptions(model="offline").find_models(saved.model)[0].agent == "offline"


def test_a_run_of_python_has_a_folder_too_and_no_address() -> None:
    with pytest.raises(
        selfwire.errors.ConfigError, match=r"runs lie in a folder, not at postgres://; name a folder with"
    ):
        _ = CallOptions(home="postgres://user:secret@db/teams").folder


def test_a_home_of_the_environment_that_is_an_address_makes_no_folder_with_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFWIRE_HOME", "postgres://user:secret@db/teams")
    with pytest.raises(selfwire.errors.ConfigError, match="runs lie in a folder, not at postgres://"):
        selfwire.save(selfwire.load("hiva"), "mine")
    assert [*tmp_path.iterdir()] == []


def test_a_comparison_asks_the_model_that_its_saved_team_was_evolved_with() -> None:
    found = selfwire.evolve("hiva", SUMS, grade, name="sums", model="offline:system", **SMALL)
    compared = selfwire.compare({"before": found.seed, "after": "sums", "single": "single"}, SUMS, grade, limit=2)
    assert "model offline:system," in compared.table.notes[0]
    selfwire.evolve("hiva", SUMS, grade, name="others", model="offline:user", **SMALL)
    with pytest.raises(selfwire.errors.ConfigError, match="evolved with offline:system and offline:user; say which"):
        selfwire.compare(["sums", "others"], SUMS, grade)
    assert selfwire.compare(["sums", "others"], SUMS, grade, limit=2, model="offline").scores


def stock(item: str) -> int:
    """How many pieces of an item are in stock."""
    return {"bolt": 40}.get(item, 0)


def test_a_function_is_a_tool_in_every_verb_and_in_a_graph() -> None:
    for tools in ([stock], [tool(stock)]):
        said = selfwire.run("hiva", "Do we have bolts?", tools=tools)
        assert said.answer
        assert {held for agent in selfwire.load("hiva").agents for held in agent.tools} == set()
    found = selfwire.evolve("hiva", SUMS, grade, tools=[stock], **SMALL)
    assert {held for agent in found.seed.agents for held in agent.tools} == {"stock"}
    with pytest.raises(selfwire.errors.ConfigError, match="holds stock"):
        selfwire.evaluate(found.seed, SUMS[:2], grade)
    assert len(selfwire.evaluate(found.seed, SUMS[:2], grade, tools=[stock]).rows) == 2
    assert found.team.graph(tools=[stock]).invoke({"question": "Do we have bolts?"})["answer"]


def test_a_team_is_a_node_of_a_graph_of_ones_own() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("experts", selfwire.load("hiva").graph(model="offline"))
    graph.add_edge(START, "experts")
    graph.add_edge("experts", END)
    app = graph.compile(checkpointer=InMemorySaver())
    done = app.invoke({"messages": [HumanMessage("How high is it?")]}, {"configurable": {"thread_id": "1"}})
    assert isinstance(done["messages"][-1], AIMessage)
    assert done["messages"][-1].text


def test_a_team_is_rewired_by_hand_saved_and_loaded(home: Path) -> None:
    team = selfwire.load("hiva")
    edit = selfwire.edits.RewritePrompt(team.agents[0].id, "Answer in one word.")
    shorter = team.apply(Rewiring(edit, why="answers were long"))
    version = selfwire.save(shorter, "short", note="by hand")
    assert selfwire.load("short") == selfwire.load(version.ref)
    assert selfwire.load("short").fingerprint == shorter.fingerprint
    [change] = selfwire.load("short").diff(team).agents
    assert (change.agent, change.field, change.after) == (team.agents[0].id, "prompt", "Answer in one word.")
    with pytest.raises(selfwire.errors.LibraryError, match=r"there is no team 'shrot' in .*; did you mean short"):
        selfwire.load("shrot")


async def test_async_forms_run_on_the_loop_of_the_caller_and_can_be_cancelled(home: Path) -> None:
    team = await selfwire.aload("hiva")
    assert (await selfwire.arun(team, Task(id="q", input="How high?"))).answer
    assert len((await selfwire.aevaluate(team, SUMS[:2], grade)).rows) == 2
    assert (await selfwire.acompare([team, "single"], SUMS[:2], grade)).against == team.fingerprint
    began, here = asyncio.Event(), asyncio.get_running_loop()
    asked = {"run_name": "stopped", "on_event": lambda event: here.call_soon_threadsafe(began.set), **SMALL}
    task = asyncio.create_task(selfwire.aevolve(team, SUMS, grade, **asked))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    found = await selfwire.aevolve(team, SUMS, grade, run_name="stopped", **SMALL)
    assert found.score is not None


def test_an_async_form_under_another_loop_than_asyncios_says_the_way_out() -> None:
    with pytest.raises(
        selfwire.errors.ConfigError, match=r"^arun is awaited without .* asyncio; call run in a thread$"
    ):
        selfwire.arun("single", "Who?", model="offline").send(None)
    graph = hiva.build("offline").compile()
    with pytest.raises(selfwire.errors.ConfigError, match=r"^ainvoke is awaited .* asyncio; call invoke in a thread$"):
        graph.ainvoke({"question": "Who?"}).send(None)


async def test_sync_forms_work_where_a_loop_runs_as_in_a_notebook() -> None:
    assert selfwire.run("hiva", "How high?").answer


def test_a_budget_of_calls_is_no_cap_of_a_task() -> None:
    noise = FakeListChatModel(responses=["Answer: 2"])

    def ask_often(question: str) -> str:
        return [noise.invoke(question).text for _ in range(70)][-1]

    found = selfwire.evaluate(RunnableLambda(ask_often), SUMS[:2], "contains", budget={"calls": 150})
    assert [(row.calls, row.cut, row.error) for row in found.rows] == [(70, False, None)] * 2


def test_the_gate_that_a_refusal_asks_for_counts_the_tasks_of_groups() -> None:
    few = [*enumerate(SUMS[:18])]
    tasks = [{**task, "input": f"{task['input']} {turn}", "group": str(n)} for turn in "abcd" for n, task in few]
    with pytest.raises(selfwire.errors.ConfigError, match=r"6 task groups.* least 9, .*; give 36 or .* better 180,"):
        selfwire.evolve("hiva", tasks, grade, iterations=10)
    with pytest.raises(selfwire.errors.ConfigError, match=r"has 24 for itself; give 84 or more"):
        selfwire.evolve("hiva", tasks, grade, iterations=10, prune=True)


def test_a_budget_and_callbacks_reach_the_question() -> None:
    with pytest.raises(selfwire.errors.BudgetError):
        selfwire.run("hiva", "How high?", budget={"calls": 1})
    seen: list[str] = []

    class Seen(BaseCallbackHandler):
        def on_chat_model_start(self, *_: Any, tags: list[str] | None = None, **__: Any) -> None:
            seen.extend(tags or ())

    selfwire.run("hiva", "How high?", config={"callbacks": [Seen()], "tags": ["mine"]})
    assert "mine" in seen


@pytest.mark.parametrize("method", ["tacomas", "dytopo"])
def test_a_method_that_learns_nothing_between_questions_is_not_evolved(method: str) -> None:
    with pytest.raises(
        selfwire.errors.ConfigError, match=rf"{method} cannot be evolved.*selfwire.evaluate\('{method}'"
    ):
        selfwire.evolve(method, SUMS, grade, **SMALL)


@pytest.mark.parametrize(("budget", "told"), [({"usd": 1}, "no usd; .* dollars"), ({"calls": 0}, "0 calls")])
def test_a_budget_that_cannot_be_meant_is_refused_in_words(budget: dict[str, float], told: str) -> None:
    with pytest.raises((ValueError, selfwire.errors.ConfigError), match=told):
        selfwire.run("hiva", "Who?", budget=budget)


def test_a_model_that_is_none_and_tools_without_a_list_are_told_in_words() -> None:
    def price(name: str) -> str:
        """The price of a thing."""
        return name

    with pytest.raises(selfwire.errors.ConfigError, match=r"a model is a name, such as 'offline' .* not None"):
        hiva.build(None)
    for single in (price, tool(price)):
        with pytest.raises(selfwire.errors.ConfigError, match=r"tools are given in a list, .*: tools=\[price\]"):
            hiva.build(tools=single)
        with pytest.raises(selfwire.errors.ConfigError, match=r"tools=\[price\]"):
            selfwire.run("hiva", "Who?", tools=single)  # type: ignore[arg-type]


@pytest.mark.parametrize(("tasks", "told"), [(1, "1 answer"), (3, "3 answers")])
def test_a_grader_that_fails_on_all_of_a_few_answers_is_an_error_that_names_its_exception(
    tasks: int, told: str
) -> None:
    def fail(task: Task, answer: str) -> float:
        raise KeyError("amount")

    name = fail.__qualname__.replace("<locals>.", "")
    with pytest.raises(selfwire.errors.UngradedError) as stopped:
        selfwire.evaluate("direct", SUMS[:tasks], fail, run_name="r")
    assert f"failed on all of {told}, the last time with: GradingError: grader {name!r} " in str(stopped.value)
    assert f"(test_facade.py:{fail.__code__.co_firstlineno + 1}): KeyError('amount'); mend it" in str(stopped.value)

    def fail_once(task: Task, answer: str) -> float:
        return 1.0 if task.id != "testset-1" else fail(task, answer)

    if tasks > 1:
        found = selfwire.evaluate("direct", SUMS[:tasks], fail_once, run_name="again")
        assert f"score 1.00 [0.34, 1.00] on {tasks - 1} tasks, 1 error, such as GradingError" in str(found)


class Rows(list[int]):
    """Rows that show themselves in many lines, as a DataFrame does."""

    def __repr__(self) -> str:
        return "   number\n" + "".join(f"{n}       {n}\n" for n in self)


@pytest.mark.parametrize(
    "ask",
    [
        selfwire.load,
        lambda rows: selfwire.save(rows, "mine"),
        lambda rows: selfwire.run("direct", rows),
        lambda rows: selfwire.run(rows, "Who?"),
        lambda rows: selfwire.run("direct", "Who?", model=rows),
        lambda rows: selfwire.run("direct", "Who?", budget=rows),
        lambda rows: selfwire.evaluate("direct", [rows], grade),
        lambda rows: selfwire.evaluate("direct", SUMS, rows),
        lambda rows: selfwire.evaluate("direct", [{"input": rows, "reference": 1}], grade),
        lambda rows: selfwire.evaluate("direct", SUMS[:1], lambda task, answer: rows),
    ],
)
def test_a_table_in_a_wrong_place_is_named_in_a_line(ask: Callable[[Any], Any]) -> None:
    with pytest.raises((selfwire.errors.ConfigError, selfwire.errors.UngradedError)) as refused:
        ask(Rows(range(50)))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_an_error_of_on_event_comes_through_as_it_is(home: Path) -> None:
    def divide(event: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        selfwire.evaluate("single", SUMS, grade, on_event=divide)


def test_options_beside_a_ready_config_change_it() -> None:
    assert hiva.Hiva(HivaConfig(temperature=0.25), successors=3).config.model_dump() == {
        **HivaConfig(temperature=0.25).model_dump(),
        "successors": 3,
    }
    with pytest.raises(selfwire.errors.ConfigError, match=r"successor: .*; did you mean successors\?"):
        hiva.Hiva(HivaConfig(), successor=3)


def test_a_note_with_half_a_character_is_saved(home: Path) -> None:
    assert selfwire.save(selfwire.load("hiva"), "mine", note="half \ud800").facts["why"] == "half \ufffd"


def test_a_config_may_be_a_dict_of_its_fields(home: Path) -> None:
    assert hiva.Hiva({"temperature": 0.5}).config.temperature == 0.5
    assert selfwire.load("hiva").graph(config={"temperature": 0.5}).invoke({"question": "Who?"})["answer"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 3}, r"budget 3 cannot be used: .*; write it as budget=\{\"calls\": 100\}"),
        ({"budget": {"euros": 3}}, r"budget \{'euros': 3\} cannot be used: a budget has no euros"),
        ({"limit": 0}, "limit must be 1 or more, not 0"),
        ({"repeats": 0}, "repeats is 0; each task is put to the team at least once, so give 1 or more"),
        ({"concurrency": 0}, "config of eval: concurrency: Input should be greater than or equal to 1, not 0"),
    ],
)
def test_limits_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(selfwire.errors.ConfigError, match=message):
        selfwire.evaluate("direct", SUMS, grade, **options)


def test_a_gate_that_is_none_is_refused_in_words() -> None:
    with pytest.raises(selfwire.errors.ConfigError, match=r"evolve: gate: Input should be 'better', .* not 'men'$"):
        selfwire.evolve("hiva", SUMS, grade, **(SMALL | {"gate": "men"}))


def test_an_unknown_argument_is_named_by_the_function_that_was_called() -> None:
    message = r"^evaluate: got an unexpected keyword argument 'budgett'; did you mean budget\?$"
    with pytest.raises(TypeError, match=message):
        UNTYPED.evaluate("single", SUMS, budgett=3)


async def test_async_verbs_name_themselves_and_the_argument_that_was_meant() -> None:
    with pytest.raises(TypeError, match=r"^arun: got an unexpected keyword argument 'modle'; did you mean model\?$"):
        await selfwire.arun("single", "What is 6 * 7?", modle="offline")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^aevolve: missing a required argument: 'trainset'$"):
        await selfwire.aevolve("hiva")  # type: ignore[call-arg]


def test_a_question_that_is_none_and_a_misspelled_method_are_named() -> None:
    with pytest.raises(selfwire.errors.ConfigError, match="a question is a text, a Question or a Task, not 5"):
        selfwire.run("hiva", 5)  # type: ignore[arg-type]
    with pytest.raises(selfwire.errors.LibraryError, match=r"there is no team 'hvia'.*; did you mean hiva\?$"):
        selfwire.evolve("hvia", SUMS, grade)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: UNTYPED.run(["single"], "Who?"), r"a team is a Team, a method, .* not \['single'\]"),
        (lambda: UNTYPED.evolve("single", SUMS), "'single' is a baseline, which stays as it is; methods are dytopo"),
        (
            lambda: UNTYPED.evolve("hiva", SUMS, gate="mean", run_name="../first"),
            "a run is called by up to 64 .* not '../first'",
        ),
        (lambda: UNTYPED.evolve("hiva", SUMS, freeze="edges"), "^freeze must be a list of texts, not 'edges'$"),
        (lambda: UNTYPED.evaluate("single", None), "there are no tasks; give dicts with input and reference, a "),
        (lambda: UNTYPED.evaluate("single", SUMS, limit="3"), "^limit must be a whole number or None, not '3'$"),
        (lambda: UNTYPED.evaluate("single", SUMS, seed="a"), "^seed must be a whole number, not 'a'$"),
        (lambda: UNTYPED.run("hiva", "Who?", seed=True), "^seed must be a whole number, not True$"),
        (lambda: UNTYPED.evolve("hiva", SUMS, on_event=3), "^on_event must be a function or None, not 3$"),
        (lambda: UNTYPED.prune("hiva", SUMS, margin="a"), "^margin must be a number, not 'a'$"),
        (
            lambda: UNTYPED.prune("hiva", SUMS, margin=-1),
            "config of prune: margin: Input should .* -1$",
        ),
        (lambda: UNTYPED.evolve("hiva", SUMS, anyway="yes"), "^anyway must be True or False, not 'yes'$"),
        (lambda: UNTYPED.run("hiva", "Who?", home=3), "^home must be a path or None, not 3$"),
        (lambda: UNTYPED.run("hiva", "Who?", config={5: 5}), r"^config must be a mapping such as .*, not \{5: 5\}$"),
        (lambda: UNTYPED.run("hiva", "Who?", config=5), r"^config must be a mapping such as .* or None, not 5$"),
        (
            lambda: UNTYPED.run("hiva", "Who?", method=5),
            "^method is the name of a method or an instance of one, not 5$",
        ),
        (lambda: UNTYPED.run("mine", "Who?", method=Aflow), r"not <class '.*Aflow'>; give an instance: Aflow\(\)$"),
        (
            lambda: UNTYPED.evolve(Aflow, SUMS),
            r"a team is a Team, .* not <class '.*Aflow'>; give an instance: Aflow\(\)$",
        ),
        (
            lambda: selfwire.run("single", "Who \ud800?"),
            "^the question has half of a surrogate pair as its character 5;",
        ),
        (
            lambda: selfwire.evaluate("single", SUMS, "judge", rubric="\ud800"),
            "rubric: it has half of a surrogate pair",
        ),
        (
            lambda: selfwire.run("single", "Who?", home=__file__),
            "test_facade.py is a file, .* choose another with home$",
        ),
        (
            lambda: selfwire.run("single", "Who?", home="a\0b"),
            r"home 'a\\x00b' cannot be used: .*embedded null .*; choose another with home$",
        ),
        (
            lambda: selfwire.run("single", "Who?", home="x" * 5000),
            "home 'x+' cannot be used: .*File name too long.*; choose another with home$",
        ),
        (
            lambda: selfwire.run("single", "Who?", home="~nobody-here/x"),
            "home '~nobody-here/x' cannot be used: .*; choose another with home$",
        ),
        (lambda: UNTYPED.evaluate("single", [5]), "^tasks, entry 1: a task is a mapping or a Task, not int$"),
        (lambda: hiva.build(config={"breadth": 1}), "config of hiva: .*breadth.*; fields are "),
        (
            lambda: UNTYPED.load("hiva").graph(models=5),
            r"^models must be a dict such as \{.*\} or None, not 5$",
        ),
        (lambda: hiva.build(**{"library": "x"}), "^library must be a library, .* or None, not 'x'$"),
        (
            lambda: hiva.build(**{"grader": 5}),
            "^grader must be a function of .* or None, not 5$",
        ),
        (
            lambda: hera.build(**{"embedder": 5}),
            "^embedder must be auto, .* or None, not 5$",
        ),
        (
            lambda: evomas.build(**{"corpus": [5]}),
            r"^corpus must be a JSONL file, or a list of documents or None, not \[5\]$",
        ),
        (lambda: evomas.build(corpus="a\0b"), "cannot be read: embedded null byte; give a JSONL file"),
        (lambda: hiva.build(**{"initial": {}}), r"^initial must be a team, a name or a .json file or None, not \{\}$"),
        (lambda: selfwire.evaluate("single", "x" * 5000), "^unknown benchmark 'x+'; choose "),
        (lambda: UNTYPED.load("hiva").graph(config=5), "config of hiva: 5 is no HivaConfig, nor a dict of its fields$"),
        (lambda: UNTYPED.load(None), "a team is loaded by its name or from a file, not by None"),
        (lambda: UNTYPED.run(None, "Who?"), "a team is a Team, a method, .* not None"),
        (lambda: UNTYPED.run("hiva", "Who?", model=3), "a model is a name such as .* or a chat model, not 3"),
        (lambda: UNTYPED.run("hiva", "Who?", models=["a"]), r"models are given by name, as .* not as \['a'\]"),
        (lambda: UNTYPED.run("hiva", "Who?", tools=3), "tools are given in a list, not as 3"),
        (lambda: UNTYPED.evaluate("single", (task for task in SUMS)), r"; give list\(\.\.\.\) of it$"),
        (lambda: UNTYPED.evaluate("single", 3), "tasks are a list of dicts or of Tasks, a file or a name, not 3"),
        (
            lambda: UNTYPED.evaluate("single", SUMS, None),
            r"grader 'NoneType' is None, not a function of \(task",
        ),
        (lambda: UNTYPED.evaluate("single", SUMS, len), r"takes \(obj, /\), and is called with \(task, answer\): too"),
        (lambda: UNTYPED.evaluate("single", SUMS, models={"a b": "offline"}), "models: a model is called by .* 'a b'"),
        (lambda: UNTYPED.compare("single", SUMS), "teams are given in a list, or by name as .* not as 'single'"),
        (lambda: UNTYPED.compare([], SUMS), r"teams are given in a list, .* not as \[\]"),
        (lambda: UNTYPED.save("hiva", "mine"), "a Team is saved, not 'hiva'; selfwire.load makes one"),
        (lambda: UNTYPED.save(selfwire.load("hiva"), "my team"), "a team is called by up to 64 .* not 'my team'"),
        (lambda: UNTYPED.save(selfwire.load("hiva"), 5), "a team is called by up to 64 .* not 5"),
        (
            lambda: UNTYPED.load("hiva").apply(selfwire.edits.RemoveEdge("x", "y")),
            r'changed by Rewiring\(edit, why="..."\), not by RemoveEdge\(source=.x',
        ),
        (
            lambda: UNTYPED.load("dytopo").graph(method=Dytopo),
            r"^method is the name of a method or an instance of one, not <.*Dytopo'>; give an instance: Dytopo\(\)$",
        ),
        (lambda: UNTYPED.adopt(selfwire.load("hiva")), "^give a graph, .{1,90}, not Team.{1,200}$"),
        (
            lambda: selfwire.run(selfwire.load("hiva"), "Who?", method="dytopo"),
            r"^team [0-9a-f]{16} of method hiva, run by dytopo: its memory has no domain, which says who answers",
        ),
    ],
)
def test_an_argument_that_cannot_be_meant_is_named_before_anything_is_asked(
    home: Path, call: Callable[[], object], told: str
) -> None:
    with pytest.raises(selfwire.errors.ConfigError, match=told):
        call()
    assert not [*home.glob("runs/*")]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: selfwire.evolve("hiva", SUMS, iterations=500),
            r'give 11 or more \(valset\), better 55, as .*; or fewer iterations, or gate="mean", which',
        ),
        (lambda: selfwire.evolve("hiva", SUMS[:20]), "for a gain; anyway=True runs and accepts nothing$"),
        (lambda: selfwire.evolve("hiva", SUMS, prune=True), r"give 70 or more \(valset\), or leave prune=True out"),
        (
            lambda: selfwire.run("hiva", "Who?", model="openai:unpriced", budget={"dollars": 1}),
            r'or set budget=\{"tokens": ...\} or budget=\{"calls": ...\} in its place$',
        ),
        (lambda: selfwire.evolve("tacomas", SUMS), r"measure it with selfwire.evaluate\('tacomas', ...\)$"),
        (lambda: selfwire.evolve("hiva", SUMS[:20]), "better cannot accept anything .*: at an error of 0.05 over 10"),
        (
            lambda: selfwire.evaluate("single", [{"asked": "Who?", "reference": "Ann"}], grade),
            "call it input, or name one on the command line with --input-field",
        ),
        (
            lambda: selfwire.run("hiva", "Who?", model="openai:unpriced", budget={"dollars": 1}),
            r"give it in prices\.json in the home folder, or on the command line with --prices FILE, or set",
        ),
        (lambda: selfwire.evolve("hiva", SUMS[:3]), "a run needs at least trainset 4, valset 4, testset 4; 3 tasks"),
        (
            lambda: selfwire.evaluate("single", "archive", "numeric"),
            "^grader numeric is for tasks of your own",
        ),
        (lambda: selfwire.evaluate("single", "archive", limit=2, rubric="Short."), 'give it with .* grader="judge"$'),
        (
            lambda: selfwire.run("hiva", "Who?", models={"cheap": "openai:x"}),
            "which model they ask, as in model cheap",
        ),
    ],
)
def test_errors_name_arguments_and_not_options_of_the_command_line(
    call: Callable[[], object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(selfwire.errors.ConfigError, match=told):
        call()


def test_results_have_a_cost_and_a_score_that_prints_with_its_interval() -> None:
    evaluated = selfwire.evaluate("direct", SUMS, grade, limit=6)
    compared = selfwire.compare(["direct", "cot"], SUMS, grade, limit=6)
    evolved = selfwire.evolve("hiva", SUMS, grade, **SMALL)
    for result in (evaluated, compared, evolved):
        assert result.cost.calls > 0
    for score in (evaluated.score, evolved.score, *compared.scores.values()):
        assert re.fullmatch(r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\]", str(score))

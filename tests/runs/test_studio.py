"""An evolution that asks in Studio: its questions, its answers, and that a wait outlives the server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from langgraph_sdk import get_sync_client

from selfwire.cli import options
from selfwire.core.errors import ConfigError, JournalError
from selfwire.runs import studio
from selfwire.runs.record import list_run_names
from tests.commands import call
from tests.graphs.dev_server import dev_server, doomed_server

SMALL = "--gate off --iterations 2 --batch 4 --train 8 --gate-size 0 --test 0 --no-baselines --name mine".split()
THREAD: Any = {"configurable": {"thread_id": "1"}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SELFWIRE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that somebody has left on the terminal at its first question."""
    monkeypatch.setattr(options, "has_terminal", lambda: True)
    call(home, "evolve", "hiva", "--benchmark", "archive", *SMALL, "--approve", "edits", code=130)
    [run] = list_run_names(home)
    return run


def by_hand(question: Mapping[str, Any]) -> dict[str, Any]:
    prompts = {"source": f"{question['prompts']['source']}\nKeep the tone formal."}
    return {"answer": "edit", "by": "ada", "prompts": prompts}


def check_by_hand(home: Path) -> str:
    history = " ".join(call(home, "history", "mine").output.split())
    assert "changed by hand by ada, and not measured since; before that: the gate is off" in history
    assert "1 BY_HAND" in history
    assert "Keep the tone formal." in call(home, "show", "mine").output
    return history


def check_history(home: Path) -> None:
    history = check_by_hand(home)
    assert "the gate is off; approved by a person" in history


def test_the_form_of_the_graph_says_what_to_give() -> None:
    form = studio.graph().get_input_jsonschema()
    assert form["required"] == ["run"]
    assert "selfwire evolve --approve edits" in form["properties"]["run"]["description"]


def test_the_graph_asks_and_goes_on_with_the_answers(home: Path, run: str) -> None:
    graph = studio.graph()
    graph.checkpointer = InMemorySaver()
    asked = graph.invoke({"run": run}, THREAD)["__interrupt__"][0].value
    assert (asked["iteration"], asked["why"], asked["gain"]) == (1, "the gate is off", None)
    asked = graph.invoke(Command(resume="approve"), THREAD)["__interrupt__"][0].value
    assert asked["iteration"] == 2
    again = graph.invoke({"run": run}, {"configurable": {"thread_id": "2"}})["__interrupt__"][0].value
    assert again == asked  # any thread may go on
    final = graph.invoke(Command(resume=by_hand(asked)), THREAD)
    assert final["question"] is None
    assert final["version"].startswith("mine@")
    check_history(home)


def test_an_answer_that_was_used_before_a_kill_answers_no_later_question(home: Path, run: str) -> None:
    first = studio.go_on({"run": run})
    second = studio.go_on({**first, "run": run, "answer": "approve"})
    assert second["question"]
    assert second["question"]["iteration"] == 2
    assert studio.go_on({**first, "run": run, "answer": "approve"}) == second


def test_an_answer_to_a_question_that_another_thread_has_answered_is_not_lost_without_a_word(
    home: Path, run: str
) -> None:
    graph = studio.graph()
    graph.checkpointer = InMemorySaver()
    other: Any = {"configurable": {"thread_id": "2"}}
    late: Any = {"configurable": {"thread_id": "3"}}
    for thread in (THREAD, other, late):
        graph.invoke({"run": run}, thread)
    second = graph.invoke(Command(resume={"answer": "reject", "by": "ada"}), THREAD)["__interrupt__"][0].value
    told = "the question of iteration 1 was answered already as 'reject' by ada; your answer 'approve' was not used"
    asked = graph.invoke(Command(resume="approve"), other)["__interrupt__"][0].value
    assert asked == {**second, "fault": told}
    final = graph.invoke(Command(resume=by_hand(asked)), other)  # a question with a fault takes an answer
    assert (final["question"], final["fault"]) == (None, "")
    final = graph.invoke(Command(resume="approve"), late)
    assert (final["question"], final["fault"]) == (None, told)
    check_by_hand(home)


@pytest.mark.usefixtures("home")
def test_another_edit_of_a_question_is_told_as_not_used_and_the_same_one_is_not(run: str) -> None:
    first = studio.go_on({"run": run})
    assert first["question"]
    name, text = next(iter(first["question"]["prompts"].items()))

    def answer(words: str) -> Any:
        edit = {"answer": "edit", "by": "ada", "prompts": {name: f"{text} {words}"}}
        return studio.go_on({**first, "run": run, "answer": edit})

    second = answer("Be short.")
    assert (second["question"]["iteration"], second["question"]["fault"]) == (2, "")
    told = "the question of iteration 1 was answered already as 'edit' by ada; your answer 'edit' was not used"
    assert answer("Be long.")["question"] == {**second["question"], "fault": told}
    assert answer("Be short.") == second


def test_only_runs_that_ask_are_gone_on_with(home: Path) -> None:
    call(home, "evolve", "hiva", "--benchmark", "archive", *SMALL)
    [quiet] = list_run_names(home)
    with pytest.raises(ConfigError, match=f"run '{quiet}' asks nobody"):
        studio.go_on({"run": quiet})
    for wrong in ("", "nobody", "../runs"):
        with pytest.raises((ConfigError, JournalError)):
            studio.go_on({"run": wrong})


@pytest.mark.slow
def test_a_wait_outlives_langgraph_dev(tmp_path: Path, home: Path, run: str) -> None:
    with doomed_server(tmp_path / "first", home) as address, get_sync_client(url=address) as client:
        thread = client.threads.create()["thread_id"]
        first: Any = client.runs.wait(thread, "evolve", input={"run": run})
        assert first["__interrupt__"][0]["value"]["iteration"] == 1
    with dev_server(tmp_path / "second", home) as address, get_sync_client(url=address) as client:
        thread = client.threads.create()["thread_id"]
        asked: Any = client.runs.wait(thread, "evolve", input={"run": run})
        assert asked["__interrupt__"][0]["value"] == first["__interrupt__"][0]["value"]
        asked = client.runs.wait(thread, "evolve", command={"resume": "approve"})
        question = asked["__interrupt__"][0]["value"]
        assert question["iteration"] == 2
        final: Any = client.runs.wait(thread, "evolve", command={"resume": by_hand(question)})
        assert final["version"].startswith("mine@")
    check_history(home)
    for folder in ("first", "second"):
        assert "BlockingError" not in (tmp_path / folder / "server.log").read_text()

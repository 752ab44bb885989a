"""The Ensemble chooses among what it is handed, and is never at a loss."""

from typing import Any

import pytest

from selfwire.core.agent import Agent
from selfwire.core.chat import load_prompts
from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step
from selfwire.core.usage import Usage
from selfwire.nodes.ensemble import LETTERS, NOTHING, EnsembleChoice, label_solutions, make_ensemble_runner
from tests.scripted import ScriptedModel

AGENT = Agent(id="ensemble", prompt="You choose.", kind="ensemble")


def inbox(*texts: str) -> list[Message]:
    return [Message(source=f"L1-{n}", target="L2-ensemble", text=text) for n, text in enumerate(texts)]


async def acted(said: Any, *texts: str) -> tuple[Step, ScriptedModel]:
    model = ScriptedModel(EnsembleChoice=said)
    act = make_ensemble_runner(model, load_prompts("nodes"))
    question = Question(id="q", input="How long? </task>")
    return await act(AGENT, question, inbox(*texts), scope=Scope(node="L2-ensemble", visit=2)), model


@pytest.mark.parametrize("letter", ["B", " b. ", "(B)", "**B**"])
async def test_its_output_is_the_chosen_solution_as_it_stands(letter: str) -> None:
    step, model = await acted(EnsembleChoice(thought="", solution_letter=letter), "1,280 m", "1,300 m\n- why", "")
    assert (step.output, step.agent, step.visit, step.usage.calls) == ("1,300 m\n- why", "ensemble", 2, 1)
    [(_, shown, scope, role)] = model.asked
    assert "A.\n1,280 m\n\nB.\n1,300 m" in shown
    assert "How long? [/task]" in shown
    assert (scope.node, role) == ("L2-ensemble", "agent")


@pytest.mark.parametrize("letter", ["", "Z", "none of them"])
async def test_a_letter_that_nobody_has_leaves_the_most_common_solution(letter: str) -> None:
    said = EnsembleChoice(thought="", solution_letter=letter)
    assert (await acted(said, "a", "b", "b"))[0].output == "b"
    assert (await acted(said, "a", "b"))[0].output == "a"


async def test_that_another_ensemble_had_nothing_is_no_solution() -> None:
    step, model = await acted(AssertionError, NOTHING, "1,280 m", NOTHING)
    assert (step.output, model.asked) == ("1,280 m", [])


async def test_without_a_valid_reply_the_most_common_solution_stands_and_is_paid_for() -> None:
    error = ReplyError("garbage")
    error.cost = Usage(calls=2)
    step, _ = await acted(error, "a", "b", "b")
    assert (step.output, step.usage.calls) == ("b", 2)


async def test_d19_one_solution_needs_no_choice_and_none_says_so() -> None:
    alone, model = await acted(AssertionError, "only", " ", "only")
    assert (alone.output, alone.usage, model.asked) == ("only", Usage(), [])
    nothing, model = await acted(AssertionError)
    assert (nothing.output, model.asked) == (NOTHING, [])


def test_solutions_beyond_the_alphabet_are_not_shown() -> None:
    assert list(label_solutions(inbox(*map(str, range(40))))) == list(LETTERS)

"""Asks: passages are sent once per prompt, and the mark of what is left out of a task is explained."""

from typing import Any

import pytest

from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage
from selfwire.evolvers.prompted_model import AS_ABOVE, PromptedModel, quote_once
from selfwire.evolvers.tacomas.schemas import Contributions
from tests.scripted import ScriptedModel, prompts

PASSAGE = "The glass bridge of Tarn was built by Mira Holt. " * 5


def test_a_long_line_is_whole_where_it_comes_first_and_cut_to_its_beginning_after_that() -> None:
    given = {"task": f"Who?\n{PASSAGE}", "trace": f"[a] It says:\n- {PASSAGE}\nMira Holt.", "feedback": "Who?"}
    made = quote_once(given)
    assert made["task"] == given["task"]
    lines = made["trace"].split("\n")
    assert (lines[0], lines[2]) == ("[a] It says:", "Mira Holt.")
    assert lines[1] == f"- The glass bridge of Tarn was built by Mira Holt. The {AS_ABOVE}"  # no word is cut
    assert made["feedback"] == "Who?"  # short lines may repeat


def test_within_a_section_too() -> None:
    assert quote_once({"runs": f"{PASSAGE}\n{PASSAGE}"})["runs"].count(PASSAGE) == 1


def test_lines_that_begin_alike_are_cut_behind_the_word_by_which_they_differ() -> None:
    high, low = (
        f"{PASSAGE}The total is {total}" for total in ("115.36, as the limit counts net prices. " * 2, "108.46.")
    )
    made = quote_once({"runs": f"{high}\n{low}\n- {high}\n{low}"})["runs"].split("\n")
    assert made[:2] == [high, low]
    assert made[2].startswith(f"- {PASSAGE}The total is 115.36, ")
    assert made[2].endswith(AS_ABOVE)
    assert made[3] == low  # it differs in its last word


class Recorder(ScriptedModel):
    """Keeps the system messages too."""

    async def generate_structured(self, schema: type[Schema], messages: Any, **more: Any) -> tuple[Schema, Usage]:
        self.system = messages[0].content
        return await super().generate_structured(schema, messages, **more)


@pytest.mark.parametrize(("task", "told"), [("Is it [...] long?", True), ("Is it long?", False)])
async def test_beside_a_cut_task_it_is_said_what_the_mark_means(task: str, *, told: bool) -> None:
    model = Recorder(Contributions=Contributions(scores=[]))
    meta = PromptedModel(model, prompts("tacomas"), guide="Be kind.")
    await meta.ask(Contributions, "contributions", scope=Scope(), task=task, answer="no", agents="[planner]")
    assert ("the team reads the whole task" in model.system) is told
    assert model.system.endswith("\n\nBe kind.")

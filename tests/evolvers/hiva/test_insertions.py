"""A new agent in a program's graph, proposed from gradients that ask for a change of the team."""

from functools import partial

import pytest

from selfwire.core.errors import BudgetError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.usage import ZERO_USAGE, Usage
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.gradients import Gradient
from selfwire.evolvers.hiva.insertions import SET_VALUE, ProgramChanges, propose_program_edit
from selfwire.evolvers.hiva.schemas import ProgramEdit
from selfwire.evolvers.prompted_model import DeclinedProposal
from tests.evolvers.hiva.doubles import LINE, gradient, meta_model
from tests.scripted import ScriptedModel

asking = partial(gradient, overall="Nobody checks it.", concerns="topology")
PLACES = {"a.answer": "what a has written into answer, before END", "s.notes": "what s has written into notes"}
CHECKER = ProgramEdit(place=" a.answer ", name="date checker", description="You check.", reason="Unchecked.")


async def propose(
    model: ScriptedModel, *gradients: Gradient, places: dict[str, str] = PLACES
) -> tuple[ProgramEdit | DeclinedProposal | None, Usage]:
    config = HivaConfig(prompt_length=100)
    return await propose_program_edit(LINE, gradients, ProgramChanges(places), meta_model(model), config, scope=Scope())


async def test_one_call_over_all_that_ask_for_a_change_of_the_team() -> None:
    model = ScriptedModel(ProgramEdit=CHECKER)
    found, usage = await propose(model, asking(), asking("end", task="t2"), gradient(system_prompt="Be brief."))
    assert found == CHECKER.model_copy(update={"place": "a.answer"})
    assert (usage.calls, model.names()) == (1, ["ProgramEdit"])
    [shown] = model.shown("ProgramEdit")
    assert "[task 1, critical]\nat a: Nobody checks it.\n[task 2, critical]\nat end: Nobody checks it." in shown
    assert "a.answer: what a has written into answer, before END\ns.notes: what s has written into notes" in shown
    assert "s -> a: You are s." in shown
    assert "Be brief." not in shown
    assert not [name for name in ("<specialists>", "<removals>", "<settings>") if name in shown]


@pytest.mark.parametrize("found", [gradient(system_prompt="x", concerns="semantics"), asking(overall=" ")])
async def test_nothing_is_asked_where_nothing_concerns_the_team_or_no_place_is_free(found: Gradient) -> None:
    model = ScriptedModel()
    assert await propose(model, found) == (None, ZERO_USAGE)
    assert await propose(model, asking(), places={}) == (None, ZERO_USAGE)


async def test_a_change_that_no_edge_of_the_program_allows_is_declined_without_a_call() -> None:
    changes = ProgramChanges(closed="no agent can be inserted: it is an agent")
    for concerns, told in (("topology", DeclinedProposal), ("semantics", type(None))):
        gradients, config = [asking(concerns=concerns)], HivaConfig()
        found, usage = await propose_program_edit(
            LINE, gradients, changes, meta_model(ScriptedModel()), config, scope=Scope()
        )
        assert isinstance(found, told)
        assert usage == ZERO_USAGE
        if isinstance(found, DeclinedProposal):
            assert found.reason == changes.closed


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            ProgramEdit(place="b.answer", description="x"),
            "'b.answer' is no listed change; listed are a.answer, s",
        ),
        (ProgramEdit(place="a.answer", description=" "), "the new agent has no description"),
        (ProgramEdit(place="a.answer", description="x" * 101), "the description has 101 characters; at most 100"),
        (ReplyError("no object"), "no object"),
    ],
)
async def test_what_cannot_be_inserted_is_declined(reply: ProgramEdit | ReplyError, told: str) -> None:
    found, _ = await propose(ScriptedModel(ProgramEdit=reply), asking())
    assert isinstance(found, DeclinedProposal)
    assert told in found.reason


SETTINGS = {"set limit": "type integer, now 1"}


def find_fault(found: ProgramEdit) -> str:
    return "" if found.value == "2" else f"{found.value!r} is no value of limit"


async def test_a_value_is_checked_while_another_can_be_chosen() -> None:
    changes = ProgramChanges(settings=SETTINGS, find_fault=find_fault)
    wrong, right = (ProgramEdit(place="set limit", value=value) for value in ("9", "2"))
    replies, config = iter([wrong, right]), HivaConfig()
    model = ScriptedModel(ProgramEdit=lambda *_: next(replies))
    found, usage = await propose_program_edit(LINE, [asking()], changes, meta_model(model), config, scope=Scope())
    assert (found, usage.calls) == (right, 2)
    assert "Your last choice was refused: '9' is no value of limit." in model.shown("ProgramEdit")[1]
    model = ScriptedModel(ProgramEdit=wrong)
    found, _ = await propose_program_edit(LINE, [asking()], changes, meta_model(model), config, scope=Scope())
    assert found == DeclinedProposal(by="critic", operation=SET_VALUE, reason="'9' is no value of limit")


async def test_gradients_that_concern_no_topology_ask_for_settings_alone() -> None:
    changes = ProgramChanges(PLACES, removals={"without a": "a"}, settings=SETTINGS, find_fault=find_fault)
    for concerns, is_listed in (("none", False), ("topology", True)):
        model = ScriptedModel(ProgramEdit=ProgramEdit())
        gradients = [gradient(overall="It reads too little.", concerns=concerns)]
        await propose_program_edit(LINE, gradients, changes, meta_model(model), HivaConfig(), scope=Scope())
        [shown] = model.shown("ProgramEdit")
        assert "set limit: type integer" in shown
        assert ("a.answer: " in shown) == ("without a: " in shown) == is_listed


async def test_no_insertion_is_an_answer_and_a_budget_is_kept() -> None:
    found, usage = await propose(ScriptedModel(ProgramEdit=ProgramEdit(name="x")), asking())
    assert (found, usage.calls) == (None, 1)
    with pytest.raises(BudgetError):
        await propose(ScriptedModel(ProgramEdit=BudgetError("spent")), asking())

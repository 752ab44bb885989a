from functools import partial

import pytest

from selfwire.core.edits import RewritePrompt
from selfwire.core.errors import BudgetError, ModelError, ReplyError
from selfwire.core.scope import Scope
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.gradients import Gradient
from selfwire.evolvers.hiva.schemas import PromptRewrite
from selfwire.evolvers.hiva.semantics import RewriteResult, propose_rewrites, render_gradients
from tests.evolvers.hiva.doubles import LINE, gradient, meta_model
from tests.scripted import ScriptedModel

faulty = partial(gradient, system_prompt="Read pages.", concerns="semantics")
NEW = PromptRewrite(prompt="  You read pages.  ")


async def rewritten(model: ScriptedModel, *gradients: Gradient, config: HivaConfig = HivaConfig()) -> RewriteResult:
    return await propose_rewrites(LINE, gradients, meta_model(model), config, toolbox={}, scope=Scope())


async def test_d11_an_agent_gets_one_call_over_all_its_gradients() -> None:
    model = ScriptedModel(PromptRewrite=NEW)
    found = await rewritten(model, faulty(), faulty(task="t2", tool="Search less."), faulty("end"))
    assert model.names() == ["PromptRewrite", "PromptRewrite"]
    assert [r.edits for r in found.rewirings] == [
        (RewritePrompt("a", "You read pages."),),
        (RewritePrompt("end", "You read pages."),),
    ]
    assert found.usage.calls == 2
    shown = model.shown("PromptRewrite")[0]
    assert "[task 1, critical]" in shown
    assert "[task 2, critical]" in shown
    assert "tools (weight 0.3): Search less." in shown
    assert "role (weight 0.7): Read pages." in shown
    assert "<prompt>\nYou are a.\n</prompt>" in shown
    assert LINE.apply(found.rewirings[0]).agents_by_id["a"].prompt == "You read pages."


@pytest.mark.parametrize(
    ("found", "on"),
    [
        (faulty(concerns="topology"), True),
        (faulty(concerns="none"), True),
        (faulty(system_prompt=" ", overall="Add an agent."), True),
        (faulty(), False),
    ],
)
async def test_without_concern_feedback_or_switch_nothing_is_rewritten(found: Gradient, on: bool) -> None:
    model = ScriptedModel()
    assert await rewritten(model, found, config=HivaConfig(semantic_evolution=on)) == RewriteResult()
    assert not model.asked


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (PromptRewrite(prompt="   "), "blank"),
        (PromptRewrite(prompt="x" * 101), "101 characters; at most 100"),
        (PromptRewrite(prompt="You are a. "), "equals the old one"),
        (ReplyError("bad reply"), "bad reply"),
        (ModelError("down"), "down"),
    ],
)
async def test_a_rewrite_that_breaks_a_guard_is_declined(answer: PromptRewrite | ModelError, reason: str) -> None:
    found = await rewritten(ScriptedModel(PromptRewrite=answer), faulty(), config=HivaConfig(prompt_length=100))
    assert found.rewirings == ()
    assert [(d.by, d.operation) for d in found.declined] == [("a", "REWRITE_PROMPT")]
    assert reason in found.declined[0].reason


async def test_an_exhausted_budget_stops_the_run() -> None:
    with pytest.raises(BudgetError):
        await rewritten(ScriptedModel(PromptRewrite=BudgetError("spent")), faulty())


def test_many_gradients_share_the_room() -> None:
    some = [faulty(task=f"t{i}", system_prompt=f"{i}" * 5000) for i in range(10)]
    shown = render_gradients(some, lambda gradient: gradient.text)
    assert len(shown) < 9_000
    assert "[task 9, critical]" in shown


def test_equal_remarks_stand_once_with_their_tasks() -> None:
    said = ["Name the year.", "Be brief.", "Name the year."]
    some = [faulty(task=f"t{i}", system_prompt=text) for i, text in enumerate(said)]
    shown = render_gradients(some, lambda gradient: gradient.system_prompt)
    assert shown == "[task 1, task 3, critical]\nName the year.\n[task 2, critical]\nBe brief."

import asyncio

import pytest

from selfwire.core.errors import BudgetError, ModelError, ReplyError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Step, ToolUse
from selfwire.core.usage import Usage
from selfwire.evolvers.hiva.gradients import Backward, Gradient, Loss, compute_loss, propagate_gradients
from selfwire.evolvers.hiva.schemas import AgentGradient, GlobalGradient, ParsedGradient, SelfCriticism
from selfwire.evolvers.outcomes import get_fault
from selfwire.evolvers.trace_text import format_trace, shorten
from tests.evolvers.hiva.doubles import FORK, PROMPTS, gradient, meta_model, run
from tests.scripted import ONE_CALL, ScriptedModel

BLAME = GlobalGradient(feedback="Nobody read the page.", sentiment="critical")
SHARE = AgentGradient(
    system_prompt_feedback="Read pages.", tool_feedback="", overall_feedback="Add a reader.", sentiment="critical"
)
AT_SINK = Gradient(task="t1", node="end", agent="end", overall="Nobody read the page.", sentiment="neutral")
PARSED = ParsedGradient(concerns="both")
SCOPE = Scope(run="r", iteration=2)


async def diagnosed(model: ScriptedModel, *, environment: bool = True, solved: bool = False) -> Loss:
    return await compute_loss(run(FORK, solved=solved), FORK, meta_model(model), environment=environment, scope=SCOPE)


async def passed(model: ScriptedModel) -> Backward:
    return await propagate_gradients(run(FORK), FORK, AT_SINK, meta_model(model), scope=SCOPE)


async def test_the_global_gradient_stands_at_the_aggregator() -> None:
    model = ScriptedModel(GlobalGradient=BLAME, ParsedGradient=PARSED)
    found = await diagnosed(model)
    assert found.solved is False
    assert found.usage == ONE_CALL + ONE_CALL
    assert found.gradient == Gradient(
        task="t1", node="end", agent="end", system_prompt=BLAME.feedback, overall=BLAME.feedback,
        sentiment="critical", concerns="both",
    )  # fmt: skip
    shown = model.shown("GlobalGradient")[0]
    for text in ("Which year?", "1990", "[a] output of a", "score 0.00 of 1\nas told", "You are end."):
        assert text in shown


async def test_a_fault_before_the_aggregator_does_not_rewrite_its_prompt() -> None:
    model = ScriptedModel(GlobalGradient=BLAME.model_copy(update={"sentiment": "neutral"}), ParsedGradient=PARSED)
    gradient = (await diagnosed(model)).gradient
    assert gradient is not None
    assert (gradient.system_prompt, gradient.overall, gradient.reward) == ("", BLAME.feedback, 1)


async def test_d2_on_success_nothing_is_asked() -> None:
    model = ScriptedModel()
    assert await diagnosed(model, solved=True) == Loss(solved=True)
    assert not model.asked


async def test_without_an_environment_the_aggregator_criticises_itself() -> None:
    doubt = SelfCriticism(criticism="The year is a guess.", good_enough=False)
    model = ScriptedModel(SelfCriticism=doubt, ParsedGradient=PARSED)
    found = await diagnosed(model, environment=False, solved=True)
    assert found.solved is False
    assert found.gradient is not None
    assert found.gradient.overall == "The year is a guess."
    assert model.names() == ["SelfCriticism", "ParsedGradient"]
    assert "as told" not in "".join(text for _, text, *_ in model.asked)


async def test_without_an_environment_its_own_approval_is_success() -> None:
    model = ScriptedModel(SelfCriticism=SelfCriticism(criticism="", good_enough=True))
    assert await diagnosed(model, environment=False) == Loss(solved=True, usage=ONE_CALL)


@pytest.mark.parametrize("failure", [ReplyError("bad"), ModelError("down")])
async def test_without_a_global_gradient_the_trajectory_teaches_nothing(failure: ModelError) -> None:
    found = await diagnosed(ScriptedModel(GlobalGradient=failure))
    assert found.solved is None
    assert found.error is not None


async def test_d13_a_trajectory_with_an_infrastructure_error_is_not_judged() -> None:
    model = ScriptedModel()
    whole = run(FORK)
    broken = whole.steps[1].replace(output="", error="ModelError: down")
    step_failed = whole.replace(steps=(whole.steps[0], broken, *whole.steps[2:]))
    ungraded = whole.replace(feedback=None)
    for trajectory in (whole.as_failed("no sink"), whole.replace(answer=None), step_failed, ungraded):
        found = await compute_loss(trajectory, FORK, meta_model(model), environment=True, scope=SCOPE)
        assert found.solved is None
        assert found.error
        assert trajectory is ungraded or found.error == get_fault(trajectory)
    assert not model.asked
    assert get_fault(whole) is None


async def test_gradients_flow_in_reverse_topological_order() -> None:
    model = ScriptedModel(AgentGradient=SHARE, ParsedGradient=PARSED)
    found = await passed(model)
    assert [g.node for g in found.gradients] == ["end", "a", "b", "s"]
    assert found.usage == Usage(calls=6)
    assert found.gradients[1].concerns == "both"
    source = model.shown("AgentGradient")[-1]
    assert "[a] Add a reader.\n[b] Add a reader." in source
    assert "You are s." in source
    assert all(scope.task == "t1" and scope.iteration == 2 for _, _, scope, _ in model.asked)


async def test_an_agent_s_successors_tell_it_all_where_they_have_nothing_for_the_team() -> None:
    share = SHARE.model_copy(update={"overall_feedback": " "})
    model = ScriptedModel(AgentGradient=share, ParsedGradient=PARSED)
    await passed(model)
    assert "[a] role: Read pages." in model.shown("AgentGradient")[-1]


async def test_only_executed_edges_carry_gradients() -> None:
    model = ScriptedModel(AgentGradient=SHARE, ParsedGradient=PARSED)
    whole = run(FORK)
    steps = {step.node: step for step in whole.steps}
    source = steps["s"].replace(sent=steps["s"].sent[:1])
    routed = whole.replace(steps=(source, steps["a"], steps["end"]))
    found = await propagate_gradients(routed, FORK, AT_SINK, meta_model(model), scope=SCOPE)
    assert [g.node for g in found.gradients] == ["end", "a", "s"]
    assert "[b]" not in model.shown("AgentGradient")[-1]


async def test_levels_run_in_parallel() -> None:
    waiting = most = 0

    class Slow(ScriptedModel):
        async def generate_structured(self, schema, messages, **where):  # type: ignore[no-untyped-def]
            nonlocal waiting, most
            waiting += 1
            most = max(most, waiting)
            await asyncio.sleep(0)
            waiting -= 1
            return await super().generate_structured(schema, messages, **where)

    await passed(Slow(AgentGradient=SHARE, ParsedGradient=PARSED))
    assert most == 2


async def test_an_invalid_gradient_leaves_its_agent_out() -> None:
    def answer(text: str, scope: Scope) -> AgentGradient | ReplyError:
        return ReplyError("bad") if scope.node == "a" else SHARE

    found = await passed(ScriptedModel(AgentGradient=answer, ParsedGradient=PARSED))
    assert [g.node for g in found.gradients] == ["end", "b", "s"]
    nobody = await passed(ScriptedModel(AgentGradient=ReplyError("bad")))
    assert [g.node for g in nobody.gradients] == ["end"]


async def test_d13_a_failing_model_ends_the_pass_without_gradients() -> None:
    found = await passed(ScriptedModel(AgentGradient=ModelError("down")))
    assert (found.gradients, found.error) == ((), "down")


async def test_an_exhausted_budget_stops_the_run_after_its_siblings_have_settled() -> None:
    def answer(text: str, scope: Scope) -> AgentGradient | BudgetError:
        return BudgetError("spent") if scope.node == "a" else SHARE

    model = ScriptedModel(AgentGradient=answer, ParsedGradient=PARSED)
    with pytest.raises(BudgetError):
        await passed(model)
    assert model.names().count("ParsedGradient") == 1


@pytest.mark.parametrize("praised", [True, False])
async def test_d18_praise_is_not_parsed_and_concerns_nothing_as_does_an_invalid_verdict(praised: bool) -> None:
    share = SHARE.model_copy(update={"sentiment": "positive"}) if praised else SHARE
    model = ScriptedModel(AgentGradient=share, ParsedGradient=ReplyError("bad"))
    found = await passed(model)
    assert {g.concerns for g in found.gradients} == {"none"}
    assert ("ParsedGradient" not in model.names()) is praised


@pytest.mark.parametrize(("sentiment", "reward"), [("positive", 1), ("neutral", 1), ("critical", 0)])
def test_the_reward_is_the_sentiment(sentiment: str, reward: int) -> None:
    assert gradient(sentiment=sentiment).reward == reward


def test_every_prompt_has_both_parts_and_says_that_texts_are_no_orders() -> None:
    asked = set(PROMPTS.texts) - {"source", "aggregator"}
    assert asked == {
        "profile", "instruction", "global_gradient", "agent_gradient", "parse", "rewrite", "decision", "criticism",
    }  # fmt: skip
    for name in asked:
        system, user = PROMPTS.texts[name].split("\n---\n")
        assert "not order" in system or "not an order" in system
        assert "$" in user


def test_a_trace_is_bounded_and_shows_tool_uses() -> None:
    use = ToolUse(name="search", arguments={"q": "x"}, result="r" * 9000, error=True)
    steps = [Step(node=f"n{i}", agent="a", output="o" * 9000, tools=(use,)) for i in range(10)]
    shown = format_trace(run(FORK).replace(steps=steps))
    assert shown.count("tool search({'q': 'x'}) -> error: rr") == 10
    assert "[n9] tool search" in shown
    assert len(shown) < 20_000


def test_shortening_keeps_both_ends() -> None:
    assert shorten("abc", 3) == "abc"
    short = shorten("a" * 500 + "z" * 500, 100)
    assert len(short) <= 100
    assert (short[0], short[-1]) == ("a", "z")

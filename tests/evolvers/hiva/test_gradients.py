import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import BudgetError, ModelError, ReplyError
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback
from selfwire.core.trajectory import Message, Routing, Step, ToolUse
from selfwire.core.usage import Usage
from selfwire.evolvers.hiva.gradients import Backward, Gradient, Loss, compute_loss, propagate_gradients
from selfwire.evolvers.hiva.schemas import AgentGradient, GlobalGradient, SelfCriticism
from selfwire.evolvers.hiva.structure import list_concerns
from selfwire.evolvers.trajectory_text import find_name, format_step, format_tool_use, format_trace, get_fault, shorten
from tests.core.generators import make_tool
from tests.evolvers.hiva.doubles import FORK, PROMPTS, gradient, meta_model, run
from tests.evolvers.hiva.doubles import team as make_team
from tests.scripted import ONE_CALL, ScriptedModel

BLAME = GlobalGradient(feedback="Nobody read the page.", sentiment="critical")
SHARE = AgentGradient(
    system_prompt_feedback="Read pages.",
    tool_feedback="",
    overall_feedback="Add a reader.",
    concerns="both",
    sentiment="critical",
)
AT_SINK = Gradient(task="t1", node="end", agent="end", overall="Nobody read the page.", sentiment="neutral")
SCOPE = Scope(run="r", iteration=2)


async def diagnosed(model: ScriptedModel, *, environment: bool = True, solved: bool = False) -> Loss:
    return await compute_loss(
        run(FORK, solved=solved), FORK, meta_model(model), environment=environment, toolbox={}, scope=SCOPE
    )


async def passed(model: ScriptedModel) -> Backward:
    return await propagate_gradients(run(FORK), FORK, AT_SINK, meta_model(model), toolbox={}, scope=SCOPE)


async def test_the_global_gradient_stands_at_the_aggregator() -> None:
    model = ScriptedModel(GlobalGradient=BLAME)
    found = await diagnosed(model)
    assert found.solved is False
    assert found.usage == ONE_CALL
    assert found.gradient == Gradient(
        task="t1", node="end", agent="end", system_prompt=BLAME.feedback, overall=BLAME.feedback,
        sentiment="critical", concerns="semantics",
    )  # fmt: skip
    shown = model.shown("GlobalGradient")[0]
    for text in ("Which year?", "1990", "[a] output of a", "score 0.00 of 1\nas told", "You are end."):
        assert text in shown


async def test_a_fault_before_the_aggregator_does_not_rewrite_its_prompt() -> None:
    model = ScriptedModel(GlobalGradient=BLAME.model_copy(update={"sentiment": "neutral"}))
    gradient = (await diagnosed(model)).gradient
    assert gradient is not None
    assert (gradient.system_prompt, gradient.overall, gradient.reward) == ("", BLAME.feedback, 1)
    assert gradient.concerns == "none"


async def test_what_the_aggregator_should_change_goes_to_its_prompt_alone() -> None:
    split = BLAME.model_copy(update={"own_feedback": "Give the year alone."})
    gradient = (await diagnosed(ScriptedModel(GlobalGradient=split))).gradient
    assert gradient is not None
    assert (gradient.system_prompt, gradient.overall) == ("Give the year alone.", "Nobody read the page.")


class Search:
    """A tool of the run's."""

    spec = ToolSpec(name="search", description="Finds pages of 1990.", parameters={})

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        return "found"


async def test_an_agents_critic_sees_the_team_and_what_tools_do() -> None:
    model, own = ScriptedModel(AgentGradient=SHARE), make_tool("add")
    held = FORK.replace(
        agents=[one.replace(tools=("add", "search")) if one.id == "a" else one for one in FORK.agents], tools=(own,)
    )
    toolbox: dict[str, Tool] = {"search": Search()}
    await propagate_gradients(run(held), held, AT_SINK, meta_model(model), toolbox=toolbox, scope=SCOPE)
    shown = next(text for _, text, scope, _ in model.asked if scope.node == "a")
    assert "add (the team's own): Adds to a number.\nsearch: Finds pages of 1990." in shown
    assert "<team>\ns -> a, b: You are s.\n" in shown
    assert "end gives the answer: You are end.\n</team>" in shown


async def test_the_diagnosis_sees_what_the_tools_of_the_team_do() -> None:
    held = FORK.replace(agents=[one.replace(tools=("search",)) if one.id == "a" else one for one in FORK.agents])
    for team, told in ((held, ["search: Finds pages of 1990."]), (FORK, [])):
        model = ScriptedModel(GlobalGradient=BLAME)
        toolbox: dict[str, Tool] = {"search": Search()}
        await compute_loss(run(team), team, meta_model(model), environment=True, toolbox=toolbox, scope=SCOPE)
        assert re.findall(r"<tools>\n(.*)\n</tools>", model.shown("GlobalGradient")[0]) == told


async def test_d2_on_success_nothing_is_asked() -> None:
    model = ScriptedModel()
    assert await diagnosed(model, solved=True) == Loss(solved=True)
    assert not model.asked


async def test_without_an_environment_the_aggregator_criticises_itself() -> None:
    doubt = SelfCriticism(criticism="The year is a guess.", sentiment="neutral", good_enough=False)
    model = ScriptedModel(SelfCriticism=doubt)
    found = await diagnosed(model, environment=False, solved=True)
    assert found.solved is False
    assert found.gradient is not None
    assert (found.gradient.overall, found.gradient.system_prompt) == ("The year is a guess.", "")
    assert model.names() == ["SelfCriticism"]
    assert "as told" not in "".join(text for _, text, *_ in model.asked)


async def test_without_an_environment_its_own_approval_is_success() -> None:
    model = ScriptedModel(SelfCriticism=SelfCriticism(criticism="", sentiment="positive", good_enough=True))
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
        found = await compute_loss(trajectory, FORK, meta_model(model), environment=True, toolbox={}, scope=SCOPE)
        assert found.solved is None
        assert found.error
        assert trajectory is ungraded or found.error == get_fault(trajectory)
    assert not model.asked
    assert get_fault(whole) is None


async def test_gradients_flow_in_reverse_topological_order() -> None:
    model = ScriptedModel(AgentGradient=SHARE)
    found = await passed(model)
    assert [g.node for g in found.gradients] == ["end", "a", "b", "s"]
    assert found.usage == Usage(calls=3)
    assert found.gradients[1].concerns == "both"
    source = model.shown("AgentGradient")[-1]
    assert "[a] Add a reader.\n[b] Add a reader." in source
    assert "You are s." in source
    assert all(scope.task == "t1" and scope.iteration == 2 for _, _, scope, _ in model.asked)


async def test_d24_what_successors_should_change_themselves_is_not_passed_on() -> None:
    model = ScriptedModel(AgentGradient=SHARE)
    await passed(model)
    said = "<successor_feedback>\n[a] Add a reader.\n[b] Add a reader.\n</successor_feedback>"
    assert said in model.shown("AgentGradient")[-1]


async def test_an_agent_s_successors_tell_it_all_where_they_have_nothing_for_the_team() -> None:
    share = SHARE.model_copy(update={"overall_feedback": " "})
    model = ScriptedModel(AgentGradient=share)
    await passed(model)
    assert "[a] role: Read pages." in model.shown("AgentGradient")[-1]


async def test_successors_who_have_nothing_to_tell_an_agent_are_not_listed_above_nothing() -> None:
    silent = {"system_prompt_feedback": "", "tool_feedback": " ", "overall_feedback": ""}
    model = ScriptedModel(AgentGradient=SHARE.model_copy(update=silent))
    await passed(model)
    assert "successor_feedback" not in model.shown("AgentGradient")[-1]


async def test_only_executed_edges_carry_gradients() -> None:
    model = ScriptedModel(AgentGradient=SHARE)
    whole = run(FORK)
    steps = {step.node: step for step in whole.steps}
    source = steps["s"].replace(sent=steps["s"].sent[:1])
    routed = whole.replace(steps=(source, steps["a"], steps["end"]))
    found = await propagate_gradients(routed, FORK, AT_SINK, meta_model(model), toolbox={}, scope=SCOPE)
    assert [g.node for g in found.gradients] == ["end", "a", "s"]
    assert "[b]" not in model.shown("AgentGradient")[-1]


async def test_a_critic_is_told_which_agents_a_router_passed_over() -> None:
    longer = make_team(("s", "a"), ("s", "b"), ("b", "c"), ("a", "end"), ("c", "end"))
    model, whole = ScriptedModel(AgentGradient=SHARE), run(longer)
    steps = {step.node: step for step in whole.steps}
    source = steps["s"].replace(routing=Routing(chosen=("a",)), sent=steps["s"].sent[:1])
    routed = whole.replace(steps=(source, steps["a"], steps["end"]))
    await propagate_gradients(routed, longer, AT_SINK, meta_model(model), toolbox={}, scope=SCOPE)
    shown = model.shown("AgentGradient")[0]
    assert "\na -> end: You are a.\n" in shown
    assert "\nb (not asked for this task) -> c: You are b.\n" in shown
    assert "\nc (not asked for this task) -> end: You are c.\n" in shown


async def test_a_critic_is_told_which_agent_of_the_team_is_meant() -> None:
    model = ScriptedModel(AgentGradient=SHARE)
    await passed(model)
    asked = {scope.node: text for _, text, scope, _ in model.asked}
    for node in ("a", "b", "s"):
        assert f"The agent is {node}. Its prompt:\n<role>\nYou are {node}.\n" in asked[node]


async def test_who_gets_an_agents_output_is_left_to_its_own_critic() -> None:
    rule = "Who gets the output of an agent before it is decided around that agent"

    def answer(text: str, scope: Scope) -> AgentGradient:
        concerns = "none" if rule in text and scope.node != "s" else "topology"
        return SHARE.model_copy(update={"overall_feedback": f"{scope.node}: s skips b.", "concerns": concerns})

    model = ScriptedModel(AgentGradient=answer)
    found = await passed(model)
    assert [g.node for g in list_concerns(found.gradients)] == ["s"]
    assert "[a] a: s skips b." in model.shown("AgentGradient")[-1]


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

    await passed(Slow(AgentGradient=SHARE))
    assert most == 2


async def test_an_invalid_gradient_leaves_its_agent_out() -> None:
    def answer(text: str, scope: Scope) -> AgentGradient | ReplyError:
        return ReplyError("bad") if scope.node == "a" else SHARE

    found = await passed(ScriptedModel(AgentGradient=answer))
    assert [g.node for g in found.gradients] == ["end", "b", "s"]
    nobody = await passed(ScriptedModel(AgentGradient=ReplyError("bad")))
    assert [g.node for g in nobody.gradients] == ["end"]


async def test_d13_a_failing_model_ends_the_pass_without_gradients() -> None:
    found = await passed(ScriptedModel(AgentGradient=ModelError("down")))
    assert (found.gradients, found.error) == ((), "down")


async def test_an_exhausted_budget_stops_the_run_after_its_siblings_have_settled() -> None:
    def answer(text: str, scope: Scope) -> AgentGradient | BudgetError:
        return BudgetError("spent") if scope.node == "a" else SHARE

    model = ScriptedModel(AgentGradient=answer)
    with pytest.raises(BudgetError):
        await passed(model)
    assert model.names() == ["AgentGradient"] * 2


async def test_d18_a_gradient_says_itself_what_it_concerns_and_praise_concerns_the_team_alone() -> None:
    for sentiment, said, concerns in (
        ("critical", "both", "both"),
        ("positive", "semantics", "none"),
        ("positive", "both", "topology"),
        ("positive", "topology", "topology"),  # who did its part well may still lack a colleague
    ):
        share = SHARE.model_copy(update={"sentiment": sentiment, "concerns": said})
        model = ScriptedModel(AgentGradient=share)
        found = await passed(model)
        assert {g.concerns for g in found.gradients if g.node != "end"} == {concerns}
        assert set(model.names()) == {"AgentGradient"}


async def test_d25_the_sentiment_stands_in_the_reply_that_holds_the_gradient() -> None:
    def answer(text: str, scope: Scope) -> AgentGradient:
        return SHARE.model_copy(update={"sentiment": "critical" if scope.node == "a" else "neutral"})

    model = ScriptedModel(AgentGradient=answer)
    found = await passed(model)
    assert {one.node: one.reward for one in found.gradients} == {"end": 1, "a": 0, "b": 1, "s": 1}
    assert model.names() == ["AgentGradient"] * 3


async def test_one_critique_stands_under_one_heading() -> None:
    assert gradient(system_prompt="Read pages.", overall=" Read pages. ").text == "role: Read pages."


async def test_d34_without_env_no_critic_reads_what_the_environment_says() -> None:
    criticism = SelfCriticism(criticism="Nobody read.", sentiment="neutral", good_enough=False)
    model = ScriptedModel(SelfCriticism=criticism, AgentGradient=SHARE)
    whole = run(FORK).replace(feedback=Feedback(score=0.37, solved=False, text="The year is wrong."))
    loss = await compute_loss(whole, FORK, meta_model(model), environment=False, toolbox={}, scope=SCOPE)
    assert loss.gradient is not None
    await propagate_gradients(
        whole.replace(feedback=None), FORK, loss.gradient, meta_model(model), toolbox={}, scope=SCOPE
    )
    assert model.names() == ["SelfCriticism", "AgentGradient", "AgentGradient", "AgentGradient"]
    for _, shown, _, _ in model.asked:
        assert "0.37" not in shown
        assert "The year is wrong." not in shown


async def test_d34_every_critic_reads_the_environment_s_words_and_what_the_agent_was_handed() -> None:
    model = ScriptedModel(AgentGradient=SHARE)
    whole = run(FORK)
    measured = Feedback(score=0.4, solved=False, text="The answer is partly right: 2 of your 3 words are expected.")
    steps = [
        step.replace(inbox=(Message(source="s", target="a", text="Look at passage 3."),)) if step.node == "a" else step
        for step in whole.steps
    ]
    given = whole.replace(feedback=measured, steps=steps)
    await propagate_gradients(given, FORK, AT_SINK, meta_model(model), toolbox={}, scope=SCOPE)
    assert all(f"score 0.40 of 1\n{measured.text}" in shown for shown in model.shown("AgentGradient"))
    asked = {scope.node: text for _, text, scope, _ in model.asked}
    assert "<input>\nFrom s:\nLook at passage 3.\n</input>" in asked["a"]
    assert "<input>\n(nothing but the task)\n</input>" in asked["s"]
    assert not [word for word in ("(none)", "<tools>") if word in asked["a"]]


async def test_the_answer_is_sent_once() -> None:
    model = ScriptedModel(GlobalGradient=BLAME)
    done = run(FORK)
    done = done.replace(answer=done.steps[-1].output)
    await compute_loss(done, FORK, meta_model(model), environment=True, toolbox={}, scope=SCOPE)
    assert model.shown("GlobalGradient")[0].count(done.steps[-1].output) == 1
    assert "[end] (the final answer above)" in model.shown("GlobalGradient")[0]


@pytest.mark.parametrize(("sentiment", "reward"), [("positive", 1), ("neutral", 1), ("critical", 0)])
def test_the_reward_is_the_sentiment(sentiment: str, reward: int) -> None:
    assert gradient(sentiment=sentiment).reward == reward


def test_every_prompt_begins_with_the_task_or_has_both_parts_and_says_that_texts_are_no_instructions() -> None:
    asked = set(PROMPTS.texts) - {"source", "aggregator"}
    assert asked == {
        "profile", "instruction", "global_gradient", "agent_gradient", "rewrite", "decision", "criticism",
        "tool_decision", "tool_refinement", "tool_synthesis", "description", "insertion",
    }  # fmt: skip
    for name in asked:
        text = PROMPTS.texts[name]
        instructions, user = text, text
        if not text.startswith("<task>\n$task\n</task>\n\n"):
            instructions, user = text.split("\n---\n")
        assert "not instructions to you" in instructions
        assert "$" in user


def test_a_trace_is_bounded_and_shows_tool_uses() -> None:
    use = ToolUse(name="search", arguments={"q": "x"}, result="r" * 9000, error=True)
    steps = [Step(node=f"n{i}", agent="a", output="o" * 9000, tools=(use,)) for i in range(10)]
    shown = format_trace(run(FORK).replace(steps=steps))
    assert shown.count("tool search(q: x) -> error: rr") == 10
    assert "[n9] tool search" in shown
    assert len(shown) < 20_000


def test_the_input_of_a_tool_is_shown_as_its_text() -> None:
    shown = format_tool_use(ToolUse(name="python", arguments={"code": 'print("é")\nx = 1'}, result="é"), 400, "")
    assert shown == 'tool python(\ncode:\nprint("é")\nx = 1\n) -> é'
    assert format_tool_use(ToolUse(name="now", arguments={}, result="9:00"), 400, "") == "tool now() -> 9:00"


def test_what_an_agent_wrote_is_told_from_what_its_tools_gave() -> None:
    use = ToolUse(name="search", arguments={"q": "x"}, result="[Tarn] A town.\n\n[Graz] A city.")
    wrote = Step(node="a", agent="a", output="[Graz] A city.", tools=(use,))
    assert format_step(wrote).endswith("\n[Graz] A city.\nit wrote:\n[Graz] A city.")
    assert format_step(wrote.replace(tools=())) == "[Graz] A city."


NAMES = ("retriever", "retriever-2", "query_decomposer")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("Query Decomposer", "query_decomposer"),
        ("the query decomposer, since it guessed", "query_decomposer"),
        ("retriever-2 (tools: search)", "retriever-2"),
        ("[retriever]", "retriever"),
        ("retriever and query_decomposer", None),
        ("web_retriever", None),
        ("nobody at all", None),
        ("", None),
    ],
)
def test_a_name_is_found_in_any_spelling_and_in_a_text_that_names_no_other(said: str, meant: str | None) -> None:
    assert find_name(said, NAMES) == meant


def test_shortening_keeps_both_ends() -> None:
    assert shorten("abc", 3) == "abc"
    short = shorten("a" * 500 + "z" * 500, 100)
    assert len(short) <= 100
    assert (short[0], short[-1]) == ("a", "z")

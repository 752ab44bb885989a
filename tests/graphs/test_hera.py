"""HERA as the outer evolution calls it: groups, what they teach, second groups, prompts, switches."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, RemoveAgent, Revoke, Rewiring, RewritePrompt
from selfwire.core.errors import ModelError, TaskBudgetError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question, Splits, Task
from selfwire.core.team import Team
from selfwire.core.topology import Edge, Node, Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Budget
from selfwire.core.values import to_plain_json
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.failures import get_buffers
from selfwire.evolvers.hera.initial_team import ONE_PLAN, REMOVED, render_pool
from selfwire.evolvers.hera.library import get_library, with_library
from selfwire.evolvers.hera.mutation import get_mutated
from selfwire.evolvers.hera.planning import choose_typical_plans, list_shorter_plans
from selfwire.evolvers.hera.rules import Prompt
from selfwire.graphs.evolve import EvolutionConfig, EvolutionLoop, run_evolution
from selfwire.graphs.hera import Hera
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import EvolveResult
from selfwire.graphs.pruning import PruningRecord, list_parts, make_pruned
from selfwire.models.budget import Ledger
from selfwire.store.journal import Journal
from selfwire.store.library import open_library
from selfwire.tools.calculator import CalculatorTool
from tests.evolvers.hera.doubles import known
from tests.graphs.grading import no_grade
from tests.graphs.orchestra import LONG, RIDDLE, SHORT, Judge, Orchestra, by_sample, grown, hera, learning


def agents(done: Trajectory) -> tuple[str, ...]:
    return tuple(step.agent for step in done.steps)


async def evolved(
    team: tuple[Hera, Ctx[HeraConfig]],
    judge: Judge,
    questions: Sequence[Question] = (RIDDLE,),
    workflow: Team | None = None,
) -> tuple[EvolveResult, list[Trajectory]]:
    made, ctx = team
    workflow, batch = workflow or made.seed(), list[Trajectory]()
    for question in questions:
        batch += await grown(judge, await made.explore(workflow, question, ctx))
    return await made.propose(workflow, batch, learning(ctx, judge)), batch


async def test_a_question_is_answered_by_one_team_planned_for_it() -> None:
    model = Orchestra()
    made, ctx = hera(model)
    done = await made.answer(made.seed(), RIDDLE, ctx)
    assert model.names() == ["TopologyPlan"]
    assert agents(done) == SHORT
    assert done.answer == "answer_generator heard query_decomposer"
    assert (done.overhead.calls, done.usage.calls) == (1, 3)
    assert (done.notes["insights"], done.notes["repairs"], done.notes["default"]) == ((), (), False)
    assert Topology.model_validate(to_plain_json(done.notes["topology"])).order() == SHORT
    assert {heat for *_, heat in (*model.asked, *model.spoke)} == {0.0}


async def test_d22_a_question_is_characterised_only_where_insights_can_be_retrieved_by_it() -> None:
    for options, insights, asked in (
        ({}, (), ["TopologyPlan"]),
        ({}, (known("take the calculator"),), ["QueryProfile", "TopologyPlan"]),
        ({"library": False}, (known("take the calculator"),), ["TopologyPlan"]),
    ):
        model = Orchestra()
        made, ctx = hera(model, **options)
        done = await made.answer(with_library(made.seed(), insights), RIDDLE, ctx)
        assert model.names() == asked
        characterised = "QueryProfile" in asked
        [shown] = [shown for name, shown, _ in model.asked if name == "TopologyPlan"]
        assert ("<profile>\nbridge question, medium. solve a riddle\n</profile>" in shown) == characterised
        assert ("<profile>" in shown, "profile" in done.notes) == (characterised, characterised)


async def test_d22_a_group_that_teaches_the_first_insights_is_characterised_then() -> None:
    model, judge = Orchestra(), Judge()
    found, _ = await evolved(hera(model, rope=False), judge)
    assert model.names() == [*["TopologyPlan"] * 4, "QueryProfile", "Reflection"]
    assert [insight.profile.summary for insight in get_library(found.workflow)] == ["solve a riddle"]
    assert found.notes["learning"]["calls"] == 2
    down = Orchestra(QueryProfile=ModelError("the provider is down"))
    found, _ = await evolved(hera(down, rope=False), judge)
    assert [insight.profile.summary for insight in get_library(found.workflow)] == [""]


async def test_a_group_is_characterised_once_and_planned_for_g_times_at_its_own_temperature() -> None:
    model = Orchestra()
    made, ctx = hera(model, group=3)
    team = with_library(made.seed(), (known("Never mind."),))
    found = await made.explore(team, RIDDLE, ctx)
    assert model.names() == ["QueryProfile", *["TopologyPlan"] * 3]
    assert [heat for name, _, heat in model.asked] == [0.0, 0.9, 0.9, 0.9]
    assert {heat for *_, heat in model.spoke} == {0.9}
    assert [(done.sample, agents(done)) for done in found] == [(0, SHORT), (1, LONG), (2, LONG)]
    assert [done.overhead.calls for done in found] == [2, 1, 1]


async def test_the_teams_of_a_group_run_at_the_same_time() -> None:
    model = Orchestra(meeting=8)  # nobody gets an answer before all eight speak
    made, ctx = hera(model, group=8)
    found = await made.explore(made.seed(), RIDDLE, ctx)
    assert (model.peak, len(found)) == (8, 8)


async def test_a_member_whose_plan_fails_ends_as_an_error_by_itself() -> None:
    def planned(shown: str, scope: Scope) -> Any:
        return ModelError("the provider is down") if scope.sample == 1 else by_sample(SHORT)(shown, scope)

    made, ctx = hera(Orchestra(TopologyPlan=planned), group=2)
    fine, broken = await made.explore(made.seed(), RIDDLE, ctx)
    assert (fine.error, broken.error, broken.sample) == (None, "ModelError: the provider is down", 1)


async def test_a_member_that_the_calls_of_its_task_do_not_suffice_for_ends_as_an_error_by_itself() -> None:
    def planned(shown: str, scope: Scope) -> Any:
        return TaskBudgetError("no call is left") if scope.sample == 1 else by_sample(SHORT)(shown, scope)

    made, ctx = hera(Orchestra(TopologyPlan=planned), group=2)
    fine, broken = await made.explore(made.seed(), RIDDLE, ctx)
    assert (fine.error, broken.error, broken.usage.calls) == (None, "no call is left", 0)
    with pytest.raises(TaskBudgetError):
        await made.answer(made.seed(), RIDDLE, ctx.where(sample=1))


async def test_a_mixed_group_teaches_and_the_next_similar_question_is_planned_otherwise() -> None:
    (made, ctx), judge = hera(rope=False), Judge()
    team = made.seed()
    before = await made.answer(team, RIDDLE, ctx)
    found, _ = await evolved((made, ctx), judge, workflow=team)
    [insight] = get_library(found.workflow)
    assert (insight.text, insight.uses) == ("take the calculator", 0)
    assert [str(source) for source in insight.sources] == [f"0/q1#{sample}" for sample in range(4)]
    assert found.notes["groups"] == {"mixed": 1, "zero": 0, "other": 0}
    similar = Question(id="q2", input="What are you?")
    after = await made.answer(found.workflow, similar, ctx)
    assert (agents(before), agents(after)) == (SHORT, LONG)
    assert [one["id"] for one in after.notes["insights"]] == [insight.id]


@pytest.mark.parametrize(("wanted", "uses", "successes"), [("calculator", 4, 4), ("reflect_agent", 4, 0)])
async def test_d1_utility_follows_what_became_of_those_who_were_shown_the_insight(
    wanted: str, uses: int, successes: int
) -> None:
    (made, ctx), judge = hera(rope=False, mutation=False), Judge(wanted)
    team = with_library(made.seed(), (known("take the calculator"),))
    found, batch = await evolved((made, ctx), judge, workflow=team)
    [insight] = get_library(found.workflow)
    assert (insight.uses, insight.successes) == (uses, successes)
    assert (insight.utility > 0.5) == (wanted == "calculator")
    assert found.notes["groups"]["mixed"] == 0  # not only groups that are reflected on count
    again = await made.propose(found.workflow, batch, learning(ctx, no_grade))
    assert get_library(again.workflow)[0].uses == 8


async def test_groups_of_one_outcome_are_not_reflected_on() -> None:
    model = Orchestra(TopologyPlan=by_sample(LONG))
    found, _ = await evolved(hera(model), Judge())
    assert "Reflection" not in model.names()
    assert found.workflow == hera()[0].seed()
    assert (found.applied, get_library(found.workflow)) == ((), ())


async def test_d6_a_group_that_scores_nothing_gets_one_more_group_and_is_compared_with_it() -> None:
    model, judge = Orchestra(TopologyPlan=by_sample(SHORT)), Judge("counter")
    found, _ = await evolved(hera(model, rope=False), judge)
    tried = [(agents(done), at.sample) for done, at in judge.graded]
    assert tried == [
        (("evidence_selector", "answer_generator"), 4), (("query_decomposer", "counter", "answer_generator"), 5)
    ]  # fmt: skip
    assert {heat for scope, _, heat in model.spoke if scope.sample >= 4} == {0.9}
    assert found.notes["groups"] == {"mixed": 1, "zero": 0, "other": 0}
    assert [str(source) for source in get_library(found.workflow)[0].sources] == [f"0/q1#{n}" for n in range(6)]
    assert get_mutated(found.workflow) == ("q1",)


async def test_d6_there_is_one_second_group_per_question() -> None:
    judge = Judge("nobody")
    made, ctx = hera(Orchestra(TopologyPlan=by_sample(SHORT)), rope=False)
    found, batch = await evolved((made, ctx), judge)
    assert len(judge.graded) == 2
    again = await made.propose(found.workflow, batch, learning(ctx, no_grade))
    assert again.notes["mutated"] == ()
    assert again.workflow == found.workflow


@pytest.mark.parametrize("outage", [{"FailedAgent": ModelError("down")}, {"failing": "evolve"}])
async def test_d11_an_outage_takes_no_questions_second_group(outage: dict[str, Any]) -> None:
    made, ctx = hera(Orchestra(TopologyPlan=by_sample(SHORT), **outage), rope=False)
    found, batch = await evolved((made, ctx), Judge("nobody"))
    assert get_mutated(found.workflow) == ()
    recovered, ctx = hera(Orchestra(TopologyPlan=by_sample(SHORT)), rope=False)
    again = await recovered.propose(found.workflow, batch, learning(ctx, Judge("nobody")))
    assert get_mutated(again.workflow) == ("q1",)


async def test_a_newcomer_that_stays_out_of_the_pool_leaves_no_failures_behind() -> None:
    class Lenient(Judge):
        async def __call__(self, done: Trajectory, at: Scope) -> Trajectory:
            helped = 0.3 * any(step.agent == "counter" for step in done.steps)  # best of the group, and still failed
            return done.with_feedback(Feedback(score=helped, solved=False, text="wrong"))

    def blames(shown: str, scope: Scope) -> dict[str, str]:
        return {"agent": "counter" if "counter" in shown else "query_decomposer"}

    found, _ = await evolved(hera(Orchestra(TopologyPlan=by_sample(SHORT), FailedAgent=blames)), Lenient())
    assert "counter" not in found.workflow.agents_by_id
    assert (get_buffers(found.workflow), found.notes["ropes"]) == ({}, ())


async def test_d8_a_newcomer_that_helped_joins_the_pool() -> None:
    made, ctx = hera(Orchestra(TopologyPlan=by_sample(SHORT)), rope=False)
    found, _ = await evolved((made, ctx), Judge("counter"))
    assert found.workflow.agents_by_id["counter"].prompt == "You count."
    [joined] = found.applied
    assert (joined.operation, found.workflow.lineage.rewirings) == ("MUTATE", (joined,))
    other, _ = await evolved((made, ctx), Judge("query_rewriter"))
    assert "counter" not in other.workflow.agents_by_id


async def test_the_prompt_of_the_failed_agent_is_varied_and_the_whole_trajectory_replayed() -> None:
    model, judge = Orchestra(), Judge()
    made, ctx = hera(model, library=False)
    found, _ = await evolved((made, ctx), judge)
    replays = [(scope, system) for scope, system, heat in model.spoke if "rope" in scope.phase]
    names = ("original", "efficiency", "thoroughness", "risk_sensitivity")
    assert {scope.phase for scope, _ in replays} == {f"evolve/rope query_decomposer {name}" for name in names}
    assert {heat for scope, _, heat in model.spoke if "rope" in scope.phase} == {0.0}
    for scope, system in replays:
        varied = scope.node == "query_decomposer" and not scope.phase.endswith("original")
        assert ("Wake up." in system) == varied  # the other prompts are frozen
    assert [agents(done) for done, _ in judge.graded] == [SHORT] * 4
    assert len({at for _, at in judge.graded}) == 4
    [rewriting] = found.applied
    assert (rewriting.operation, rewriting.by) == ("ROPE", "query_decomposer")
    core = made.seed().agents_by_id["query_decomposer"].prompt
    prompt = Prompt.of(found.workflow.agents_by_id["query_decomposer"].prompt)
    assert (prompt.core, prompt.rules) == (core, ("Wake up.",))
    assert [one.cause for one in get_buffers(found.workflow)["query_decomposer"]] == ["it slept"]
    assert found.workflow.lineage.parent == made.seed().fingerprint


async def test_whoever_changes_a_prompt_or_a_topology_reads_what_the_tools_do() -> None:
    tool = CalculatorTool()
    model = Orchestra(TopologyPlan=by_sample(LONG), FailedAgent={"agent": "calculator", "cause": "it slept"})
    made, ctx = hera(model, library=False)
    ctx = replace(ctx, tools={tool.spec.name: tool})
    await evolved((made, ctx), Judge("retriever"), workflow=made.seed([tool.spec.name]))
    for schema in ("PromptVariant", "Contrast", "Mutation"):
        assert f"<tools>\n{tool.spec.name}: {tool.spec.description}" in model.shown(schema)[0]


async def test_what_a_prompt_cannot_take_of_a_lesson_is_noted() -> None:
    made, ctx = hera(Orchestra(PromptDiff={"added_rules": ["Wake up."], "deleted": ["Be sure."]}), library=False)
    core = made.seed().agents_by_id["query_decomposer"].prompt
    wise = RewritePrompt("query_decomposer", Prompt(core=core, principles=("Be sure.",)).text)
    found, _ = await evolved((made, ctx), Judge(), workflow=made.seed().apply(Rewiring(wise, why="it helped")))
    [noted] = found.notes["ropes"]
    assert noted["left_out"] == ("deletion of Be sure.: only rules are deleted",)
    table = next(
        panel
        for panel in made.draw_learning(found.workflow, found.workflow, found.notes)
        if panel.title.startswith("Prompts that")
    )
    assert "left out: deletion of Be sure." in str(table)


async def test_d15_the_best_ranked_failure_of_the_group_is_blamed_and_no_further_run_is_made_for_it() -> None:
    model = Orchestra(TopologyPlan=by_sample(LONG, ("query_decomposer", "evidence_selector", *SHORT[1:]), SHORT))
    found, batch = await evolved(hera(model, library=False), Judge())
    assert {scope.sample for scope, *_ in model.spoke if scope.phase == "rollout"} == {0, 1, 2, 3}
    [shown] = [text for name, text, _ in model.asked if name == "FailedAgent"]
    assert "evidence_selector" not in shown  # the failure with one more agent costs more, so it ranks below
    assert [done.feedback.score for done in batch if done.feedback] == [1.0, 0.0, 0.0, 0.0]
    assert found.notes["groups"]["mixed"] == 1


async def test_what_an_agent_was_handed_stands_in_the_group_as_the_output_of_those_it_reads() -> None:
    model = Orchestra()
    _, batch = await evolved(hera(model, rope=False), Judge())
    [shown] = [text for name, text, _ in model.asked if name == "Reflection"]
    for done in batch:
        outputs = {step.node: step.output for step in done.steps}
        topology = Topology.model_validate(to_plain_json(done.notes["topology"]))
        for step in done.steps:
            assert [m.source for m in step.inbox] == list(topology.predecessors[step.node])
            assert [m.text for m in step.inbox] == [outputs[m.source] for m in step.inbox]
            assert step.output in shown
    assert "answer_generator reads calculator" in shown


async def test_d7_an_agent_that_fails_on_several_questions_evolves_once() -> None:
    model = Orchestra()
    questions = [Question(id=f"q{n}", input=f"Riddle {n}?") for n in range(3)]
    found, _ = await evolved(hera(model, library=False), Judge(), questions)
    assert model.names().count("FailedAgent") == 3
    assert model.names().count("PromptVariant") == 3  # one per axis
    assert [one.question for one in get_buffers(found.workflow)["query_decomposer"]] == ["q0", "q1", "q2"]
    assert {at.task for _, at in [(0, s) for s, *_ in model.spoke if "rope" in s.phase]} == {"q2"}


class Reader:
    """Calls an answer right that the calculator has had a part in."""

    name = "reader"

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        right = "calculator" in answer
        return Feedback(score=float(right), solved=right, text="right" if right else "wrong")


async def test_d7_the_questions_of_a_batch_are_planned_with_the_library_before_it() -> None:
    model = Orchestra()
    made, ctx = hera(model, rope=False)
    riddles = [Task(id=f"riddle{n}", input=f"Riddle {n}?", reference="6") for n in range(6)]
    loop = EvolutionLoop(
        run="r",
        config=EvolutionConfig(name="w", iterations=2, batch=2, gate="off", concurrency=1),
        method=made,
        ctx=ctx,
        environment=Reader(),
        splits=Splits(train=tuple(riddles[:4]), gate=tuple(riddles[4:5]), test=tuple(riddles[5:])),
        seed_team=made.seed(),
        library=open_library(":memory:"),
        journal=Journal.memory("r"),
        ledger=Ledger(Budget()),
    )
    await run_evolution(loop, InMemorySaver())
    advised = ["take the calculator" in shown for shown in model.shown("TopologyPlan")]
    first, second = advised[: 2 * made.config.group], advised[2 * made.config.group : 4 * made.config.group]
    assert (any(first), all(second)) == (False, True)


async def test_d11_replays_that_fail_teach_nothing() -> None:
    model = Orchestra(failing="rope")
    found, _ = await evolved(hera(model, library=False), Judge())
    assert "Contrast" not in model.names()
    assert found.applied == ()


async def test_d11_rollouts_with_infrastructure_errors_teach_nothing() -> None:
    made, ctx = hera(Orchestra(failing="query_decomposer"))
    found, batch = await evolved((made, ctx), Judge())
    assert all(done.error for done in batch)
    assert found.workflow == made.seed()
    assert found.notes["groups"] == {"mixed": 0, "zero": 0, "other": 0}


async def test_without_the_library_nothing_is_retrieved_or_learned() -> None:
    model = Orchestra()
    made, ctx = hera(model, library=False, rope=False)
    team = with_library(made.seed(), (known("take the calculator"),))
    done = await made.answer(team, RIDDLE, ctx)
    assert (agents(done), done.notes["insights"]) == (SHORT, ())
    found, _ = await evolved((made, ctx), Judge(), workflow=team)
    assert found.workflow == team
    assert "Reflection" not in model.names()
    full, ctx = hera(Orchestra())
    shown = await full.answer(team, RIDDLE, ctx)
    assert agents(shown) == LONG  # the switch changes the trajectory


async def test_without_rope_no_prompt_changes() -> None:
    model = Orchestra()
    without, ctx = hera(model, rope=False)
    found, _ = await evolved((without, ctx), Judge())
    assert not {"FailedAgent", "PromptVariant", "Contrast", "PromptDiff"} & set(model.names())
    after = await without.answer(found.workflow, RIDDLE, ctx)
    full, ctx = hera()
    found, _ = await evolved((full, ctx), Judge())
    other = await full.answer(found.workflow, RIDDLE, ctx)
    assert (after.steps[0].output, other.steps[0].output) == (
        "query_decomposer heard ", "query_decomposer awake heard "
    )  # fmt: skip


async def test_without_mutation_there_is_no_second_group() -> None:
    judge = Judge("nobody")
    await evolved(hera(Orchestra(TopologyPlan=by_sample(SHORT)), rope=False, mutation=False), judge)
    assert judge.graded == []


async def test_d20_when_prompts_are_rejected_the_experience_stays() -> None:
    made, ctx = hera()
    seed = made.seed()
    found, _ = await evolved((made, ctx), Judge())
    kept = made.keep_memory(seed, found.workflow)
    assert kept.agents == seed.agents != found.workflow.agents
    assert get_library(kept) == get_library(found.workflow) != ()
    assert get_buffers(kept) == get_buffers(found.workflow) != {}
    assert made.keep_memory(seed, seed) == seed


async def test_d23_a_pruned_pool_is_planned_with_as_before_and_the_steps_of_who_is_gone_are_left_out() -> None:
    model = Orchestra(TopologyPlan=by_sample(LONG))
    made, ctx = hera(model)
    pruned, whole = make_pruned(made), made.seed()
    parts = list_parts(whole)
    smaller = [whole]
    for name in ("calculator", "reflect_agent"):
        smaller.append(pruned.note_removals(smaller[-1].apply(parts[name].removal), smaller[-1]))
    done = [await made.answer(team, RIDDLE, ctx) for team in smaller]
    assert len({*model.shown("TopologyPlan")}) == 1
    assert [agents(run) for run in done] == [LONG, SHORT, SHORT]
    assert smaller[-1].agents_by_id.keys() == whole.agents_by_id.keys() - {"calculator", "reflect_agent"}
    made.check_learned(smaller[-1], "")
    with pytest.raises(ValueError, match="removed agents: a list of agents belongs here"):
        made.check_learned(whole.with_memory(**{REMOVED: [["calculator"]]}), "")


def test_d23_only_agents_that_a_pruning_took_out_stay_in_plans() -> None:
    made, scout = Hera(), Agent(id="scout", role="Looks ahead.", prompt="Look.")
    whole = made.seed(["search"]).apply(Rewiring(AddAgent(scout), why="it helped"))
    pruned = made.note_removals(whole.apply(list_parts(whole)["calculator"].removal), whole)
    assert render_pool(pruned) == render_pool(whole)
    later = pruned.apply(Rewiring(RemoveAgent("scout"), why="nobody asks it"))
    assert render_pool(later) == render_pool(whole).removesuffix("\nscout: Looks ahead.")
    back = later.apply(Rewiring(AddAgent(scout.replace(id="calculator")), why="a new one"))
    assert [line for line in render_pool(back).splitlines() if "calculator" in line] == ["calculator: Looks ahead."]


def test_d23_a_pruning_that_takes_the_retriever_out_leaves_plans_as_they_were() -> None:
    made = Hera()
    whole = made.seed(["search"])
    smaller = made.note_removals(whole.apply(list_parts(whole)["retriever"].removal), whole)
    assert render_pool(smaller) == render_pool(whole)
    assert "query_rewriter: " in render_pool(smaller)


def test_d14_a_pruned_pool_offers_no_retriever_whose_search_is_gone() -> None:
    made = Hera()
    whole = made.seed(["search"])
    revoked = Rewiring(Revoke("retriever", "search"), why="it finds nothing")
    pruned = made.note_removals(whole.apply(list_parts(whole)["calculator"].removal), whole)
    assert render_pool(pruned.apply(revoked)) == render_pool(whole.apply(revoked))
    alone = made.note_removals(whole.apply(revoked), whole)
    assert "retriever: " not in render_pool(alone)
    assert alone == whole.apply(revoked)


async def test_a_pruning_leaves_agents_out_of_the_plans_that_the_whole_pool_got() -> None:
    model, judge = Orchestra(TopologyPlan=by_sample(LONG)), Judge("answer_generator")
    made, ctx = hera(model)
    whole = made.seed()
    runs = [await judge(await made.answer(whole, RIDDLE, ctx), ctx.scope)]
    found = await make_pruned(made).propose(whole, runs, replace(learning(ctx, judge), frozen=("edges",)))
    assert len({*model.shown("TopologyPlan")}) == 1
    assert {*found.workflow.agents_by_id} >= {*SHORT}
    assert not {*found.workflow.agents_by_id} & {*LONG} - {*SHORT}
    assert agents(await made.answer(found.workflow, RIDDLE, ctx)) == SHORT
    assert len({*model.shown("TopologyPlan")}) == 1


async def test_d25_a_pruning_gives_all_questions_one_plan_where_they_do_no_worse_by_it() -> None:
    model, judge = Orchestra(TopologyPlan=by_sample(LONG)), Judge("answer_generator")
    made, ctx = hera(model)
    whole = with_library(made.seed(), (known("Never mind."),))
    runs = [await judge(await made.answer(whole, RIDDLE, ctx), ctx.scope)]
    found = await make_pruned(made).propose(whole, runs, learning(ctx, judge))
    assert [rewiring.operation for rewiring in found.applied] == ["FIX_PLAN"]
    asked = len(model.names())
    done = await made.answer(found.workflow, RIDDLE, ctx)
    assert len(model.names()) == asked
    assert agents(done) == found.workflow.topology.order() != agents(runs[0])
    assert done.overhead.calls == 0
    assert {*found.workflow.agents_by_id} == {*found.workflow.topology.agents.values()}
    assert render_pool(found.workflow) == render_pool(whole)
    assert made.list_plans(found.workflow, runs) == ()
    made.check_learned(found.workflow, "")
    with pytest.raises(ValueError, match="one plan: true or false belongs here"):
        made.check_learned(whole.with_memory(**{ONE_PLAN: "yes"}), "")


async def test_d25_a_team_with_one_plan_learns_prompts_only() -> None:
    model, judge = Orchestra(), Judge("nobody")
    made, ctx = hera(model, group=2)
    whole = with_library(made.seed(), (known("Never mind."),))
    one_plan = whole.with_memory(**{ONE_PLAN: True})
    found, batch = await evolved((made, ctx), judge, workflow=one_plan)
    assert {agents(done) for done in batch} == {one_plan.topology.order()}
    assert {done.overhead.calls for done in batch} == {0}
    assert not {"TopologyPlan", "Reflection"} & {*model.names()}
    assert not found.notes["mutated"]
    assert [tested["agent"] for tested in found.notes["ropes"]]
    dearer, cheaper = (made.estimate_calls(made.config, team, 6, 0.0) for team in (whole, one_plan))
    assert (cheaper.question["meta"], cheaper.learning["meta"] < dearer.learning["meta"]) == (0, True)


def make_plan(*steps: str) -> Topology:
    return Topology(
        nodes=tuple(Node(id=f"n{number}", agent=agent) for number, agent in enumerate(steps)),
        edges=tuple(Edge(source=f"n{number}", target=f"n{number + 1}") for number in range(len(steps) - 1)),
        entry="n0",
        sink=f"n{len(steps) - 1}",
    )


def name_steps(plan: Topology) -> list[str]:
    return [plan.agents[node] for node in plan.order()]


def test_d25_plans_like_those_of_successful_runs_are_tried() -> None:
    usual = make_plan("query_decomposer", "calculator", "calculator", "answer_generator", "conclude_agent")
    odd, failed = make_plan("reflect_agent", "conclude_agent"), make_plan("retriever", "conclude_agent")
    assert choose_typical_plans([(odd, 1.0), (usual, 1.0), (usual, 1.0), (failed, 0.0)]) == (usual, odd)


def test_d25_a_plan_is_shortened_by_a_step_whose_readers_read_what_it_read() -> None:
    plan = make_plan("query_decomposer", "calculator", "answer_generator", "conclude_agent")
    found = list_shorter_plans(plan, Hera().seed())
    assert [name_steps(shorter) for shorter in found] == [
        ["calculator", "answer_generator", "conclude_agent"],
        ["query_decomposer", "answer_generator", "conclude_agent"],
        ["query_decomposer", "calculator", "conclude_agent"],
        ["query_decomposer", "calculator", "answer_generator"],
    ]
    assert all(not shorter.problems() for shorter in found)
    worker_before_last = make_plan("query_decomposer", "calculator", "conclude_agent")
    assert [name_steps(shorter) for shorter in list_shorter_plans(worker_before_last, Hera().seed())] == [
        ["calculator", "conclude_agent"],
        ["query_decomposer", "conclude_agent"],
    ]
    assert list_shorter_plans(make_plan("conclude_agent"), Hera().seed()) == ()


async def test_d25_steps_of_the_best_plan_go_one_by_one_before_it_is_proved() -> None:
    model, judge = Orchestra(TopologyPlan=by_sample(LONG)), Judge("answer_generator")
    made, ctx = hera(model)
    runs = [await judge(await made.answer(made.seed(), RIDDLE, ctx), ctx.scope)]
    found = await make_pruned(made).propose(made.seed(), runs, learning(ctx, judge))
    assert len(LONG) > 2
    assert name_steps(found.workflow.topology) == ["answer_generator"]


@pytest.mark.parametrize("extra", [(), ("calculator",), ("retriever",)])
async def test_d25_the_default_chain_and_plans_near_it_are_shortened(extra: tuple[str, ...]) -> None:
    steps = ("query_decomposer", *extra, "evidence_selector", "answer_generator")
    model, judge = Orchestra(TopologyPlan=by_sample(steps)), Judge("answer_generator")
    made, ctx = hera(model)
    whole = made.seed()
    runs = [await judge(await made.answer(whole, RIDDLE, ctx), ctx.scope)]
    found = await make_pruned(made).propose(whole, runs, learning(ctx, judge))
    assert [rewiring.operation for rewiring in found.applied] == ["FIX_PLAN"]
    assert name_steps(found.workflow.topology) == ["answer_generator"]
    assert not [part for part in list_parts(found.workflow).values() if part.kind == "plan"]


async def test_d25_plans_with_the_same_steps_are_measured_once() -> None:
    steps = ("query_decomposer", "evidence_selector", "calculator", "calculator", "answer_generator")
    model, judge = Orchestra(TopologyPlan=by_sample(steps)), Judge("answer_generator")
    made, ctx = hera(model)
    runs = [await judge(await made.answer(made.seed(), RIDDLE, ctx), ctx.scope)]
    found = await make_pruned(made).propose(made.seed(), runs, learning(ctx, judge))
    plans = [tuple(name_steps(plan)) for plan in PruningRecord.of(found.workflow).plans]
    assert len(plans) == len({*plans}) > 5


async def test_results_do_not_depend_on_who_finishes_first() -> None:
    questions = [Question(id=f"q{n}", input=f"Riddle {n}?") for n in range(3)]
    delays = (None, lambda scope: 0.003 * (scope.sample % 3), lambda scope: 0.003 * ((5 - scope.sample) % 4))
    first, *others = [await evolved(hera(Orchestra(delay=one)), Judge(), questions) for one in delays]
    assert others == [first, first]


async def test_malformed_plans_are_repaired_and_recorded_in_the_notes() -> None:
    bad = {
        "execution_order": [{"step": 1, "agent": "wizard"}, {"step": 2, "agent": "reflect_agent", "depends_on": [2, 7]}]
    }
    made, ctx = hera(Orchestra(TopologyPlan=bad))
    done = await made.answer(made.seed(), RIDDLE, ctx)
    assert agents(done) == ("reflect_agent", "answer_generator")
    assert len(done.notes["repairs"]) == 4

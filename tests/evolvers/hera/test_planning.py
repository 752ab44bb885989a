"""Plans as topologies: sound ones as they are, all others repaired or replaced, and none ever crashes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.evolvers.hera.initial_team import CALCULATOR, CHAIN, ROLES, make_initial_team
from selfwire.evolvers.hera.library import Insight
from selfwire.evolvers.hera.planning import Brief, TeamPlan, resolve_plan, sample_topology
from selfwire.evolvers.hera.schemas import PlanStep, TopologyPlan
from selfwire.evolvers.trajectory_text import render_topology
from selfwire.tools.ready import READY
from tests.evolvers.hera.doubles import BRIDGE, SEARCH, known, meta_model, pool
from tests.scripted import ScriptedModel, prompts

D, R, E, A, C = "query_decomposer", "retriever", "evidence_selector", "answer_generator", "conclude_agent"


def plan(*steps: tuple[str, list[Any] | None], limit: int = 12) -> TeamPlan:
    order = [
        {"step": number, "agent": agent, **({} if reads is None else {"depends_on": reads})}
        for number, (agent, reads) in enumerate(steps, 1)
    ]
    return resolve_plan(TopologyPlan.model_validate({"execution_order": order}), pool(), steps=limit)


def edges(found: TeamPlan) -> set[str]:
    return {str(edge) for edge in found.topology.edges}


def test_a_sound_plan_is_taken_as_it_is_with_an_agent_twice() -> None:
    found = plan((D, []), (R, [1]), (R, [1]), (E, [2, 3]), (A, [4]))
    assert edges(found) == {f"{D}->{R}", f"{D}->{R}-2", f"{R}->{E}", f"{R}-2->{E}", f"{E}->{A}"}
    assert (found.repairs, found.default) == ((), False)
    assert found.topology.agents[f"{R}-2"] == R
    assert (found.topology.entry, found.topology.sink) == (D, A)
    alone = plan((A, []))  # one step that answers is a team
    assert (alone.topology.entry, alone.topology.sink, alone.repairs) == (A, A, ())


BARE = pool().replace(agents=[agent.replace(tools=()) for agent in pool().agents])


async def test_d14_who_has_nothing_to_search_with_is_not_planned_with() -> None:
    steps = [{"step": 1, "agent": R}, {"step": 2, "agent": A, "depends_on": [1]}]
    said = TopologyPlan.model_validate({"execution_order": steps})
    shown, repairs = [], []
    for team in (pool(), BARE):
        model = ScriptedModel(TopologyPlan=said)
        found, _ = await sample_topology(
            Question(id="q", input="?"),
            team,
            Brief(profile=BRIDGE),
            meta_model(model),
            toolbox={"search": SEARCH},
            steps=12,
            scope=Scope(),
        )
        shown += model.shown("TopologyPlan")
        repairs.append(found.repairs)
    assert f"{R}: Searches for passages on open questions. (tools: search)" in shown[0]
    assert "\nsearch: Searches the archive.\n</tools>" in shown[0]
    assert "<tools>" not in shown[1]
    assert R not in shown[1]
    assert "query_rewriter" not in shown[1]
    assert repairs == [(), (f"step 1: there is no agent {R!r}; the step is left out",)]


async def test_insights_are_spoken_of_only_where_there_are_some_and_the_profile_is_not_asked_for_again() -> None:
    model = ScriptedModel(TopologyPlan=TopologyPlan.model_validate({"execution_order": [{"step": 1, "agent": A}]}))
    for brief in (Brief(), Brief(profile=BRIDGE, insights=(known("Search twice."),))):
        await sample_topology(
            Question(id="q", input="?"), pool(), brief, meta_model(model), toolbox={}, steps=12, scope=Scope()
        )
    without, with_one = model.shown("TopologyPlan")
    assert not [word for word in ("(none)", "nsights", "utility") if word in without]
    assert "0.5 being no evidence. Follow those that fit this question:\n<insights>\n- (" in with_one
    assert "query_profile" not in f"{with_one} {TopologyPlan.model_json_schema()}"


async def test_d14_nor_is_the_default_chain() -> None:
    for team, chain in ((pool(), (D, R, E, A)), (BARE, (D, E, A))):
        model = ScriptedModel(TopologyPlan=ReplyError("nonsense"))
        found, _ = await sample_topology(
            Question(id="q", input="?"),
            team,
            Brief(profile=BRIDGE),
            meta_model(model),
            toolbox={},
            steps=12,
            scope=Scope(),
        )
        assert found.topology.order() == chain
    assert make_initial_team(prompts("hera")).topology.order() == (D, E, A)
    for tool in READY:
        computing = make_initial_team(prompts("hera"), tools=(tool,))
        assert computing.topology.order() == (D, E, A)
        assert computing.agents_by_id[CALCULATOR].tools == (tool,)


def test_a_step_that_does_not_say_what_it_reads_follows_the_one_before() -> None:
    assert edges(plan((D, None), (R, None), (A, None))) == {f"{D}->{R}", f"{R}->{A}"}
    assert edges(plan((D, []), (R, [7]), (A, [2]))) == {f"{D}->{R}", f"{R}->{A}"}  # 7 is no step
    assert edges(plan((D, []), (R, []), (A, [2]))) == {f"{D}->{R}", f"{R}->{A}"}  # D begins
    assert "mode" not in PlanStep.model_fields


def test_an_unknown_agent_is_left_out_and_its_dependencies_are_inherited() -> None:
    found = plan((D, []), ("wizard", [1]), (A, [2]))
    assert edges(found) == {f"{D}->{A}"}
    assert found.repairs == ("step 2: there is no agent 'wizard'; the step is left out",)


def test_names_are_understood_however_they_are_spelt() -> None:
    found = plan(("Query Decomposer", []), ("RETRIEVER", ["query-decomposer"]), (A, ["step 2"]))
    assert (edges(found), found.repairs) == ({f"{D}->{R}", f"{R}->{A}"}, ())


def test_a_circle_is_opened_where_it_closes() -> None:
    found = plan((D, []), (R, [1, 3]), (E, [2]), (A, [3]))
    assert edges(found) == {f"{D}->{R}", f"{R}->{E}", f"{E}->{A}"}
    assert any("a circle" in one for one in found.repairs)


def test_a_dependency_on_no_step_or_on_itself_is_left_out() -> None:
    found = plan((D, []), (R, [1, 9, 2]), (A, [2]))
    assert edges(found) == {f"{D}->{R}", f"{R}->{A}"}
    assert any("depends on 9, which is no step" in one for one in found.repairs)
    assert any("depends on itself" in one for one in found.repairs)


def test_d5_several_starts_get_the_decomposer_before_them() -> None:
    found = plan((R, []), (E, []), (A, [1, 2]))
    assert edges(found) == {f"{D}->{R}", f"{D}->{E}", f"{R}->{A}", f"{E}->{A}"}
    there = plan((R, []), (D, []), (A, [1, 2]))
    assert edges(there) == {f"{D}->{R}", f"{D}->{A}", f"{R}->{A}"}
    assert any("several steps begin" in one for one in there.repairs)


def test_d5_where_no_step_answers_one_is_added() -> None:
    found = plan((D, []), (R, [1]))
    assert edges(found) == {f"{D}->{R}", f"{R}->{A}"}
    assert found.repairs == (f"no step answers; {A} is added at the end",)
    early = plan((D, []), (A, [1]), (E, [2]))
    assert early.topology.sink == f"{A}-2"


def test_what_nobody_reads_is_read_by_the_one_that_answers() -> None:
    found = plan((D, []), (R, [1]), (E, [1]), (C, [2]))
    assert edges(found) == {f"{D}->{R}", f"{D}->{E}", f"{R}->{C}", f"{E}->{C}"}
    assert any(f"nobody reads {E}" in one for one in found.repairs)


def test_d21_fifty_steps_are_cut() -> None:
    found = plan(*[(R, [number] if number else []) for number in range(49)], (A, [49]))
    assert len(found.topology.nodes) == 13  # twelve, and the one that answers
    assert any("50 steps are more than 12" in one for one in found.repairs)


def test_fifty_unknown_agents_that_read_all_before_them_are_left_out_in_no_time() -> None:
    ghosts = [(f"ghost {number}", list(range(number + 1))) for number in range(49)]  # the first one reads step 0
    found = plan(*ghosts, (A, list(range(1, 50))))
    assert found.topology.order() == (A,)
    assert sum("there is no agent" in one for one in found.repairs) == 49
    assert sum("depends on 0, which is no step" in one for one in found.repairs) == 1


def test_what_cannot_be_repaired_is_replaced_by_the_default_chain() -> None:
    for found in (plan(), plan(("wizard", []), ("witch", [1]))):
        assert found.default
        assert found.topology == pool().topology
        assert found.repairs[-1] == "the default chain took its place"


def test_d9_a_calculator_is_in_the_pool() -> None:
    assert set(ROLES) == set(pool().agents_by_id)
    assert len(ROLES) == 9
    assert pool().agents_by_id[CALCULATOR].tools == ("calculator",)
    assert pool().agents_by_id[R].tools == ("search",)
    assert pool().topology.order() == CHAIN


async def sample(model: ScriptedModel, *insights: Insight) -> TeamPlan:
    question = Question(id="q", input="who?")
    brief = Brief(profile=BRIDGE, insights=insights)
    return (await sample_topology(question, pool(), brief, meta_model(model), toolbox={}, steps=12, scope=Scope()))[0]


async def test_an_invalid_reply_is_answered_by_the_default_chain() -> None:
    found = await sample(ScriptedModel(TopologyPlan=ReplyError("no JSON")))
    assert found.default
    assert "no valid plan: no JSON" in found.repairs[0]


async def test_the_orchestrator_sees_agents_profile_and_insights_with_their_utility() -> None:
    steps = [{"step": 1, "agent": A}]
    model = ScriptedModel(TopologyPlan=TopologyPlan.model_validate({"execution_order": steps}))
    await sample(model, known("search twice", 10, 9))
    [shown] = model.shown("TopologyPlan")
    assert "- (bridge, utility 0.83) search twice" in shown
    assert BRIDGE.text in shown
    for name, role in ROLES.items():
        assert f"{name}: {role}" in shown


agents = st.sampled_from([*ROLES, "wizard", "", "Query Decomposer", "retriever-2", "x" * 200])
reads = st.lists(st.one_of(st.integers(-2, 60), agents, st.text(max_size=5)), max_size=5)
steps = st.fixed_dictionaries(
    {"step": st.integers(-3, 60), "agent": st.one_of(agents, st.text(max_size=20)), "depends_on": reads}
)


@given(st.lists(steps, max_size=60), st.integers(1, 20))
def test_no_plan_crashes_and_every_topology_can_run(order: list[dict[str, Any]], limit: int) -> None:
    found = resolve_plan(TopologyPlan.model_validate({"execution_order": order}), pool(), steps=limit)
    topology, team = found.topology, pool()
    assert topology.problems() == ()
    assert set(topology.agents.values()) <= set(team.agents_by_id)
    assert team.agents_by_id[topology.agents[topology.sink]].kind == "aggregator"
    assert found.default or len(topology.nodes) <= limit + 2
    assert found.default <= bool(found.repairs)
    assert render_topology(topology)
    assert resolve_plan(TopologyPlan.model_validate({"execution_order": order}), pool(), steps=limit) == found

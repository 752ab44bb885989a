"""Births, deaths and edge edits: budgets, caps, and whatever a meta-model may say."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selfwire.core.edits import AddEdge, RemoveEdge
from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.topology import TopologyPolicy
from selfwire.core.values import FrozenMap
from selfwire.evolvers.tacomas.config import SlowConfig, TacomasConfig
from selfwire.evolvers.tacomas.initial_team import make_initial_team
from selfwire.evolvers.tacomas.judge import Contribution
from selfwire.evolvers.tacomas.meta import find_death_candidates, propose_slow_update, render_agents
from selfwire.evolvers.tacomas.rounds import RunSoFar, TacomasRound
from selfwire.evolvers.tacomas.schemas import AgentFeedback, BirthDeathPair, EdgeEdit, NewAgent, SlowUpdate
from selfwire.evolvers.tacomas.slow import Delta, enforce_budgets
from selfwire.evolvers.tacomas.work import Notes, render_graph, render_work
from selfwire.tools.ready import READY
from tests.evolvers.tacomas.doubles import PROMPTS, done, meta_model, step, team
from tests.scripted import section

TOOLS = ("calculator", "search")
CRITIC = NewAgent(role="Critic", goal="You look for mistakes.", tools=["search", "teleport"])


def shown_run(*rounds: TacomasRound, notes: Notes = FrozenMap()) -> RunSoFar:
    return RunSoFar(rounds, done(step("planner")), notes)


def applied(update: SlowUpdate, workflow: Team | None = None, **fields: Any) -> Delta:
    return enforce_budgets(workflow or team(), update, config=SlowConfig(**fields), prompts=PROMPTS, tools=TOOLS)


def edges_of(workflow: Team) -> set[str]:
    return {str(edge) for edge in workflow.topology.edges}


def add(source: str, target: str) -> EdgeEdit:
    return EdgeEdit(op="edge_add", source=source, target=target)


def remove(source: str, target: str) -> EdgeEdit:
    return EdgeEdit(op="edge_remove", source=source, target=target)


def test_d20_a_replacement_inherits_the_edges_free() -> None:
    found = applied(SlowUpdate(birth_death_pairs=[BirthDeathPair(v_dead="calculator", v_new=CRITIC)]))
    assert (found.births, found.deaths, found.edges) == (("critic",), ("calculator",), 0)
    assert found.workflow.topology.edges == team().topology.edges
    assert found.workflow.agent_at("calculator").id == "critic"
    assert found.workflow.agents_by_id["critic"].tools == ("search",)
    assert "You look for mistakes." in found.workflow.agents_by_id["critic"].prompt
    assert [one.change for one in found.refused] == ["tool 'teleport' for Critic"]


@pytest.mark.parametrize("said", ["[calculator]", "Calculator", "calculator (tools: none)"])
def test_an_agent_is_found_by_the_name_that_a_model_writes_as_it_is_shown(said: str) -> None:
    found = applied(SlowUpdate(birth_death_pairs=[BirthDeathPair(v_dead=said, v_new=CRITIC)]))
    assert (found.births, found.deaths) == (("critic",), ("calculator",))


@pytest.mark.parametrize("nobody", ["", "  ", "null", "None"])
def test_a_birth_that_names_nobody_to_die_by_a_blank_is_a_birth(nobody: str) -> None:
    found = applied(SlowUpdate(birth_death_pairs=[BirthDeathPair(v_dead=nobody, v_new=CRITIC)]))
    assert "critic" in found.workflow.agents_by_id
    assert [one.change for one in found.refused] == ["tool 'teleport' for Critic"]


def test_a_birth_is_wired_by_its_role() -> None:
    update = SlowUpdate(
        birth_death_pairs=[BirthDeathPair(v_new=CRITIC)],
        graph_edit=[add("searcher", "critic"), add("Critic", "reflector")],
    )
    found = applied(update)
    assert {"searcher->critic", "critic->reflector"} <= edges_of(found.workflow)
    assert found.edges == 2


def test_d7_a_newborn_that_nobody_wires_is_joined_out_of_the_edge_budget() -> None:
    birth = [BirthDeathPair(v_new=CRITIC)]
    found = applied(SlowUpdate(birth_death_pairs=birth))
    assert edges_of(found.workflow) - edges_of(team()) == {"planner->critic", "critic->reflector"}
    assert found.edges == 2
    spent = [add("planner", "verifier"), add("planner", "reflector"), add("searcher", "reflector")]
    short = applied(SlowUpdate(birth_death_pairs=birth, graph_edit=spent))
    assert short.births == ()
    assert "critic" not in short.workflow.topology.agents
    assert short.refused[-1].reason == "no edge leads to or from it, and the budget of edge edits is spent"


def test_d20_a_death_takes_the_agent_and_its_edges_free() -> None:
    found = applied(SlowUpdate(birth_death_pairs=[BirthDeathPair(v_dead="calculator")]))
    assert (found.deaths, found.edges) == (("calculator",), 0)
    assert edges_of(found.workflow) == {"planner->searcher", "searcher->verifier", "verifier->reflector"}


def test_d16_the_template_has_no_leader() -> None:
    assert edges_of(team()) == {
        "planner->searcher", "planner->calculator", "searcher->calculator", "searcher->verifier",
        "calculator->verifier", "verifier->reflector",
    }  # fmt: skip


def test_d18_what_a_slow_update_came_to_is_recorded_and_not_asked_for() -> None:
    assert "graph_diff" not in SlowUpdate.model_fields
    pair = BirthDeathPair(v_dead="calculator", v_new=CRITIC)
    found = applied(SlowUpdate(birth_death_pairs=[pair], graph_edit=[add("planner", "reflector"), remove("a", "b")]))
    assert (found.births, found.deaths, found.edges) == (("critic",), ("calculator",), 1)
    assert [one.operation for one in found.applied] == ["REPLACE", "EDGE_ADD"]
    assert [one.change for one in found.refused] == ["tool 'teleport' for Critic", "edge_remove a -> b"]


@pytest.mark.parametrize("new", [None, CRITIC])
def test_the_sink_never_dies(new: NewAgent | None) -> None:
    found = applied(SlowUpdate(birth_death_pairs=[BirthDeathPair(v_dead="reflector", v_new=new)]))
    assert found.workflow == team()
    assert "sink" in found.refused[0].reason


def test_the_entry_may_be_replaced_and_not_removed() -> None:
    replaced = applied(SlowUpdate(birth_death_pairs=[BirthDeathPair(v_dead="planner", v_new=CRITIC)]))
    assert replaced.workflow.agent_at(replaced.workflow.topology.entry).id == "critic"
    removed = applied(SlowUpdate(birth_death_pairs=[BirthDeathPair(v_dead="planner")]))
    assert removed.workflow == team()
    assert "entry" in removed.refused[0].reason


def test_d11_an_edit_that_cuts_the_sink_off_is_refused() -> None:
    found = applied(SlowUpdate(graph_edit=[remove("verifier", "reflector")]))
    assert found.workflow == team()
    assert "sink unreachable" in found.refused[0].reason
    rerouted = applied(SlowUpdate(graph_edit=[add("searcher", "reflector"), remove("verifier", "reflector")]))
    assert (rerouted.edges, rerouted.refused) == (2, ())


def test_d11_a_change_that_a_later_one_makes_harmless_is_made() -> None:
    around = [remove("verifier", "reflector"), add("searcher", "reflector")]
    rerouted = applied(SlowUpdate(graph_edit=around))
    assert (rerouted.edges, rerouted.refused) == (2, ())
    assert [one.operation for one in rerouted.applied] == ["EDGE_ADD", "EDGE_REMOVE"]
    dead = BirthDeathPair(v_dead="verifier")
    found = applied(SlowUpdate(birth_death_pairs=[dead], graph_edit=[add("calculator", "reflector")]))
    assert (found.deaths, found.edges, found.refused) == (("verifier",), 1, ())
    room = [BirthDeathPair(v_new=CRITIC.model_copy(update={"tools": []})), BirthDeathPair(v_dead="calculator")]
    around = [add("planner", "critic"), add("critic", "verifier")]
    full = applied(SlowUpdate(birth_death_pairs=room, graph_edit=around), nodes=5)
    assert (full.births, full.deaths, full.refused) == (("critic",), ("calculator",), ())
    turned = applied(SlowUpdate(birth_death_pairs=room[::-1], graph_edit=around), nodes=5)
    assert edges_of(full.workflow) == edges_of(turned.workflow)
    assert {"planner->critic", "critic->verifier"} <= edges_of(full.workflow)


def test_a_change_that_stays_impossible_is_refused_once_after_the_others() -> None:
    wished = [remove("verifier", "reflector"), add("planner", "verifier"), add("a", "b")]
    found = applied(SlowUpdate(birth_death_pairs=[BirthDeathPair(v_dead="verifier")], graph_edit=wished))
    assert [one.change.split(" ")[0] for one in found.refused] == ["DEATH", "EDGE_REMOVE", "edge_add"]
    assert edges_of(found.workflow) == edges_of(team()) | {"planner->verifier"}


def test_what_exceeds_the_budget_is_dropped_in_order_and_recorded() -> None:
    wished = [
        add("planner", "verifier"), add("planner", "reflector"), remove("planner", "calculator"),
        remove("searcher", "calculator"), add("searcher", "reflector"), add("calculator", "reflector"),
    ]  # fmt: skip
    found = applied(SlowUpdate(graph_edit=wished))
    assert [r.edits[0] for r in found.applied] == [
        AddEdge("planner", "verifier"),
        AddEdge("planner", "reflector"),
        RemoveEdge("planner", "calculator"),
        RemoveEdge("searcher", "calculator"),
    ]
    assert [(one.change, one.reason) for one in found.refused] == [
        ("edge_add searcher -> reflector", "beyond the budget of 4 edge edits per update"),
        ("edge_add calculator -> reflector", "beyond the budget of 4 edge edits per update"),
    ]
    pairs = [BirthDeathPair(v_dead=name, v_new=CRITIC) for name in ("planner", "searcher", "verifier")]
    born = applied(SlowUpdate(birth_death_pairs=pairs))
    assert (born.births, born.deaths) == (("critic", "critic-2"), ("planner", "searcher"))
    assert "beyond the budget of 2 birth-death pairs" in born.refused[0].reason


def test_without_an_edit_budget_all_edits_are_taken_up_to_the_cap() -> None:
    update = SlowUpdate(birth_death_pairs=[BirthDeathPair(v_new=CRITIC)] * 30)
    assert len(applied(update).workflow.topology.nodes) == 7
    assert len(applied(update, budgeted=False).workflow.topology.nodes) == 20


def test_the_team_stays_within_its_cap() -> None:
    found = applied(SlowUpdate(birth_death_pairs=[BirthDeathPair(v_new=CRITIC)] * 2), nodes=6)
    assert len(found.workflow.topology.nodes) == 6
    assert "cap of 6" in found.refused[1].reason


def test_feedback_reaches_prompt_and_memory() -> None:
    told = [
        AgentFeedback(agent="searcher", prompt_delta="Quote the source.", memory_seed="The archive is in Graz."),
        AgentFeedback(agent="nobody", prompt_delta="Hello."),
    ]
    found = applied(SlowUpdate(agent_feedback=told))
    searcher = found.workflow.agents_by_id["searcher"]
    assert searcher.prompt == f"{team().agents_by_id['searcher'].prompt}\n\nQuote the source."
    assert searcher.memory == ("The archive is in Graz.",)
    assert found.refused[0].reason == "there is no such agent"
    frozen = enforce_budgets(
        team(), SlowUpdate(agent_feedback=told), config=SlowConfig(), prompts=PROMPTS, feedback=False
    )
    assert frozen.workflow == team()


def test_a_prompt_does_not_grow_without_end() -> None:
    told = [AgentFeedback(agent="searcher", prompt_delta="x" * 5000)]
    assert applied(SlowUpdate(agent_feedback=told)).workflow == team()


def test_d8_a_stop_changes_nothing_and_records_what_was_proposed() -> None:
    found = applied(SlowUpdate(graph_edit=[add("planner", "reflector")], time_control="stop"))
    assert (found.workflow, found.control, found.applied) == (team(), "stop", ())
    assert found.refused[0].change == "edge_add planner -> reflector"


def test_the_lineage_starts_at_the_team_before() -> None:
    found = applied(SlowUpdate(graph_edit=[add("planner", "reflector")], global_rationale="a shortcut"))
    assert found.workflow.lineage.parent == team().fingerprint
    assert [r.why for r in found.workflow.lineage.rewirings] == ["a shortcut"]


def test_candidates_for_death_by_hand() -> None:
    history = [{"a": 1.0, "b": 0.0}, {"a": 0.1, "b": 0.3, "c": 0.1}, {"a": 0.2, "b": 0.1}]
    assert find_death_candidates(history, interval=2, below=0.2) == ("a", "c")
    assert find_death_candidates(history, interval=3, below=0.2) == ("b", "c")


async def test_the_meta_model_is_shown_the_team_and_its_limits() -> None:
    meta, model = meta_model(SlowUpdate=SlowUpdate())
    rounds = [TacomasRound(number=0, goal="", score=0.5, failed=("a source",), weights={"planner": 0.2})]
    run = shown_run(*rounds, notes={"planner": ("be exact",)})
    await propose_slow_update(team(), run, meta, tools={}, config=TacomasConfig(), scope=Scope())
    shown = model.asked[0][1]
    for text in ("planner -> calculator, searcher", "sink: reflector", "round 1: 0.50", "- a source", "4 edge edits"):
        assert text in shown
    assert "notes:\n1. be exact" in section(shown, "agents")
    assert "tools: search, calculator" in section(shown, "agents")
    assert not any(f"<{name}>" in shown for name in ("tools", "lessons"))  # there are none


def test_the_meta_model_reads_remarks_of_as_many_rounds_as_lie_between_two_updates() -> None:
    said = [(Contribution(agent="planner", score=0.5, reason=why),) for why in ("too long", "better", "no plan")]
    rounds = [TacomasRound(number=n, goal="", contributions=one) for n, one in enumerate(said)]
    shown = render_agents(team(), rounds, TacomasConfig(interval=2), {})
    assert shown.count("remarks, the latest last: better / no plan\n") == 1
    assert shown.count("remarks, the latest last: none\n") == 4


async def test_d17_what_is_missing_is_what_the_last_answer_failed() -> None:
    meta, model = meta_model(SlowUpdate=SlowUpdate())
    goals = [("form", "year"), ("source",)]
    first, last = (TacomasRound(number=n, goal="", failed=failed) for n, failed in enumerate(goals))
    await propose_slow_update(team(), shown_run(first, last), meta, tools={}, config=TacomasConfig(), scope=Scope())
    assert section(model.asked[0][1], "goal") == "- source"


@pytest.mark.parametrize("tool", sorted(READY))
def test_tools_that_compute_find_nothing(tool: str) -> None:
    start = make_initial_team(PROMPTS, tools=(tool,))
    said = "\n".join(agent.prompt for agent in start.agents)
    assert "in what the members know" in said
    assert not [word for word in ("your tools", "the team's tools", "Where a search", "no tools") if word in said]
    assert "compute or run again what can be" in start.agents_by_id["verifier"].prompt
    both = make_initial_team(PROMPTS, tools=(tool, "search")).agents_by_id
    assert both["searcher"].prompt == make_initial_team(PROMPTS, tools=("search",)).agents_by_id["searcher"].prompt


@pytest.mark.parametrize("held", [(), ("search",)])
def test_prompts_speak_of_tools_only_where_they_are_held(held: tuple[str, ...]) -> None:
    start = make_initial_team(PROMPTS, tools=held)
    said = "\n".join(agent.prompt for agent in start.agents)
    assert ("your tools" in said) == ("the team's tools" in said) == bool(held)
    assert ("You hold no tools" in said) == (not held)
    birth = SlowUpdate(birth_death_pairs=[BirthDeathPair(v_dead="calculator", v_new=CRITIC.model_copy(deep=True))])
    born = enforce_budgets(start, birth, config=SlowConfig(), prompts=PROMPTS, tools=held).workflow
    assert ("the tools that you hold" in born.agents_by_id["critic"].prompt) == bool(held)


async def test_without_a_valid_reply_nothing_changes() -> None:
    meta, _ = meta_model(SlowUpdate=ReplyError("garbage"))
    found = await propose_slow_update(
        team(), shown_run(TacomasRound(number=0, goal="")), meta, tools={}, config=TacomasConfig(), scope=Scope()
    )
    assert found.workflow == team()
    assert "garbage" in found.refused[0].reason


def test_a_replaced_agent_is_known_by_its_own_name() -> None:
    found = applied(SlowUpdate(birth_death_pairs=[BirthDeathPair(v_dead="calculator", v_new=CRITIC)])).workflow
    assert "planner -> critic, searcher" in render_graph(found)
    assert "[critic]" in render_agents(found, [TacomasRound(number=0, goal="")], TacomasConfig(), {})
    ran = done(step("calculator", "7").replace(agent="critic"), step("searcher"))
    assert render_work(ran).startswith("[critic] 7\n[searcher]")
    again = applied(SlowUpdate(graph_edit=[add("critic", "reflector")]), found)
    assert "calculator->reflector" in edges_of(again.workflow)


NAMES = st.one_of(
    st.sampled_from(["planner", "searcher", "calculator", "verifier", "reflector", "critic", "critic-2", "Critic", ""]),
    st.text(max_size=12),
)
NEWBORNS = st.builds(NewAgent, role=NAMES, goal=st.text(max_size=40), tools=st.lists(NAMES, max_size=2))
UPDATES = st.builds(
    SlowUpdate,
    birth_death_pairs=st.lists(
        st.builds(BirthDeathPair, v_dead=st.none() | NAMES, v_new=st.none() | NEWBORNS), max_size=5
    ),
    graph_edit=st.lists(
        st.builds(EdgeEdit, op=st.sampled_from(["edge_add", "edge_remove"]), source=NAMES, target=NAMES), max_size=9
    ),
    agent_feedback=st.lists(
        st.builds(AgentFeedback, agent=NAMES, prompt_delta=st.text(max_size=30), memory_seed=st.text(max_size=30)),
        max_size=3,
    ),
    global_rationale=st.text(max_size=60),
    time_control=st.sampled_from(["continue", "slow_again", "stop"]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(UPDATES, min_size=1, max_size=4), st.integers(5, 7))
def test_whatever_the_meta_model_says_the_team_stays_valid(updates: list[SlowUpdate], nodes: int) -> None:
    now = team()
    for update in updates:
        found = applied(update, now, nodes=nodes)
        check_budgets(now, found, nodes)
        check_record(update, found)
        now = found.workflow


def check_budgets(before: Team, found: Delta, nodes: int) -> None:
    after = found.workflow
    assert after.agent_at(after.topology.sink).id == "reflector"
    assert after.topology.problems(TopologyPolicy(cycles=True, loose=True)) == ()
    assert len(after.topology.nodes) <= nodes
    assert len(found.births) <= 2
    assert len(found.deaths) <= 2
    assert found.edges <= 4
    if not found.births and not found.deaths:
        changed = before.topology.diff(after.topology)
        assert len(changed.added_edges) + len(changed.removed_edges) <= 4
    assert {node.agent for node in after.topology.nodes} == set(after.agents_by_id)
    assert Team.model_validate(after.model_dump(mode="json")) == after


def check_record(update: SlowUpdate, found: Delta) -> None:
    assert all(one.reason for one in found.refused)
    made = [r for r in found.applied if r.operation in ("REPLACE", "BIRTH", "DEATH", "EDGE_ADD", "EDGE_REMOVE")]
    told = [one for one in found.refused if not one.change.startswith(("tool ", "feedback", "prompt_delta"))]
    assert len(made) + len(told) >= len(update.birth_death_pairs) + len(update.graph_edit)


def test_the_reflector_writes_no_evidence_beside_an_answer_whose_whole_form_the_task_gives() -> None:
    prompt = make_initial_team(PROMPTS).agents_by_id["reflector"].prompt
    assert prompt.endswith(
        "write the evidence that decides before it, in at most 100 words; else write the answer alone."
    )

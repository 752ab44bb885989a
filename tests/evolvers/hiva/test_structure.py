from functools import partial

import pytest

from selfwire.core.edits import AddEdge
from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.topology import TopologyLimits
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.forward import to_notes
from selfwire.evolvers.hiva.gradients import Gradient
from selfwire.evolvers.hiva.knowledge import TaskConcepts
from selfwire.evolvers.hiva.schemas import TopologyDecision
from selfwire.evolvers.hiva.structure import (
    StructureResult,
    apply_decisions,
    decide_edits,
    list_operations,
)
from tests.evolvers.hiva.doubles import FORK, LINE, edges, gradient, meta_model, run, team
from tests.scripted import ScriptedModel

CONFIG = HivaConfig()
PARALLEL = TopologyDecision(operation="ADD_PARALLEL", description="You are a checker of dates.", reason="Unchecked.")
SERIAL = TopologyDecision(operation="ADD_SERIAL", description="Checks the dates.")
CONNECT = TopologyDecision(operation="CONNECT_TO_AGGREGATOR")
NOTHING = TopologyDecision(operation="NO_CHANGE")
lacking = partial(gradient, overall="Nobody checks.", concerns="topology")


def removal(successor: str) -> TopologyDecision:
    return TopologyDecision(operation="REMOVE_SUCCESSOR", successor=successor)


def applied(workflow: Team, *, parallel: float = 1.0, **decisions: TopologyDecision) -> Team:
    changed, _, declined = apply_decisions(workflow, decisions, dict.fromkeys(decisions, parallel), CONFIG)
    assert not declined
    return changed


def test_add_parallel_reports_straight_to_the_aggregator() -> None:
    fork = team(("s", "a"), ("s", "end"), ("a", "end"))
    for workflow in (fork, LINE):
        changed = applied(workflow, s=PARALLEL)
        assert edges(changed) == edges(workflow) | {"s->checker-dates", "checker-dates->end"}
        assert changed.agents_by_id["checker-dates"].prompt == PARALLEL.description


def test_d27_additions_in_parallel_leave_the_way_to_the_aggregator_and_two_make_the_team_of_figure_14() -> None:
    beside = applied(team(("s", "end")), s=PARALLEL)
    assert edges(beside) == {"s->end", "s->checker-dates", "checker-dates->end"}
    split = applied(beside, s=PARALLEL.model_copy(update={"description": "You are a finder of names."}))
    assert edges(split) == edges(beside) | {"s->finder-names", "finder-names->end"}


def test_add_serial_comes_between_an_agent_and_all_its_successors() -> None:
    changed = applied(FORK, s=SERIAL)
    assert edges(changed) == {"s->checks-dates", "checks-dates->a", "checks-dates->b", "a->end", "b->end"}


@pytest.mark.parametrize(
    ("name", "found"),
    [("Date Checker", "date-checker"), ("the checker of the dates", "checker-dates"), ("42 !?", "checks-dates")],
)
def test_a_newcomer_is_called_after_its_job(name: str, found: str) -> None:
    named = SERIAL.model_copy(update={"name": name})
    assert found in applied(FORK, s=named).agents_by_id
    assert f"{found}-2" in applied(FORK, s=named, a=named).agents_by_id


def test_a_newcomer_holds_its_parent_s_tools() -> None:
    equipped = LINE.replace(agents=tuple(a.replace(tools=("search",)) if a.id == "s" else a for a in LINE.agents))
    assert applied(equipped, s=SERIAL).agents_by_id["checks-dates"].tools == ("search",)
    assert applied(equipped, a=SERIAL).agents_by_id["checks-dates"].tools == ()


def test_remove_and_connect() -> None:
    assert edges(applied(FORK, s=removal("b"))) == {"s->a", "a->end", "b->end"}
    assert edges(applied(FORK, s=CONNECT)) == edges(FORK) | {"s->end"}
    assert applied(FORK, s=NOTHING) is FORK


def test_newcomers_of_one_iteration_have_different_ids() -> None:
    changed = applied(LINE, a=SERIAL, s=SERIAL)
    assert {"checks-dates", "checks-dates-2"} <= set(changed.agents_by_id)
    assert edges(changed) == {"s->checks-dates-2", "checks-dates-2->a", "a->checks-dates", "checks-dates->end"}


def test_the_lineage_starts_at_the_workflow_that_was_given() -> None:
    changed, done, _ = apply_decisions(LINE, {"a": SERIAL, "s": CONNECT}, {}, CONFIG)
    assert changed.lineage.parent == LINE.fingerprint
    assert changed.lineage.rewirings == done
    assert [r.operation for r in done] == ["ADD_SERIAL", "CONNECT_TO_AGGREGATOR"]


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (removal("b"), "'b' is no successor of 's'; successors are a"),
        (removal("a b|"), "no successor"),
        (SERIAL.model_copy(update={"description": "  "}), "no description"),
        (SERIAL.model_copy(update={"description": "x" * 5000}), "5000 characters"),
        (PARALLEL, "not offered"),
    ],
)
def test_what_a_model_gets_wrong_is_declined(decision: TopologyDecision, reason: str) -> None:
    changed, done, declined = apply_decisions(LINE, {"s": decision}, {"s": 0.4}, CONFIG)
    assert (changed, done, [d.by for d in declined]) == (LINE, (), ["s"])
    assert reason in declined[0].reason


def test_d12_a_decision_that_no_longer_fits_is_recorded() -> None:
    full = team(("s", "a"), ("a", "end"), caps=TopologyLimits(nodes=4, successors=5))
    changed, done, declined = apply_decisions(full, {"a": SERIAL, "s": SERIAL}, {}, CONFIG)
    assert len(changed.topology.nodes) == 4
    assert [r.by for r in done] == ["a"]
    assert [(d.by, d.operation) for d in declined] == [("s", "ADD_SERIAL")]


def test_what_is_offered_depends_on_threshold_room_and_place() -> None:
    assert list_operations(LINE, "s", 0.5, CONFIG) == (
        "ADD_PARALLEL", "ADD_SERIAL", "REMOVE_SUCCESSOR", "CONNECT_TO_AGGREGATOR", "NO_CHANGE",
    )  # fmt: skip
    assert "ADD_PARALLEL" not in list_operations(LINE, "s", 0.49, CONFIG)
    assert list_operations(LINE, "a", 0.0, CONFIG) == ("ADD_SERIAL", "NO_CHANGE")
    assert list_operations(LINE, "end", 1.0, CONFIG) == ("NO_CHANGE",)
    full = team(("s", "a"), ("s", "b"), ("a", "end"), ("b", "end"), caps=TopologyLimits(successors=2))
    assert list_operations(full, "s", 1.0, CONFIG) == ("ADD_SERIAL", "REMOVE_SUCCESSOR", "NO_CHANGE")
    direct = team(("s", "a"), ("s", "end"), ("a", "end"), caps=TopologyLimits(successors=2))
    assert "ADD_PARALLEL" not in list_operations(direct, "s", 1.0, CONFIG)


async def evolved(model: ScriptedModel, *gradients: Gradient, config: HivaConfig = CONFIG) -> StructureResult:
    parts = {"t1": 0.2, "t2": 0.6}
    concepts = {task: TaskConcepts(main="a question", parallelizability=share) for task, share in parts.items()}
    runs = [run(LINE, task=task).replace(notes=to_notes(found)) for task, found in concepts.items()]
    return await decide_edits(LINE, gradients, runs, meta_model(model), config, toolbox={}, scope=Scope())


async def test_d11_a_node_gets_one_decision_over_all_its_gradients() -> None:
    model = ScriptedModel(TopologyDecision=SERIAL)
    found = await evolved(model, lacking("s"), lacking("s", task="t2"))
    assert model.names() == ["TopologyDecision"]
    shown = model.shown("TopologyDecision")[0]
    assert "The agent is s. Its prompt:\n<role>\nYou are s.\n" in shown
    assert "<routing>\na: 2\n</routing>" in shown
    assert "<successors>\na: You are a.\n</successors>" in shown
    assert "<parallelizability>\n0.40\n</parallelizability>" in shown
    assert "<operations>\nADD_SERIAL\nREMOVE_SUCCESSOR\nCONNECT_TO_AGGREGATOR\nNO_CHANGE\n</operations>" in shown
    assert edges(found.workflow) == {"s->checks-dates", "checks-dates->a", "a->end"}
    assert found.usage.calls == 1


async def test_a_decision_on_the_team_reads_what_is_asked_of_the_team_and_not_what_prompts_have_answered() -> None:
    model = ScriptedModel(TopologyDecision=SERIAL)
    both = gradient("s", overall="Nobody checks.", system_prompt="Give the year.", tool="Add one.", concerns="both")
    only_prompt = gradient("a", system_prompt="Give the year.", concerns="both")
    await evolved(model, both, only_prompt)
    [shown] = model.shown("TopologyDecision")
    assert "[task 1, critical]\nNobody checks.\n" in shown
    assert "Give the year" not in shown
    assert "a -> end: You are a." in shown


async def test_d12_decisions_are_applied_in_reverse_topological_order() -> None:
    model = ScriptedModel(TopologyDecision=SERIAL)
    found = await evolved(model, lacking("s"), lacking("a"), lacking("end"))
    assert [r.by for r in found.applied] == ["a", "s"]
    assert model.names() == ["TopologyDecision", "TopologyDecision"]


@pytest.mark.parametrize(("concerns", "on"), [("semantics", True), ("none", True), ("topology", False)])
async def test_the_parser_and_the_switch_gate_the_decision(concerns: str, on: bool) -> None:
    config = HivaConfig(topology_evolution=on)
    found = await evolved(ScriptedModel(), lacking("s", concerns=concerns), config=config)
    assert found == StructureResult(workflow=LINE)


async def test_an_invalid_decision_changes_nothing_and_is_recorded() -> None:
    found = await evolved(ScriptedModel(TopologyDecision=ReplyError("bad reply")), lacking("s"))
    assert found.workflow is LINE
    assert [d.reason for d in found.declined] == ["bad reply"]


def test_rewirings_say_what_they_do() -> None:
    _, (rewiring,), _ = apply_decisions(team(("s", "end")), {"s": PARALLEL}, {"s": 1.0}, CONFIG)
    assert rewiring.edits[-2:] == (AddEdge("s", "checker-dates"), AddEdge("checker-dates", "end"))
    assert (rewiring.why, rewiring.by) == ("Unchecked.", "s")

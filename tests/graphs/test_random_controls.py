"""Random controls match the method that they stand beside: kinds of edits, how many, and who judges them."""

from collections import Counter
from typing import get_args

import pytest

from selfwire.core.own_tool import OwnTool
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.mutation import JOIN, get_mutated
from selfwire.evolvers.hera.rope import OPERATION
from selfwire.evolvers.hera.rules import Prompt
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.schemas import ToolDecision, TopologyDecision
from selfwire.evolvers.hiva.tools import REWRITE
from selfwire.extras.lab.random_edits.hera import RandomHera
from selfwire.extras.lab.random_edits.hiva import RandomHiva
from selfwire.graphs.hera import Hera
from selfwire.graphs.hiva import Hiva
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import EvolveResult
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from tests.graphs.orchestra import RIDDLE, SHORT, Judge, Orchestra, by_sample, grown, hera, learning
from tests.graphs.scripted import ScriptedChat, trio

TEXTS = ("You count.", "You compare two dates.", "You keep a friendly tone.")
EVOLVE = Scope(run="r", phase="evolve")
ADD = OwnTool(name="add", description="Adds.", source="def tool_function(n: int) -> int:\n    return n + 1\n")


def random_hiva(*operations: str) -> tuple[RandomHiva, Ctx[HivaConfig]]:
    control = RandomHiva.of(Hiva(), [operations], TEXTS)
    return control, control.make_ctx(MeteredModel(ScriptedChat()), {}, HashingEmbedder(), scope=EVOLVE)


def random_hera(*operations: str) -> tuple[RandomHera, Ctx[HeraConfig]]:
    made, ctx = hera(Orchestra(TopologyPlan=by_sample(SHORT)), group=2)
    return RandomHera.of(made, [operations], TEXTS[:1]), ctx


def test_a_control_may_draw_what_its_method_may_emit_and_nothing_else() -> None:
    emitted = {"REWRITE_PROMPT"}
    for schema in (TopologyDecision, ToolDecision):
        emitted |= set(get_args(schema.model_fields["operation"].annotation)) - {"NO_CHANGE"}
    assert {*random_hiva()[0].list_kinds({}), REWRITE} == emitted
    assert {*random_hera()[0].kinds, JOIN} == {OPERATION, JOIN}


async def test_hivas_control_makes_one_bundle_of_the_kinds_that_it_is_given() -> None:
    start = trio().replace(tools=(ADD,))
    wanted = ("REWRITE_TOOL", "CREATE_TOOL", "GRANT_TOOL", "REWRITE_PROMPT", "REWRITE_PROMPT", "ADD_SERIAL")
    control, ctx = random_hiva(*wanted)
    found = await control.propose(start, [], ctx)
    assert Counter(one.operation for one in found.applied) == Counter(wanted)
    assert (found.needs_gate, found.notes["not_drawn"]) == (False, ())
    assert found.workflow.lineage.rewirings == found.applied  # one candidate, which the gate judges as a whole
    assert found.workflow.tools_by_name["add"].source != ADD.source
    assert start.apply_legal(found.applied)[1] == ()
    assert await control.propose(start, [], ctx) == found
    assert await control.propose(start, [], ctx.where(seed=1)) != found


async def test_what_hivas_control_finds_no_place_for_is_noted() -> None:
    control, ctx = random_hiva("REWRITE_TOOL", "GRANT_TOOL")
    found = await control.propose(trio(), [], ctx)
    assert (found.applied, found.notes["not_drawn"]) == ((), ("REWRITE_TOOL", "GRANT_TOOL"))
    assert found.workflow.topology == trio().topology


async def evolved(control: tuple[Hera, Ctx[HeraConfig]], judge: Judge) -> tuple[Team, EvolveResult]:
    made, ctx = control
    start = made.seed()
    batch = await grown(judge, await made.explore(start, RIDDLE, ctx))
    return start, await made.propose(start, batch, learning(ctx, judge))


@pytest.mark.parametrize(("wanted", "joined"), [("count", True), ("nothing", False)])
async def test_a_random_newcomer_joins_heras_pool_only_after_it_has_helped(wanted: str, joined: bool) -> None:
    start, found = await evolved(random_hera(JOIN), Judge(wanted))
    assert {one.id for one in found.workflow.agents} - {one.id for one in start.agents} == (
        {"count"} if joined else set()
    )
    assert found.notes == {"tried": () if joined else (JOIN,), "not_drawn": ()}
    assert get_mutated(found.workflow) == (RIDDLE.id,)
    start, found = await evolved(random_hera(JOIN), Judge("answer_generator"))  # no group failed throughout
    assert (found.workflow, found.notes["not_drawn"]) == (start, (JOIN,))


async def test_heras_own_newcomers_that_failed_count_as_tried() -> None:
    _, found = await evolved(hera(Orchestra(TopologyPlan=by_sample(SHORT)), group=2), Judge("nothing"))
    assert found.notes["tried"] == (JOIN,)


async def test_heras_control_adds_a_rule_below_a_prompt_and_keeps_the_rest() -> None:
    start, found = await evolved(random_hera(OPERATION, OPERATION), Judge("nothing"))
    assert [one.operation for one in found.applied] == [OPERATION] * 2
    changed = [agent for agent in found.workflow.agents if agent != start.agents_by_id[agent.id]]
    assert len(changed) == 2
    for agent in changed:
        assert Prompt.of(agent.prompt).rules == ("You count.",)
        assert Prompt.of(agent.prompt).core == start.agents_by_id[agent.id].prompt

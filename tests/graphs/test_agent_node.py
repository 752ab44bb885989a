import asyncio
import itertools

import pytest

from selfwire.core.agent import Agent
from selfwire.core.errors import ModelError
from selfwire.core.protocols import RouterInput
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Routing, Step
from selfwire.core.usage import Usage
from selfwire.graphs.team import get_pending_messages, make_fixed_router, route_to_all, run_team
from tests.graphs.teams import Echo, team_run, topology

WIDE = "s>a s>b s>c a>x a>y b>x b>y c>x c>y x>z y>z s>z"


class Balancing:
    def __init__(self) -> None:
        self.knew: dict[str, RouterInput] = {}

    def __call__(self, node: str, successors: tuple[str, ...], known: RouterInput) -> Routing:
        if known.output:
            self.knew[node] = known
        if node == "s":
            return Routing(chosen=("a", "b", "c"))
        unused = [s for s in successors if s not in known.selected] or list(successors)
        return Routing(chosen=(unused[0],), scores={s: float(s in unused) for s in successors})


@pytest.mark.parametrize("delays", [dict(zip("abc", p, strict=True)) for p in itertools.permutations((0, 0.01, 0.02))])
async def test_siblings_decide_in_topological_order_whoever_finishes_first(delays: dict[str, float]) -> None:
    wanted, router = topology(WIDE), Balancing()
    done = await run_team(wanted, team_run(wanted, Echo(delays), router))
    chosen = {step.node: step.routing.chosen for step in done.steps if step.routing}
    assert (chosen["a"], chosen["b"], chosen["c"]) == (("x",), ("y",), ("x",))
    assert router.knew["a"].selected == ("s", "a", "b", "c")
    assert router.knew["b"].selected == ("s", "a", "b", "c", "x")
    assert router.knew["c"].selected == ("s", "a", "b", "c", "x", "y")
    assert dict(router.knew["c"].outputs) == {"s": "s()"}
    assert router.knew["x"].outputs.keys() == {"s", "a", "b", "c"}


async def test_a_router_knows_the_place_the_question_the_output_and_the_sink() -> None:
    wanted, router = topology(WIDE), Balancing()
    await run_team(wanted, team_run(wanted, router=router, scope=Scope(task="q1", visit=2)))
    known = router.knew["b"]
    assert known.scope == Scope(task="q1", visit=2, node="b")
    assert (known.question.id, known.output, known.sink) == ("q1", "b(s())", "z")


async def test_only_chosen_nodes_run() -> None:
    wanted = topology(WIDE)
    done = await run_team(wanted, team_run(wanted, router=make_fixed_router({"s": ["b"], "b": ["y"], "y": ["z"]})))
    assert [step.node for step in done.steps] == ["s", "b", "y", "z"]


async def test_a_router_that_chooses_nobody_leaves_the_sink_without_a_message() -> None:
    wanted = topology(WIDE)
    done = await run_team(wanted, team_run(wanted, router=make_fixed_router({})))
    assert [step.node for step in done.steps] == ["s"]
    assert done.error == "sink 'z' received nothing: no node handed on to it"


async def test_a_router_that_chooses_a_stranger_is_refused() -> None:
    wanted = topology("s>a a>z")
    with pytest.raises(ValueError, match=r"chose \('z',\) at 's'"):
        await run_team(wanted, team_run(wanted, router=lambda *_: Routing(chosen=("z",))))


async def test_a_cycle_delivers_last_rounds_message_and_loses_none() -> None:
    wanted = topology("s>w w>c c>w c>z z>s")
    first = await run_team(wanted, team_run(wanted))
    carried = get_pending_messages(wanted, first)
    assert [(m.source, m.target) for m in carried] == [("c", "w"), ("z", "s")]
    again = team_run(wanted, scope=Scope(task="q1", visit=1))
    second = await run_team(wanted, again, carried=carried)
    steps = {step.node: step for step in second.steps}
    assert steps["s"].inbox == (Message(source="z", target="s", text="z(c(w(s())))"),)
    assert [m.text for m in steps["w"].inbox] == [steps["s"].output, "c(w(s()))"]
    assert {step.visit for step in second.steps} == {1}


async def test_a_message_waits_until_its_reader_runs() -> None:
    wanted = topology("s>w w>c c>w c>z s>z")
    carried = get_pending_messages(wanted, await run_team(wanted, team_run(wanted)))
    idle = await run_team(wanted, team_run(wanted, router=make_fixed_router({"s": ["z"]})), carried=carried)
    waiting = get_pending_messages(wanted, idle, carried)
    assert waiting == carried
    failed = await run_team(wanted, team_run(wanted, Echo(failing=["w"])), carried=waiting)
    assert get_pending_messages(wanted, failed, waiting) == carried
    done = await run_team(wanted, team_run(wanted), carried=waiting)
    assert [m.text for m in get_pending_messages(wanted, done, waiting)] == ["c(w(s() c(w(s()))))"]


async def instruct(question: Question, step: Step, heir: Agent, scope: Scope) -> tuple[str, Usage]:
    await asyncio.sleep({"a": 0.01}.get(heir.id, 0))
    return f"{heir.id}, use {step.output}", Usage(calls=1, input_tokens=7)


async def test_successors_get_instructions_and_the_sink_the_output() -> None:
    wanted = topology("s>a s>b s>z a>z b>z")
    done = await run_team(wanted, team_run(wanted, instruct=instruct))
    assert [(m.target, m.text) for m in done.steps[0].sent] == [("a", "a, use s()"), ("b", "b, use s()"), ("z", "s()")]
    assert (done.steps[0].usage.calls, done.steps[0].usage.input_tokens) == (3, 14)
    assert done.steps[0].output == "s()"


async def test_instructions_are_written_in_parallel_each_at_its_own_place() -> None:
    places: list[str] = []
    together = asyncio.Barrier(2)

    async def meeting(question: Question, step: Step, heir: Agent, scope: Scope) -> tuple[str, Usage]:
        places.append(scope.node)
        async with asyncio.timeout(60):
            await together.wait()
        return "go", Usage()

    wanted = topology("s>a s>b a>z b>z")
    assert (await run_team(wanted, team_run(wanted, instruct=meeting))).error is None
    assert sorted(places) == ["s>a", "s>b"]


async def test_a_handover_that_fails_fails_the_step_and_keeps_its_cost() -> None:
    async def failing(question: Question, step: Step, heir: Agent, scope: Scope) -> tuple[str, Usage]:
        raise ModelError("no instruction")

    wanted = topology("s>a a>z")
    done = await run_team(wanted, team_run(wanted, instruct=failing))
    assert done.steps[0].error == "ModelError: no instruction"
    assert done.steps[0].usage.calls == 1
    assert done.answer is None


def test_every_chooses_all_and_a_plan_only_what_it_names() -> None:
    known = RouterInput(question=Question(id="q", input=""), scope=Scope(), output="", sink="z")
    assert route_to_all("s", ("a", "b"), known).chosen == ("a", "b")
    assert make_fixed_router({"s": ["b", "gone"]})("s", ("a", "b"), known).chosen == ("b",)

from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import ensure_config
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langsmith import get_tracing_context, tracing_context

from selfwire.core.scope import Scope
from selfwire.models.tracing import make_trace_config, run_untraced, trace_step


class Recorded(BaseTracer):
    """Every run that callbacks hear of."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Run] = []

    def _persist_run(self, run: Run) -> None:
        """Children are told on their start."""

    def _on_run_create(self, run: Run) -> None:
        self.runs.append(run)


def test_a_place_is_told_as_tags_and_metadata_without_what_is_not_known() -> None:
    told = make_trace_config(Scope(seed=3, iteration=2, phase="gate", task="t1", node="solve#1.0"), {"method": "hiva"})
    assert told["tags"] == ["method:hiva", "iteration:2", "phase:gate", "agent:solve"]
    assert told["metadata"] == {
        "selfwire_seed": 3, "selfwire_iteration": 2, "selfwire_phase": "gate", "selfwire_task": "t1",
        "selfwire_node": "solve#1.0", "selfwire_visit": 0, "selfwire_sample": 0,
        "selfwire_agent": "solve", "selfwire_method": "hiva",
    }  # fmt: skip
    assert make_trace_config(Scope(node="plan>solve"))["metadata"]["selfwire_agent"] == "plan"


def test_what_runs_around_a_call_knows_workflow_and_agent_better_than_the_model() -> None:
    around = {"selfwire_workflow": "round 3's", "selfwire_agent": "solver"}
    told = make_trace_config(Scope(node="n7"), {"workflow": "the seed", "method": "tacomas"}, around=around)
    assert told["tags"] == ["method:tacomas", "iteration:0"]
    assert not {"selfwire_workflow", "selfwire_agent"} & set(told["metadata"])


async def test_what_is_untraced_reaches_no_callback_of_the_running_graph() -> None:
    heard, model = Recorded(), FakeListChatModel(responses=["secret"])
    seen: dict[str, Any] = {}

    async def judge() -> str:
        seen.update(get_tracing_context())
        return str((await model.ainvoke("the reference is 42")).text)

    async def node(_: int) -> str:
        await model.ainvoke("a question")
        return await run_untraced(judge())

    with tracing_context(enabled="local"):
        assert await RunnableLambda(node).ainvoke(0, {"callbacks": [heard], "tags": ["t"]}) == "secret"
    assert [run.name for run in heard.runs] == ["node", "FakeListChatModel"]
    assert "a question" in repr(heard.runs[1].inputs)
    assert (seen["enabled"], seen["parent"]) == (False, None)


async def test_a_step_is_a_run_for_who_watches_and_leaves_its_place_for_who_does_not() -> None:
    heard, shown = Recorded(), list[str]()

    async def step() -> str:
        return str(ensure_config()["metadata"]["selfwire_task"])

    def told(what: str) -> dict[str, str]:
        shown.append(what)
        return {"said": what}

    where = make_trace_config(Scope(task="t1"))
    assert await trace_step("task", step, where, given=lambda: {"asked": "?"}, summarize=told) == "t1"
    assert shown == []
    watched = {**where, "callbacks": [heard]}
    assert await trace_step("task", step, watched, given=lambda: {"asked": "?"}, summarize=told) == "t1"  # type: ignore[arg-type]
    (run,) = heard.runs
    assert (run.name, run.inputs, run.outputs) == ("task", {"asked": "?"}, {"said": "t1"})

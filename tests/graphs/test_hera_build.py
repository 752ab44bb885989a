"""HERA's machine as people use it: built in Python, invoked, streamed, drawn, stopped, gone on with, saved, served."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from selfwire.core.errors import ConfigError, ModelError, TaskError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Question
from selfwire.core.team import Team
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.initial_team import CHAIN
from selfwire.evolvers.hera.library import get_library, with_library
from selfwire.graphs import hera
from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.store.library import open_library
from tests.evolvers.hera.doubles import known
from tests.graphs.orchestra import LONG, SCRIPT, SHORT, OrchestraChat, by_sample, order
from tests.graphs.scripted import ASKED, EVOLVE, on

LEARNS = ["rank", "reflect", "consolidate_experience", "identify_failed_agent", "rope", "consolidate_prompt", "keep"]
FIRST = ["begin", "characterize", "retrieve_insights", "sample_topologies", "rollout"]


@tool
def search(query: str) -> str:
    """Search the corpus."""
    return f"nothing about {query}"


async def assess(question: Question, answer: str, scope: Scope) -> Feedback:
    right = "calculator" in answer
    score = 1.0 if right else 0.3 * ("thoroughness" in scope.phase)  # of the replay with that variant
    return Feedback(score=score, solved=right, text="right" if right else "wrong")


def built(model: Any = None, **options: Any) -> Any:
    return hera.build(model or OrchestraChat(), embedder="hashing", **options)


def workflow_of(result: Any) -> Team:
    return Team.model_validate(result["workflow"])


def test_the_figure_is_drawn_with_the_default_chain_inside() -> None:
    for tools, chain in (([search], {*CHAIN}), ([], {*CHAIN} - {"retriever"})):
        drawn = built(tools=tools).compile().get_graph(xray=True)
        inside = {name.removeprefix("rollout:") for name in drawn.nodes if name.startswith("rollout:")}
        assert inside == chain
    assert {*FIRST, "mutate_topology", *LEARNS} - {"rollout"} <= set(drawn.nodes)


def test_with_evolution_off_one_team_answers_and_its_steps_are_streamed() -> None:
    graph = built().compile()
    chunks: list[Any] = list(graph.stream(ASKED, subgraphs=True, stream_mode="updates"))
    assert [node for path, update in chunks if not path for node in update] == FIRST
    assert [node for path, update in chunks if path for node in update] == list(SHORT)
    result = built().compile().invoke(ASKED)
    assert result["answer"] == "I heard query_decomposer"
    assert (result["oracle"], get_library(workflow_of(result))) == (False, ())


async def test_with_evolution_on_a_group_is_compared_and_the_best_answer_given() -> None:
    graph, again = (built(grader=assess, config=HeraConfig(group=3)).compile() for _ in range(2))
    chunks = [c async for c in graph.astream(ASKED, context=EVOLVE, subgraphs=True, stream_mode="updates")]
    assert [node for path, update in chunks if not path for node in update] == [*FIRST, *LEARNS]
    inner = [node for path, update in chunks if path for node in update]
    assert inner.count("answer_generator") >= 3  # steps of the group's teams are streamed as well
    result = await again.ainvoke(ASKED, context=EVOLVE)
    assert (result["answer"], result["oracle"]) == ("I heard calculator", True)
    evolved = workflow_of(result)
    assert [one.text for one in get_library(evolved)] == ["take the calculator"]
    assert "Wake up." in evolved.agents_by_id["query_decomposer"].prompt
    assert evolved.lineage.parent == Team.model_validate(result["ran"]).fingerprint


def test_a_member_whose_plan_fails_is_not_compared_with_its_group() -> None:
    def learn(failures: int) -> Any:
        asked = count()

        def planned(shown: str, scope: Scope) -> Any:
            if next(asked) < failures:
                raise RuntimeError("the provider is down")
            return order(*LONG)

        model = OrchestraChat(script={**SCRIPT, "TopologyPlan": planned})
        return built(model, grader=assess, config=HeraConfig(group=3)).compile().invoke(ASKED, context=EVOLVE)

    result = learn(failures=1)
    [failed] = [run["sample"] for run in result["trajectories"] if run["error"]]
    [group] = result["groups"]
    assert {*group["order"]} == {0, 1, 2} - {failed}
    assert result["answer"] == "I heard calculator"
    with pytest.raises(ModelError, match="the provider is down"):
        learn(failures=3)


def test_a_group_that_scores_nothing_is_mutated_once() -> None:
    model = OrchestraChat(script={**SCRIPT, "TopologyPlan": by_sample(SHORT)})
    graph = built(model, grader=assess, config=HeraConfig(group=2, rope=False)).compile()
    nodes = [n for update in graph.stream(ASKED, context=EVOLVE, stream_mode="updates") for n in update]
    assert nodes == [*FIRST, "rank", "mutate_topology", "rollout", "rank", "keep"]


def test_a_thread_keeps_what_it_has_learned_for_the_next_question(tmp_path: Path) -> None:
    graph = built(grader=assess).compile(checkpointer=sqlite_saver(tmp_path / "threads.sqlite"))
    first = graph.invoke(ASKED, on("t"), context=EVOLVE)
    after = graph.invoke({"question": "What are you?"}, on("t"))
    assert get_library(workflow_of(after)) == get_library(workflow_of(first)) != ()
    assert [step["agent"] for step in after["trajectories"][0]["steps"]] == list(LONG)


async def test_a_run_that_failed_goes_on_where_it_stopped() -> None:
    def down(shown: str, scope: Scope) -> Any:
        if not broken:
            return by_sample(SHORT, LONG)(shown, scope)
        raise RuntimeError("the provider is down")

    broken = ["once"]
    model = OrchestraChat(script={**SCRIPT, "TopologyPlan": down})
    team = with_library(hera.Hera().seed(), (known("Never mind."),))
    graph = built(model, initial=team).compile(checkpointer=InMemorySaver())
    with pytest.raises(Exception, match="the provider is down"):
        await graph.ainvoke(ASKED, on("t"))
    broken.clear()
    assert (await graph.ainvoke(None, on("t")))["answer"]
    assert model.objects.count("QueryProfile") == 1


def test_the_offline_model_answers_and_learns_without_a_key() -> None:
    graph = hera.build(tools=[search], grader=assess, config=HeraConfig(group=2)).compile()
    assert graph.invoke(ASKED)["answer"]
    result = graph.invoke(ASKED, context=EVOLVE)
    assert result["usage"]["calls"] > 20


async def test_what_a_run_learns_is_saved_and_taken_up() -> None:
    library = open_library(":memory:")
    graph = built(grader=assess, library=library).compile()
    result = await graph.ainvoke(ASKED, on("t"), context=EVOLVE)
    saved = await library.load("hera")
    assert saved == workflow_of(result)
    again = built(library=library).compile()
    assert workflow_of(await again.ainvoke(ASKED)) == saved
    assert (await library.head("hera")).run == "t"


def test_what_cannot_be_used_is_refused_before_anything_is_paid() -> None:
    model = OrchestraChat()
    with pytest.raises(ConfigError, match="nothing says what its answers are worth"):
        built(model).compile().invoke(ASKED, context=EVOLVE)
    with pytest.raises(ConfigError, match="edited for this run only"):
        built(model, grader=assess).compile().invoke(ASKED, context={**EVOLVE, "prompt_retriever": "x"})
    assert model.objects == []


def test_an_edited_prompt_holds_for_one_run() -> None:
    graph = built().compile()
    edited = graph.invoke(ASKED, context={"prompt_query_decomposer": "You sleep."})
    assert workflow_of(edited).agents_by_id["query_decomposer"].prompt != "You sleep."
    assert graph.get_context_jsonschema()["properties"]["prompt_calculator"]["langgraph_nodes"] == ["rollout"]


def test_a_group_without_an_answer_says_why() -> None:
    class Down(OrchestraChat):
        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            if "Reply with one JSON object" not in messages[-1].text:
                raise RuntimeError("the provider is down")
            return super()._generate(messages, stop, run_manager, **kwargs)

    graph = built(Down(), grader=assess).compile()
    for context in ({}, EVOLVE):
        with pytest.raises(TaskError, match="the provider is down"):
            graph.invoke(ASKED, context=context)

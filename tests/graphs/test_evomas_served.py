"""EvoMAS served: trained weights out of the library, without blocking the event loop; choices per run."""

from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langgraph.checkpoint.memory import InMemorySaver

from selfwire.core.agent import Agent
from selfwire.core.chat import Reply
from selfwire.core.errors import ConfigError, ModelError, add_cost_on_error
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.usage import Usage
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.evaluator import verify_outcome
from selfwire.evolvers.evomas.stages import Stage
from selfwire.evolvers.router.config import TrainConfig
from selfwire.evolvers.router.decisions import Decision, Episode, LayeredWorkflow
from selfwire.evolvers.router.reinforce import update_router
from selfwire.evolvers.router.weights import with_weights
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs import evomas
from selfwire.graphs.evomas import Evomas
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.files import put_blob
from selfwire.store.library import open_library
from selfwire.tools.calculator import CalculatorTool
from tests.graphs.test_serving import ASKED, drawn, home, served

__all__ = ["home"]  # a fixture

TRAIN = TrainConfig(rate=0.5, entropy=0.0)


def untrained() -> Team:
    return Evomas().seed()


async def trained() -> Team:
    """A pool whose router has learned to draw the maker of candidates first."""
    start = untrained()
    rows = ("Active subtask: What am I?", "Objective: What am I?")

    def episode(reward: float, agent: str) -> Episode:
        layered = LayeredWorkflow(layers=((agent,),) * 3)
        decision = Decision(rows=rows, agents=tuple(start.agents_by_id), layered=layered)
        return Episode(decisions=(decision,), reward=reward)

    batch = [episode(1.0, "multi_generate"), episode(0.0, "io"), episode(0.0, "web_browser")]
    slim = start
    for _ in range(3):
        slim, weights, _ = await update_router(slim, batch, EvomasConfig().routing, TRAIN, HashingEmbedder())
    return with_weights(slim, weights.without_optimiser())


def chances(result: dict[str, Any]) -> dict[str, float]:
    layered = Stage.model_validate(result["stages"][0]).layered
    assert layered is not None
    return dict(layered.probabilities[0])


async def test_trained_weights_are_served_without_blocking_the_loop(home: Path) -> None:
    before = chances(await (await served(method="evomas")).ainvoke(ASKED, context={"stages": 1}))
    saved = await trained()
    with open_library(home) as library:
        await library.save("evomas", saved, run="elsewhere", step=1)
    made = await served(method="evomas")
    with blockbuster_ctx():
        result = await made.ainvoke(ASKED, context={"stages": 1})
    assert result["router"] == saved.fingerprint
    assert result["answer"]
    assert chances(result)["multi_generate"] > 1.5 * before["multi_generate"]
    assert "L1-multi_generate" in drawn(made)


async def test_prompts_stages_and_pools_are_chosen_per_run(home: Path) -> None:
    made = await served(method="evomas")
    fields = made.get_context_jsonschema()["properties"]
    assert {"seed", "model", "calls", "tokens", "workflow", "stages"} <= set(fields)
    assert fields["prompt_io"]["langgraph_nodes"] == ["L1-io", "L2-io", "L3-io"]
    assert fields["prompt_early_exit"]["langgraph_nodes"] == ["adapt"]
    result = await made.ainvoke(ASKED, context={"stages": 2, "prompt_io": "You brainstorm."})
    assert {one["id"]: one["prompt"] for one in result["pool"]["agents"]}["io"] == "You brainstorm."
    assert len(result["stages"]) <= 2


async def test_weights_are_no_part_of_the_state_and_a_run_keeps_its_router() -> None:
    library, saved = open_library(":memory:"), await trained()
    await library.save("other", saved, run="r", step=1)
    graph: Any = evomas.build(library=library, embedder="hashing").compile()
    result = await graph.ainvoke(ASKED, context={"stages": 1, "workflow": "other"})
    assert (result["router"], result["pool"]["memory"]) == (saved.fingerprint, {})
    own = await evomas.build(initial=saved).compile().ainvoke(ASKED, context={"stages": 1})
    assert chances(own) == chances(result)


async def test_a_pool_that_has_grown_needs_no_new_weights() -> None:
    saved = await trained()
    calculator = Agent(id="calculator", role="Computes, counts and compares numbers.", prompt="You compute.")
    grown = saved.replace(agents=(*saved.agents, calculator))
    result = await evomas.build(initial=grown).compile().ainvoke(ASKED, context={"stages": 1})
    assert chances(result)["calculator"] > 0


async def test_weights_of_another_pool_are_refused_unless_asked_for() -> None:
    saved = await trained()
    other = saved.replace(agents=tuple(agent for agent in saved.agents if agent.id != "multi_generate"))
    with pytest.raises(ConfigError, match=r"another pool.*multi_generate are missing"):
        await evomas.build(initial=other).compile().ainvoke(ASKED)
    graph = evomas.build(initial=other, config=EvomasConfig(transfer=True, stages=1)).compile()
    assert (await graph.ainvoke(ASKED))["answer"]


async def test_corrupt_weights_are_told() -> None:
    start = untrained()
    broken = start.with_memory(router={"weights": put_blob(b"no safetensors")})
    with pytest.raises(ConfigError, match="corrupt or not selfwire's"):
        await evomas.build(initial=broken).compile().ainvoke(ASKED)


async def test_a_stopped_run_does_not_go_on_with_another_router() -> None:
    library, saved = open_library(":memory:"), await trained()
    await library.save("other", saved, run="r", step=1)
    graph = evomas.build(library=library, embedder="hashing")
    stopped: Any = graph.compile(checkpointer=InMemorySaver(), interrupt_before=["adapt"])
    thread: Any = {"configurable": {"thread_id": "1"}}
    context = {"stages": 1, "workflow": "other"}
    await stopped.ainvoke(ASKED, thread, context=context)
    await library.save("other", untrained(), run="r", step=2)
    with pytest.raises(ConfigError, match=f"the run began with the router of workflow {saved.fingerprint}, and"):
        await stopped.ainvoke(None, thread, context=context)


class Down(MeteredModel):
    """A provider that is down, after a call that costs."""

    async def generate(self, *args: Any, **kwargs: Any) -> Reply:
        with add_cost_on_error(Usage(calls=1)):
            raise ModelError("the provider is down")


async def test_an_outcome_that_cannot_be_verified_is_judged_without_it_and_its_cost_counts() -> None:
    method, agent = Evomas(), Agent(id="calculator", prompt="You compute.", tools=("calculator",))
    ctx = method.make_ctx(Down(OfflineChat()), {"calculator": CalculatorTool()}, HashingEmbedder())
    pool = untrained().replace(agents=(*untrained().agents, agent))
    question, act = Question(id="q", input="2 + 2?"), ctx.make_runner(pool)
    checks, usage = await verify_outcome(pool.agents, question, "4", act, method.prompts, scope=ctx.scope)
    assert (checks, usage.calls) == ("", 1)

"""EvoMAS, declared."""

from dataclasses import replace

from selfwire.core.errors import ConfigError
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.pictures import draw_run
from selfwire.evolvers.evomas.pool import METHOD
from selfwire.evolvers.evomas.report import format_notes
from selfwire.evolvers.trained_router.config import PAPER_HEAD
from selfwire.graphs.call_estimates import LOOP, CallEstimate
from selfwire.graphs.descriptor import MethodDescriptor, RouterPlan, RouterTraining
from selfwire.graphs.evomas.method import Evomas
from selfwire.graphs.evomas.state import EvomasContext
from selfwire.graphs.evomas.state_graph import build_state_graph
from selfwire.graphs.variants import FULL, Variant
from selfwire.tools.browse import with_pages

STAGES = 4
"""Stages of a question that may have six."""
DRAWN = 4
"""Agents that a stage runs."""
REASONING = {"adapter": "fixed", "plan": [["multi_generate"], ["ensemble"]]}
"""The paper compares task states under two fixed workflows (Sec. 4.3): the seed's topology, and this one."""


def estimate_calls(config: EvomasConfig, team: Workflow, batch: int, added_agents: float) -> CallEstimate:
    """Stages of a few agents, planned and judged, and the closing call; agents and topology stay as they are."""
    stages = min(config.stages, STAGES)
    question = {"agent": stages * DRAWN * LOOP, "judge": stages, "meta": stages * config.task_state + 1}
    return CallEstimate(question, samples=config.samples, gate_share=0, tokens=700)


def plan_router(evomas: Evomas, workflow: Workflow) -> RouterPlan:
    """How the router of a pool draws and learns.

    Raises:
        ConfigError: no run would ask it.
    """
    if evomas.config.adapter != "learned":
        raise ConfigError(f"adapter {evomas.config.adapter} asks no router; leave it at learned to train one")
    return RouterPlan(evomas.config.routing, evomas.config.train, evomas.embedder)


def with_random_router(evomas: Evomas) -> Evomas:
    """The method with layers that are drawn by chance."""
    return replace(evomas, config=evomas.config.replace(adapter="random"))


DESCRIPTOR = MethodDescriptor(
    name=METHOD,
    summary="a router trained in torch draws a layered workflow for every stage of a task",
    make=Evomas,
    config=EvomasConfig,
    context=EvomasContext,
    build_graph=build_state_graph,
    build_options=frozenset({"judge", "corpus", "embedder"}),
    estimate_calls=estimate_calls,
    variants={
        FULL: Variant(title="full"),
        "no-state": Variant(title="w/o task state", config={"task_state": False}),
        "random-adapter": Variant(title="random adapter", config={"adapter": "random"}, evolves=False, choice=True),
        "frozen-adapter": Variant(title="frozen adapter", config={"adapter": "frozen"}, evolves=False, choice=True),
        "process-reward": Variant(title="with process reward", config={"process_reward": True}),
        "pool-4": Variant(title="pool of 4", config={"pool": 4}),
        "fixed": Variant(title="fixed: I/O, search, ensemble", config={"adapter": "fixed"}, evolves=False),
        "fixed-no-state": Variant(
            title="the same w/o task state",
            config={"adapter": "fixed", "task_state": False},
            evolves=False,
            against="fixed",
        ),
        "reasoning": Variant(title="fixed: multi-generate, ensemble", config=REASONING, evolves=False),
        "reasoning-no-state": Variant(
            title="the same w/o task state",
            config={**REASONING, "task_state": False},
            evolves=False,
            against="reasoning",
        ),
    },
    rounds="stages",
    format_notes=format_notes,
    draw_run=draw_run,
    router=RouterTraining(
        plan_router,
        random_control=with_random_router,
        options={
            "paper": {"head": PAPER_HEAD.model_dump(mode="json")},
            "process_reward": {"process_reward": True},
        },
        errands=True,
    ),
    extend_tools=with_pages,
    paper="Xu et al., *EvoMAS: Learning Execution-Time Workflows for Multi-Agent Systems*, arXiv 2605.08769",
    departures="D1-D25",
)

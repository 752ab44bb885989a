"""Runs a team level by level where nothing observes it, without the cost of a graph's run.

The steps are those of the compiled graph: a node runs once, after all nodes that chose it, and the sink last (see
`team`). A graph's run costs about 0.3 ms of CPU per step, for channels, checkpoints and streams that nobody reads.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

from selfwire.core.trajectory import Step
from selfwire.graphs.agent_node import NodeResult, TeamContext, run_agent_node
from selfwire.graphs.layout import Layout, StepsByNode
from selfwire.runtime.tracing import InheritedConfig, is_observed

Messages = Sequence[dict[str, str]]


def needs_graph(config: RunnableConfig | None) -> bool:
    """Whether a team must run as a graph: something observes it, or limits how many nodes run at once."""
    around = var_child_runnable_config.get() or RunnableConfig()
    return bool({**around, **(config or {})}.get("max_concurrency")) or is_observed(config)


async def run_levels(
    layout: Layout, run: TeamContext, carried: Messages, *configs: RunnableConfig | None
) -> list[Step]:
    """The steps of a team in the order of a trajectory.

    Raises:
        BudgetError, ConfigError, ...: errors of agents, except ModelError; the other nodes of the level are cancelled.
    """
    steps: dict[str, Any] = {}
    done: dict[str, Step] = {}
    chosen = {layout.topology.entry}
    last = [layout.deferred] if layout.deferred else []
    for level in [*([node for node in level if node not in last] for level in layout.topology.levels()), last]:
        ready = [node for node in level if node in chosen]
        turns = [_take_turn(layout, node, run, steps, carried, configs) for node in ready]
        results = [await turns[0]] if len(turns) == 1 else await _gather(turns)
        steps = {**steps, **{result.step.node: result.json for result in results}}
        chosen.update(m["target"] for one in results for m in one.sent if m["target"] in layout.forward[one.step.node])
        done |= {result.step.node: result.whole for result in results}
    return [done[node] for node in layout.order if node in done]


async def _take_turn(
    layout: Layout,
    node: str,
    run: TeamContext,
    steps: StepsByNode,
    carried: Messages,
    configs: Sequence[RunnableConfig | None],
) -> NodeResult:
    with InheritedConfig(*configs, describe_turn(node, layout.topology.agents[node])):
        return await run_agent_node(layout, node, run, steps, carried)


async def _gather(turns: Sequence[Coroutine[Any, Any, NodeResult]]) -> list[NodeResult]:
    """As `asyncio.gather`, but a turn that fails cancels the others, and all end before its error is raised."""
    tasks = [asyncio.create_task(turn) for turn in turns]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def describe_turn(node: str, agent: str) -> RunnableConfig:
    """Tags and metadata of a node's turn."""
    return {"tags": [f"agent:{agent}"], "metadata": {"selfwire_node": node, "selfwire_agent": agent}}

"""DyTopo from Python: a graph to compile, with models, tools and a team of one's own."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph import StateGraph

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Embedder, Tool
from selfwire.core.usage import Budget, Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MEMORY, Remembered
from selfwire.graphs.dytopo.machine import machine
from selfwire.graphs.dytopo.method import Dytopo
from selfwire.graphs.dytopo.state import DytopoContext, DytopoState
from selfwire.runtime.budget import Ledger
from selfwire.runtime.embeddings import embedder as named_embedder
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.models import chat_model, identity
from selfwire.runtime.unrecorded import Unrecorded
from selfwire.tools.langchain import toolbox

DytopoGraph = StateGraph[DytopoState, Any, Any, Any]
"""Takes a `DytopoInput` and a `DytopoContext`, both also as plain dicts; gives a `DytopoState`."""


def build(
    model: str | BaseChatModel = "offline",
    *,
    meta: str | BaseChatModel | None = None,
    tools: Sequence[BaseTool | Tool] = (),
    seed: Workflow | str = "general",
    config: DytopoConfig = DytopoConfig(),
    budget: Budget = Budget(),
    embedder: str | Embedder = "auto",
) -> DytopoGraph:
    """DyTopo as a graph: `build(...).compile(checkpointer=...).invoke({"question": "..."})["answer"]`.

    `Report.of(state)` reads what happened off the final state; its `text` is for people.

    Args:
        model: plays the workers; a name as for `chat_model`, or a ready model.
        meta: plays the manager; by default `model`.
        tools: what the workers of a domain's team hold, and those of other teams may.
        seed: the team: a domain (general, code, math) or a workflow, see `evolvers.dytopo.seed.team`.
        config: the method's knobs.
        budget: what one question may cost at most.
        embedder: matches needs with offers: auto (MiniLM if its weights are on this machine), minilm, hashing, or
            a ready one. Beside the offline model `auto` is hashing.

    Raises:
        ConfigError: a model, a tool or the team cannot be used.
    """
    held = toolbox(tools)
    player = chat_model(model)
    models = {"agent": player, "meta": chat_model(meta) if meta else player}
    offline = all(identity(one).provider == "offline" for one in models.values())
    wanted = "hashing" if offline and embedder == "auto" else embedder
    embeds = named_embedder(wanted)[0] if isinstance(wanted, str) else wanted
    metered = MeteredModel(models, journal=Unrecorded(), ledger=Ledger(budget), labels={"method": MEMORY})
    dytopo = Dytopo(metered, held, embeds, config)
    start = _checked(dytopo, seed)
    _ = dytopo.team  # reads its prompts now and not on an event loop

    async def wire(context: DytopoContext, spent: Usage) -> tuple[Dytopo, Ledger]:
        ledger = Ledger(_tighter(budget, context), spent=spent, elapsed=spent.seconds)
        return Dytopo(metered.paid_by(ledger), held, embeds, config), ledger

    return machine(dytopo, start, wire)


def _checked(dytopo: Dytopo, seed: Workflow | str) -> Workflow:
    try:
        workflow = dytopo.seed(tuple(dytopo.toolbox), seed) if isinstance(seed, str) else seed
        Remembered.of(workflow)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    lacking = {tool for agent in workflow.agents for tool in agent.tools} - set(dytopo.toolbox)
    if lacking:
        there = ", ".join(sorted(dytopo.toolbox)) or "none"
        raise ConfigError(f"agents hold {', '.join(sorted(lacking))}, and the tools that are given are {there}")
    return workflow


def _tighter(budget: Budget, context: DytopoContext) -> Budget:
    def least(*limits: int | None) -> int | None:
        return min((limit for limit in limits if limit is not None), default=None)

    return budget.replace(calls=least(budget.calls, context.calls), tokens=least(budget.tokens, context.tokens))

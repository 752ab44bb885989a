"""HiVA from Python: a graph to compile, with models, tools, a seed team and a library of one's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph import StateGraph

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Embedder, Tool
from selfwire.core.scope import Scope
from selfwire.core.usage import Budget
from selfwire.core.values import fingerprint, is_id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.seed import METHOD
from selfwire.graphs.hiva.machine import Assess, Saver, Steps, machine
from selfwire.graphs.hiva.state import HivaContext, HivaState
from selfwire.graphs.hiva.wiring import Wiring
from selfwire.runtime.exports import read_workflow
from selfwire.runtime.library import Library
from selfwire.runtime.sync import run_sync
from selfwire.tools.langchain import toolbox

HivaGraph = StateGraph[HivaState, Any, Any, Any]
"""Takes a `HivaInput` and a `HivaContext`, both also as plain dicts; gives a `HivaState`."""


def build(
    model: str | BaseChatModel = "offline",
    *,
    meta: str | BaseChatModel | None = None,
    tools: Sequence[BaseTool | Tool] = (),
    seed: Workflow | str | Path | None = None,
    name: str = METHOD,
    library: Library | None = None,
    config: HivaConfig = HivaConfig(),
    assess: Assess | None = None,
    budget: Budget = Budget(),
    embedder: str | Embedder = "auto",
) -> HivaGraph:
    """HiVA as a graph: `build(...).compile(checkpointer=...).invoke({"question": "..."})["answer"]`.

    A thread keeps its workflow from question to question; `context={"evolve": True, "iterations": 3}` lets it
    learn from one. Other choices per run are those of `HivaContext`.

    Args:
        model: plays the agents; a name as for `chat_model`, or a ready model.
        meta: plays critics and evolvers; by default `model`.
        tools: what the agents of the singleton hold, and those of other teams may.
        seed: the team to start from: a workflow, a reference in the library or the path of an exported one. By
            default the head of `name` in the library, else the singleton.
        name: the name under which evolved workflows are saved in the library.
        library: keeps every workflow that a run evolves, if given.
        config: the method's knobs.
        assess: `await assess(question, answer, scope)` says what an answer is worth; without it, or
            without `config.environment`, the aggregator criticises its own answers.
        budget: what one question may cost at most.
        embedder: compares questions with agents: auto (MiniLM if its weights are on this machine), minilm,
            hashing, or a ready one.

    Raises:
        ConfigError: a model, a tool or the seed cannot be used.
        LibraryError: the seed is not to be found or corrupt.
    """
    if not is_id(name):
        raise ConfigError(f"name {name!r}: workflows are called by up to 64 letters, digits, _ and -")
    wiring = Wiring(model, meta, toolbox(tools), config, budget, embedder)
    start = wiring.check(run_sync(_start(wiring, seed, name, library)))

    async def begins(context: HivaContext, had: Workflow | None) -> Workflow:
        if context.workflow is None:
            return wiring.check(had) if had else start
        if library is None:
            raise ConfigError(f"workflow {context.workflow!r} cannot be looked up: the graph was built without library")
        return wiring.check(await library.load(context.workflow))

    save = saver(library, name, wiring) if library else None
    return machine(Steps(wiring.hiva, start, begins=begins, assess=assess, save=save), wiring)


def saver(library: Library, name: str, wiring: Wiring) -> Saver:
    """Saves what a run evolves as a version of `name`, keyed by thread and step."""

    async def save(workflow: Workflow, scope: Scope, step: int) -> None:
        run = scope.run if is_id(scope.run) else fingerprint(scope.run)
        taken: dict[str, str] = {}
        if name in await library.names():
            taken = {v.version: v.fingerprint for v in (await library.history(name)).versions}
        while taken.get(f"{run}.{step}", workflow.fingerprint) != workflow.fingerprint:
            step += 1  # a fork of the thread has been there
        facts = {"method": METHOD, "question": scope.task, "embedder": wiring.hiva.embedder.name}
        await library.save(name, workflow, run=run, step=step, facts=facts)

    return save


async def _start(wiring: Wiring, seed: Workflow | str | Path | None, name: str, library: Library | None) -> Workflow:
    if isinstance(seed, Workflow):
        return seed
    if seed is not None and str(seed).endswith(".json"):
        return read_workflow(Path(seed))
    if seed is None and (library is None or name not in await library.names()):
        return wiring.hiva.seed(tuple(wiring.toolbox))
    if library is None:
        raise ConfigError(f"seed {str(seed)!r} cannot be looked up: pass its library, a workflow or a .json file")
    return await library.load(str(seed or name))

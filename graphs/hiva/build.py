"""HiVA from Python: a graph to compile, with models, tools, a seed team and a library of one's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph import StateGraph

from selfwire.core.budget import Budget
from selfwire.core.protocols import Embedder, Tool
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.initial_team import METHOD
from selfwire.graphs.hiva.method import Hiva
from selfwire.graphs.hiva.state import HivaContext, HivaState
from selfwire.graphs.hiva.state_graph import HivaNodes, build_state_graph
from selfwire.graphs.method_factory import MethodFactory
from selfwire.graphs.run_start import AnswerGrader
from selfwire.graphs.version_saver import make_saver
from selfwire.runtime.workflow_library import WorkflowLibrary
from selfwire.tools.langchain import make_toolbox

HivaWiring = MethodFactory[Hiva, HivaConfig]

HivaGraph = StateGraph[HivaState, Any, Any, Any]
"""Takes a `HivaInput` and a `HivaContext`, both also as plain dicts; gives a `HivaState`."""


def build(
    model: str | BaseChatModel = "offline",
    *,
    meta: str | BaseChatModel | None = None,
    tools: Sequence[BaseTool | Tool] = (),
    initial: Workflow | str | Path | None = None,
    name: str = METHOD,
    library: WorkflowLibrary | None = None,
    config: HivaConfig = HivaConfig(),
    grader: AnswerGrader | None = None,
    budget: Budget = Budget(),
    embedder: str | Embedder = "auto",
) -> HivaGraph:
    """HiVA as a graph: `build(...).compile(checkpointer=...).invoke({"question": "..."})["answer"]`.

    A thread keeps its workflow from question to question; `context={"evolve": True, "iterations": 3}` lets it
    learn from one. Other choices per run are those of `HivaContext`.

    Args:
        model: plays the agents; a name as for `make_chat_model`, or a ready model.
        meta: plays critics and evolvers; by default `model`.
        tools: what the agents of the singleton hold, and those of other teams may.
        initial: the team to start from: a workflow, a reference in the library or the path of an exported one. By
            default the head of `name` in the library, else the singleton.
        name: the name under which evolved workflows are saved in the library.
        library: keeps every workflow that a run evolves, if given.
        config: the method's knobs.
        grader: `await grader(question, answer, scope)` says what an answer is worth; without it, or
            without `config.environment`, the aggregator criticises its own answers.
        budget: what one question may cost at most.
        embedder: compares questions with agents: auto (MiniLM if its weights are on this machine), minilm,
            hashing, or a ready one.

    Raises:
        ConfigError: a model, a tool or the seed cannot be used.
        LibraryError: the seed is not to be found or corrupt.
    """
    wiring = HivaWiring(METHOD, Hiva, config, model, meta, None, make_toolbox(tools), budget, embedder)
    start = wiring.start(initial, name, library)

    async def begins(context: HivaContext, had: Workflow | None) -> Workflow:
        saved = await wiring.load_workflow(context, library)
        return saved or (wiring.check(had) if had else start)

    save = make_saver(library, name, METHOD, wiring.method.embedder.name) if library else None
    return build_state_graph(HivaNodes(wiring.method, start, begins=begins, assess=grader, save=save), wiring)

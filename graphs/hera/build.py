"""HERA from Python: a graph to compile, with models, tools, a pool and a library of one's own."""

from collections.abc import Sequence
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from selfwire.core.budget import Budget
from selfwire.core.protocols import Embedder, Tool
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.initial_team import METHOD
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.hera.state import HeraContext
from selfwire.graphs.hera.state_graph import HeraGraph, HeraNodes, build_state_graph
from selfwire.graphs.method_factory import MethodFactory
from selfwire.graphs.run_start import AnswerGrader
from selfwire.graphs.version_saver import make_saver
from selfwire.runtime.workflow_library import WorkflowLibrary
from selfwire.tools.langchain import make_toolbox

HeraWiring = MethodFactory[Hera, HeraConfig]


def build(
    model: str | BaseChatModel = "offline",
    *,
    meta: str | BaseChatModel | None = None,
    tools: Sequence[BaseTool | Tool] = (),
    initial: Workflow | str | Path | None = None,
    name: str = METHOD,
    library: WorkflowLibrary | None = None,
    config: HeraConfig = HeraConfig(),
    grader: AnswerGrader | None = None,
    budget: Budget = Budget(),
    embedder: str | Embedder = "auto",
) -> HeraGraph:
    """HERA as a graph: `build(...).compile(checkpointer=...).invoke({"question": "..."})["answer"]`.

    A thread keeps its workflow, experience included, from question to question; `context={"evolve": True}` lets it
    learn from one: G topologies are run and compared. Other choices per run are those of `HeraContext`.

    Args:
        model: plays the agents; a name as for `make_chat_model`, or a ready model.
        meta: plays the orchestrator; by default `model`.
        tools: what the retriever holds (and the calculator, if there is a tool of that name).
        initial: the workflow to start from: a workflow, a reference in the library or the path of an exported one. By
            default the head of `name` in the library, else the pool of eight and the calculator.
        name: the name under which evolved workflows are saved in the library.
        library: keeps every workflow that a run evolves, if given.
        config: the method's knobs and ablations.
        grader: `await grader(question, answer, scope)` says what an answer is worth; without it nothing evolves.
        budget: what one question may cost at most.
        embedder: compares profiles and insights: auto (MiniLM if its weights are on this machine), minilm, hashing,
            or a ready one.

    Raises:
        ConfigError: a model, a tool or the seed cannot be used.
        LibraryError: the seed is not to be found or corrupt.
    """
    wiring = HeraWiring(METHOD, Hera, config, model, meta, None, make_toolbox(tools), budget, embedder)
    start = wiring.start(initial, name, library)

    async def begins(context: HeraContext, had: Workflow | None) -> Workflow:
        saved = await wiring.load_workflow(context, library)
        return saved or (wiring.check(had) if had else start)

    save = make_saver(library, name, METHOD, wiring.method.embedder.name) if library else None
    return build_state_graph(HeraNodes(wiring.method, start, begins=begins, assess=grader, save=save), wiring)

"""EvoMAS from Python: a graph to compile, with models, tools, a pool and trained weights of one's own."""

from collections.abc import Sequence
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from selfwire.core.budget import Budget
from selfwire.core.protocols import Embedder, Tool, Toolbox
from selfwire.core.values import FrozenMap
from selfwire.core.workflow import Workflow
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.pool import METHOD
from selfwire.graphs.evomas.method import Evomas
from selfwire.graphs.evomas.state import EvomasContext
from selfwire.graphs.evomas.state_graph import build_state_graph
from selfwire.graphs.method_factory import MethodFactory
from selfwire.graphs.method_graph import Graph
from selfwire.graphs.run_start import RunStart
from selfwire.runtime.workflow_library import WorkflowLibrary
from selfwire.tools.browse import with_pages
from selfwire.tools.langchain import make_toolbox
from selfwire.tools.search import Document, SearchTool, read_documents

EvomasWiring = MethodFactory[Evomas, EvomasConfig]


def build(
    model: str | BaseChatModel = "offline",
    *,
    meta: str | BaseChatModel | None = None,
    judge: str | BaseChatModel | None = None,
    tools: Sequence[BaseTool | Tool] = (),
    corpus: str | Path | Sequence[Document] = (),
    initial: Workflow | str | Path | None = None,
    name: str = METHOD,
    library: WorkflowLibrary | None = None,
    config: EvomasConfig = EvomasConfig(),
    budget: Budget = Budget(),
    embedder: str | Embedder = "auto",
) -> Graph:
    """EvoMAS as a graph: `build(...).compile(checkpointer=...).invoke({"question": "..."})["answer"]`.

    `stages` of the result tell what was drawn, run and judged at every stage.

    Args:
        model: plays the agents; a name as for `make_chat_model`, or a ready model.
        meta: plans; by default `model`.
        judge: evaluates; by default `meta`.
        tools: what searcher and browser hold, such as a search of the web; a local search brings a page reader.
        corpus: documents for a local search and page reader, or a JSONL file of them with title and text.
        initial: the pool with its router: a workflow, a reference in the library or the path of an exported one. By
            default the head of `name` in the library, else the pool of the config with an untrained router.
        name: of the pool in the library.
        library: where runs may choose a saved pool, if given.
        config: the method's knobs and ablations.
        budget: what one question may cost at most.
        embedder: of task states and agents: auto (MiniLM if its weights are on this machine), minilm, hashing, or a
            ready one. Beside the offline model `auto` is hashing.

    Raises:
        ConfigError: a model, a tool, the corpus or the pool cannot be used.
        LibraryError: the seed is not to be found or corrupt.
    """
    documents = read_documents(Path(corpus)) if isinstance(corpus, str | Path) else tuple(corpus)
    local = [SearchTool(documents)] if documents else []
    wiring = make_evomas_factory(config, model, meta, judge, make_toolbox([*tools, *local]), budget, embedder)
    start = wiring.start(initial, name, library)

    async def begins(context: EvomasContext, had: Workflow | None) -> Workflow:
        return await wiring.load_workflow(context, library) or start

    return build_state_graph(config, RunStart(start, begins), wiring)


def make_evomas_factory(
    config: EvomasConfig,
    model: str | BaseChatModel,
    meta: str | BaseChatModel | None = None,
    judge: str | BaseChatModel | None = None,
    tools: Toolbox = FrozenMap(),
    budget: Budget = Budget(),
    embedder: str | Embedder = "auto",
) -> EvomasWiring:
    """Models, tools and embedder of a graph."""
    return MethodFactory(METHOD, Evomas, config, model, meta, judge, with_pages(tools), budget, embedder)

"""DyTopo from Python: a graph to compile, with models, tools and a team of one's own."""

from collections.abc import Sequence
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from selfwire.core.budget import Budget
from selfwire.core.protocols import Embedder, Tool
from selfwire.core.workflow import Workflow
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import MEMORY
from selfwire.evolvers.dytopo.initial_team import DOMAINS
from selfwire.graphs.dytopo.method import Dytopo
from selfwire.graphs.dytopo.state import DytopoContext
from selfwire.graphs.dytopo.state_graph import build_state_graph
from selfwire.graphs.method_factory import MethodFactory
from selfwire.graphs.method_graph import Graph
from selfwire.graphs.run_start import RunStart
from selfwire.runtime.workflow_library import WorkflowLibrary
from selfwire.tools.langchain import make_toolbox

DytopoWiring = MethodFactory[Dytopo, DytopoConfig]


def build(
    model: str | BaseChatModel = "offline",
    *,
    meta: str | BaseChatModel | None = None,
    tools: Sequence[BaseTool | Tool] = (),
    initial: Workflow | str | Path | None = None,
    name: str = MEMORY,
    library: WorkflowLibrary | None = None,
    config: DytopoConfig = DytopoConfig(),
    budget: Budget = Budget(),
    embedder: str | Embedder = "auto",
) -> Graph:
    """DyTopo as a graph: `build(...).compile(checkpointer=...).invoke({"question": "..."})["answer"]`.

    `Report.of(state)` reads what happened off the final state; its `text` is for people.

    Args:
        model: plays the workers; a name as for `make_chat_model`, or a ready model.
        meta: plays the manager; by default `model`.
        tools: what the workers of a domain's team hold, and those of other teams may.
        initial: the team: a domain (general, code, math), a workflow (see `evolvers.dytopo.seed.team`), a reference in
            the library or the path of an exported one. By default the head of `name` in the library, else general.
        name: of the team in the library.
        library: where runs may choose a saved team, if given.
        config: the method's knobs.
        budget: what one question may cost at most.
        embedder: matches needs with offers: auto (MiniLM if its weights are on this machine), minilm, hashing, or
            a ready one. Beside the offline model `auto` is hashing.

    Raises:
        ConfigError: a model, a tool or the team cannot be used.
        LibraryError: the seed is not to be found or corrupt.
    """
    wiring = DytopoWiring(MEMORY, Dytopo, config, model, meta, None, make_toolbox(tools), budget, embedder)
    if isinstance(initial, str) and (initial in DOMAINS or (library is None and not initial.endswith(".json"))):
        initial = wiring.method.make_initial_workflow(tuple(wiring.toolbox), initial)
    start = wiring.start(initial, name, library)

    async def begins(context: DytopoContext, had: Workflow | None) -> Workflow:
        if saved := await wiring.load_workflow(context, library):
            return saved
        if context.domain is None:
            return start
        return wiring.check(wiring.method.make_initial_workflow(tuple(wiring.toolbox), context.domain))

    return build_state_graph(config, RunStart(start, begins), wiring)

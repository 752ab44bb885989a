"""TacoMAS from Python: a graph to compile, with models, tools and an initial team of one's own."""

from collections.abc import Sequence
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from selfwire.core.budget import Budget
from selfwire.core.protocols import Embedder, Model, Tool, Toolbox
from selfwire.core.values import FrozenMap
from selfwire.core.workflow import Workflow
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.initial_team import METHOD
from selfwire.graphs.method_factory import MethodFactory
from selfwire.graphs.run_start import RunStart
from selfwire.graphs.tacomas.method import Tacomas
from selfwire.graphs.tacomas.state import TacomasContext
from selfwire.graphs.tacomas.state_graph import TacomasGraph, build_state_graph
from selfwire.runtime.workflow_library import WorkflowLibrary
from selfwire.tools.langchain import make_toolbox

TacomasWiring = MethodFactory[Tacomas, TacomasConfig]


def build(
    model: str | BaseChatModel = "offline",
    *,
    meta: str | BaseChatModel | None = None,
    judge: str | BaseChatModel | None = None,
    tools: Sequence[BaseTool | Tool] = (),
    initial: Workflow | str | Path | None = None,
    name: str = METHOD,
    library: WorkflowLibrary | None = None,
    config: TacomasConfig = TacomasConfig(),
    budget: Budget = Budget(),
) -> TacomasGraph:
    """TacoMAS as a graph: `build(...).compile(checkpointer=...).invoke({"question": "..."})["answer"]`.

    Every question starts with the same team; `rounds` and `figures` of the result tell what became of it.

    Args:
        model: plays the agents; a name as for `make_chat_model`, or a ready model.
        meta: coaches and rewires; by default `model`.
        judge: judges answers and contributions; by default `meta`.
        tools: what agents hold, and newborns may.
        initial: the initial team: a workflow, a reference in the library or the path of an exported one. By default the
            head of `name` in the library, else the five of the paper.
        name: of the team in the library.
        library: where runs may choose a saved team, if given.
        config: the method's knobs and ablations.
        budget: what one question may cost at most.

    Raises:
        ConfigError: a model, a tool or the seed cannot be used.
        LibraryError: the seed is not to be found or corrupt.
    """
    wiring = make_tacomas_factory(config, model, meta, judge, make_toolbox(tools), budget)
    start = wiring.start(initial, name, library)

    async def begins(context: TacomasContext) -> Workflow:
        return await wiring.load_workflow(context, library) or start

    return build_state_graph(config, RunStart(start, begins), wiring)


def make_tacomas_factory(
    config: TacomasConfig,
    model: str | BaseChatModel,
    meta: str | BaseChatModel | None = None,
    judge: str | BaseChatModel | None = None,
    tools: Toolbox = FrozenMap(),
    budget: Budget = Budget(),
) -> TacomasWiring:
    """Models and tools of a graph; nothing is compared by meaning, so no embedder is loaded."""
    return MethodFactory(METHOD, _made, config, model, meta, judge, tools, budget, "hashing")


def _made(model: Model, held: Toolbox, embedder: Embedder, config: TacomasConfig) -> Tacomas:
    return Tacomas(model, held, config)

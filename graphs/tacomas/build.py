"""TacoMAS from Python: a graph to compile, with models, tools and an initial team of one's own."""

from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Tool
from selfwire.core.usage import Budget, Usage
from selfwire.core.workflow import Workflow
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.seed import METHOD
from selfwire.graphs.tacomas.machine import TacomasGraph, machine
from selfwire.graphs.tacomas.method import Tacomas
from selfwire.runtime.budget import Ledger
from selfwire.runtime.metered import MeteredModel
from selfwire.runtime.models import chat_model
from selfwire.runtime.unrecorded import Unrecorded
from selfwire.tools.langchain import toolbox


def build(
    model: str | BaseChatModel = "offline",
    *,
    meta: str | BaseChatModel | None = None,
    judge: str | BaseChatModel | None = None,
    tools: Sequence[BaseTool | Tool] = (),
    seed: Workflow | None = None,
    config: TacomasConfig = TacomasConfig(),
    budget: Budget = Budget(),
) -> TacomasGraph:
    """TacoMAS as a graph: `build(...).compile(checkpointer=...).invoke({"question": "..."})["answer"]`.

    Every question starts with the same team; `rounds` and `figures` of the result tell what became of it.

    Args:
        model: plays the agents; a name as for `chat_model`, or a ready model.
        meta: coaches and rewires; by default `model`.
        judge: judges answers and contributions; by default `meta`.
        tools: what agents hold, and newborns may.
        seed: the initial team; by default the five of the paper.
        config: the method's knobs and ablations.
        budget: what one question may cost at most.

    Raises:
        ConfigError: a model, a tool or the seed cannot be used.
    """
    coach = meta or model
    players = {"agent": chat_model(model), "meta": chat_model(coach), "judge": chat_model(judge or coach)}
    held = toolbox(tools)
    metered = MeteredModel(players, journal=Unrecorded(), ledger=Ledger(budget), labels={"method": METHOD})
    start = _checked(seed or Tacomas(metered, held, config).seed(tuple(held)), held)

    def wire(spent: Usage) -> tuple[Tacomas, Ledger]:
        ledger = Ledger(budget, spent=spent, elapsed=spent.seconds)
        return Tacomas(metered.paid_by(ledger), held, config), ledger

    return machine(start, wire)


def _checked(workflow: Workflow, held: dict[str, Tool]) -> Workflow:
    missing = sorted({tool for agent in workflow.agents for tool in agent.tools} - held.keys())
    if missing:
        raise ConfigError(
            f"the team's agents hold {', '.join(missing)}, and the tools that are given are "
            f"{', '.join(sorted(held)) or 'none'}; pass the missing ones in tools"
        )
    return workflow

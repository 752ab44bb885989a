"""HiVA, declared."""

from selfwire.core.errors import ConfigError
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.initial_team import METHOD
from selfwire.evolvers.hiva.pictures import draw_learning
from selfwire.evolvers.hiva.tool_writing import TRIES as CODE_TRIES
from selfwire.evolvers.trained_router.config import RouterConfig
from selfwire.graphs.call_estimates import LOOP, CallEstimate, count_turn_calls
from selfwire.graphs.descriptor import MethodDescriptor, RouterPlan, RouterTraining
from selfwire.graphs.hiva.actions import needs_concepts
from selfwire.graphs.hiva.method import Hiva
from selfwire.graphs.hiva.random_edits import RandomHiva
from selfwire.graphs.hiva.state import HivaContext
from selfwire.graphs.hiva.state_graph import build_state_graph
from selfwire.graphs.variants import FULL, RANDOM, Variant


def estimate_calls(config: HivaConfig, team: Workflow, batch: int, added_agents: float) -> CallEstimate:
    """A turn of every agent with its hand-overs; a backward pass per task, then prompts, decisions and tools."""
    agents = min(len(team.topology.nodes) + added_agents, config.nodes)
    more = max(0, agents - len(team.topology.nodes))
    routed = needs_concepts(team, config) or (config.kabb and more > 0)
    question = {"agent": count_turn_calls(team) + LOOP * more, "meta": routed + agents / 2}
    return CallEstimate(question, learning={"meta": batch * (2 + agents) + agents * (2 + _count_tool_calls(config))})


def _count_tool_calls(config: HivaConfig) -> int:
    """Calls for an agent's tools in an iteration: a decision, and code unless it is drawn at random."""
    if not config.evolves_tools:
        return 0
    return 1 + (CODE_TRIES if config.tool_writer == "model" else 0)


def with_room(config: HivaConfig, workflow: Workflow) -> HivaConfig:
    """The config with caps that the workflow fits in."""
    return config.replace(
        nodes=max(config.nodes, len(workflow.topology.nodes)),
        successors=max(config.successors, *map(len, workflow.topology.successors.values())),
    )


def plan_router(hiva: Hiva, workflow: Workflow) -> RouterPlan:
    """How the router of a team that branches draws and learns.

    Raises:
        ConfigError: no run would ask it.
    """
    from selfwire.graphs.trained_router.routing import SAMPLING, list_branches  # imports numpy

    if hiva.config.router != "learned":
        raise ConfigError(f"{METHOD} is routed by something else here; leave its router at learned to train it")
    if not list_branches(workflow):
        raise ConfigError(
            f"no agent of this team has two successors to choose from ({len(workflow.topology.nodes)} nodes), so a "
            "router has nothing to learn; name a team that branches with --workflow, such as one that was evolved"
        )
    return RouterPlan(RouterConfig(sampling=SAMPLING, transfer=True), hiva.config.train, hiva.embedder)


DESCRIPTOR = MethodDescriptor(
    name=METHOD,
    summary="grows a team from one agent by textual gradients, routes by a knowledge-aware bandit",
    make=Hiva,
    config=HivaConfig,
    context=HivaContext,
    build_graph=build_state_graph,
    build_options=frozenset({"grader", "embedder"}),
    estimate_calls=estimate_calls,
    variants={
        FULL: Variant(title="full"),
        "no-tev": Variant(title="w/o TEV", config={"topology_evolution": False}),
        "no-sev": Variant(title="w/o SEV", config={"semantic_evolution": False}),
        "no-kabb": Variant(title="w/o KABB", config={"kabb": False}, choice=True),
        "no-env": Variant(title="w/o Env", config={"environment": False}, gate="off", against="no-gate"),
        "no-tool": Variant(title="w/o Tool", config={"tools": False}),
        "no-tool-evolution": Variant(title="tools fixed", config={"tool_evolution": False}),
        "random-tools": Variant(title="random changes of tools", config={"tool_writer": "random"}),
        "no-gate": Variant(title="no gate", gate="off"),
        RANDOM: Variant(title="random edits", random=True),
    },
    random_edits=RandomHiva.of,
    fits_held_out=True,
    router=RouterTraining(plan_router, config={"router": "learned"}),
    fit_config=with_room,
    draw_learning=draw_learning,
    paper="Tang et al., *HiVA: Self-organized Hierarchical Variable Agent via Goal-driven Semantic-Topological "
    "Evolution*, arXiv 2509.00189",
    departures="D1-D31",
)

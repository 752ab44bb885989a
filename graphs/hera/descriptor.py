"""HERA, declared."""

from selfwire.core.workflow import Workflow
from selfwire.evolvers.hera.config import HeraConfig
from selfwire.evolvers.hera.initial_team import METHOD
from selfwire.evolvers.hera.pictures import draw_learning, draw_run
from selfwire.graphs.call_estimates import CallEstimate, count_turn_calls
from selfwire.graphs.descriptor import MethodDescriptor
from selfwire.graphs.hera.method import Hera
from selfwire.graphs.hera.random_edits import RandomHera
from selfwire.graphs.hera.state import HeraContext
from selfwire.graphs.hera.state_graph import build_state_graph
from selfwire.graphs.variants import FULL, RANDOM, Variant


def estimate_calls(config: HeraConfig, team: Workflow, batch: int, added_agents: float) -> CallEstimate:
    """A plan and a run per member of the group; insights, prompts of failing agents and mutations."""
    run = count_turn_calls(team)
    roped = min(config.prompts.agents, batch / 2) if config.rope else 0
    axes = len(config.prompts.axes)
    mutated = batch / 3 if config.mutation else 0
    learning = {
        "agent": roped * (axes + 1) * run + mutated * 2 * run,
        "meta": roped * (axes + 2) + mutated * 2 + (batch if config.library else 0),
    }
    return CallEstimate({"agent": run, "meta": 2}, samples=config.group, learning=learning)


DESCRIPTOR = MethodDescriptor(
    name=METHOD,
    summary=(
        "plans a team per question, compares groups of plans, "
        "keeps what made the difference in an experience library, rewrites the prompts of agents that fail"
    ),
    make=Hera,
    config=HeraConfig,
    context=HeraContext,
    build_graph=build_state_graph,
    build_options=frozenset({"grader", "embedder"}),
    estimate_calls=estimate_calls,
    variants={
        FULL: Variant(title="full"),
        "no-library": Variant(title="w/o library", config={"library": False}),
        "no-rope": Variant(title="w/o RoPE", config={"rope": False}),
        "no-mutation": Variant(title="w/o mutation", config={"mutation": False}),
        "no-gate": Variant(title="no gate", gate="off"),
        RANDOM: Variant(title="random edits", random=True),
    },
    random_edits=RandomHera.of,
    learns_insights=True,
    draw_run=draw_run,
    draw_learning=draw_learning,
    paper="Li and Ramakrishnan, *Experience as a Compass: Multi-agent RAG with Evolving Orchestration and Agent "
    "Prompts*, arXiv 2604.00901",
    departures="D1-D21",
)

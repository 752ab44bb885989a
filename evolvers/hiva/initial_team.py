"""Initial teams: the singleton source -> aggregator (Alg. 1), or an existing team."""

from collections.abc import Sequence

from selfwire.core.agent import Agent
from selfwire.core.chat import Prompts
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.topology import TopologyLimits, make_chain
from selfwire.core.values import Id
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.memory import MEMORY_KEY, HivaMemory

METHOD = "hiva"
SOURCE, AGGREGATOR = "source", "aggregator"
TOOLS = "Use your tools where they help."  # said to a source that holds some


def make_initial_team(prompts: Prompts, *, tools: Sequence[Id] = (), config: HivaConfig = HivaConfig()) -> Team:
    """Make a team of an agent that works and an aggregator that answers.

    The tools are the source's, and later its newcomers'; without `config.tools` (w/o Tool) there are none.
    """
    held = tuple(tools) if config.tools else ()
    source, aggregator = prompts.text(SOURCE, tools=TOOLS if held else ""), prompts.text(AGGREGATOR)
    team = Team(
        method=METHOD,
        agents=(
            Agent(id=SOURCE, role="Works on the task.", prompt=source.strip(), tools=held),
            Agent(id=AGGREGATOR, role="Gives the team's answer.", prompt=aggregator.strip(), kind="aggregator"),
        ),
        topology=make_chain(SOURCE, AGGREGATOR, caps=_caps(config)),
    )
    return HivaMemory().restrict_to(team).save_to(team)


def adopt_team(team: Team, config: HivaConfig) -> Team:
    """An existing team with the config's caps, and without tools in "w/o Tool".

    Raises:
        ConfigError: the team is larger than the caps.
    """
    nodes, successors = len(team.topology.nodes), max(map(len, team.topology.successors.values()))
    if nodes > config.nodes or successors > config.successors:
        raise ConfigError(
            f"the team has {nodes} nodes with up to {successors} successors, and the config allows "
            f"nodes={config.nodes} and successors={config.successors}; raise these, or start from a smaller team"
        )
    capped = team.replace(topology=team.topology.replace(caps=_caps(config)))
    bare = capped.replace(agents=tuple(agent.replace(tools=()) for agent in capped.agents), tools=())
    if config.tools or bare == capped or MEMORY_KEY not in capped.memory:
        return capped if config.tools else bare
    learned = HivaMemory.of(capped)
    return learned.replace(knowledge=learned.knowledge.with_agents(bare.agents)).save_to(bare)


def with_room(config: HivaConfig, team: Team) -> HivaConfig:
    """The config with caps that leave room for the team."""
    return config.replace(
        nodes=max(config.nodes, len(team.topology.nodes)),
        successors=max(config.successors, *map(len, team.topology.successors.values())),
    )


def _caps(config: HivaConfig) -> TopologyLimits:
    return TopologyLimits(nodes=config.nodes, successors=config.successors)

"""The singleton that evolution starts from: source -> aggregator (Alg. 1)."""

from collections.abc import Sequence

from selfwire.core.agent import Agent
from selfwire.core.prompts import Prompts
from selfwire.core.topology import Caps, chain
from selfwire.core.values import Id
from selfwire.core.workflow import Workflow
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.memory import Learned

METHOD = "hiva"
SOURCE, AGGREGATOR = "source", "aggregator"


def seed(prompts: Prompts, *, tools: Sequence[Id] = (), config: HivaConfig = HivaConfig()) -> Workflow:
    """One agent that works and an aggregator that answers.

    Args:
        prompts: with the texts `source` and `aggregator`.
        tools: what the source holds, and its newcomers after it; none without `config.tools` (w/o Tool).
        config: caps of the topology.
    """
    held = tuple(tools) if config.tools else ()
    workflow = Workflow(
        method=METHOD,
        agents=(
            Agent(id=SOURCE, role="Works on the task.", prompt=prompts.text(SOURCE).strip(), tools=held),
            Agent(
                id=AGGREGATOR,
                role="Gives the team's answer.",
                prompt=prompts.text(AGGREGATOR).strip(),
                kind="aggregator",
            ),
        ),
        topology=chain(SOURCE, AGGREGATOR, caps=Caps(nodes=config.nodes, successors=config.successors)),
    )
    return Learned().fitting(workflow).into(workflow)

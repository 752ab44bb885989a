"""Config of DyTopo: how the graph is induced, how rounds are run, and its ablations."""

from typing import Literal

from pydantic import Field

from selfwire.core.values import FrozenModel

TopologyMode = Literal["semantic", "random", "ring", "broadcast", "none"]


class DytopoConfig(FrozenModel):
    """Config of DyTopo (Table 7).

    Args:
        topology: semantic is the method; random has the edge count and in-degree cap of the graph that would have
            been induced; ring lets each agent hear the one before it; broadcast connects all agents; none delivers
            nothing.
        threshold: tau_edge, in [-1, 1]; an edge needs a relevance above it. Paper: 0.3 for code, 0.4 for
            mathematics. Ours: 0.3 for both, as MiniLM gives 0.312 between solution and verifier.
        providers: K_in, most providers of an agent. Paper and ours: 3.
        rounds: T_max. Paper and ours: 10.
        halting: off runs exactly `rounds` rounds (Sec. 5.2).
        manager: off runs without the manager: the task stays the goal and nothing halts.
        temperature: of every call in [0, 2]. Paper and ours: 0.3.
        memory: most characters of an agent's memory; the oldest entries go first. Paper: none. Ours: 12000.
        words: most words of messages that an agent reads after a round, the most relevant first, or in any order where
            edges have no relevance; the last message is cut. Paper and ours: no limit.
        calls: most tool calls that an agent may ask for in a round. Paper: no tools. Ours: 8.
        domain: of the initial team. Ours: general, which takes any question.
        search: settings of tau and K_in that `evolve` tries beside the current one: those one step away, or all 27
            of the grid. Beyond the paper. Ours: near, to save cost.
    """

    topology: TopologyMode = "semantic"
    threshold: float = Field(default=0.3, ge=-1, le=1)
    providers: int = Field(default=3, ge=1, le=1000)
    rounds: int = Field(default=10, ge=1, le=100)
    halting: bool = True
    manager: bool = True
    temperature: float = Field(default=0.3, ge=0, le=2)
    memory: int = Field(default=12_000, ge=200, le=1_000_000)
    words: int | None = Field(default=None, ge=1)
    calls: int = Field(default=8, ge=0, le=64)
    domain: Literal["general", "code", "math"] = "general"
    search: Literal["near", "grid"] = "near"

"""HiVA's config: routing, evolution, and a switch per ablation."""

from typing import Literal

from pydantic import Field

from selfwire.core.own_tool import SOURCE_LENGTH, TOOLS
from selfwire.core.values import FrozenModel
from selfwire.evolvers.router.config import TrainConfig


class KabbConfig(FrozenModel):
    """Config of the routing bandit (Sec. 3.4, App. D.2).

    Args:
        exploration: thompson draws theta from Beta(alpha, beta); gumbel perturbs log P at the posterior
            mean. Paper: the text says sampling, the formula prints the mean. Ours: thompson.
        k: most successors chosen at a node, apart from the aggregator. Paper: unstated. Ours: 2.
        within: share of the best arm's belief that an arm needs to run beside it; 0 has the k best run. Paper: 0. Ours:
            0.5.
        compares: what `within` compares, means of beliefs or scores as drawn. Ours: beliefs.
        sink_is_arm: whether the aggregator is one of the arms, so that only those hand on to it who choose it; off has
            everybody before it hand on to it. Paper: on. Ours: off.
        decay: gamma, share of a belief that is kept per iteration. Paper and ours: 0.6.
        match_weight: delta, weight of the knowledge match in a belief update. Paper: learnable. Ours: 0.1.
        distance_weight: lambda, weight of the knowledge distance, to begin with; 0 switches it off. Paper: learnable.
            Ours: 10.
        synergy_weight: eta, exponent of the synergy, to begin with; 0 switches it off. Paper: learnable. Ours: 0.5.
        fits_weights: whether lambda and eta are fitted to graded runs; off keeps them. Paper and ours: on.
        synergy_rate: gamma', how fast synergy grows. Paper: unstated. Ours: 0.05.
        mismatch_limit: candidates whose weighted mismatch exceeds it are left out. Paper and ours: 0.75.
    """

    exploration: Literal["thompson", "gumbel"] = "thompson"
    k: int = Field(default=2, ge=1)
    within: float = Field(default=0.5, ge=0, le=1)
    compares: Literal["beliefs", "draws"] = "beliefs"
    sink_is_arm: bool = False
    decay: float = Field(default=0.6, gt=0, le=1)
    match_weight: float = Field(default=0.1, ge=0, le=1)
    distance_weight: float = Field(default=10.0, ge=0, le=100)
    synergy_weight: float = Field(default=0.5, ge=0, le=10)
    fits_weights: bool = True
    synergy_rate: float = Field(default=0.05, ge=0, le=1)
    mismatch_limit: float = Field(default=0.75, ge=0, le=1)


class HivaConfig(FrozenModel):
    """Config of evolution (App. B.3, G.1) and the five ablations (App. F.1).

    Args:
        topology_evolution: off is "w/o TEV": f_G never runs.
        semantic_evolution: off is "w/o SEV": f_P never runs; a newcomer keeps its description as prompt.
        kabb: off is "w/o KABB": every successor is activated, whatever `router` says.
        router: learned has the trained router choose in the bandit's place (beyond the paper), auto does so where the
            team has one. Paper: kabb. Ours: auto.
        environment: off is "w/o Env": the aggregator criticises its own answer, and no label decides anything, in a
            gate neither.
        tools: off is "w/o Tool": agents hold no tools, and none are made.
        tool_evolution: off is "tools fixed": tools run, and are neither made nor rewritten. "w/o SEV" fixes them too.
        tool_writer: who writes the code of a tool that is rewritten; random changes it in one place, drawn at random,
            as a control. Paper: model. Ours: model.
        tool_temperature: of code for tools. Paper and ours: 0.3.
        tool_length: most characters of a tool's code. Paper: 1000 tokens. Ours: 4000 characters.
        own_tools: most tools of a team's own. Paper: unstated. Ours: 8.
        routing: config of the bandit.
        train: how `selfwire train` trains the router.
        temperature: of every call in [0, 2] but a task's profile, at 0, and code. Paper and ours: 1.0.
        successors: most successors of an agent. Paper and ours: 5.
        parallel_threshold: below it ADD_PARALLEL is not offered. Paper and ours: 0.5.
        prune_below: an edge's smoothed success rate below which it is pruned. Paper and ours: 0.3.
        prune_after: runs of an edge before it can be pruned. Paper: unstated. Ours: 8.
        nodes: most nodes of a team. Paper: none, about 100 in practice. Ours: 12, for the bill.
        prompt_length: most characters of an evolved prompt. Paper: 1000 tokens. Ours: 4000 characters.
    """

    topology_evolution: bool = True
    semantic_evolution: bool = True
    kabb: bool = True
    router: Literal["auto", "kabb", "learned"] = "auto"
    environment: bool = True
    tools: bool = True
    tool_evolution: bool = True
    tool_writer: Literal["model", "random"] = "model"
    tool_temperature: float = Field(default=0.3, ge=0, le=2)
    tool_length: int = Field(default=4000, ge=100, le=SOURCE_LENGTH)
    own_tools: int = Field(default=8, ge=0, le=TOOLS)
    routing: KabbConfig = KabbConfig()
    train: TrainConfig = TrainConfig()
    temperature: float = Field(default=1.0, ge=0, le=2)
    successors: int = Field(default=5, ge=1, le=100)
    parallel_threshold: float = Field(default=0.5, ge=0, le=1)
    prune_below: float = Field(default=0.3, ge=0, le=1)
    prune_after: int = Field(default=8, ge=1)
    nodes: int = Field(default=12, ge=2, le=1000)
    prompt_length: int = Field(default=4000, ge=100, le=100_000)

    @property
    def evolves_tools(self) -> bool:
        """Whether the team's own tools are made and rewritten."""
        return self.tools and self.semantic_evolution and self.tool_evolution

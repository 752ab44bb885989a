"""Config of TacoMAS: classes for the fast loop, the slow loop and the run; ablations are switches."""

from pydantic import Field

from selfwire.core.usage import RunObjective
from selfwire.core.values import FrozenModel


class FastConfig(FrozenModel):
    """Config of the capability loop F^C (Sec. 3.3).

    Args:
        rate: eta, strength of the replicator. Paper: unstated. Ours: 0.5.
        floor: share of the weight that is spread evenly, so that no agent falls silent. Paper: none. Ours: 0.1.
        kept: refinements that an agent keeps; the oldest go first. Paper: unstated. Ours: 3.
        judge_each: whether meta-judge and coach are asked once per agent, as in the paper, instead of once for all.
            Ours: off, for the bill.
        good: contribution from which an agent is not coached; the sink is coached whenever an item fails. Paper:
            everybody is coached. Ours: 0.7, clear progress that others can build on.
        inbox_length: most characters of the messages that an agent reads, shared by weight. Ours: 12000.
        refines: off leaves out the coach: weights change, and nobody gets a note.
    """

    rate: float = Field(default=0.5, ge=0, le=10)
    floor: float = Field(default=0.1, ge=0, le=1)
    kept: int = Field(default=3, ge=1, le=8)
    judge_each: bool = False
    good: float = Field(default=0.7, gt=0, le=1.01)
    inbox_length: int = Field(default=12_000, ge=100, le=1_000_000)
    refines: bool = True


class SlowConfig(FrozenModel):
    """Config of the topology loop F^T (Sec. 3.4, Eq. 4).

    Args:
        budgeted: off is "no edit budget": every edit is taken, up to `nodes`.
        pairs: B_V, birth-death pairs per update. Paper and ours: 2.
        edges: B_E, explicit edge edits per update. Paper and ours: 4.
        nodes: |V|_max. Paper and ours: 20.
        death_below: mean contribution over the last K rounds that marks a candidate for death, as advice to the
            meta-model. Paper and ours: 0.2.
        prompt_length: most characters of a prompt that feedback has lengthened. Ours: 4000.
        feedback: off leaves out what a slow update says to agents: it changes the team alone.
        drawn: the control of chance: of as many births and deaths as the meta-model proposes, who dies and what a
            newborn does and holds is drawn.
    """

    budgeted: bool = True
    pairs: int = Field(default=2, ge=0, le=20)
    edges: int = Field(default=4, ge=0, le=100)
    nodes: int = Field(default=20, ge=2, le=1000)
    death_below: float = Field(default=0.2, ge=0, le=1)
    prompt_length: int = Field(default=4000, ge=100, le=100_000)
    feedback: bool = True
    drawn: bool = False


class TacomasConfig(FrozenModel):
    """Config of a run, and the ablations (Sec. 5.3).

    Args:
        topology: off is "capability only": the slow loop never runs.
        capability: off is "topology only": all of Phi stays as it is, so weights (alone: `fast.rate` 0), refinements
            (alone: `fast.refines`) and what the slow loop says to agents (alone: `slow.feedback`).
        rounds: R, most rounds per question. Paper and ours: 10.
        interval: K, rounds between two slow updates; 1 is the ablation of one time scale. Paper and ours: 2.
        threshold: tau, the judge's score that ends a run once it is confirmed. Paper: per task. Ours: 0.85, so that
            none of the five items that a checklist has as a rule may fail.
        objective: s_t less the price of a round's calls, tokens or seconds, such as "score - 0.01*calls": a run ends
            where another round is not expected to pay for the team's calls (`rounds.compute_expected_gain`). Paper: no
            price. Ours: none.
        lessons: whether `evolve` keeps structural lessons in the team; slow updates see the kept lessons, these and
            earlier ones. Beyond the paper. Ours: off.
        temperature: of every call in [0, 2]. Paper: unstated. Ours: 1.0, so that a second judgement may differ.
        fast: the capability loop.
        slow: the topology loop.
    """

    topology: bool = True
    capability: bool = True
    rounds: int = Field(default=10, ge=1, le=100)
    interval: int = Field(default=2, ge=1, le=100)
    threshold: float = Field(default=0.85, gt=0, le=1)
    objective: RunObjective = "score"
    lessons: bool = False
    temperature: float = Field(default=1.0, ge=0, le=2)
    fast: FastConfig = FastConfig()
    slow: SlowConfig = SlowConfig()

"""What flows through HERA's graph, and what can be chosen per run."""

from pydantic import Field

from selfwire.core.edits import RefusedRewiring, Rewiring
from selfwire.core.task import Question
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.blame import Blame
from selfwire.evolvers.experience.library import Insight
from selfwire.evolvers.hera.groups import Group
from selfwire.evolvers.hera.mutation import Candidate
from selfwire.evolvers.hera.profile import Brief
from selfwire.evolvers.hera.reflection import Change
from selfwire.evolvers.hera.rope import Rope
from selfwire.graphs.run_context import RunContext
from selfwire.graphs.typed_state import State


class HeraContext(RunContext):
    """What can be chosen per run; each field's description says what it does."""

    evolve: bool = Field(default=False, description="Whether the team learns from this question, by a group of runs.")


class PlannedQuestion(FrozenModel):
    """A planned run; `candidate` is the mutation that it tries, None for what the orchestrator sampled."""

    question: Question
    topology: Topology
    sample: int = Field(default=0, ge=0)
    notes: FrozenJson = Field(default_factory=FrozenMap)
    overhead: Usage = Usage()
    candidate: Candidate | None = None


class TriedMutation(FrozenModel):
    """A mutation that was tried, and the index of its trajectory in the batch."""

    place: int = Field(ge=0)
    candidate: Candidate


class HeraState(State):
    """What flows through the graph, beside what every state has.

    Attributes:
        answer: of the single run, or of the best-ranked one of the group.
        ran: the workflow that the trajectories come from.
        workflow: the workflow with what is learned so far.
        planned: runs to make.
        trajectories: of the batch, those of mutated topologies after the others.
        counted: how many of them have moved utilities.
        mutated: questions that had their second group in this step.
        insights: new ones, per mixed group.
        changes: the fate of each in the library.
        ropes: results of variants and replays, per agent.
        reflection: cost of learning, without the runs.
        oracle: whether labels were used on this very question.
    """

    ran: Workflow
    workflow: Workflow
    brief: Brief = Brief()
    planned: tuple[PlannedQuestion, ...] = ()
    trajectories: tuple[Trajectory, ...] = ()
    counted: int = 0
    groups: tuple[Group, ...] = ()
    tried: tuple[TriedMutation, ...] = ()
    mutated: tuple[str, ...] = ()
    blames: tuple[Blame, ...] = ()
    insights: tuple[tuple[Insight, ...], ...] = ()
    changes: tuple[Change, ...] = ()
    ropes: tuple[Rope, ...] = ()
    applied: tuple[Rewiring, ...] = ()
    refused: tuple[RefusedRewiring, ...] = ()
    reflection: Usage = Usage()
    oracle: bool = False


_LISTS = "planned trajectories groups tried mutated blames insights changes ropes applied refused".split()
EMPTY_STEP = HeraState.update(**dict.fromkeys(_LISTS, ()), counted=0, reflection=Usage(), oracle=False)
"""What a step of learning starts with, beside scope, workflow and trajectories."""

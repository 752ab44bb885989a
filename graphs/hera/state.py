"""What flows through HERA's machine, and what can be chosen per run."""

from typing import Any

from pydantic import Field
from typing_extensions import TypedDict  # pydantic makes no schema of Python 3.11's own

from selfwire.core.edits import Rewiring
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evolvers.blame import Blame
from selfwire.evolvers.hera.groups import Group
from selfwire.evolvers.hera.mutation import Candidate
from selfwire.graphs.run_context import RunContext


class HeraContext(RunContext):
    """What can be chosen per run; each field's description says what it does."""

    evolve: bool = Field(default=False, description="Whether the team learns from this question, by a group of runs.")


class PlannedQuestion(FrozenModel):
    """A run that is to be made.

    Args:
        question: what is asked.
        topology: who takes part.
        sample: its number among the runs on the question.
        notes: what its trajectory notes.
        overhead: what planning it has cost.
        candidate: the mutation that it tries; None for what the orchestrator sampled.
    """

    question: Question
    topology: Topology
    sample: int = Field(default=0, ge=0)
    notes: FrozenJson = Field(default_factory=FrozenMap)
    overhead: Usage = Usage()
    candidate: Candidate | None = None


class TriedMutation(FrozenModel):
    """A mutation that was tried.

    Args:
        place: of its trajectory in the batch.
        candidate: what was tried.
    """

    place: int = Field(ge=0)
    candidate: Candidate


class HeraInput(TypedDict):
    """What a run is given."""

    question: str


class HeraState(TypedDict, total=False):
    """What flows through the machine, as JSON.

    Keys:
        question: the user's question; the machine's input.
        answer: of the single run, or of the best-ranked one of the group.
        usage: what the question has cost so far.
        scope: place of the run.
        ran: the workflow that the trajectories come from.
        workflow: what is learned so far.
        brief: profile and insights of the question.
        planned: runs that are to be made.
        trajectories: of the batch, those of mutated topologies after the others.
        counted: how many of them have moved utilities.
        groups: ranked.
        tried: mutations with the places of their trajectories.
        mutated: questions that had their second group in this step.
        blames: causes of failures.
        insights: new ones, per mixed group.
        changes: what became of them in the library.
        ropes: per agent, what variants and replays came to.
        applied, refused: rewirings of this step.
        reflection: what learning has cost, runs apart.
        oracle: whether labels were used on this very question.
    """

    question: str
    answer: str
    usage: dict[str, Any]
    scope: dict[str, Any]
    ran: dict[str, Any]
    workflow: dict[str, Any]
    brief: dict[str, Any]
    planned: list[dict[str, Any]]
    trajectories: list[dict[str, Any]]
    counted: int
    groups: list[dict[str, Any]]
    tried: list[dict[str, Any]]
    mutated: list[str]
    blames: list[dict[str, Any]]
    insights: list[list[dict[str, Any]]]
    changes: list[dict[str, Any]]
    ropes: list[dict[str, Any]]
    applied: list[dict[str, Any]]
    refused: list[dict[str, Any]]
    reflection: dict[str, Any]
    oracle: bool


def make_fresh_state() -> HeraState:
    """What a step of learning begins with, beside scope, workflow and trajectories."""
    return {
        "planned": [],
        "trajectories": [],
        "counted": 0,
        "groups": [],
        "tried": [],
        "mutated": [],
        "blames": [],
        "insights": [],
        "changes": [],
        "ropes": [],
        "applied": [],
        "refused": [],
        "reflection": Usage().model_dump(mode="json"),
        "oracle": False,
    }


def get_scope(state: HeraState) -> Scope:
    """Place of the run."""
    return Scope.model_validate(state["scope"])


def get_workflow(state: HeraState) -> Workflow:
    """What is learned so far."""
    return Workflow.model_validate(state["workflow"])


def get_source_workflow(state: HeraState) -> Workflow:
    """What the trajectories come from."""
    return Workflow.model_validate(state["ran"])


def get_trajectories(state: HeraState) -> list[Trajectory]:
    """All trajectories of the batch."""
    return [Trajectory.model_validate(one) for one in state["trajectories"]]


def get_groups(state: HeraState) -> list[Group]:
    """The ranked groups."""
    return [Group.model_validate(one) for one in state["groups"]]


def get_plans(state: HeraState) -> list[PlannedQuestion]:
    """Runs that are to be made."""
    return [PlannedQuestion.model_validate(one) for one in state["planned"]]


def get_trials(state: HeraState) -> list[TriedMutation]:
    """Mutations that were tried."""
    return [TriedMutation.model_validate(one) for one in state["tried"]]


def get_blames(state: HeraState) -> list[Blame]:
    """Causes of failures."""
    return [Blame.model_validate(one) for one in state["blames"]]


def get_applied(state: HeraState) -> list[Rewiring]:
    """Rewirings of this step."""
    return [Rewiring.model_validate(one) for one in state["applied"]]


def to_json(values: "list[Any] | tuple[Any, ...]") -> list[dict[str, Any]]:
    """Values as the state keeps them."""
    return [one.model_dump(mode="json") for one in values]

"""A stage's record, the layers that run, the end of a run, and the episode that training learns from."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.evomas.pool import EARLY_EXIT
from selfwire.evolvers.evomas.state import Assessment, TaskState
from selfwire.evolvers.router.decisions import Decision, Episode, LayeredWorkflow

Stop = Literal["done", "early_exit", "stages", "failure"]
"""No subtask is left; Early-exit was drawn; T stages are over; the planner or the evaluator failed."""


class Stage(FrozenModel):
    """The record of a stage.

    Args:
        number: t, from 0.
        rows: input of the router.
        assessment: the evaluator's, or its safe default.
        answer: the evaluator's to the task, if the work could end with this stage.
        fell_back: planner or evaluator, where a safe default replaces an invalid reply.
        changes: of the plan, see `describe_change`.
        state: after the update.
        fault: failure of the planner or the evaluator that ended the run; None if neither failed.
        usage: cost of the stage, plan and evaluation included.
    """

    number: int = Field(ge=0)
    goal: str = ""
    rows: tuple[str, ...] = ()
    agents: tuple[Id, ...] = ()
    layered: LayeredWorkflow | None = None
    outcome: str | None = None
    error: str | None = None
    assessment: Assessment | None = None
    answer: str = ""
    fell_back: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    state: TaskState | None = None
    fault: str | None = None
    usage: Usage = Usage()

    @property
    def exits(self) -> bool:
        """Whether Early-exit was drawn."""
        return self.layered is not None and get_runnable_part(self.layered).exits

    @property
    def layers_to_run(self) -> tuple[tuple[Id, ...], ...]:
        """The drawn layers that are run; none where nothing or Early-exit alone was drawn."""
        return get_runnable_part(self.layered).layers if self.layered else ()


class RunnablePart(NamedTuple):
    """The layers that are run, and whether the task ends after them."""

    layers: tuple[tuple[Id, ...], ...]
    exits: bool


def get_runnable_part(layered: LayeredWorkflow) -> RunnablePart:
    """The layers up to the one with Early-exit, which itself does nothing (Alg. 1)."""
    kept: list[tuple[Id, ...]] = []
    for layer in layered.layers:
        working = tuple(agent for agent in layer if agent != EARLY_EXIT)
        kept += [working] if working else []
        if EARLY_EXIT in layer:
            return RunnablePart(tuple(kept), exits=True)
    return RunnablePart(tuple(kept), exits=False)


def find_masked_agents(state: TaskState, pool: Sequence[Agent], *, early_exit: bool = True) -> frozenset[Id]:
    """Agents that must not be drawn: searchers without a tool (D20), and Early-exit where it may not be (D11).

    It may be once a subtask is completed, and in a plan of one subtask behind a first layer. Where nobody else is left,
    searchers may be drawn; and Early-exit, if it is alone.

    Args:
        early_exit: off masks Early-exit always.
    """
    others = {agent.id for agent in pool} - {EARLY_EXIT}
    idle = {agent.id for agent in pool if agent.kind == "searcher" and not agent.tools}
    able = early_exit and (state.completed or len(state.subtasks) == 1)
    early = frozenset({EARLY_EXIT}) if others and not able else frozenset[Id]()
    return early if idle >= others else early | idle


def find_masked_openers(state: TaskState, pool: Sequence[Agent]) -> frozenset[Id]:
    """Agents that need solutions of the active subtask, while there is none (D20); a layer before them gives some.

    A try that was sent back is a solution that a refiner can begin with, and no choice for an ensemble. Early-exit
    needs a result until a subtask is completed (D11).
    """
    masked, others = find_masked_agents(state, pool), {agent.id for agent in pool} - {EARLY_EXIT}
    tried = state.current is not None and bool(state.current.attempt)
    kinds = ("ensemble",) if tried else ("ensemble", "refiner")
    needy = frozenset(agent.id for agent in pool if agent.kind in kinds)
    early = frozenset({EARLY_EXIT}) if others and not state.completed else frozenset[Id]()
    return early if others <= masked | needy else early | needy


def find_stop_reason(stages: Sequence[Stage], *, limit: int) -> Stop | None:
    """Why a run ends after its last stage; None if it goes on."""
    last = stages[-1]
    if last.fault is not None:
        return "failure"
    if last.exits and (not last.layers_to_run or (last.state is not None and last.state.completed)):
        return "early_exit"
    if last.state is not None and last.state.is_over:
        return "done"
    return "stages" if len(stages) >= limit else None


def get_best_outcome(stages: Sequence[Stage]) -> str | None:
    """The outcome that was passed last, else the last one; None without any."""
    outcomes = [stage for stage in stages if stage.outcome]
    passed = [stage for stage in outcomes if stage.assessment and stage.assessment.verdict == "success"]
    return (passed or outcomes)[-1].outcome if outcomes else None


class Finding(NamedTuple):
    """An outcome of a run, as the closing call reads it; `feedback` is the evaluator's."""

    goal: str
    text: str
    passed: bool
    feedback: str = ""


def collect_findings(stages: Sequence[Stage]) -> tuple[Finding, ...]:
    """Outcomes in order, each text once; of a subtask that has passed, only those that have."""
    found = [
        Finding(stage.goal, stage.outcome, stage.assessment.verdict == "success", stage.assessment.feedback)
        if stage.assessment
        else Finding(stage.goal, stage.outcome, passed=False)
        for stage in stages
        if stage.outcome
    ]
    done = {finding.goal for finding in found if finding.passed}
    kept = [finding for finding in found if finding.passed or finding.goal not in done]
    return tuple({finding.text: finding for finding in kept}.values())


def get_written_answer(stages: Sequence[Stage]) -> str | None:
    """The answer of the last evaluator, if it has read all work; None without one.

    It has read what passed, the last try at its subtask, and the outcome.
    """
    tries = [stage for stage in stages[:-1] if stage.outcome and not (stage.assessment and stage.assessment.reward)]
    has_read_all = len(tries) < 2 and all(stage.goal == stages[-1].goal for stage in tries)
    return (stages[-1].answer or None) if stages and has_read_all else None


def to_episode(stages: Sequence[Stage]) -> Episode | None:
    """The decisions of a run with the evaluator's rewards, its utility open; None if nothing was decided."""
    decided = [(stage, stage.layered) for stage in stages if stage.layered is not None and stage.rows]
    if not decided:
        return None
    return Episode(
        decisions=tuple(Decision(rows=stage.rows, agents=stage.agents, layered=layered) for stage, layered in decided),
        process=tuple(stage.assessment.reward if stage.assessment else 0.0 for stage, _ in decided),
    )


def describe_change(before: TaskState, after: TaskState) -> tuple[str, ...]:
    """Changes of the plan in a stage: one line per subtask that passed, was sent back or failed."""
    previous = {subtask.id: subtask for subtask in before.subtasks}
    lines = []
    for subtask in after.subtasks:
        was = previous.get(subtask.id, subtask)
        if subtask.status != was.status:
            lines.append(f"[{subtask.id}] {was.status} -> {subtask.status}: {subtask.goal}")
        elif subtask.refinements > was.refinements:
            lines.append(f"[{subtask.id}] sent back, try {subtask.refinements + 1} is next: {subtask.goal}")
    return tuple(lines)

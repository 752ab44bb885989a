"""Config and live objects of an evolution."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from selfwire.core.protocols import Environment
from selfwire.core.task import Splits
from selfwire.core.values import FrozenModel, Id
from selfwire.core.workflow import Workflow
from selfwire.graphs.method_protocol import Method
from selfwire.graphs.rollout_context import RolloutContext
from selfwire.graphs.rollouts import RolloutRunner, stream_rollouts
from selfwire.runtime.journal import Journal
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.workflow_library import WorkflowLibrary


class EvolutionConfig(FrozenModel):
    """Config of an evolution.

    Args:
        iterations: rewritings of the workflow.
        batch: train tasks per iteration (1 is HiVA's per-sample mode).
        gate: paired lets a held-out comparison decide; off accepts every candidate, as the papers do.
        gate_tasks: fresh gate tasks per comparison.
        margin: least paired mean difference of a candidate that is accepted.
        patience: most candidates in a row that are accepted with an equal score and more calls.
        calls_per_task: model calls that are reserved for a task before it starts, under a budget of calls.
        keep_errors_below: share of a phase's tasks that may end as infrastructure errors; above it the
            evolution stops, resumable, instead of learning from the rest.
    """

    name: Id
    iterations: int = Field(default=10, ge=0)
    batch: int = Field(default=10, ge=1)
    gate: Literal["paired", "off"] = "paired"
    gate_tasks: int = Field(default=20, ge=1)
    margin: float = Field(default=0.0, ge=0, le=1)
    patience: int = Field(default=3, ge=0)
    concurrency: int = Field(default=8, ge=1)
    seed: int = Field(default=0, ge=0)
    calls_per_task: int = Field(default=60, ge=1)
    keep_errors_below: float = Field(default=0.5, gt=0, le=1)


@dataclass(frozen=True)
class EvolutionContext:
    """Live objects of one evolution.

    Attributes:
        tools: what it lends, as a list of tools names it.
        model: name of the agents' model.
        runner: runs tasks, here or on workers.
    """

    run: str
    config: EvolutionConfig
    method: Method
    environment: Environment
    splits: Splits
    seed_workflow: Workflow
    library: WorkflowLibrary
    journal: Journal
    ledger: Ledger
    tools: str = ""
    model: str = ""
    runner: RolloutRunner = stream_rollouts

    @property
    def rollout_context(self) -> RolloutContext:
        """Context of this evolution's rollouts."""
        return RolloutContext(
            environment=self.environment,
            journal=self.journal,
            ledger=self.ledger,
            concurrency=self.config.concurrency,
            calls_per_task=self.config.calls_per_task,
            keep_errors_below=self.config.keep_errors_below,
        )

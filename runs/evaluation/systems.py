"""Systems that answer questions: methods, baselines, saved workflows, and the trivial baseline."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selfwire.core.errors import TaskBudgetError
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.core.workflow import Workflow
from selfwire.evals.baselines.single import CUT, make_single_workflow
from selfwire.evals.baselines.table import BASELINES, make_baseline
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule
from selfwire.evals.evaluation.rows import CAPPED, TRIVIAL, SystemInfo
from selfwire.graphs.method_protocol import Method, Solver
from selfwire.graphs.method_registry import make_method
from selfwire.graphs.rollouts import RolloutFn
from selfwire.runs.evaluation.request import SystemSpec
from selfwire.runs.models import load_models_embedder, make_metered_model
from selfwire.runs.requests import ModelNames
from selfwire.runs.targets import describe_other_model, find_kind, load_saved
from selfwire.runs.workflow_checks import make_seed, refuse_missing_tools, refuse_unreadable_memory
from selfwire.runtime.journal import Journal
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.workflow_library import WorkflowLibrary


class LoadedWorkflow(FrozenModel):
    """A system's workflow and its origin.

    Args:
        learned: whether it was evolved on graded tasks.
        evolution: the cost of its evolution; None without one, or where it is not known.
        run: that evolved it; "" if none did.
        version: its reference in the library, `name@run.step`; "" for a seed or a file.
        model: of the agents when it was evolved; "" where that is not known.
    """

    workflow: Workflow
    learned: bool = False
    evolution: Usage | None = None
    run: str = ""
    version: str = ""
    model: str = ""


@dataclass(frozen=True)
class System:
    """A system that can answer questions."""

    contestant: SystemInfo
    workflow: Workflow
    rollout_fn: RolloutFn

    @property
    def name(self) -> str:
        """In tables, rows and the journal."""
        return self.contestant.name


@dataclass(frozen=True)
class SolverFactory:
    """Makes solvers."""

    model: Model
    toolbox: Toolbox
    embedder: Embedder
    calls: int | None

    def solver(self, name: str, config: Mapping[str, Any]) -> Solver:
        """A method or a baseline.

        Raises:
            ConfigError: there is no system of this name, or a config field cannot be used.
        """
        if name in BASELINES:
            return make_baseline(name, model=self.model, toolbox=self.toolbox, calls=self.calls, config=config)
        return make_method(name, model=self.model, toolbox=self.toolbox, embedder=self.embedder, config=config)


def make_seed_team(name: str) -> Workflow:
    """The team that a method or a baseline starts from, without tools.

    Raises:
        ConfigError: there is neither of this name.
    """
    names = ModelNames()
    embedder, _ = load_models_embedder(names)
    model = make_metered_model(names, journal=Journal.memory(), ledger=Ledger())
    return SolverFactory(model, {}, embedder, None).solver(name, {}).make_initial_workflow(())


async def load_system_workflow(
    entry: SystemSpec, factory: SolverFactory, bench: Benchmark, library: WorkflowLibrary
) -> LoadedWorkflow:
    """The workflow that an entry means: the seed of a method or baseline, else a saved one.

    Raises:
        ConfigError, LibraryError: there is none, it belongs to no method, or it holds tools that the benchmark lacks.
    """
    if find_kind(entry.target):
        solver = factory.solver(entry.target, entry.config)
        if isinstance(solver, Method):
            return LoadedWorkflow(workflow=make_seed(solver, bench))
        return LoadedWorkflow(workflow=solver.make_initial_workflow(bench.tools))
    saved = await _saved(entry.target, library)
    solver = factory.solver(saved.workflow.method, entry.config)
    if isinstance(solver, Method):
        refuse_unreadable_memory(solver, saved.workflow, f"workflow {entry.target!r}")
    advice = f", which {bench.name} lacks; evaluate it on the benchmark that it was made for"
    refuse_missing_tools(saved.workflow, bench.toolbox, f"workflow {entry.target!r}", advice)
    return saved


async def _saved(ref: str, library: WorkflowLibrary) -> LoadedWorkflow:
    workflow, version = await load_saved(ref, library)
    if version is None:
        return LoadedWorkflow(workflow=workflow, learned=workflow.lineage.parent is not None)
    spend = version.facts.get("spend")
    return LoadedWorkflow(
        workflow=workflow,
        learned=version.step > 0,
        evolution=Usage.model_validate(spend) if spend else None,
        run=version.run,
        version=version.ref,
        model=str(version.facts.get("model", "")),
    )


def describe_origin(entry: SystemSpec, one: LoadedWorkflow, model: str, *, evolves: bool) -> str:
    """What is measured under an entry's name: a seed, a baseline, or a saved version.

    Args:
        model: that plays the agents.
        evolves: whether it is evolved first.
    """
    kind, print_of = find_kind(entry.target), one.workflow.fingerprint
    if kind == "method":
        return f"{entry.name}: method {entry.target}, its seed team {print_of}{', evolved first' if evolves else ''}"
    if kind:
        return f"{entry.name}: {kind} {entry.target}"
    saved = f"{entry.name}: saved team {one.version or entry.target} of method {one.workflow.method} ({print_of})"
    return saved + describe_other_model(one.model, model)


def make_system(entry: SystemSpec, one: LoadedWorkflow, factory: SolverFactory) -> System:
    """A system from its entry and its workflow, solved by the workflow's own method."""
    solver = factory.solver(one.workflow.method, entry.config)
    contestant = SystemInfo(
        name=entry.name,
        target=entry.target,
        method=one.workflow.method,
        workflow=one.workflow.fingerprint,
        config=entry.config,
        learned=one.learned,
        evolution=one.evolution,
        version=one.version,
    )
    return System(contestant, one.workflow, _capped(solver))


def make_trivial_system(rule: TrivialRule) -> System:
    """The benchmark's trivial baseline: a rule, which needs no team and no call."""

    async def rollout_fn(workflow: Workflow, question: Question, scope: Scope) -> Sequence[Trajectory]:
        await asyncio.sleep(0)  # it never waits, and others have their turn
        return [Trajectory(question=question, workflow="", answer=rule.answer(question.input))]

    contestant = SystemInfo(name=TRIVIAL, target=rule.name, method="", workflow="")
    return System(contestant, make_single_workflow(()), rollout_fn)


def _capped(solver: Solver) -> RolloutFn:
    """One answer per question; calls that are used up before there is one are no fault of the infrastructure.

    A method that works in rounds or stages gives the answer of those that its calls sufficed for.
    """

    async def rollout_fn(workflow: Workflow, question: Question, scope: Scope) -> Sequence[Trajectory]:
        try:
            return [await solver.solve(workflow, question, scope=scope)]
        except TaskBudgetError as error:
            if done := error.partial_result:
                return [done.replace(notes={**done.notes, CUT: True})]
            blank = Trajectory(question=question, workflow=workflow.fingerprint, notes={CAPPED: True})
            return [blank.as_failed(str(error))]

    return rollout_fn

"""Evolutions inside an evaluation: each in a home below its folder, on its budget, and resumed with it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import method_names
from selfwire.core.usage import Budget, Usage
from selfwire.graphs.evolve import ELAPSED, Event, EvolutionConfig, refuse_other_code
from selfwire.graphs.method import find_method
from selfwire.models.budget import Ledger
from selfwire.models.sync import run_sync
from selfwire.runs import evolution
from selfwire.runs.inputs import find_price_file
from selfwire.runs.record import CHANGEABLE_NAMES, EVOLVED, JOURNAL, SUMMARY, ResumeChanges, get_runs_folder
from selfwire.runs.spec import EvaluateSpec, EvolveSpec, PreEvolutionSpec, Sizes, SystemSpec
from selfwire.runs.systems import LoadedTeam
from selfwire.store.journal_file import JournalReader
from selfwire.store.library import Version, open_library

T = TypeVar("T")
RUN = "evolution"
"""Name of the run in the home of an evolution."""


@dataclass(frozen=True)
class PreEvolution:
    """The evolution of a system inside an evaluation.

    Attributes:
        home: folder of its own.
        users: home of the user, where the result is saved and a file of prices may lie.
    """

    request: EvaluateSpec
    sizes: PreEvolutionSpec
    entry: SystemSpec
    home: Path
    users: Path | None

    @property
    def evolve_request(self) -> EvolveSpec:
        """The request of the evolution; its test tasks are the tasks of the evaluation."""
        asked, sizes = self.request, self.sizes
        prices = find_price_file(asked.models, self.users)
        whole = find_method(self.entry.target).one_batch
        return EvolveSpec(
            method=self.entry.target,
            **{name: getattr(asked, name) for name in ("benchmark", "grader", "rubric", "tools", "own_data")},
            models=asked.models.replace(prices=None if prices is None else str(prices.resolve())),
            sizes=Sizes(train=sizes.train, gate=sizes.gate_size, test=asked.tasks),
            evolution=EvolutionConfig(
                name=self.entry.name,
                iterations=min(sizes.iterations, 1) if whole else sizes.iterations,
                batch=sizes.train if whole else sizes.batch,
                gate=sizes.gate,
                gate_tasks=sizes.gate_tasks,
                concurrency=asked.concurrency,
                seed=asked.seed,
            ),
            config=self.entry.config,
            baselines=False,
            tested=False,
        )

    def validate(self) -> None:
        """Try the evolution without writing anything.

        Raises:
            ConfigError: the method does not evolve, or a size or config field cannot be used.
        """
        if self.entry.target not in method_names():
            raise ConfigError(
                f"{self.entry.target!r} cannot be evolved here; methods are {', '.join(method_names())}; "
                f"evolve a saved team with `selfwire evolve --team`, then compare it"
            )
        evolution.validate_request(self.evolve_request, self.home)

    @property
    def path(self) -> Path:
        """The journal."""
        return get_runs_folder(self.home) / RUN / JOURNAL

    @property
    def spent(self) -> Usage:
        """The cost so far; its seconds are wall time."""
        return self._read(lambda journal: journal.spend().replace(seconds=journal.note(ELAPSED) or 0.0), Usage())

    @property
    def is_finished(self) -> bool:
        """Whether the evolution is finished."""
        return self._read(lambda journal: (journal.note(SUMMARY) or {}).get("status") == "finished", False)

    def _read(self, read: Callable[[JournalReader], T], otherwise: T) -> T:
        if not self.path.exists():
            return otherwise
        with JournalReader(self.path) as journal:
            return read(journal)

    def run(
        self, budget: Budget, parent: Ledger, on_event: Callable[[Event], None], *, retry_failed: bool = False
    ) -> None:
        """Evolve, or resume the evolution.

        Args:
            budget: the limits of the evolution, its cost so far included.
            parent: pays for it, and knows its cost so far.
            retry_failed: as for `resume_evolution`.

        Raises:
            BudgetError, OutageError, ModelError: it stopped early and can be resumed.
        """
        limits = {name: limit for name, limit in budget.model_dump().items() if limit is not None}
        models = self.evolve_request.models.model_dump(include=CHANGEABLE_NAMES)
        changes = ResumeChanges(limits, models, retry_failed)
        with (
            evolution.resume_evolution(RUN, self.home, changes=changes, parent=parent, whole=self.evolve_request)
            if self.path.exists()
            else evolution.start_evolution(
                self.evolve_request.replace(budget=budget), self.home, run=RUN, parent=parent
            )
        ) as opened:
            run_sync(opened.execute(on_event))

    def result(self, run: str) -> LoadedTeam:
        """Load the team that the evolution kept, and save it in the user's library too, as <run>-<name>.

        Raises:
            JournalError: it is of another method.
        """
        with open_library(self.home) as own, open_library(self.users) as library:
            version: Version = run_sync(own.head(self.entry.name))
            team = refuse_other_code(run_sync(own.load(version.ref)), self.entry.target, run)
            facts = {**version.facts, "spend": self.spent.model_dump(mode="json"), "why": f"evolved in {run}"}
            run_sync(library.save(f"{run}-{self.entry.name}"[:64], team, run=run, step=version.step, facts=facts))
        return LoadedTeam(workflow=team, learned=True, evolution=self.spent, run=run)


def make_evolutions(request: EvaluateSpec, folder: Path, users: Path | None) -> tuple[PreEvolution, ...]:
    """Make the evolutions of a request."""
    if request.evolving is None:
        return ()
    return tuple(
        PreEvolution(request, request.evolving, entry, folder / EVOLVED / entry.name, users)
        for entry in request.entries
        if entry.name in request.evolving.names
    )


def compute_left(budget: Budget, spent: Usage, beside: Usage) -> Budget:
    """Compute the limits of a part of a run: the budget of the whole less the cost of the other parts.

    Args:
        budget: of the whole.
        spent: by all parts.
        beside: by the part itself, whose limits count it.
    """

    def left(whole: float, name: str) -> float:
        return max(0, whole - ((getattr(spent, name) or 0) - (getattr(beside, name) or 0)))

    limits = {name: limit for name, limit in budget.model_dump().items() if limit is not None}
    return Budget.model_validate({name: left(limit, name) for name, limit in limits.items()})

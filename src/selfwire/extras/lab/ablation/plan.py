"""A study: a method, its ablations and controls, over seeds.

Of a method that learns between runs every (variant, seed) is an evolution, of one that rewires itself while it answers
an evaluation. The random control makes as many edits per iteration, of the same kinds, as the full method
made with the same seed, under the same gate and caps; so it waits for the full method's row.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import DEFAULT_METHOD, compute_code_hash
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, fingerprint, to_plain_json
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.graphs.method import FULL, RANDOM, Variant, find_method
from selfwire.runs.evaluation import load_request_tasks
from selfwire.runs.evolution import load_tasks
from selfwire.runs.record import CHANGEABLE_NAMES, ContaminatedTasks
from selfwire.runs.spec import (
    EvaluateSpec,
    EvolveSpec,
    GivenSizes,
    RunSpec,
    Sizes,
    SystemSpec,
    fit_sizes,
    list_sizes,
    make_sizes,
)

Operations = tuple[tuple[str, ...], ...]
"""Kinds of edits, by iteration."""
NAME = "study"
"""Of the team and of the run, in a home folder of its own."""


class Study(RunSpec):
    """The variants that a study compares, and its sizes.

    Args:
        method, sizes: as in `EvolveSpec`, of each evolution or evaluation.
        variants: names of variants; none for all of the method.
        settings: further variants, by name the config fields in which each differs from `full`.
        iterations, batch, gate_tasks: as in `EvolutionConfig`; nothing to a method that does not evolve. A variant
            names the gate.
    """

    method: str = DEFAULT_METHOD
    benchmark: str = "archive"
    sizes: Sizes = Sizes(train=80, gate=80, test=100)
    variants: tuple[str, ...] = ()
    settings: FrozenJson = FrozenMap()
    seeds: int = Field(default=10, ge=1)
    iterations: int = Field(default=10, ge=1)
    batch: int = Field(default=10, ge=1)
    gate_tasks: int = Field(default=20, ge=1)
    concurrency: int = Field(default=8, ge=1, le=10_000)

    @property
    def known(self) -> Mapping[str, Variant]:
        """All variants of the method, and those of the study's own settings.

        Raises:
            ConfigError: there is no such method or config field, or the method has a variant of that name.
        """
        method, found = find_method(self.method), dict(find_method(self.method).variants)
        for name, config in to_plain_json(self.settings).items():
            if name in found or not isinstance(config, dict):
                raise ConfigError(
                    f"--set gives a variant of your own its config fields, as mine.interval=1, and {name!r} is "
                    f"{'one of the method' if name in found else 'given a value'}; choose a name and a field"
                )
            method(**config)
            found[name] = Variant(title=name, config=config)
        return found

    @property
    def evolves(self) -> bool:
        """Whether the variants are evolved before they are measured."""
        return find_method(self.method).evolves

    @property
    def chosen(self) -> tuple[str, ...]:
        """Names of the variants to run; with `random` also `full`, whose edits it counts.

        Raises:
            ConfigError: a name is unknown.
        """
        for name in self.variants:
            if name not in self.known:
                raise ConfigError(f"unknown variant {name!r}; variants of {self.method} are {', '.join(self.known)}")
        wanted = {*self.variants, *self.settings} if self.variants else set(self.known)
        if RANDOM in wanted:
            wanted.add(FULL)
        return tuple(name for name in self.known if name in wanted)

    @property
    def key(self) -> str:
        """Conditions that rows must share to be compared: not variants, number of seeds, or limits on requests."""
        apart: dict[str, bool | set[str]] = {"variants": True, "seeds": True, "models": CHANGEABLE_NAMES}
        return fingerprint({**self.model_dump(mode="json", exclude=apart), "code": compute_code_hash()})

    @property
    def _asked(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in RunSpec.model_fields}

    def request(self, name: str, seed: int, edits: Operations | None = None) -> EvolveSpec:
        """The evolution of a variant and a seed.

        Args:
            edits: for the random control, kinds of edits per iteration.
        """
        variant = self.known[name]
        return EvolveSpec(
            method=self.method,
            **self._asked,
            sizes=self.sizes,
            config=variant.config,
            random_edits=edits,
            evolution=EvolutionConfig(
                name=NAME,
                iterations=self.iterations if variant.evolves else 0,
                batch=self.batch,
                gate=variant.gate,
                gate_tasks=self.gate_tasks,
                concurrency=self.concurrency,
                seed=seed,
            ),
        )

    def evaluation(self, name: str, seed: int) -> EvaluateSpec:
        """The evaluation of a variant and a seed, for methods that do not evolve."""
        return EvaluateSpec(
            **self._asked,
            entries=(SystemSpec(name=NAME, target=self.method, config=self.known[name].config),),
            tasks=self.sizes.test,
            seed=seed,
            concurrency=self.concurrency,
        )


class WorldStudy(FrozenModel):
    """A method's world, whose mechanisms a study measures."""

    method: str
    world: str


Subject = Study | WorldStudy


class StudyHead(FrozenModel):
    """The first line of a study's rows: what it is about, and the code that made them, as in `CodeVersion`."""

    head: Subject
    code: str = ""
    commit: str = ""


def fit_study(study: Study, given: GivenSizes) -> tuple[Study, str]:
    """Fit a study to its tasks, as `fit_evolution` fits a request; all seeds have the sizes of the first."""

    def resize(sizes: Mapping[str, int]) -> Study:
        return study.replace(sizes=make_sizes(sizes))

    def deal(sizes: Mapping[str, int]) -> object:
        resized, name = resize(sizes), study.chosen[0]
        if study.evolves:
            return load_tasks(resized.request(name, 0))
        return load_request_tasks(resized.evaluation(name, 0), ContaminatedTasks())

    whole = list_sizes(study.sizes, given)
    usual = whole if study.evolves else {"--test": whole["--test"]}
    sizes, note = fit_sizes(
        study.benchmark, {name: given[name] for name in usual}, usual, lambda found: deal({**whole, **found})
    )
    return resize({**whole, **sizes}), note

"""Specs of runs, which are stored with the run, and the sizes that their tasks allow."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from selfwire.core.errors import ConfigError
from selfwire.core.plugins import DEFAULT_METHOD
from selfwire.core.protocols import ROLES
from selfwire.core.usage import Budget
from selfwire.core.values import FrozenJson, FrozenMap, FrozenModel, Id, WholeText, is_id
from selfwire.evals.benchmarks.benchmark import TooFewTasksError
from selfwire.evals.benchmarks.catalogue import GENERATED
from selfwire.evals.readers import OwnData
from selfwire.evals.statistics import compute_wilson_interval
from selfwire.evolvers.gate import Gate
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.models.providers import is_offline, keep_address
from selfwire.models.structured import StructuredMode

STAMP = "offline stand-in model: shows the machinery, not a method's accuracy"
"""Line below results of the offline model."""


def require_names(what: str, names: Iterable[object]) -> None:
    """Check names of runs, teams or models.

    Args:
        what: they name, such as "a run".

    Raises:
        ConfigError: one of them is no name.
    """
    for name in names:
        if not is_id(name):
            raise ConfigError(f"{what} is called by up to 64 letters, digits, _ and -, not {name!r}")


class Models(FrozenModel):
    """Models by role, and how they are called.

    Args:
        agent: the team's agents, such as `offline` or `openai:gpt-4o-mini`.
        meta: critics and evolvers; None for the agent's model.
        judge: judges; None for the meta model.
        named: models that agents may ask instead, by the names that `Agent.model` has for them; the roles may be given
            by these names too.
        base_url: of an OpenAI-compatible server; a user, a password and keys in it are masked, as requests are stored.
        timeout: seconds for one request.
        structured: how objects are asked for; see `CallSettings`.
        max_tokens: most tokens of a reply; None for 2048.
        embedder: auto, minilm or hashing; auto is hashing with the offline model.
        prices: a JSON file of prices, laid over the shipped ones.
        requests_at_once: most per provider; None for 32, or as many as tasks are worked on at once if these are more.
        requests_per_minute: most per provider; None for no limit.
        tokens_per_minute: most per provider; None for no limit.
    """

    agent: str = "offline"
    meta: str | None = None
    judge: str | None = None
    named: Annotated[Mapping[Id, str], AfterValidator(FrozenMap)] = Field(default_factory=FrozenMap)
    base_url: str | None = None
    timeout: float = Field(default=120.0, gt=0)
    retries: int = Field(default=5, ge=0)
    structured: StructuredMode = "auto"
    max_tokens: int | None = Field(default=None, ge=1)
    embedder: Literal["auto", "minilm", "hashing"] = "auto"
    prices: str | None = None
    requests_at_once: int | None = Field(default=None, ge=1)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: int | None = Field(default=None, ge=1)

    @field_validator("base_url")
    @classmethod
    def _keep_no_secrets(cls, given: str | None) -> str | None:
        return given and keep_address(given)

    @model_validator(mode="before")
    @classmethod
    def _look_up_roles(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or not isinstance(named := given.get("named"), Mapping):
            return given
        return {**given, **{role: named.get(given[role], given[role]) for role in ROLES if given.get(role)}}

    @model_validator(mode="after")
    def _check_named(self) -> Self:
        if taken := sorted({*ROLES, "offline"} & self.named.keys()):
            raise ValueError(f"no model of an agent can have the name {taken[0]!r}, as that means another; choose one")
        hosted = [name for name in self.named.values() if not is_offline(name)]
        if hosted and all(map(is_offline, self.roles.values())):
            raise ValueError(
                f"agents without a model of their own, and critics, would ask the offline model beside {hosted[0]}; "
                f"say which model they ask, as in --model {next(iter(self.named))}"
            )
        return self

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave names out where there are none, so that runs from before there were any can be resumed."""
        written: dict[str, Any] = write(self)
        if not self.named:
            written.pop("named", None)
        return written

    @property
    def roles(self) -> dict[str, str]:
        """Model by role, as "provider:model" or "offline"."""
        meta = self.agent if self.meta is None else self.meta
        return {"agent": self.agent, "meta": meta, "judge": meta if self.judge is None else self.judge}

    @property
    def asked(self) -> frozenset[str]:
        """All models, as "provider:model" or "offline"."""
        return frozenset([*self.roles.values(), *self.named.values()])

    @property
    def are_several(self) -> bool:
        """Whether a run may ask several; a graph of the user's own asks its own beside those that have names."""
        return len(self.asked) > 1 or bool(self.named)

    @property
    def is_offline(self) -> bool:
        """Whether any role is played by the offline model."""
        return any(map(is_offline, self.asked))

    @property
    def limits_requests(self) -> bool:
        """Whether there is a limit for all workers of a run together."""
        return any((self.requests_at_once, self.requests_per_minute, self.tokens_per_minute))

    @property
    def calls_no_server(self) -> bool:
        """Whether all roles are played by the offline model."""
        return all(map(is_offline, self.asked))


class Sizes(FrozenModel):
    """Tasks per split."""

    train: int = Field(default=60, ge=1)
    gate: int = Field(default=60, ge=0)
    test: int = Field(default=60, ge=0)


class RunSpec(FrozenModel):
    """The fields of every spec.

    Args:
        benchmark: name of a benchmark, or where the user's own tasks are.
        grader: for own tasks, a named grader, `judge` or `module:function`.
        rubric: for the judge, a description of a good answer.
        tools: for own tasks, tools that agents may call, as `load_tools` reads them.
        own_data: for own tasks, which fields they are in, and which split.
        models: which model plays which role.
    """

    benchmark: str
    grader: str = "exact"
    rubric: WholeText | None = None
    tools: str | None = None
    own_data: OwnData = OwnData()
    models: Models = Models()
    budget: Budget = Budget()

    @property
    def targets(self) -> tuple[str, ...]:
        """Methods, baselines and saved teams that are run."""
        return ()


class EvolveSpec(RunSpec):
    """An evolution: its method, tasks, models and limits.

    Args:
        evolution: iterations, batch, gate, concurrency, seed.
        config: the method's own config fields, as JSON.
        seed_team: a saved team, or a JSON file of one, to start from instead of the method's seed.
        tested: whether the test split is run at the end; off where an evaluation runs it.
        random_edits: replaces the method's edits by random legal ones of these kinds in each iteration.
    """

    method: str = DEFAULT_METHOD
    sizes: Sizes = Sizes()
    evolution: EvolutionConfig
    config: FrozenJson = Field(default_factory=FrozenMap)
    seed_team: str | None = None
    baselines: bool = True
    tested: bool = True
    random_edits: tuple[tuple[str, ...], ...] | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The method."""
        return (self.method,)


class SystemSpec(FrozenModel):
    """A system in a request.

    Args:
        name: how tables, rows and the journal call it; unique in a run.
        target: name of a method (its seed team) or baseline, or a saved team.
    """

    name: Id
    target: str
    config: FrozenJson = Field(default_factory=FrozenMap)


class PreEvolutionSpec(FrozenModel):
    """The systems that are evolved before they are measured, and the sizes of their evolutions.

    Args:
        names: of entries whose targets are methods; without any, tasks are set aside for evolutions all the same, so
            that the tasks are those of a comparison with evolutions.
        train, gate_size: tasks of these splits.
        iterations, batch, gate, gate_tasks: as in `EvolutionConfig`.
    """

    names: tuple[Id, ...] = ()
    train: int = Field(default=60, ge=1)
    gate_size: int = Field(default=60, ge=1)
    gate: Gate = "better"
    iterations: int = Field(default=10, ge=1)
    batch: int = Field(default=10, ge=1)
    gate_tasks: int = Field(default=20, ge=1)


class EvaluateSpec(RunSpec):
    """An evaluation: its systems, tasks, models and limits.

    Args:
        entries: systems, in the order of the table.
        against: name of the entry that the others are compared with; the first if "".
        split: which tasks; gate is called val on the command line.
        tasks: how many.
        calls_per_task: most model calls of a task, for every system; None for no cap.
        grading_timeout: seconds until a grader of the user's own is given up on an answer.
        evolving: the systems that are evolved first, on tasks of other splits; None for none.
        langsmith: whether tasks are uploaded to LangSmith, and whether with references.
    """

    command: Literal["eval", "compare"] = "eval"
    entries: tuple[SystemSpec, ...] = Field(min_length=1)
    against: str = ""
    split: Literal["train", "gate", "test"] = "test"
    tasks: int = Field(default=100, ge=1)
    seed: int = Field(default=0, ge=0)
    concurrency: int = Field(default=8, ge=1, le=10_000)
    calls_per_task: int | None = Field(default=None, ge=1)
    grading_timeout: float = Field(default=60.0, gt=0)
    evolving: PreEvolutionSpec | None = None
    langsmith: Literal["off", "questions", "references"] = "off"

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [entry.name for entry in self.entries]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{twice[0]!r} stands twice among the systems; give each a name, as in mine=hiva")
        if self.against and self.against not in names:
            raise ValueError(f"nobody is called {self.against!r}; systems are {', '.join(names)}")
        if self.evolving and (unknown := set(self.evolving.names) - set(names)):
            raise ValueError(f"nobody is called {min(unknown)!r} who could be evolved; there are {', '.join(names)}")
        if self.evolving and self.split != "test":
            raise ValueError(
                "who is evolved learns from the train and val splits; measure on the test split, or give --evolve none"
            )
        return self

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets of all systems."""
        return tuple(entry.target for entry in self.entries)


class WorkerOptions(FrozenModel):
    """Number and place of workers; results depend on neither.

    Args:
        workers: None for one process, or all processors of a cluster.
        ray_address: of a running cluster; "" without one.
    """

    workers: int | None = None
    executor: Literal["process", "ray"] = "process"
    ray_address: str = ""

    @property
    def is_local(self) -> bool:
        """Whether this process does everything."""
        return self.executor == "process" and (self.workers or 1) == 1


LEAST = 4
"""Least tasks of a split, unless the user gives its size."""
TRAIN_TASKS = "train tasks"
"""Name of the size of the train split where no option gives it, as in `prune`."""
GivenSizes = Mapping[str, int | None]
"""Sizes by option; None for a size that the user does not give."""
Deal = Callable[[Mapping[str, int]], object]
"""Deals tasks out in sizes by option."""


def fit_sizes(
    benchmark: str,
    given: GivenSizes,
    usual: Mapping[str, int],
    deal: Deal,
    least: int = LEAST,
    *,
    names_interval: bool = True,
) -> tuple[dict[str, int], str]:
    """Fit sizes to the tasks; return them by option, and a note if some are smaller than usual.

    Args:
        benchmark: its name.
        given: the last is of the tasks that are measured.
        deal: deals tasks out in these sizes; raises TooFewTasksError if there are not enough.
        names_interval: whether the note says how wide the interval of a score will be.

    Raises:
        ConfigError: there are fewer tasks than the user asks for, or than `least` in a split.
    """

    def cut(most: int) -> dict[str, int]:
        return {name: min(most, usual[name]) if size is None else size for name, size in given.items()}

    whole = cut(max(usual.values()))
    if benchmark in GENERATED or _fits(deal, whole):
        return whole, ""
    if (most := find_most(max(usual.values()), lambda size: _fits(deal, cut(size)))) >= least:
        return cut(most), _describe(cut(most), usual, given, names_interval)
    raise _explain(given, cut(least), deal)


def find_most(high: int, fits: Callable[[int], bool]) -> int:
    """Find the largest number from 1 to `high` that fits, by bisection; 0 if none does."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _describe(sizes: Mapping[str, int], usual: Mapping[str, int], given: GivenSizes, names_interval: bool) -> str:
    smaller = [name for name, size in given.items() if size is None and sizes[name] < usual[name]]
    listed = ", ".join(f"{name} {sizes[name]} (not {usual[name]})" for name in smaller)
    note = f"there are fewer tasks than usual: {listed}"
    if not (measured := [*sizes.values()][-1]) or not names_interval:
        return note
    half = compute_wilson_interval(measured // 2, measured)
    return (
        f"{note}; intervals will be wide: {measured // 2} of {measured} tasks solved is "
        f"{half.value:.2f} [{half.low:.2f}, {half.high:.2f}]"
    )


def _fits(deal: Deal, sizes: Mapping[str, int]) -> bool:
    try:
        deal(sizes)
    except TooFewTasksError:
        return False
    return True


def _explain(given: GivenSizes, least: Mapping[str, int], deal: Deal) -> ConfigError:
    asked = {name: size for name, size in given.items() if size}
    for name, size in sorted(asked.items(), key=lambda entry: -entry[1]):
        if most := find_most(size, lambda fewer, name=name: _fits(deal, {**least, name: fewer})):  # type: ignore[misc]
            others = ", ".join(f"{other} {count}" for other, count in least.items() if other != name)
            return ConfigError(
                f"{name} {size}: there are not so many tasks; it can be {most} at most{others and f' beside {others}'}"
            )
    listed = ", ".join(f"{name} {size}" for name, size in least.items())
    try:
        deal(least)
    except TooFewTasksError as error:
        return ConfigError(f"a run needs at least {listed}; {error}")
    raise AssertionError("tasks that were not enough are enough now")  # pragma: no cover - they are not


def make_sizes(sizes: Mapping[str, int]) -> Sizes:
    """Make the sizes of splits from sizes by option, that of train tasks first."""
    return Sizes(train=next(iter(sizes.values())), gate=sizes.get("--gate-size", 0), test=sizes["--test"])


def list_sizes(sizes: Sizes, given: GivenSizes) -> dict[str, int]:
    """List the sizes of splits by option, for the options in `given`."""
    listed = {"--train": sizes.train, TRAIN_TASKS: sizes.train, "--gate-size": sizes.gate, "--test": sizes.test}
    return {name: listed[name] for name in given}

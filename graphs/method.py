"""A method of rewiring: the class that an author writes, its declaration, its results, and the methods by name."""

import warnings
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from inspect import getattr_static, isawaitable, isclass, iscoroutinefunction, signature
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from selfwire.core.chat import Prompts
from selfwire.core.edits import RefusedRewiring, Rewiring
from selfwire.core.errors import ConfigError, TaskBudgetError, format_error
from selfwire.core.plugins import (
    CONTESTANTS,
    GIVEN,
    GROUP,
    LIBRARIES,
    PACKAGE,
    is_graph,
    method_names,
    outside_methods,
    own_methods,
)
from selfwire.core.protocols import Embedder, Model, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.text import suggest_name
from selfwire.core.topology import Topology
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import (
    UNKNOWN,
    FrozenJson,
    FrozenMap,
    FrozenModel,
    Id,
    format_validation_error,
    is_id,
    to_plain_json,
)
from selfwire.evolvers.gate import Gate
from selfwire.evolvers.pictures import Panel, Picture
from selfwire.evolvers.trajectory_text import gather_all
from selfwire.graphs.machine import (
    END,
    START,
    Compiled,
    Ctx,
    CtxFactory,
    Graph,
    MethodGraph,
    RunContext,
    RunStart,
    State,
    Update,
    run_graph,
)
from selfwire.graphs.team import TeamContext, run_team

if TYPE_CHECKING:
    from selfwire.evolvers.router.config import RouterConfig, TrainConfig

Config = TypeVar("Config", bound=FrozenModel)

OPTIONS = frozenset({"judge", "grader", "corpus", "embedder"})
"""Arguments of `build_graph` that only some methods use."""

# Configs and variants


def parse_config(name: str, schema: type[Config], config: Mapping[str, Any]) -> Config:
    """A config from its fields by name.

    Raises:
        ConfigError: a field is unknown or out of bounds.
    """
    try:
        return schema.model_validate(to_plain_json(config))
    except ValidationError as error:
        faults, names = error.errors(), list(_names(schema))
        unknown = [".".join(map(str, fault["loc"])) for fault in faults if fault["type"] == UNKNOWN]
        hints = [suggest_name(field, names, "; did you mean {}?") for field in unknown]
        fields = f"{''.join(hints)}; fields are {', '.join(names)}" if unknown else ""
        raise ConfigError(f"config of {name}: {'; '.join(map(format_validation_error, faults))}{fields}") from None


def _names(schema: type[BaseModel], within: str = "") -> Iterator[str]:
    for name, field in schema.model_fields.items():
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            yield from _names(nested, f"{within}{name}.")
        else:
            yield within + name


FULL, RANDOM = "full", "random"


class Variant(FrozenModel):
    """A way to run a method.

    Args:
        config: config fields that differ from the method's defaults.
        gate: as in `EvolutionConfig`; mean, by which the published studies were made, does not depend on sizes.
        random: whether rewirings are drawn at random.
        choice: whether it lacks a learned router's choice, and so compares nothing where that was never free.
        evolves: False to skip evolution and measure the initial team.
        against: the variant that it lacks a part of.
    """

    title: str
    config: FrozenJson = FrozenMap()
    gate: Gate = "mean"
    random: bool = False
    choice: bool = False
    evolves: bool = True
    against: str = FULL


# Model calls, estimated before any is made; rates were measured offline

LOOP = 1.5
"""Calls of an agent that holds tools, in one turn."""

Calls = Mapping[str, float]
"""Model calls by role; they are means, so they may be fractions."""


class CallEstimate(NamedTuple):
    """Calls that a method takes.

    Attributes:
        question: calls for one question, with a team of that size.
        samples: runs per train question.
        learning: calls of one iteration beside the runs of its batch.
        gate_share: share of the iterations whose candidate is compared with the incumbent.
        tokens: sent and received in a call, beside the text of the question.
        most: calls for a question on which the method takes all its rounds; none for as many as `question`.
    """

    question: Calls
    samples: int = 1
    learning: Calls = FrozenMap()
    gate_share: float = 1.0
    tokens: int = 450
    most: Calls = FrozenMap()


def scale_calls(calls: Calls, by: float) -> Calls:
    """The calls, multiplied."""
    return {role: count * by for role, count in calls.items()}


def sum_calls(*some: Calls) -> Calls:
    """All calls together."""
    roles = dict.fromkeys(role for calls in some for role in calls)
    return {role: sum(calls.get(role, 0) for calls in some) for role in roles}


def count_turn_calls(team: Team, turns: Mapping[Id, float] = FrozenMap()) -> float:
    """Count the calls of a turn of every node.

    Args:
        turns: share of the questions in which a node has a turn; 1 where it is missing.
    """
    calls = {node: LOOP if team.agents_by_id[agent].tools else 1 for node, agent in team.topology.agents.items()}
    return sum(turns.get(node, 1.0) * count for node, count in calls.items())


# What learning gives back


class EvolveResult(FrozenModel):
    """The result of learning from a batch of trajectories.

    Args:
        applied: the rewirings between the old team and the new one, in order.
        notes: of the method on this step, for people; JSON.
        needs_gate: whether the gate must compare even if agents and topology did not change, as learned memory decides
            how the team runs.
        finished: whether nothing is left to propose, so that the evolution ends with this iteration.
    """

    workflow: Team
    applied: tuple[Rewiring, ...] = ()
    refused: tuple[RefusedRewiring, ...] = ()
    notes: FrozenJson = FrozenMap()
    needs_gate: bool = False
    finished: bool = False

    @classmethod
    def of(
        cls,
        workflow: Team,
        rewirings: Sequence[Rewiring] = (),
        *,
        memory: Mapping[str, Any] = FrozenMap(),
        notes: Mapping[str, Any] = FrozenMap(),
        cost: Usage | None = None,
        needs_gate: bool = False,
    ) -> "EvolveResult":
        """Apply what a method proposes, with lineage, refusals and cost on record.

        Args:
            rewirings: proposals in order; those that do not fit are refused with reasons.
            memory: entries of the team's memory that were learned.
            cost: of the model calls that led to it, noted as `meta`.
        """
        now, refused = workflow.apply_legal(rewirings)
        applied = () if now is workflow else now.lineage.rewirings
        now = now.with_memory(**memory) if memory else now
        if now.fingerprint != workflow.fingerprint:
            now = now.with_lineage(workflow, applied)
        costs = {"meta": {"calls": cost.calls, "tokens": cost.tokens}} if cost else {}
        return cls(workflow=now, applied=applied, refused=refused, notes={**notes, **costs}, needs_gate=needs_gate)


async def explore_samples(
    solve: Callable[[Scope], Awaitable[Trajectory]], blank: Trajectory, samples: int, *, scope: Scope
) -> list[Trajectory]:
    """Runs of one question side by side.

    A run that the calls of its task do not suffice for ends as an error, and the finished ones are kept.

    Args:
        solve: runs the question at a place.
        blank: a trajectory without steps, for runs that end so.

    Raises:
        The first error of another kind, in the order of the runs.
    """

    async def run(place: Scope) -> Trajectory:
        try:
            return await solve(place)
        except TaskBudgetError as error:
            return blank.replace(sample=place.sample).as_failed(str(error))

    return await gather_all(run(scope.at(sample=number)) for number in range(samples))


# The method


@dataclass(frozen=True)
class NamedSeeds:
    """Initial teams that can be chosen by name.

    Attributes:
        setting: field of the choices per run, and setting of an assistant, that chooses one.
        make: makes the team of a name for a method; its agents hold these tools.
        propose: proposes the name that fits a question, from its text alone; "" without an opinion.
    """

    names: tuple[str, ...]
    setting: str
    make: Callable[[Any, Sequence[str], str | None], Team]
    propose: Callable[[str], str] = lambda question: ""


class RouterPlan(NamedTuple):
    """How a trained router draws and learns."""

    config: "RouterConfig"
    train: "TrainConfig"


@dataclass(frozen=True)
class RouterTraining:
    """How the trained router of a method's teams is trained.

    Attributes:
        plan: how the router of a method's team draws and learns; raises ConfigError where no run would ask it.
        config: config fields of a method whose router is asked.
        random_control: the method with a router that draws by chance, to compare with; None if there is none.
        options: config fields that the command's options stand for, by option: those of `paper`, of `process_reward`.
    """

    plan: Callable[[Any, Team], RouterPlan]
    config: Mapping[str, Any] = FrozenMap()
    random_control: "Callable[[Any], Method[Any]] | None" = None
    options: Mapping[str, Mapping[str, Any]] = FrozenMap()


class Method(Generic[Config]):
    """A method: how a team starts, how it answers a question, and what is rewired after a batch of graded runs.

    A subclass has a `name`, a `config_type`, `seed` and `propose`; the rest fits a team that runs once per question
    and learns nothing beside its agents and edges. What a run needs of models and tools comes as `ctx`.

    Args:
        config: of the method, or fields of it; by default made of the options.
        options: fields of the config.

    Raises:
        ConfigError: a field is unknown or out of bounds, or it is another method's config.

    Attributes:
        name: in the command line, journals and saved teams.
        summary: the method in a line, for people.
        config_type: class of its config, in which every field has a default.
        choices: class of the choices per run of its graph; a choice with the name of a config field replaces that
            field, unless it is None.
        build_options: arguments of `build_graph` that it uses, of judge, grader, corpus and embedder.
        variants: its ablations and controls by name; `full` is the method itself.
        evolves: whether variants are evolved before they are measured; False for a method whose team changes only
            within a question.
        fits_held_out: whether it may fit parameters to runs on gate tasks without a gate too.
        replays: whether a run that goes on reads all that a task has done in the journal; where not, graded tasks are
            kept one by one, and not run again.
        one_batch: whether it learns from all train tasks in one iteration; `compare` evolves it so.
        rounds: config field with the most rounds or stages of a question; "" where there is none.
        random_edits: whether the plug-ins `selfwire.controls` have its control with random edits, under its name.
        router: how its router is trained, if it learns one.
        learns_insights: whether its teams keep a library of insights.
        seeds: initial teams that can be chosen by name.
        figure: the state machine of a question; by default one that runs the team once, in which every agent hands on
            to all its successors.
        paper: authors and title.
        departures: numbers of the deviations from it, such as D1-D20.
        end_reasons: why a question ended, in words, by the name in its notes.

    Raises:
        ConfigError: an option is unknown or out of bounds.
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    config_type: ClassVar[type[FrozenModel]] = FrozenModel
    choices: ClassVar[type[RunContext]] = RunContext
    build_options: ClassVar[frozenset[str]] = frozenset({"embedder"})
    variants: ClassVar[Mapping[str, Variant]] = FrozenMap({FULL: Variant(title=FULL)})
    evolves: ClassVar[bool] = True
    fits_held_out: ClassVar[bool] = False
    replays: ClassVar[bool] = True
    one_batch: ClassVar[bool] = False
    rounds: ClassVar[str] = ""
    random_edits: ClassVar[bool] = False
    router: ClassVar[RouterTraining | None] = None
    learns_insights: ClassVar[bool] = False
    seeds: ClassVar[NamedSeeds | None] = None
    figure: ClassVar[MethodGraph[Any]]
    paper: ClassVar[str] = ""
    departures: ClassVar[str] = ""
    end_reasons: ClassVar[Mapping[str, str]] = FrozenMap()

    def __init__(self, config: Config | Mapping[str, Any] | None = None, **options: Any) -> None:
        schema = check_declaration(type(self)).config_type
        if options and isinstance(config, schema):
            config = config.model_dump()
        if isinstance(config, Mapping | None):
            config = parse_config(self.name, schema, {**(config or {}), **options})  # type: ignore[assignment]
        elif not isinstance(config, schema):
            raise ConfigError(f"config of {self.name}: {config!r} is no {schema.__name__}, nor a dict of its fields")
        self.config: Config = config  # type: ignore[assignment]

    @staticmethod
    def estimate_calls(config: Any, team: Team, batch: int, added_agents: float) -> CallEstimate:
        """Model calls of a question and of an iteration, for `--dry-run`; by default a turn of every agent.

        Args:
            batch: train questions per iteration.
            added_agents: agents that the team may have gained.
        """
        return CallEstimate({"agent": count_turn_calls(team) + LOOP * added_agents})

    @staticmethod
    def format_notes(notes: Mapping[str, Any]) -> Sequence[str]:
        """Paragraphs for people on a trajectory's notes, one string each; by default none."""
        return ()

    @staticmethod
    def draw_run(notes: Mapping[str, Any]) -> Picture:
        """The picture of a trajectory's notes for the page of a run; by default empty."""
        return Picture()

    @staticmethod
    def draw_learning(before: Team, after: Team, notes: Mapping[str, Any]) -> Sequence[Panel]:
        """Panels of an iteration, from the teams before and after it and the notes of `propose`; by default none."""
        return ()

    @staticmethod
    def extend_tools(tools: Toolbox) -> Toolbox:
        """The given tools with those that come with them; by default unchanged."""
        return tools

    @staticmethod
    def fit_config(config: Any, team: Team) -> Any:
        """The config with room for a saved team, for a server, which has no setting for it; by default unchanged."""
        return config

    @property
    def prompts(self) -> Prompts:
        """Prompts of the method's own calls; none by default."""
        return Prompts(texts={})

    def make_ctx(self, model: Model, tools: Toolbox, embed: Embedder, **more: Any) -> Ctx[Config]:
        """Make the context of a run; `more` are fields of `Ctx`, such as `scope`."""
        return Ctx(model, tools, embed, self.config, self.prompts, **more)

    @property
    def compiled(self) -> Compiled:
        """The figure as runs enter it, compiled once."""
        return _compile(self.figure, self.name)

    def serve(self, start: RunStart, factory: CtxFactory) -> Graph:
        """Build the graph that users run, by default the figure with the initial team drawn in it."""
        return self.figure.serve(start, factory)

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        """The team that the method starts from.

        Args:
            tools: held by its agents.
            toolbox: all tools of the run.
        """
        raise ConfigError(f"{_name_class(self)} has no seed; write `{CALLED['seed']}`, which returns a Team")

    def make_seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = (), named: str | None = None) -> Team:
        """Make the first team, which belongs to this method even if `seed` is inherited from another one.

        Args:
            named: name of one of `seeds`; by default the team of `seed`.

        Raises:
            ConfigError: `seed` makes something else.
        """
        seeds = None if named is None else self.seeds
        made = seeds.make(self, tools, named) if seeds else self.seed(tools, toolbox=toolbox)
        return check_result(self, "seed", made, Team).replace(method=self.name)

    def adapt(self, team: Team) -> Team:
        """An existing team as the method can run and rewire it; by default unchanged.

        Raises:
            ConfigError: the config does not allow it.
        """
        return team

    def check_learned(self, team: Team, embedder: str) -> None:
        """Check that what a saved team has learned can be used with this embedder, by default nothing.

        Raises:
            ConfigError, LibraryError, ValueError, TypeError, AttributeError: it cannot.
        """

    async def answer(self, team: Team, question: Question, ctx: Ctx[Config]) -> Trajectory:
        """Put a question to the team, by default through `figure`, whose state then has a `trajectory`.

        Raises:
            ConfigError: the figure writes no trajectory.
            BudgetError: the run must stop. Other faults end in the trajectory's `error`.
        """
        final = await run_graph(self.compiled, self.figure.state, ctx.with_question(team, question))
        return check_result(self, "answer", getattr(final, "trajectory", None), Trajectory)

    @property
    def samples(self) -> int:
        """How many times `explore` runs a question; by default once."""
        return 1

    async def explore(self, team: Team, question: Question, ctx: Ctx[Config]) -> Sequence[Trajectory]:
        """Put a train question to the team, `samples` times side by side; raises as `answer`."""
        if self.samples == 1:
            return [await self.ask(team, question, ctx)]
        blank = Trajectory(question=question, workflow=team.fingerprint)
        return await explore_samples(
            lambda place: self.ask(team, question, ctx.where(place)), blank, self.samples, scope=ctx.scope
        )

    async def ask(self, team: Team, question: Question, ctx: Ctx[Config]) -> Trajectory:
        """Call `answer`, which an author may have written, and check that a trajectory comes back.

        Raises:
            ConfigError: `answer` gives something else.
        """
        return await await_result(self, "answer", self.answer(team, question, ctx), Trajectory)

    async def ask_samples(self, team: Team, question: Question, ctx: Ctx[Config]) -> Sequence[Trajectory]:
        """Call `explore`, which an author may have written, and check that trajectories come back.

        Raises:
            ConfigError: `explore` gives something else.
        """
        found = await await_result(self, "explore", self.explore(team, question, ctx), object)
        samples = found if isinstance(found, list | tuple) else [found]
        kept = [sample for sample in samples if isinstance(sample, Trajectory)]
        if len(kept) < len(samples):
            wrong = next(sample for sample in samples if not isinstance(sample, Trajectory))
            what = f"{wrong!r:.80}{'' if wrong is found else ' in it'}"
            raise ConfigError(f"{_name_class(self)}: explore must return a list of Trajectory, not {what}")
        return kept

    async def propose(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Config]) -> EvolveResult:
        """Rewire the team after graded runs of it; those with an error teach nothing.

        `ctx.grade_run` grades further runs on questions of the batch.
        """
        raise ConfigError(
            f"{_name_class(self)} has no propose; write `{CALLED['propose']}`, which returns an EvolveResult"
        )

    @property
    def sees_labels(self) -> bool:
        """Whether labels may decide what it keeps; without them there is no gate."""
        return True

    def fits(self, team: Team) -> bool:
        """Whether `fit` changes anything for such a team; then its held-out runs are made without a gate too."""
        return False

    async def fit(self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Config]) -> Team:
        """Fit parameters to held-out runs, by default none; agents and topology do not change."""
        return team

    def list_rewritable(self, team: Team, frozen: Collection[str]) -> list[str]:
        """List the agents whose prompts may be rewritten, where some parts of the team are frozen."""
        return [agent.id for agent in team.agents if not {"prompts", f"agent:{agent.id}"} & {*frozen}]

    def keep_memory(self, kept: Team, rejected: Team) -> Team:
        """The kept team with what the rejected one learned and still holds; by default nothing of it."""
        return kept

    def note_removals(self, smaller: Team, whole: Team) -> Team:
        """The smaller team with notes on what was taken out of the whole one, if runs go by them; by default itself."""
        return smaller

    def reads_memory(self, team: Team) -> bool:
        """Whether what such a team has learned beside agents, topology and tools decides how it answers."""
        return True

    def note_parts(self, team: Team, runs: Sequence[Trajectory] | None) -> Team:
        """The team with notes of its parts that may be taken out, by runs where there are any; by default itself."""
        return team

    def list_askable(
        self, team: Team, runs: Sequence[Trajectory], ctx: Ctx[Config]
    ) -> Mapping[str, Collection[str]] | None:
        """List the models that each agent may ask, by the run's names; None, as by default, for all.

        Args:
            runs: graded runs of the team.
        """
        return None

    def list_plans(self, team: Team, runs: Sequence[Trajectory]) -> Sequence[Topology]:
        """Topologies of which one might do for all questions, where each question has one of its own; by default none.

        Args:
            runs: graded runs of the team.
        """
        return ()

    def list_shorter_plans(self, plan: Topology, team: Team) -> Sequence[Topology]:
        """Topologies with a step less than one that might do for all questions; by default none."""
        return ()

    def propose_pruning(self, team: Team, worth: Mapping[str, float]) -> Rewiring | None:
        """The rewiring that removes the least helpful agent; None, as by default, if none can be removed.

        Args:
            worth: of the agents that an earlier pruning has left out: the score that they add.
        """
        return None


CALLED = {
    "seed": "def seed(self, tools=(), *, toolbox=())",
    "answer": "async def answer(self, team, question, ctx)",
    "explore": "async def explore(self, team, question, ctx)",
    "propose": "async def propose(self, team, runs, ctx)",
    "fit": "async def fit(self, team, runs, ctx)",
}
"""Functions of a method that an author writes, as they are called."""
Result = TypeVar("Result")


def _name_class(method: Method[Any] | type[Method[Any]]) -> str:
    given = method if isclass(method) else type(method)
    return f"class {given.__name__} of method {given.name!r}"


def check_result(method: Method[Any], function: str, result: object, wanted: type[Result]) -> Result:
    """Return what a function of a method has returned.

    Raises:
        ConfigError: it is of another kind than is wanted.
    """
    if not isinstance(result, wanted):
        raise ConfigError(
            f"{_name_class(method)}: {function} must return an object of {wanted.__name__}, not {result!r:.80}"
        )
    return result


async def await_result(method: Method[Any], function: str, returned: object, wanted: type[Result]) -> Result:
    """Await what an async function of a method has returned.

    Raises:
        ConfigError: it cannot be awaited, or its result is of another kind than is wanted.
    """
    if not isawaitable(returned):
        raise ConfigError(f"{_name_class(method)}: {function} is written as `{CALLED[function]}`")
    return check_result(method, function, await returned, wanted)


def _check_functions(method: type[Method[Any]]) -> None:
    """Check that the functions of a method can be called; those that are no plain functions are left to the call.

    Raises:
        ConfigError: one has other arguments, or `seed` is async.
    """
    for name, written in CALLED.items():
        function = getattr_static(method, name)
        if not isinstance(function, FunctionType):
            continue
        try:
            if name == "seed":
                signature(function, follow_wrapped=False).bind("self", "tools", toolbox=())
            else:
                signature(function, follow_wrapped=False).bind("self", "team", "runs", "ctx")
        except TypeError as error:
            raise ConfigError(f"{_name_class(method)}: {name} is called as in `{written}`: {error}") from None
        if name == "seed" and iscoroutinefunction(function):
            raise ConfigError(f"{_name_class(method)}: {name} is written as `{written}`")


class OneRunState(State):
    """State of a question to a team that runs once: team and trajectory, beside the channels of every state."""

    workflow: Team
    trajectory: Trajectory | None = None


async def begin(state: OneRunState, ctx: Ctx[Any]) -> Update:
    """Take a new question."""
    question, team, scope = await ctx.begin(state)
    return state.restart(question, scope, workflow=ctx.edit(team))


async def team(state: OneRunState, ctx: Ctx[Any]) -> Update:
    """Run the team.

    Raises:
        TaskError: it has no answer, in a graph that a user runs.
    """
    run = TeamContext.of(state.workflow, state.get_question(), ctx.scope, ctx.make_runner(state.workflow))
    done = await run_team(state.workflow.topology, run, config=ctx.team_config)
    ctx.require_answer(done)
    return state.update(trajectory=done, answer=done.answer, usage=state.usage + done.usage)


@cache
def _compile(figure: MethodGraph[Any], name: str) -> Compiled:
    return figure.compile(name)


figure = MethodGraph(OneRunState, first="begin", team="team")
figure.add_edge(START, "begin")
figure.add_sequence([begin, team])
figure.add_edge("team", END)
Method.figure = figure


MethodType = type[Method[Any]]


def find_method(name: str) -> MethodType:
    """The class of a method; that of a graph of the user's own rewrites the prompts of the graph.

    Raises:
        ConfigError: there is no such method, or its package or its declaration cannot be used.
    """
    if is_graph(name):
        return _find_class(import_module(f"{PACKAGE}.own_graph"))
    if name in own_methods():
        return _find_class(import_module(f"{PACKAGE}.{name}"))
    if name in CONTESTANTS:
        return _load_contestant(name)
    if name in GIVEN:
        given: MethodType = GIVEN[name]
        return given
    if name in outside_methods():
        return _load_outside(name)
    hint = suggest_name(name, method_names(), "did you mean {}? ")
    raise ConfigError(
        f"unknown method {name!r}; {hint}methods are {', '.join(method_names())}; one of your own is given in Python "
        "as an instance of its class (method=MINE()), and on the command line by its package (docs/method.md)"
    )


@cache
def installed_methods() -> tuple[MethodType, ...]:
    """All methods; an outside package that cannot be used is left out with a warning, a missing extra without."""
    found = []
    for name in method_names():
        if name in LIBRARIES and find_spec(name) is None:
            continue
        try:
            found.append(find_method(name))
        except ConfigError as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
    return tuple(found)


def add_method(method: Method[Any]) -> None:
    """Make the class of a method known under its name in this process, in place of another class of this name.

    Raises:
        ConfigError: it is no method, its declaration cannot be used, or a method of selfwire has its name.
    """
    if not isinstance(method, Method):
        way_out = f"; give an instance: {method.__name__}()" if isclass(method) else ""
        raise ConfigError(f"method is the name of a method or an instance of one, not {method!r}{way_out}")
    given = check_declaration(type(method))
    if not is_id(given.name):
        raise ConfigError(f"{given.__name__}.name is a text of up to 64 letters, digits, _ and -")
    if not hasattr(method, "config"):
        raise ConfigError(f"{_name_class(method)}: its __init__ must call super().__init__(), which makes its config")
    if given.name not in own_methods() and given.name not in CONTESTANTS:
        GIVEN[given.name] = given
        installed_methods.cache_clear()
    elif find_method(given.name) is not given:
        raise ConfigError(f"selfwire has a method {given.name!r}; give class {given.__name__} another name")


def make_method(name: str, config: Mapping[str, Any] = FrozenMap()) -> Method[Any]:
    """Make a method by its name; by that of a graph of the user's own an `own_graph.OwnGraph`.

    Args:
        config: config fields by name, those of a nested config as a mapping; the others have their defaults.

    Raises:
        ConfigError: there is no such method, a config field is unknown or out of bounds, or no graph can be imported.
    """
    method: Any = find_method(name)
    given = (name, config) if is_graph(name) else (parse_config(name, method.config_type, config),)
    made: Method[Any] = method(*given)
    return made


def estimate_calls(
    name: str, config: Mapping[str, Any], team: Team, batch: int = 0, added_agents: float = 0.0
) -> CallEstimate:
    """Estimate the calls of a method by its name, as `Method.estimate_calls`.

    Raises:
        ConfigError: there is no such method, a config field cannot be used, or the estimate fails.
    """
    method = find_method(name)
    parsed = parse_config(name, method.config_type, config)
    try:
        return method.estimate_calls(parsed, team, batch, added_agents)
    except Exception as error:  # an outside package may raise anything
        raise ConfigError(
            f"the calls of method {name} cannot be estimated: its estimate_calls raised {format_error(error)}; "
            "mend it, or run without --dry-run"
        ) from error


def check_declaration(method: MethodType) -> MethodType:
    """Return the class of a method whose declaration the rest of the package can use.

    Raises:
        ConfigError: a part of it cannot be used.
    """
    name, config = method.name, method.config_type
    if FULL not in method.variants or not method.build_options <= OPTIONS:
        raise ConfigError(
            f"method {name}: variants need {FULL!r}, and build_options are of {', '.join(sorted(OPTIONS))}"
        )
    if not (issubclass(config, FrozenModel) and issubclass(method.choices, RunContext)):
        raise ConfigError(f"method {name}: config_type is a subclass of FrozenModel, choices one of RunContext")
    if needed := [field for field, known in config.model_fields.items() if known.is_required()]:
        raise ConfigError(f"method {name}: its config needs defaults for {', '.join(needed)}")
    if method.rounds and method.rounds not in config.model_fields:
        raise ConfigError(f"method {name}: rounds names no field of its config: {method.rounds}")
    for title, variant in method.variants.items():
        parse_config(f"{name}'s variant {title}", config, variant.config)
    _check_functions(method)
    return method


def _load_contestant(name: str) -> MethodType:
    if name in LIBRARIES and find_spec(name) is None:
        raise ConfigError(f"method {name!r} needs the package {name}: pip install 'selfwire[{name}]'")
    module, _, found = CONTESTANTS[name].partition(":")
    return _find_class(getattr(import_module(module), found))


def _find_class(found: Any) -> MethodType:
    """The class of a method, or the only one that a module defines.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(found, ModuleType):
        classes = [item for item in vars(found).values() if isclass(item) and item.__module__ == found.__name__]
        methods = [item for item in classes if issubclass(item, Method)]
        found = methods[0] if len(methods) == 1 else found
    if not (isclass(found) and issubclass(found, Method)):
        raise TypeError(f"a {type(found).__name__}, no class of a method")
    return found


@cache
def _load_outside(name: str) -> MethodType:
    points = outside_methods()[name]
    values = sorted({point.value for point in points})
    if len(values) > 1:
        raise ConfigError(f"{' and '.join(values)} are both called method {name!r}; uninstall one of the packages")
    where = f"method {name!r} ({points[0].value} of {points[0].dist.name if points[0].dist else 'a package'})"
    if not is_id(name):
        raise ConfigError(f"{where}: a method's name has up to 64 letters, digits, _ and -")
    try:
        found = points[0].load()
    except (Exception, SystemExit) as error:  # an outside package may raise anything at import
        raise ConfigError(f"{where} cannot be imported: {type(error).__name__}: {error}") from error
    try:
        method = check_declaration(_find_class(found))
    except TypeError as error:
        raise ConfigError(f"{where} is {error}; name a subclass of selfwire.Method in group {GROUP}") from error
    if method.name != name:
        raise ConfigError(f"{where} calls itself {method.name!r}; give entry point and class the same name")
    return method


__all__ = ["Ctx", "EvolveResult", "Method", "OneRunState", "Variant"]

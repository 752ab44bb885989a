"""The teams, models and tasks that a caller gives, by name or as objects; each name is loaded once."""

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from inspect import isclass
from pathlib import Path
from typing import Any, NamedTuple, get_args
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.graph import StateGraph
from pydantic import ValidationError

from selfwire.core.errors import ConfigError, LibraryError, format_first_fault
from selfwire.core.plugins import is_graph, method_names
from selfwire.core.protocols import Embedder, Tool, Toolbox
from selfwire.core.task import Splits, Task
from selfwire.core.team import Team
from selfwire.core.text import suggest_name
from selfwire.core.usage import Budget
from selfwire.core.values import FrozenMap, fingerprint, format_object
from selfwire.evals.baselines import BASELINES, make_baseline
from selfwire.evals.benchmarks.benchmark import Benchmark, TooFewTasksError, make_disjoint_loader, make_disjoint_splits
from selfwire.evals.benchmarks.catalogue import TASKS_IN_PYTHON, load_benchmark, make_own_benchmark
from selfwire.evals.graders import Grader
from selfwire.evals.tasks import FORMS, OwnTasks, is_own_data, list_tasks, read_tasks, resolve_name
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method, add_method, make_method, parse_config
from selfwire.graphs.own_graph import OwnGraphConfig, give_graph
from selfwire.models.budget import Ledger, Prices, parse_budget
from selfwire.models.embeddings import load_embedder
from selfwire.models.limits import CallSettings
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import find_address, get_identity, is_model_name, is_offline, make_chat_model
from selfwire.models.structured import recall_modes
from selfwire.models.sync import run_sync
from selfwire.runs.spec import EvaluateSpec, EvolveSpec, Models, RunSpec, require_names
from selfwire.store.journal import Journal
from selfwire.store.library import TEAM, Library, Version, home_folder, open_library, to_local_folder
from selfwire.tools.own import give_tools, refuse_missing_tools
from selfwire.tools.ready import IN_PYTHON, load_tools, make_toolbox

Tasks = Sequence[Task | Mapping[str, Any]] | str | Path
"""Mappings with `input` and `reference`, Task objects, a file (JSONL, CSV, Parquet), "hf:owner/name", a benchmark."""
Teamlike = Team | Method[Any] | Runnable[Any, Any] | StateGraph[Any] | str | Path
"""A team, a method or its name, the name of a saved team (name, name@version, fingerprint) or an exported file."""
Tools = Sequence[Callable[..., Any] | BaseTool | Tool | str] | str
"""Functions, LangChain tools, objects with `spec` and `run`, and names; or names alone, as "calculator,sql:x.db"."""
ChatModel = str | BaseChatModel
"""A name such as "openai:gpt-4o-mini" or "offline", or LangChain's chat model itself."""

OFFLINE = "offline"
MODEL = "SELFWIRE_MODEL"
"""Environment variable with the model for calls without one, unless their team was evolved with another."""


@dataclass(frozen=True)
class Given:
    """Objects of a caller behind names in a request; a run that is resumed needs them again.

    Attributes:
        benchmark: the caller's tasks, grader and tools; None if the request's names say it all.
        models: chat models by name; of `Models.named` as "name=provider:model".
        teams: teams by the name that stands for them in the request.
    """

    benchmark: Benchmark | None = None
    models: Mapping[str, BaseChatModel] = field(default_factory=FrozenMap)
    teams: Mapping[str, Team] = field(default_factory=FrozenMap)

    def load_benchmark(self, request: RunSpec, seed: int, size: int) -> Benchmark:
        """The caller's benchmark, or else the one that a request names; see `catalogue.load_benchmark`."""
        own = {name: getattr(request, name) for name in ("grader", "rubric", "tools", "own_data")}
        return self.benchmark or load_benchmark(request.benchmark, seed=seed, size=size, **own)


class FoundTeam(NamedTuple):
    """A team by name, or the method whose first team is meant.

    Attributes:
        name: stands for the team in requests.
        team: None for a method's first one.
        title: the team in a line, for people.
        model: that it was evolved with; "" where that is not known, and for a graph that is asked, which has its own.
        config: fields of the method's config that were given with it.
        saved: its name in the library; "" if it is none of a saved team.
    """

    name: str
    method: str
    team: Team | None
    title: str
    model: str = ""
    config: Mapping[str, Any] = FrozenMap()
    saved: str = ""

    @property
    def is_object(self) -> bool:
        """Whether the team was given as a value, so that its name cannot be looked up."""
        return self.team is not None and self.name == self.team.fingerprint


def find_team(
    wanted: Teamlike,
    home: str | Path | None,
    *,
    method: str | Method[Any] | None = None,
    evolves: bool = False,
    agreed: str = "",
) -> FoundTeam:
    """Find a team; blocks.

    Args:
        method: that runs and evolves it, if that is another than the team's: what it has learned is left out then. A
            graph of the user's own has it only to be evolved.
        evolves: whether the team is to be evolved.
        agreed: a graph that the user names beside the team.

    Raises:
        ConfigError: there is no such method, it cannot be used, or an argument is of another kind; or another user has
            saved a team of a graph.
        LibraryError: there is no such team.
    """
    _refuse_other_kinds(wanted)
    if isinstance(wanted, Runnable | StateGraph):
        return find_team(give_graph(wanted), home, method=method, evolves=evolves)
    if isinstance(wanted, Method):
        add_method(wanted)
        return find_team(wanted.name, home, method=method)._replace(config=_list_options(wanted))
    if not isinstance(method, str | None):
        add_method(method)
        found, options = find_team(wanted, home, method=method.name, evolves=evolves), _list_options(method)
        graph = is_graph(found.method)
        return found._replace(config=choose_graph_method(found.method, method.name, options) if graph else options)
    with open_library(home, create=False) as library:
        if isinstance(wanted, str) and (kind := find_kind(wanted)):
            config = dict[str, Any]()
            if method is not None and method != wanted:
                if not is_graph(wanted):
                    raise ConfigError(f"{wanted!r} is a {kind} itself; leave method={method!r} out")
                config = choose_graph_method(wanted, method, evolves=evolves)
            title = "; ".join(
                [f"{kind} {wanted}, its seed team", *describe_clashes([wanted], run_sync(library.names()))]
            )
            return FoundTeam(wanted, wanted, None, title, config=config)
        if isinstance(wanted, Team):
            team, title = wanted, f"team {wanted.fingerprint} of method {wanted.method}"
            name, model, saved = wanted.fingerprint, "", ""
        else:
            team, version = run_sync(load_to_ask(require_saved(str(wanted)), library, agreed))
            title = f"saved team {version.ref if version else wanted} of method {team.method} ({team.fingerprint})"
            name, saved = str(wanted), version.name if version else ""
            asks_own = is_graph(team.method) and not evolves
            model = str(version.facts.get("model", "")) if version and not asks_own else ""
    if method is not None and method != team.method:
        if is_graph(team.method):
            config = choose_graph_method(team.method, method, evolves=evolves)
            return FoundTeam(name, team.method, team, title, model, config, saved)
        team = team.replace(method=method, memory={})
        name, title = team.fingerprint, f"{title}, run by {method}"
    return FoundTeam(name, team.method, team, title, model, saved=saved)


def find_saved_teams(names: Iterable[str | None], home: str | Path | None, *, evolves: bool) -> Iterator[FoundTeam]:
    """Find the saved teams among some names, one after another; raises as `find_team`."""
    return (find_team(name, home, evolves=evolves) for name in names if name and not find_kind(name))


def find_teams_of(
    request: EvolveSpec | EvaluateSpec, home: str | Path | None, given: Given = Given()
) -> Iterator[FoundTeam]:
    """Find the saved teams that a request names, one after another; raises as `find_team`."""
    evolves = isinstance(request, EvolveSpec)
    names = [request.seed_team] if isinstance(request, EvolveSpec) else request.targets
    return find_saved_teams((name for name in names if name not in given.teams), home, evolves=evolves)


def find_shared_model(models: Iterable[str], other: str | None) -> str:
    """Find the model that saved teams were evolved with; "" where none is known.

    Args:
        models: of the teams; "" where one is not known.
        other: that is named for the call.

    Raises:
        ConfigError: they were evolved with different ones, and no other is named.
    """
    known = sorted(set(filter(None, models)))
    if len(known) > 1 and other is None:
        evolved = " and ".join(map(_describe_model, known))
        raise ConfigError(f"the teams were evolved with {evolved}; say which answers, with --model")
    return known[0] if len(known) == 1 else ""


def _refuse_other_kinds(wanted: object) -> None:
    if not isinstance(wanted, Team | Method | Runnable | StateGraph | str | Path):
        way_out = f"; give an instance: {wanted.__name__}()" if isclass(wanted) and issubclass(wanted, Method) else ""
        raise ConfigError(
            f"a team is a Team, a method, a graph, a name or a file, not {format_object(wanted)}{way_out}"
        )


def _list_options(method: Method[Any]) -> dict[str, Any]:
    """Fields of the method's config that differ from its defaults, as a request has them."""
    options: dict[str, Any] = method.config.model_dump(mode="json", exclude_defaults=True)
    return options


@dataclass(frozen=True)
class CallOptions:
    """Arguments that verbs share: models, tools, limits, the home folder, and of a run its name; see `selfwire.run`."""

    model: ChatModel | None = None
    meta: ChatModel | None = None
    judge: ChatModel | None = None
    tools: Tools = ()
    method: str | Method[Any] | None = None
    budget: Budget | Mapping[str, float] | None = None
    home: str | Path | None = None
    models: Mapping[str, ChatModel] | None = None
    run_name: str | None = None
    on_event: Callable[[dict[str, Any]], None] | None = None

    @property
    def limits(self) -> Budget:
        """The budget as a value.

        Raises:
            ConfigError: as `parse_budget`.
        """
        return parse_budget(self.budget)

    @property
    def folder(self) -> Path | None:
        """The home as a folder; raises ConfigError as `to_local_folder`."""
        return to_local_folder(self.home)

    @property
    def toolbox(self) -> Toolbox:
        """The tools by name."""
        if isinstance(self.tools, str):
            return load_tools(self.tools) if self.tools else {}
        return make_toolbox(self.tools)

    def find_models(self, known: str = "") -> tuple[Models, dict[str, BaseChatModel]]:
        """Name the models of a run; return the names, and the models that were given as objects.

        Args:
            known: the model that a team was evolved with, for calls that name none.

        Raises:
            ConfigError: a model is called by what is no name, or no model is given for a role.
        """
        given: dict[str, BaseChatModel] = {}

        def name(chosen: ChatModel, prefix: str = "") -> str:
            if isinstance(chosen, str):
                return chosen
            if not isinstance(chosen, BaseChatModel):
                said = format_object(chosen)
                raise ConfigError(f'a model is a name such as "openai:gpt-4o-mini" or a chat model, not {said}')
            found = get_identity(chosen).name
            given[f"{prefix}{found}"] = chosen
            return found

        if self.models is not None and not isinstance(self.models, Mapping):
            raise ConfigError(f'models are given by name, as {{"cheap": "openai:gpt-4o-mini"}}, not as {self.models!r}')
        require_names("models: a model", self.models or ())
        named = {called: name(chosen, f"{called}=") for called, chosen in (self.models or {}).items()}
        roles = {role: chosen and name(chosen) for role, chosen in (("meta", self.meta), ("judge", self.judge))}
        agent = name((known or os.environ.get(MODEL) or OFFLINE) if self.model is None else self.model)
        return parse_config("the models", Models, {"agent": agent, **roles, "named": named}), given


class Data(NamedTuple):
    """Tasks with their grader and tools.

    Attributes:
        fields: of a request: benchmark, grader, rubric and tools.
        benchmark: the same as objects; None where the names say it all.
        sizes: of the splits that were given, by split; empty where they are dealt out.
    """

    fields: Mapping[str, Any]
    benchmark: Benchmark | None
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class TaskSets:
    """Tasks by their split, with the grader of answers.

    Attributes:
        limit: most tasks of a split that has no set of its own.
    """

    sets: Mapping[str, Tasks | None]
    grader: str | Grader
    rubric: str | None = None
    limit: int | None = None

    def find(self, tools: Tools) -> Data:
        """Name the tasks; or read them if tasks, grader or tools have no name; blocks.

        Raises:
            ConfigError: tasks, a tool, the grader or the limit cannot be used.
        """
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit must be 1 or more, not {self.limit}")
        given = {split: tasks for split, tasks in self.sets.items() if tasks is not None}
        if (first := next(iter(self.sets.values()))) is None:
            raise ConfigError(
                f"there are no tasks; give dicts with input and reference, {FORMS}, or a benchmark's name"
            )
        others = [*given.values()][1:]
        has_names = isinstance(tools, str) or not tools
        fields: dict[str, Any] = {"rubric": self.rubric, "tools": (tools or None) if has_names else None}
        if has_names and not others and isinstance(self.grader, str) and isinstance(first, str | Path):
            name = resolve_name(str(first)) if is_own_data(str(first)) else str(first)
            return Data({**fields, "benchmark": name, "grader": self.grader}, None, {})
        names = NAMES if "train" in self.sets else {**NAMES, "test": "tasks"}
        read = {split: _read(tasks, names[split], NAMES[split]) for split, tasks in given.items()}
        whole = OwnTasks(
            tuple(task for own in read.values() for task in own.tasks),
            (*(note for own in read.values() for note in own.notes), *_describe_overlap(read)),
        )
        name = f"{TASKS_IN_PYTHON}{fingerprint([task.model_dump(mode='json') for task in whole.tasks])}"
        if not others and isinstance(first, str | Path):
            name = resolve_name(str(first))
        load = _make_loader({split: own.tasks for split, own in read.items()})
        toolbox = CallOptions(tools=tools).toolbox
        if not has_names:
            fields["tools"] = ",".join(f"{IN_PYTHON}{name}" for name in sorted(toolbox))
        benchmark = make_own_benchmark(name, whole, load, self.grader, self.rubric, toolbox)
        sizes = {} if [*read] == ["train"] else {split: len(own.tasks) for split, own in read.items()}
        graded_by = self.grader if isinstance(self.grader, str) else benchmark.environment.name
        return Data({**fields, "benchmark": name, "grader": graded_by}, benchmark, sizes)


NAMES = {"train": "trainset", "gate": "valset", "test": "testset"}
"""Names of the arguments by split."""


def _read(tasks: Tasks, name: str, ids: str) -> OwnTasks:
    if not isinstance(tasks, str | Path):
        return list_tasks(tasks, name, ids)
    if not is_own_data(str(tasks)):
        raise ConfigError(
            f"{name}: {str(tasks)!r} is no file of tasks; a benchmark has its own splits, grader and tools, so give it "
            "alone, without them"
        )
    return read_tasks(tasks)


def _describe_overlap(read: Mapping[str, OwnTasks]) -> tuple[str, ...]:
    texts = [{task.input for task in own.tasks} for own in read.values()]
    twice = sum(map(len, texts)) - len(set().union(*texts))
    names = ", ".join(NAMES[split] for split in read)
    return (f"{twice} questions are in more than one of {names}",) if twice else ()


def _make_loader(read: Mapping[str, Sequence[Task]]) -> Callable[[int, int, int, int], Splits]:
    """Load splits: a single set is dealt out to all, a trainset without a valset to both of these."""
    if len(read) == 1:
        return make_disjoint_loader(lambda: next(iter(read.values())))

    def load(seed: int, train: int, gate: int, test: int) -> Splits:
        if "train" in read and "gate" not in read:
            dealt = make_disjoint_splits(read["train"], seed, train, gate, 0)
        else:
            dealt = Splits(train=_take(read, "train", train), gate=_take(read, "gate", gate))
        return dealt.replace(test=_take(read, "test", test))

    return load


def _take(read: Mapping[str, Sequence[Task]], split: str, size: int) -> tuple[Task, ...]:
    tasks = read.get(split, ())
    if size > len(tasks):
        raise TooFewTasksError(f"{NAMES[split]} has {len(tasks)} tasks, not {size}")
    return tuple(tasks[:size])


GROUPS = ("methods", "baselines", "all")
"""Words of `selfwire compare` for several systems."""


def find_kind(name: str) -> str:
    """Find the kind of a name: "method", "baseline", "graph of your own" or "word of `selfwire compare`"; else ""."""
    if name in method_names():
        return "method"
    if name in BASELINES:
        return "baseline"
    if is_graph(name):
        return "graph of your own"
    return "word of `selfwire compare`" if name in GROUPS else ""


def to_team_reference(name: str) -> str:
    """Write the reference to the saved team of a name, for the command line."""
    return TEAM + name if find_kind(name) else name


def choose_team_name(name: str) -> str:
    """Choose the name under which a team is saved: the one that is given, or of team:NAME the NAME.

    Raises:
        ConfigError: the name by itself means a method, a baseline or a group of systems.
    """
    if not isinstance(name, str):  # which is refused where the team is saved
        return name
    chosen = name.removeprefix(TEAM)
    if chosen == name and (kind := find_kind(name)):
        raise ConfigError(
            f"{name!r} is a {kind}, and goes on to mean that; save the team under another name, or as {TEAM}{name}, by "
            "which it is called then"
        )
    return chosen


WHOLE_TEAMS = {
    "tacomas": "adds, replaces and rewires agents while they answer",
    "dytopo": "wires agents anew in each round, by what each of them asks for and offers",
    "evomas": "chooses the agents of each layer while they answer",
}
"""Why a method cannot evolve a graph of a user's own, whose nodes and edges are code."""


def choose_graph_method(
    name: str, method: str, options: Mapping[str, Any] = FrozenMap(), *, evolves: bool = True
) -> dict[str, Any]:
    """Make the config by which a graph of the user's own evolves by a method.

    Args:
        options: fields of the method's config.
        evolves: whether it is to be evolved at all; it is asked without a method.

    Raises:
        ConfigError: the method has to wire its teams itself, or is none for graphs.
    """
    if method in WHOLE_TEAMS:
        raise ConfigError(
            f"{method} cannot evolve {name}: it {WHOLE_TEAMS[method]}, and the nodes and edges of your graph are its "
            f"own code; `selfwire evolve {name}` evolves it by HiVA, and with --method hera by HERA"
        )
    known = get_args(OwnGraphConfig.model_fields["method"].annotation)
    if not evolves or method not in known:
        raise ConfigError(
            f"{name!r} is a graph of your own, which answers by itself; leave method={method!r} out (it evolves by "
            f"{', '.join(known[:-1])} or {known[-1]})"
        )
    if options and method != "hera":
        raise ConfigError(f"{method} has no options for a graph of your own; leave {', '.join(options)} out")
    return {"method": method, **({"hera": dict(options)} if options else {})}


def require_saved(ref: str) -> str:
    """Return a reference to a saved team, unless it means something else.

    Raises:
        ConfigError: it means a method, a baseline or a group of them.
    """
    if kind := find_kind(ref):
        saved = (
            f"save it with `selfwire adopt {ref} --name NAME`"
            if is_graph(ref)
            else f"a saved team of that name is {TEAM}{ref}"
        )
        raise ConfigError(f"{ref!r} is a {kind}, and a saved team is wanted here; {saved}")
    return ref


async def load_saved(ref: str, library: Library) -> tuple[Team, Version | None]:
    """Load a saved team, and its version unless it comes from a file.

    Raises:
        LibraryError: there is none; where nothing of its name was ever saved, the message lists methods and baselines.
        ConfigError: a file has the prompts of a graph of the user's own.
    """
    try:
        team = await library.load(ref)
        if not ref.endswith(".json"):
            return team, await library.find(ref)
        if is_graph(team.method):  # whose code would be imported, as a file says and not the user
            raise ConfigError(f"{ref} has the prompts of {team.method}; name that graph, with --team {ref} in `evolve`")
        return team, None
    except LibraryError as error:
        if ref.endswith(".json") or ref.removeprefix(TEAM).partition("@")[0] in await library.names():
            raise
        hint = suggest_name(ref, [*method_names(), *BASELINES, *await library.names()], "did you mean {}?")
        if ref.endswith(".py"):
            hint = f"a graph in a file is named as {ref}:graph, after its variable"
        if hint:
            raise LibraryError(f"there is no team {ref!r} in library {library.where}; {hint}") from None
        raise LibraryError(
            f"{error}; methods are {', '.join(method_names())}; baselines are {', '.join(BASELINES)}"
        ) from None


async def load_to_ask(ref: str, library: Library, agreed: str = "") -> tuple[Team, Version | None]:
    """Load a saved team as `load_saved`, whose code may be imported: that of a graph is the user's, or agreed to.

    Args:
        agreed: a graph that the user names, which is consent to its code.

    Raises:
        LibraryError: there is none.
        ConfigError: another user has saved the team of a graph.
    """
    team, version = await load_saved(ref, library)
    if version is not None and team.method != agreed:
        library.refuse_foreign_graph(team, version)
    return team, version


def describe_other_model(made_with: str, model: str) -> str:
    """Write a remark on a saved team that was evolved with another model; "" if that is not known.

    Args:
        made_with: the model of its agents when it was evolved; "" where that is not known.
        model: that answers now.
    """
    if made_with in ("", model):
        return ""
    same = f" (--model {made_with} for the same)" if is_model_name(made_with) else ""
    return f"; evolved with {_describe_model(made_with)}, and {model} answers now{same}"


def _describe_model(name: str) -> str:
    """Describe the model that a team was evolved with: one that was given in Python may have no name."""
    return name if is_model_name(name) else "a chat model without a name"


def describe_clashes(names: Iterable[str], saved: Iterable[str]) -> tuple[str, ...]:
    """Write a line for every name of a method or baseline that is the name of a saved team too."""
    teams = set(saved)
    return tuple(
        f"{name} is a {kind}; the team that is saved under the same name is {TEAM}{name}"
        for name in dict.fromkeys(names)
        if name in teams and (kind := find_kind(name))
    )


def make_seed(method: Method[Any], ctx: Ctx[Any], bench: Benchmark) -> Team:
    """Make the initial team of a method on a benchmark, with own tools that the benchmark gives it.

    Raises:
        ConfigError: something that the method needs is not installed.
    """
    seed = bench.initial_teams.get(method.name) or method.make_seed(bench.tools, toolbox=tuple(ctx.tools))
    method.check_learned(seed, ctx.embed.name)
    return method.adapt(give_tools(seed, bench.own_tools)) if bench.own_tools else seed


def refuse_other_method(team: Team, method: str, what: str) -> None:
    """Refuse a team of another method.

    Args:
        what: the team in the message, such as "team 'x'".

    Raises:
        ConfigError: it belongs to another method.
    """
    if team.method != method:
        if is_graph(team.method) and method in WHOLE_TEAMS:
            choose_graph_method(team.method, method)
        raise ConfigError(f"{what} belongs to {team.method}, not to {method}")


def refuse_unreadable_memory(method: Method[Any], ctx: Ctx[Any], team: Team, what: str) -> None:
    """Refuse a team with a memory that its method cannot use.

    Args:
        what: the team in the message.

    Raises:
        ConfigError, LibraryError: the method cannot read or use it.
    """
    try:
        method.check_learned(team, ctx.embed.name)
    except (ConfigError, LibraryError) as error:
        raise type(error)(f"{what}: {error}") from None
    except (ValueError, TypeError, AttributeError) as error:
        why = format_first_fault(error, "memory") if isinstance(error, ValidationError) else str(error)
        raise ConfigError(
            f"{what} has learned what {method.name} cannot read ({why}); take another version, or empty its memory"
        ) from None


def describe_lending(names: str) -> str:
    """Describe how a team gets the tools that it lacks.

    Args:
        names: of the tools that it was evolved with, for --tools; "" where they are not known.
    """
    if names:
        return f"lend the tools with --tools {shlex.quote(names)}"
    return "lend the tools with --tools, or take the benchmark that it was made for"


REQUESTS = 32
"""Least number of requests at once per provider, where the request names none."""
PRICES = "prices.json"
"""Name of the file in the home folder that overrides the shipped list prices."""


@dataclass(frozen=True)
class LoadedModels:
    """The chat models of a spec, with prices and embedder; made once.

    Attributes:
        names: as the spec has them.
        chats: by role.
        named: those that agents may ask instead, by name.
        notices: for the user, such as a fallback.
    """

    names: Models
    chats: Mapping[str, BaseChatModel]
    named: Mapping[str, BaseChatModel]
    prices: Prices
    embedder: Embedder
    notices: tuple[str, ...] = ()

    def meter(self, journal: Journal, ledger: Ledger, *, at_once: int = 1, probe: bool = False) -> MeteredModel:
        """Wrap the models in a run's journal and budget; blocks.

        Args:
            at_once: tasks that are worked on at the same time.
            probe: whether a provider that is down raises an OutageError, for runs that can be resumed.

        Raises:
            ConfigError: a dollar budget meets a model without a price.
        """
        names = self.names
        policy = CallSettings(
            timeout=names.timeout,
            retries=names.retries,
            probe=probe,
            concurrency=names.requests_at_once or max(REQUESTS, at_once),
            together=names.requests_at_once is not None,
            requests_per_minute=names.requests_per_minute,
            tokens_per_minute=names.tokens_per_minute,
            structured=names.structured,
        )
        run_sync(recall_modes(journal))
        return MeteredModel(
            self.chats, named=self.named, journal=journal, ledger=ledger, policy=policy, prices=self.prices
        )


def load_models(
    names: Models,
    home: Path | None = None,
    given: Mapping[str, BaseChatModel] = FrozenMap(),
    teams: Iterable[FoundTeam] = (),
) -> LoadedModels:
    """Make the models of a spec, and its embedder; `auto` is hashing with the offline model.

    Args:
        given: ready models by name.
        teams: that are asked or evolved; looked at where the model of the agents cannot be made.

    Raises:
        ConfigError: a model or a file of prices cannot be used, or a base URL is given but no model uses it. Of the
            model that a saved team was evolved with it says how another is named.
    """
    refuse_useless_address(names)
    limits = {"max_tokens": names.max_tokens} if names.max_tokens else {}
    options: dict[str, Any] = {"timeout": names.timeout}
    if names.base_url:
        options["base_url"] = find_address(names.base_url)
    objects = {name: given[f"{name}={model}"] for name, model in names.named.items() if f"{name}={model}" in given}
    wanted = {*names.roles.values(), *(model for name, model in names.named.items() if name not in objects)}

    def make(name: str) -> BaseChatModel:
        with explain_model_of_team(name, names, teams):
            return make_chat_model(name, **limits, **({} if is_offline(name) else options))

    made = {name: given.get(name) or make(name) for name in wanted}
    chats = {role: made[name] for role, name in names.roles.items()}
    named = {name: objects.get(name) or made[model] for name, model in names.named.items()}
    prices = load_prices(names, home)
    embedder, notice = load_embedder("hashing" if names.embedder == "auto" and names.is_offline else names.embedder)
    notices = tuple(filter(None, (notice, _doubt_address(names.base_url))))
    return LoadedModels(names, chats, named, prices, embedder, notices)


@contextmanager
def explain_model_of_team(model: str, names: Models, teams: Iterable[FoundTeam]) -> Iterator[None]:
    """Say of a model that is refused inside which saved team was evolved with it, and how another is named.

    Args:
        model: one of `names`; only that of the agents is taken from a team.
        teams: that are asked or evolved; looked at where it is refused.

    Raises:
        ConfigError: it is refused.
    """
    try:
        yield
    except ConfigError as error:
        with suppress(LibraryError):  # a team that is not there is refused where it is loaded
            for team in teams:
                if team.saved and team.model == model == names.agent:
                    why = f": {error}" if is_model_name(model) else ""
                    raise ConfigError(
                        f"team {team.saved!r} was evolved with {_describe_model(model)}, which cannot be made here"
                        f"{why}; say which model answers, as in --model openai:gpt-4o-mini"
                    ) from error
        raise


def refuse_useless_address(names: Models) -> None:
    """Refuse a base URL that no model uses, or that is no address.

    Raises:
        ConfigError: it is one of these.
    """
    if names.base_url and names.calls_no_server:
        raise ConfigError(
            f"--base-url {names.base_url} is an address of models, and the offline model calls no server; give the "
            "model's name too, such as --model openai:NAME, or leave the address out"
        )
    if names.base_url is not None:
        _refuse_no_address(names.base_url)


def _refuse_no_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # of a port that is no number, or too high
        usable = False
    if not usable:
        raise ConfigError(f"--base-url {url!r} is no address of a server; write it as http://HOST:PORT/v1")


def load_prices(names: Models, home: Path | None) -> Prices:
    """Load the list prices: the shipped ones, overridden by the request's file or the home folder's.

    Raises:
        ConfigError: the file cannot be used.
    """
    return Prices.load(find_price_file(names, home))


def find_price_file(names: Models, home: Path | None) -> Path | None:
    """Find the user's file of prices, from the request or in the home folder; None if there is none."""
    own = home_folder(home) / PRICES
    return Path(names.prices) if names.prices else own if own.exists() else None


def _doubt_address(url: str | None) -> str:
    """Warn of an address without a path, as most servers answer below /v1; "" for other addresses."""
    if url is None or urlsplit(url).path.strip("/"):
        return ""
    return f"--base-url {url} has no path; most servers answer at {url.rstrip('/')}/v1"


@dataclass(frozen=True)
class SystemParts:
    """Model, tools, embedder and cap of calls per task that systems are made with."""

    model: MeteredModel
    toolbox: Toolbox
    embedder: Embedder
    calls: int | None

    def open(self, name: str, config: Mapping[str, Any]) -> tuple[Method[Any], Ctx[Any]]:
        """Make a method or a baseline, and its context.

        Raises:
            ConfigError: there is no system of this name, or a config field cannot be used.
        """
        is_baseline = name in BASELINES
        method = make_baseline(name, config, calls=self.calls) if is_baseline else make_method(name, config)
        return method, method.make_ctx(self.model, self.toolbox, self.embedder)

    def check(self, method: Method[Any], ctx: Ctx[Any], team: Team, what: str, way_out: str) -> None:
        """Check that a saved team can be asked with these parts.

        Args:
            what: the team in a message.
            way_out: the end of the message about a tool that is missing.

        Raises:
            ConfigError, LibraryError: its memory, a tool or a model cannot be used, or the source of its graph has
                changed.
        """
        refuse_unreadable_memory(method, ctx, team, what)
        if is_graph(team.method):
            method.adapt(team)
        refuse_missing_tools(team, self.toolbox, what, way_out)
        self.model.refuse_unnamed(team.agents)

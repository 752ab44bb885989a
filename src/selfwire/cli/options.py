"""Options that commands share."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from selfwire.core.errors import ConfigError
from selfwire.core.text import mask_secrets
from selfwire.core.usage import Budget
from selfwire.core.values import mask_controls
from selfwire.evals.judge import read_rubric
from selfwire.evals.readers import OwnData
from selfwire.evals.tasks import is_own_data, resolve_name
from selfwire.models.providers import parse_models
from selfwire.runs.comparison import USUAL
from selfwire.runs.evolution import HERE, TaskPlace
from selfwire.runs.inputs import (
    MODEL,
    OFFLINE,
    choose_team_name,
    find_saved_teams,
    find_shared_model,
    require_saved,
)
from selfwire.runs.record import CALLS_PER_TASK, CHANGEABLE_NAMES, ResumeChanges
from selfwire.runs.spec import EvolveSpec, Models, WorkerOptions
from selfwire.store.library import Library, open_library
from selfwire.tools.ready import MCP, absolute_names

T = TypeVar("T")

ARGUMENTS = ("method", "target", "targets")
"""Parameters of commands that are no options."""
OTHERWISE = {"config": "--set", "input_fields": "--input-field", "train_size": "--train"}
"""Options by parameter, where their names differ."""
OF_EVOLUTIONS = ("iterations", "batch", "gate_tasks", "train", "gate_size")
"""Parameters that only an evolution before the measuring uses."""
FITTED = "60, or what there are"
"""The default size of a split, as help shows it."""

Home = Annotated[
    str | None,
    typer.Option(
        envvar="SELFWIRE_HOME",
        show_default="./.selfwire",
        help="Folder of saved teams and runs; for saved teams also a postgres:// address.",
    ),
]
Ref = Annotated[
    str,
    typer.Argument(
        help="A saved team: name, name@version, team:name, a fingerprint (6 digits or more) or an exported .json file.",
        callback=require_saved,
    ),
]
ConfigFields = Annotated[
    list[str] | None,
    typer.Option("--set", help="Config field of the method, as name=value or outer.inner=value; may be given again."),
]
RouterName = Annotated[
    str | None,
    typer.Option(
        "--router", help="How HiVA routes: kabb, learned (after `train hiva`), or auto: learned where it was trained."
    ),
]
TeamName = Annotated[
    str | None,
    typer.Option(
        help="Name that the team is saved under; by default METHOD-BENCHMARK.",
        callback=lambda name: name and choose_team_name(name),
    ),
]
StartTeam = Annotated[
    str | None,
    typer.Option("--team", help="Saved team or .json file to start from, in place of the method's first team."),
]
Target = Annotated[
    str | None,
    typer.Argument(
        help="Method, baseline, or saved team (name, name@version, fingerprint, .json); "
        "team:NAME where a method is called NAME too."
    ),
]
Benchmark = Annotated[
    str | None,
    typer.Option(help="A benchmark by name; or tasks of yours: a file (JSONL, CSV, Parquet) or hf:owner/name."),
]
TrainSize = Annotated[int | None, typer.Option(help="Tasks to learn from.", show_default=FITTED)]
GateSize = Annotated[
    int | None, typer.Option(help="Tasks that decide which changes are accepted.", show_default=FITTED)
]
TestSize = Annotated[int | None, typer.Option(help="Tasks for the final test; not used before.", show_default=FITTED)]
Freeze = Annotated[
    list[str] | None,
    typer.Option(
        "--freeze",
        help="Leave a part of the team as it is: edges, prompts, tools, models, or agent:NAME; may be given again.",
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]
MOST_SEEDS = 1000
"""Runs of the same systems with other seeds that a command makes."""
Cap = Annotated[int | None, typer.Option(help="Most model calls for a task; baselines that vote use them all.")]
CallsSetAside = Annotated[
    int,
    typer.Option(help="With --budget-calls: calls reserved for each run of a task before it starts."),
]
Without = Annotated[
    list[str] | None, typer.Option(help="Switch off a part of the method; the names are those of `ablate`.")
]
Mcp = Annotated[
    Path | None,
    typer.Option("--mcp", help="JSON file with MCP servers, as mcpServers, whose tools agents may call too."),
]
BudgetCalls = Annotated[int | None, typer.Option(help="Stop after this many model calls.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Estimate the cost; run nothing.")]


def name_tools(tools: str | None, mcp: Path | None) -> str | None:
    """Name tools and a file of MCP servers as a request stores them; None for neither."""
    names = ",".join(filter(None, [tools, None if mcp is None else f"{MCP}{mcp}"]))
    return absolute_names(names) if names else None


def list_given_options(ctx: typer.Context) -> list[str]:
    """List the parameters that are on the command line, sorted."""
    return [
        name
        for name in sorted(ctx.params)
        if (source := ctx.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    ]


def to_option(name: str) -> str:
    """Spell a parameter as on the command line."""
    return OTHERWISE.get(name) or (name.upper() if name in ARGUMENTS else f"--{name.replace('_', '-')}")


def list_given_sizes(given: Mapping[str, Any], gate: bool = True) -> dict[str, int | None]:
    """List the sizes of splits by option, in the order of the splits; None for a size that is not given."""
    names = ("train_size" if "train_size" in given else "train", *(["gate_size"] if gate else []), "test")
    return {to_option(name): given[name] for name in names}


def tell(found: tuple[T, str]) -> T:
    """Return the first value; print the second, a note, unless it is empty."""
    thing, note = found
    if note:
        typer.echo(note, err=True)
    return thing


def refuse_unused(ctx: typer.Context, names: Collection[str], why: str) -> None:
    """Refuse options that would do nothing.

    Args:
        why: they do nothing here, and what to do.

    Raises:
        ConfigError: one of them is given.
    """
    if unused := [to_option(name) for name in list_given_options(ctx) if name in names]:
        raise ConfigError(f"{', '.join(unused)} would do nothing: {why}")


def with_library(home: str | None, act: Callable[[Library], Awaitable[T]]) -> T:
    """Open an existing library and do something with it.

    Raises:
        LibraryError: the library cannot be used, or `act` asks for what it does not hold.
    """

    async def opened() -> T:
        with await asyncio.to_thread(open_library, home, create=False) as library:
            return await act(library)

    return asyncio.run(opened())


def load_from_anywhere(benchmark: str) -> str:
    """Name a benchmark so that it is found from any folder: a file by its whole path, a data set by its commit."""
    return resolve_name(benchmark) if is_own_data(benchmark) else benchmark


def parse_config_fields(given: list[str], router: str | None = None) -> dict[str, Any]:
    """Parse config fields of a method from `name=value`; a dot leads into a nested field, as in `routing.k=3`.

    Args:
        router: the config field of that name where it has an option of its own.

    Raises:
        ConfigError: a text has no `=`, leads into a config field that has a value, or contradicts `--router`.
    """
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ConfigError(f"--set takes name=value, not {text!r}")
        place = found
        *path, last = name.split(".")
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set gives {part!r} a value and leads into it as well, in {text!r}; choose one")
        try:
            place[last] = json.loads(value)
        except json.JSONDecodeError:
            place[last] = value
    if router is not None and found.setdefault("router", router) != router:
        raise ConfigError(f"--router says {router}, and --set router={found['router']}; choose one")
    return found


@dataclass(frozen=True)
class ResumeOptions:
    """Options of a run that goes on."""

    resume: Annotated[
        str | None,
        typer.Option(
            help="Continue this run; only budgets, limits of requests and --structured may be others than before."
        ),
    ] = None
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume: ask again where a reply could not be used.")
    ] = False
    trust_run: Annotated[
        bool,
        typer.Option("--trust-run", help="With --resume: take code, addresses and files from a run that is not yours."),
    ] = False


@dataclass(frozen=True)
class SplitSizes:
    """Options of the sizes of the splits that an evolution has."""

    train: TrainSize = None
    gate_size: GateSize = None
    test: TestSize = None


@dataclass(frozen=True)
class MeasuredTasks:
    """Options of the tasks that systems are measured on."""

    tasks: Annotated[
        int | None,
        typer.Option(
            help=f"How many tasks; by default {', '.join(f'{usual} for {name}' for name, usual in USUAL.items())}, "
            "or all of your own tasks if they are fewer."
        ),
    ] = None
    split: Annotated[str, typer.Option(help="Tasks to measure on: train, val or test.")] = "test"
    seed: Seed = 0


@dataclass(frozen=True)
class MeasuringOptions:
    """Options of how answers to tasks are measured."""

    grading_timeout: Annotated[float, typer.Option(help="Most seconds for your own grader on one answer.")] = 60.0
    concurrency: Annotated[int, typer.Option(help="Tasks that are worked on at the same time.")] = 8
    max_errors: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Exit with code 1 if more tasks than this end as errors; by default if all tasks of a system do.",
        ),
    ] = None


@dataclass(frozen=True)
class ModelOptions:
    """Options of the models: which plays which role, and how they are reached."""

    model: Annotated[
        str | None,
        typer.Option(
            help="Model of the agents: offline, or provider:name such as openai:gpt-4o-mini.",
            show_default="that of a saved team, else of SELFWIRE_MODEL, else offline",
        ),
    ] = None
    meta_model: Annotated[
        str | None, typer.Option(help="Model of critics and evolvers; by default that of the agents.")
    ] = None
    judge_model: Annotated[str | None, typer.Option(help="Model of judges; by default that of the critics.")] = None
    models: Annotated[
        str | None,
        typer.Option(
            help="Models that agents may ask instead, by name: cheap=openai:gpt-4o-mini,strong=openai:gpt-4.1."
        ),
    ] = None
    base_url: Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")] = None
    timeout: Annotated[float, typer.Option(help="Seconds for one request.")] = 120.0
    retries: Annotated[int, typer.Option(help="How often a request is repeated after a passing error.")] = 5
    requests_at_once: Annotated[
        int | None,
        typer.Option(help="Most requests at the same time to a provider, of all workers together.", show_default="32"),
    ] = None
    requests_per_minute: Annotated[
        float | None, typer.Option(help="Most requests a minute to a provider, of all workers together.")
    ] = None
    tokens_per_minute: Annotated[
        int | None, typer.Option(help="Most tokens a minute to and from a provider, of all workers together.")
    ] = None
    structured: Annotated[
        str, typer.Option(help="How JSON replies are asked for: native, tool, json or prompt; auto finds out.")
    ] = "auto"
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens of one reply.", show_default="2048")] = None
    embedder: Annotated[
        str, typer.Option(help="Embeddings by: minilm, hashing, or auto: hashing offline, else minilm.")
    ] = "auto"
    prices: Annotated[
        Path | None, typer.Option(help='Prices as JSON: {"openai:x": {"input": $, "output": $}}, per million tokens.')
    ] = None

    def find_names(self, teams: Iterable[str | None], home: str | None, *, evolves: bool = False) -> Models:
        """Find the names for a request.

        Args:
            teams: that are asked, by name; the model of a saved one answers where none is given.
            evolves: whether the teams are to be evolved.

        Raises:
            ConfigError, LibraryError: a saved team cannot be used, or they were evolved with different models.
        """
        saved = find_saved_teams(teams, home, evolves=evolves) if self.model is None else ()
        return self.name_models(find_shared_model((team.model for team in saved), None))

    def name_models(self, known: str = "") -> Models:
        """Name the models for a request.

        Args:
            known: the model that a saved team was evolved with.
        """
        same = {name: value for name, value in vars(self).items() if name in Models.model_fields}
        agent = (known or os.environ.get(MODEL) or OFFLINE) if self.model is None else self.model
        roles = {"agent": agent, "meta": self.meta_model, "judge": self.judge_model}
        prices = None if self.prices is None else str(self.prices.resolve())
        return Models.model_validate({**same, **roles, "named": parse_models(self.models or ""), "prices": prices})


@dataclass(frozen=True)
class GradingOptions:
    """Options of the user's own tasks: their fields, their grader, and the tools of agents."""

    input_fields: Annotated[
        list[str] | None,
        typer.Option(
            "--input-field",
            help="Of your own tasks: field with the question, else guessed; give it again to join several.",
        ),
    ] = None
    reference_field: Annotated[
        str | None, typer.Option(help="Of your own tasks: field with the reference, else guessed.")
    ] = None
    data_split: Annotated[
        str | None, typer.Option(help="Of a data set hf:...: the split that tasks are taken from.")
    ] = None
    grader: Annotated[
        str, typer.Option(help="For your own tasks: a named grader, judge, module:function or file.py:function.")
    ] = "exact"
    rubric: Annotated[
        str | None, typer.Option(help="With --grader judge: what a good answer is, as text or an .md file.")
    ] = None
    tools: Annotated[
        str | None,
        typer.Option(help="For your own tasks: calculator, convert_units, algebra, python, sql:FILE, module:x."),
    ] = None
    mcp: Mcp = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields for a request."""
        return {
            "grader": self.grader,
            "rubric": None if self.rubric is None else read_rubric(self.rubric),
            "tools": name_tools(self.tools, self.mcp),
            "own_data": OwnData(
                input_fields=tuple(self.input_fields or ()),
                reference_field=self.reference_field,
                split=self.data_split,
            ),
        }


@dataclass(frozen=True)
class ResultOptions:
    """Options of where results go, unless only the cost is estimated."""

    langsmith: Annotated[
        bool,
        typer.Option("--langsmith", help="Upload dataset, experiments and traces to LangSmith (LANGSMITH_API_KEY)."),
    ] = False
    upload_references: Annotated[
        bool, typer.Option("--upload-references", help="With --langsmith: upload the references too.")
    ] = False
    dry_run: DryRun = False
    out: Annotated[Path | None, typer.Option(help="File of results (JSONL); by default in the run's folder.")] = None

    @property
    def langsmith_setting(self) -> str:
        """The uploads to LangSmith, for a spec.

        Raises:
            ConfigError: references are to be uploaded, and nothing else is.
        """
        if self.upload_references and not self.langsmith:
            raise ConfigError("--upload-references says what --langsmith uploads; give both, or neither")
        return "references" if self.upload_references else "questions" if self.langsmith else "off"


@dataclass(frozen=True)
class WorkerChoice:
    """Options of the workers: how many there are, and where."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes, or tasks of a cluster at once; results do not depend on them.",
            show_default="1 or 2 processes, or the cluster's processors",
        ),
    ] = None
    executor: Annotated[
        str, typer.Option(help="Where workers run: process, on this machine, or ray, on a cluster (selfwire[ray]).")
    ] = "process"
    ray_address: Annotated[
        str, typer.Option(envvar="RAY_ADDRESS", help="With --executor ray: address of a running cluster.")
    ] = ""

    @property
    def options(self) -> WorkerOptions:
        """The options for jobs.

        Raises:
            ConfigError: there is no such executor, or no address of a cluster.
        """
        if self.executor not in ("process", "ray"):
            raise ConfigError(f"there is no executor {self.executor!r}; give process or ray")
        if self.executor == "ray" and not self.ray_address:
            raise ConfigError(
                "--executor ray needs a running cluster: start one with `ray start --head`, and give --ray-address or "
                "set RAY_ADDRESS"
            )
        return WorkerOptions.model_validate(vars(self))

    def choose_place(self, new: EvolveSpec | None = None, *, retry_failed: bool = False) -> TaskPlace:
        """This process, or workers where there are several.

        Args:
            new: the request of a run that is to begin.

        Raises:
            ConfigError: the new run cannot be shared by the workers of a cluster.
        """
        if self.options.is_local:
            return HERE
        from selfwire.extras.cluster.evolution_workers import Workers
        from selfwire.extras.cluster.worker_budgets import refuse_unusable_cluster

        if new is not None:
            refuse_unusable_cluster(new, self.options)
        return Workers(self.options, retry_failed=retry_failed)


Group = TypeVar("Group")


def select_group(group: type[Group], given: Mapping[str, Any]) -> Group:
    """Make a group of the parameters of a command."""
    return group(**{name: given[name] for name in signature(group).parameters})


LIMITS = {"calls": "budget_calls", "tokens": "budget_tokens", "dollars": "budget_usd", "seconds": "budget_seconds"}
"""Parameter of the command by limit of a budget."""

BESIDE = (
    "resume", "retry_failed", "trust_run", "home", "workers", "executor", "ray_address", "markdown", "max_errors",
    "as_json", "details",
)  # fmt: skip
"""Options that a run does not remember, as its results do not depend on them."""
NAMED_ANEW = ("base_url", "grader", "tools", "mcp")
"""Options that a run remembers, and that may be given again, as consent to those of a run that is not the user's."""


@dataclass(frozen=True)
class BudgetOptions:
    """Options of a budget."""

    budget_calls: BudgetCalls = None
    budget_tokens: Annotated[int | None, typer.Option(help="Stop after this many tokens.")] = None
    budget_usd: Annotated[float | None, typer.Option(help="Stop after this many US dollars.")] = None
    budget_seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None

    @property
    def budget(self) -> Budget:
        """The budget for a request."""
        return make_budget({limit: getattr(self, name) for limit, name in LIMITS.items()})


def make_budget(limits: Mapping[str, Any]) -> Budget:
    """Make a budget of limits by name; None for no limit.

    Raises:
        ConfigError: a limit is 0, which allows no call.
    """
    budget = Budget.model_validate(limits)
    if nothing := budget.find_zero():
        raise ConfigError(
            f"{to_option(LIMITS[nothing])} 0 allows no call; give more, or leave it out for no limit "
            "(--dry-run estimates what a run costs)"
        )
    return budget


def parse_changes(ctx: typer.Context) -> ResumeChanges:
    """Parse the options that --resume accepts.

    Raises:
        ConfigError: another option is given, which the run remembers.
    """
    given = [name for name in list_given_options(ctx) if name not in (*BESIDE, *NAMED_ANEW)]
    shares = [CALLS_PER_TASK] if ctx.info_name in ("evolve", "train") else []
    changeable = (*LIMITS.values(), *sorted(CHANGEABLE_NAMES), *shares)
    if others := [name for name in given if name not in changeable]:
        raise ConfigError(
            f"--resume remembers its options, so {', '.join(map(to_option, others))} cannot be given beside it; "
            f"only {', '.join(map(to_option, changeable))} can"
        )
    limits = {limit: ctx.params[name] for limit, name in LIMITS.items() if name in given}
    make_budget(limits)
    models = {name: ctx.params[name] for name in CHANGEABLE_NAMES.intersection(given)}
    return ResumeChanges(
        limits,
        models,
        ctx.params["retry_failed"],
        named=_list_named_anew(ctx),
        trusted=ctx.params["trust_run"],
        ask=ask_on_terminal,
        calls_per_task=ctx.params[CALLS_PER_TASK] if CALLS_PER_TASK in given else None,
    )


def _list_named_anew(ctx: typer.Context) -> dict[str, str]:
    """List the options that are given as consent, as a request stores them."""
    named: dict[str, Any] = {name: ctx.params[name] for name in NAMED_ANEW if name in list_given_options(ctx)}
    if tools := name_tools(named.get("tools"), named.pop("mcp", None)):
        named["tools"] = tools
    if "base_url" in named:
        named["base_url"] = Models(base_url=named["base_url"]).base_url
    return named


def has_terminal() -> bool:
    """Whether a person can be asked here."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_on_terminal(question: str) -> bool:
    """Ask the user, who answers no by default; False at once where there is no terminal."""
    if not has_terminal():
        return False
    return typer.confirm(mask_controls(mask_secrets(question)), default=False, err=True)


def refuse_without_resume(ctx: typer.Context) -> None:
    """Refuse options that only a resumed run uses.

    Raises:
        ConfigError: it is given.
    """
    refuse_unused(ctx, ["retry_failed"], "a new run has no replies on record; give --resume RUN too")
    refuse_unused(ctx, ["trust_run"], "a new run is yours; give --resume RUN too")

"""Options and arguments that several commands share, and how commands reach the library."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from selfwire.core.errors import ConfigError
from selfwire.evals.own_data.tasks import is_own_data, resolve_name
from selfwire.runs.targets import require_saved
from selfwire.runtime.workflow_library import WorkflowLibrary, open_library

T = TypeVar("T")

ARGUMENTS = ("method", "target", "targets")
"""Parameters of commands that are no options."""
OTHERWISE = {"config": "--set", "input_fields": "--input-field", "train_size": "--train"}
"""Options by parameter, where they are not called alike."""
OF_EVOLUTIONS = ("iterations", "batch", "gate_tasks", "train", "gate_size")
"""Parameters that only an evolution before the measuring heeds."""
FITTED = "60, or what there are"
"""The default size of a split, for people."""
USUAL = {"eval": 100, "compare": 60}
"""Tasks by command, where their number is not given."""

Home = Annotated[
    str | None,
    typer.Option(
        envvar="SELFWIRE_HOME",
        show_default="./.selfwire",
        help="Folder of saved workflows and runs; for saved workflows also a postgres:// address.",
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
Resume = Annotated[
    str | None,
    typer.Option(help="Continue this run; only budgets, limits per minute and --structured may be others than before."),
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="With --resume: ask again where a reply could not be used.")
]
TrainSize = Annotated[int | None, typer.Option(help="Tasks to learn from.", show_default=FITTED)]
GateSize = Annotated[
    int | None, typer.Option(help="Tasks that decide which changes are accepted.", show_default=FITTED)
]
TestSize = Annotated[int | None, typer.Option(help="Tasks for the final test; not used before.", show_default=FITTED)]
Tasks = Annotated[
    int | None,
    typer.Option(
        help=f"How many tasks; by default {', '.join(f'{usual} for {command}' for command, usual in USUAL.items())}, "
        "or all of your own tasks if they are fewer."
    ),
]
Split = Annotated[str, typer.Option(help="Tasks to measure on: train, val or test.")]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]
Cap = Annotated[int | None, typer.Option(help="Most model calls for a task; baselines that vote use them all.")]
CallsSetAside = Annotated[
    int,
    typer.Option(help="With --budget-calls: calls reserved for each run of a task before it starts."),
]
Without = Annotated[
    list[str] | None, typer.Option(help="Switch off a part of the method; the names are those of `ablate`.")
]
BaseUrl = Annotated[str | None, typer.Option(help="Address of an OpenAI-compatible server.")]
EmbedderName = Annotated[
    str, typer.Option(help="Embeddings by: minilm, hashing, or auto: hashing offline, else minilm.")
]
Rubric = Annotated[str | None, typer.Option(help="With --grader judge: what a good answer is, as text or an .md file.")]
Tools = Annotated[
    str | None,
    typer.Option(help="For your own tasks: calculator, convert_units, algebra, python, sql:FILE, module:x."),
]
InputFields = Annotated[
    list[str] | None,
    typer.Option(
        "--input-field", help="Of your own tasks: field with the question, else guessed; give it again to join several."
    ),
]
ReferenceField = Annotated[str | None, typer.Option(help="Of your own tasks: field with the reference, else guessed.")]
DataSplit = Annotated[str | None, typer.Option(help="Of a data set hf:...: the split that tasks are taken from.")]
GradingTimeout = Annotated[float, typer.Option(help="Most seconds for your own grader on one answer.")]
Concurrency = Annotated[int, typer.Option(help="Tasks that are worked on at the same time.")]
BudgetCalls = Annotated[int | None, typer.Option(help="Stop after this many model calls.")]
MaxErrors = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Exit with code 1 if more tasks than this end as errors; by default if all tasks of a system do.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Estimate the cost; run nothing.")]


def list_given_options(ctx: typer.Context) -> list[str]:
    """Names of the parameters that stand on the command line, sorted."""
    return [
        name
        for name in sorted(ctx.params)
        if (source := ctx.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"
    ]


def to_option(name: str) -> str:
    """A parameter as it is typed."""
    return OTHERWISE.get(name) or (name.upper() if name in ARGUMENTS else f"--{name.replace('_', '-')}")


def list_sizes(given: Mapping[str, Any], gate: bool = True) -> dict[str, int | None]:
    """Sizes of splits by option, in the order of the splits; None for one that is not given."""
    names = ("train_size" if "train_size" in given else "train", *(["gate_size"] if gate else []), "test")
    return {to_option(name): given[name] for name in names}


def tell(found: tuple[T, str]) -> T:
    """The first; the second is told to the user, unless it is empty."""
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


def with_library(home: str | None, act: Callable[[WorkflowLibrary], Awaitable[T]]) -> T:
    """Open the library that is there, without making one, and do something with it.

    Raises:
        LibraryError: the library cannot be used, or `act` asks for what it does not hold.
    """

    async def opened() -> T:
        with await asyncio.to_thread(open_library, home, create=False) as library:
            return await act(library)

    return asyncio.run(opened())


def load_from_anywhere(benchmark: str) -> str:
    """A benchmark as a run can find it again from any folder: a file by its whole path, a data set by its commit."""
    return resolve_name(benchmark) if is_own_data(benchmark) else benchmark


def to_local_folder(home: str | None) -> Path | None:
    """The home as a folder, which runs need.

    Raises:
        ConfigError: it is an address.
    """
    if home and "://" in home:
        raise ConfigError(f"runs lie in a folder, not at {home.partition('://')[0]}://; name a folder with --home")
    return Path(home) if home else None


def parse_config_fields(given: list[str], router: str | None = None) -> dict[str, Any]:
    """Config fields of a method from `name=value` texts; a dot leads into a nested one, as in `routing.k=3`.

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

"""The command that measures several systems on the same tasks: compare."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from selfwire.cli import options
from selfwire.cli.evaluate import parse_entry, run_command
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import CONTESTANTS, method_names
from selfwire.core.values import to_plain_json
from selfwire.evals.baselines import ANSWERS, BASELINES
from selfwire.graphs.method import find_method
from selfwire.runs.inputs import GROUPS
from selfwire.runs.spec import PreEvolutionSpec, SystemSpec
from selfwire.runs.votes import ONE, list_lone, refuse_names_of_votes

METHODS = tuple(name for name in method_names() if name not in CONTESTANTS)
AT_CAP = {"direct-at-cap": "direct", "cot-at-cap": "cot"}
"""Systems that ask a baseline of one call as often as the cap allows, and vote."""
ALL = dict(zip(GROUPS, (METHODS, (*BASELINES, *AT_CAP), (*METHODS, *BASELINES, *AT_CAP)), strict=True))
REFERENCE = "single"
"""The default for --against: one agent with the same tools and calls."""
CALLS = 200
"""The default cap of calls for a task, which cuts no method short."""
VOTERS = ("single", "cot", "direct")
"""Baselines whose votes can be asked for."""
LEARN = "learning"
"""Word for the methods that learn between runs."""
DEFAULTS = PreEvolutionSpec(names=("none",))

Targets = Annotated[
    list[str] | None,
    typer.Argument(help="Methods, baselines, saved teams; or all, methods, baselines; NAME=TARGET gives one a name."),
]
Cap = Annotated[
    int | None,
    typer.Option(
        help=f"Most model calls for a task, for every system. {REFERENCE} votes on {ANSWERS} answers below it (--set "
        f"{REFERENCE}.samples=N), {' and '.join(AT_CAP)} on as many as it allows."
    ),
]


@dataclass(frozen=True)
class Evolutions:
    """Options of the systems that are evolved first, and of the sizes of their evolutions."""

    evolve: Annotated[
        list[str] | None,
        typer.Option(
            help="A system to evolve first; may be repeated; none, all, or learning: those that learn between runs.",
            show_default=LEARN,
        ),
    ] = None
    iterations: Annotated[int, typer.Option(help="Iterations of an evolution.")] = DEFAULTS.iterations
    batch: Annotated[int, typer.Option(help="Train tasks per iteration.")] = DEFAULTS.batch
    gate: Annotated[str, typer.Option(help="What a change has to show, as in evolve.")] = DEFAULTS.gate
    gate_tasks: Annotated[int, typer.Option(help="Gate tasks per look of a proof, and per comparison of mean.")] = (
        DEFAULTS.gate_tasks
    )
    train: options.TrainSize = None
    gate_size: options.GateSize = None

    def among(self, entries: tuple[SystemSpec, ...]) -> PreEvolutionSpec | None:
        """The systems that are evolved first; None for none."""
        methods = [entry for entry in entries if entry.target in method_names()]
        words = {
            LEARN: [entry.name for entry in methods if find_method(entry.target).evolves],
            "all": [entry.name for entry in methods],
            "none": [],
        }
        names = [name for word in self.evolve or [LEARN] for name in words.get(word, [word])]
        if not names:
            return None
        return PreEvolutionSpec.model_validate(
            {
                "names": tuple(dict.fromkeys(names)),
                **{name: getattr(self, name) for name in ("iterations", "batch", "gate", "gate_tasks")},
            }
        )


def compare(
    ctx: typer.Context,
    *,
    targets: Targets = None,
    benchmark: options.Benchmark = None,
    resuming: options.ResumeOptions,
    against: Annotated[
        str, typer.Option(help="System that the others are compared with; by default single, else the first.")
    ] = "",
    tasks: options.MeasuredTasks,
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            max=options.MOST_SEEDS,
            help="Comparisons with seeds from --seed on, each with evolutions and tasks of its own, and the table over "
            "all of them; the same command goes on with what is unfinished.",
        ),
    ] = 1,
    calls_per_task: Cap = CALLS,
    votes: Annotated[
        str | None,
        typer.Option(
            help=f"Measure votes too, beside each system as many answers as cost what its answers cost: of "
            f"{', '.join(VOTERS)}."
        ),
    ] = None,
    evolutions: Evolutions,
    without: Annotated[list[str] | None, typer.Option(help="Switch a part off, as NAME.part.")] = None,
    config: options.ConfigFields = None,
    models: options.ModelOptions,
    grading: options.GradingOptions,
    measuring: options.MeasuringOptions,
    workers: options.WorkerChoice,
    limits: options.BudgetOptions,
    results: options.ResultOptions,
    markdown: Annotated[Path | None, typer.Option(help="Write the table to this file as Markdown too.")] = None,
    home: options.Home = None,
) -> None:
    """Measure several systems on the same tasks, under the same cap of calls, in one table.

    Methods that learn between runs are evolved first, on other tasks, and the table says what that has cost.
    `selfwire compare all --benchmark archive` is all methods beside all baselines. With --votes a second table has each
    system beside the best of as many answers as its price pays for, and the same command goes on where it stopped.

    Config fields and parts are those of a system: --set hiva.routing.k=3, --without tacomas.capability.
    """
    if resuming.resume is not None:
        run_command(ctx, (), "compare")
        return
    if not targets or benchmark is None:
        raise ConfigError(
            "compare needs systems and --benchmark, such as `selfwire compare hiva single --benchmark archive`"
        )
    entries = parse_systems(targets, options.parse_config_fields(config or []), without or [])
    evolving = evolutions.among(entries)
    if evolving is None:
        options.refuse_unused(ctx, options.OF_EVOLUTIONS, "nobody is evolved first; name whom with --evolve")
    against = against or next((entry.name for entry in entries if entry.name == REFERENCE), "")
    refuse_names_of_votes(entry.name for entry in entries)
    if votes is not None:
        if votes not in VOTERS:
            raise ConfigError(f"--votes names a baseline whose answers vote, {', '.join(VOTERS)}, and not {votes!r}")
        voter = SystemSpec(name=ONE, target=votes, config={"samples": 1})
        if len(list_lone(entries)) == len(entries):
            raise ConfigError("--votes are beside systems that are not one agent which votes itself; name one")
        entries = (*entries, voter)
    run_command(ctx, entries, "compare", seeds=seeds, votes=votes is not None, against=against, evolving=evolving)


def parse_systems(targets: list[str], config: Mapping[str, Any], without: list[str]) -> tuple[SystemSpec, ...]:
    """List the entries of names, and of words for several systems; each entry once.

    Raises:
        ConfigError: a config field or a part belongs to no system.
    """
    named = dict.fromkeys(name for target in targets for name in ALL.get(target, (target,)))
    parts: dict[str, list[str]] = {}
    for given in without:
        who, _, part = given.partition(".")
        parts.setdefault(who, []).append(part)
    found = []
    for target in named:
        name = parse_entry(target, {}, []).name
        own = config.get(name, {})
        if not isinstance(own, Mapping):
            raise ConfigError(f"--set names a system and its field, as {name}.field=value")
        fields = to_plain_json(own)
        if known := AT_CAP.get(target):
            target, fields = f"{target}={known}", {"samples": None, **fields}
        elif parse_entry(target, {}, []).target == REFERENCE:
            fields = {"samples": ANSWERS, **fields}
        found.append(parse_entry(target, fields, parts.get(name, [])))
    names = {entry.name for entry in found}
    if strangers := sorted({*config, *parts} - names):
        raise ConfigError(
            f"--set and --without say whose config field or part is meant, and {strangers[0]!r} does not take part; "
            f"systems are {', '.join(sorted(names))}, as in --set {min(names)}.field=value"
        )
    return tuple(found)

"""Systems that answer questions: methods, baselines, saved teams, the trivial one."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError, JournalError, TaskBudgetError
from selfwire.core.plugins import is_graph, method_names
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import CUT, Trajectory
from selfwire.core.usage import Usage
from selfwire.core.values import (
    FrozenMap,
    FrozenModel,
    format_object,
    replace_surrogates,
    to_plain_json,
)
from selfwire.evals.baselines import BASELINES, make_baseline
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule
from selfwire.evals.table import CAPPED, TRIVIAL, SystemInfo
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method, find_method, make_method
from selfwire.graphs.rollouts import RolloutFn
from selfwire.runs.inputs import (
    SystemParts,
    choose_team_name,
    describe_lending,
    describe_other_model,
    find_kind,
    load_saved,
    load_to_ask,
    make_seed,
)
from selfwire.runs.record import GRAPHS
from selfwire.runs.spec import SystemSpec, require_names
from selfwire.store.files import encode_blob, find_blob, find_blob_references, load_blob
from selfwire.store.journal import Journal
from selfwire.store.journal_file import JournalReader
from selfwire.store.library import Library, Version, open_library

PREFIX = "no-"
"""Prefix of the names of variants that switch a part off."""


class LoadedTeam(FrozenModel):
    """A system's team and its origin.

    Args:
        learned: whether it was evolved on graded tasks.
        evolution: the cost of its evolution; None without one, or where it is not known.
        run: that evolved it; "" if none did.
        version: its reference in the library, `name@run.step`; "" for a seed or a file.
        model: of the agents when it was evolved; "" where that is not known.
        tools: names of those that it was evolved with, for --tools; "" where they are not known.
    """

    workflow: Team
    learned: bool = False
    evolution: Usage | None = None
    run: str = ""
    version: str = ""
    model: str = ""
    tools: str = ""


@dataclass(frozen=True)
class MeasuredSystem:
    """A system that can answer questions.

    Attributes:
        rollout_fn: puts a question to the team, with `ctx` at the question's place.
    """

    info: SystemInfo
    workflow: Team
    rollout_fn: RolloutFn
    ctx: Ctx[Any]

    @property
    def name(self) -> str:
        """The name in tables, rows and the journal."""
        return self.info.name


def switch_off(method: str, parts: Sequence[str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Make config fields that switch parts of a method off (`tev` or `no-tev`); fields set by hand win.

    Raises:
        ConfigError: the method has no such part.
    """
    known = find_method(method).variants if method in method_names() else {}
    found: dict[str, Any] = {}
    for part in parts:
        name = part if part in known else f"{PREFIX}{part}"
        if name not in known or not known[name].config:
            there = ", ".join(name.removeprefix(PREFIX) for name, variant in known.items() if variant.config)
            raise ConfigError(f"{method} has no part {part!r} to do without; it has {there or 'none'}")
        found = merge_configs(found, to_plain_json(known[name].config))
    return merge_configs(found, config)


def merge_configs(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay nested fields over others."""
    both = [name for name in over if isinstance(over[name], Mapping) and isinstance(under.get(name), Mapping)]
    return {**under, **over, **{name: merge_configs(under[name], over[name]) for name in both}}


def make_seed_team(name: str) -> Team:
    """Make the initial team of a method or a baseline, without tools.

    Raises:
        ConfigError: there is neither of this name.
    """
    if is_graph(name):
        raise ConfigError(f"{name!r} is a graph of your own, not a team; measure it with selfwire.evaluate or compare")
    return (make_baseline(name) if name in BASELINES else make_method(name)).make_seed()


async def load_team(ref: str | Path, home: str | Path | None) -> Team:
    """Load a saved team or an exported file; for the name of a method or a baseline its first team.

    Raises:
        LibraryError: there is none.
        ConfigError: it is neither a name nor a file.
    """
    if not isinstance(ref, str | Path):
        raise ConfigError(f"a team is loaded by its name or from a file, not by {format_object(ref)}")
    if find_kind(str(ref)):
        return await asyncio.to_thread(make_seed_team, str(ref))
    with await asyncio.to_thread(open_library, home, create=False) as library:
        return (await load_saved(str(ref), library))[0]


async def save_team(team: Team, name: str, note: str, home: str | Path | None) -> Version:
    """Save a team as the newest version of a name.

    Raises:
        ConfigError: it is no team, or the name is none that a team can have, or means something else.
    """
    if not isinstance(team, Team):
        raise ConfigError(f"a Team is saved, not {format_object(team)}; selfwire.load makes one of a name or a file")
    name = choose_team_name(name)
    require_names("a team", [name])
    facts = {"method": team.method, **({"why": replace_surrogates(note)} if note else {})}
    with await asyncio.to_thread(open_library, home) as library:
        return await library.save(name, team, run=f"saved-{secrets.token_hex(4)}", step=0, facts=facts)


async def load_system_team(
    entry: SystemSpec,
    parts: SystemParts,
    bench: Benchmark,
    library: Library,
    teams: Mapping[str, Team] = FrozenMap(),
) -> LoadedTeam:
    """Load the team of an entry: the seed of a method or baseline, or a saved team.

    Args:
        teams: that are given, by target.

    Raises:
        ConfigError, LibraryError: there is none, it belongs to no method, it is of a graph that has changed since, or
            it holds tools that the benchmark lacks.
    """
    if find_kind(entry.target):
        method, ctx = parts.open(entry.target, entry.config)
        is_own = entry.target in method_names()
        return LoadedTeam(workflow=make_seed(method, ctx, bench) if is_own else method.make_seed(bench.tools))
    if team := teams.get(entry.target):
        saved = LoadedTeam(workflow=team, learned=team.lineage.parent is not None)
    else:
        saved = await _saved(entry.target, library)
    method, ctx = parts.open(saved.workflow.method, entry.config)
    advice = f", which {bench.name} lacks; {describe_lending(saved.tools)}"
    parts.check(method, ctx, saved.workflow, f"team {entry.target!r}", advice)
    return saved


async def _saved(ref: str, library: Library) -> LoadedTeam:
    team, version = await load_to_ask(ref, library)
    if version is None:
        return LoadedTeam(workflow=team, learned=team.lineage.parent is not None)
    spend = version.facts.get("spend")
    return LoadedTeam(
        workflow=team,
        learned=version.step > 0 or team.lineage.parent is not None,
        evolution=Usage.model_validate(spend) if spend else None,
        run=version.run,
        version=version.ref,
        model=str(version.facts.get("model", "")),
        tools=str(version.facts.get("tools", "")),
    )


def describe_origin(entry: SystemSpec, loaded: LoadedTeam, model: str, *, evolves: bool) -> str:
    """Describe the team under an entry's name: a seed, a baseline, or a saved version.

    Args:
        model: that plays the agents.
        evolves: whether it is evolved first.
    """
    kind, print_of = find_kind(entry.target), loaded.workflow.fingerprint
    if kind == "method":
        if evolves and loaded.learned:
            return f"{entry.name}: method {entry.target}, its team {print_of}, which this run has evolved"
        return f"{entry.name}: method {entry.target}, its seed team {print_of}{', evolved first' if evolves else ''}"
    if kind:
        return f"{entry.name}: {kind} {entry.target}"
    saved = f"{entry.name}: saved team {loaded.version or entry.target} of method {loaded.workflow.method} ({print_of})"
    return saved + ("" if is_graph(loaded.workflow.method) else describe_other_model(loaded.model, model))


def make_system(entry: SystemSpec, loaded: LoadedTeam, parts: SystemParts) -> MeasuredSystem:
    """Make a system from its entry and its team, run by the team's own method."""
    team = loaded.workflow
    labelled = parts.model.with_labels(method=team.method, workflow=team.fingerprint)
    method, ctx = replace(parts, model=labelled).open(team.method, entry.config)
    info = SystemInfo(
        name=entry.name,
        target=entry.target,
        method=team.method,
        workflow=team.fingerprint,
        config=entry.config,
        learned=loaded.learned,
        evolution=loaded.evolution,
        version=loaded.version,
    )
    return MeasuredSystem(info, team, _capped(method), ctx)


def make_trivial_system(rule: TrivialRule, parts: SystemParts) -> MeasuredSystem:
    """Make the benchmark's trivial baseline: a rule, which needs no team and no call."""

    async def rollout_fn(team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
        await asyncio.sleep(0)  # it never waits, and others have their turn
        return Trajectory(question=question, workflow="", answer=rule.answer(question.input))

    info = SystemInfo(name=TRIVIAL, target=rule.name, method="", workflow="")
    single, ctx = parts.open("single", {})
    return MeasuredSystem(info, single.seed(), rollout_fn, ctx)


def _capped(method: Method[Any]) -> RolloutFn:
    """Answer each question once; a task whose calls run out before there is an answer is no infrastructure error.

    A method that works in rounds or stages gives the answer of those that it has finished by then.
    """

    async def rollout_fn(team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
        try:
            return await method.ask(team, question, ctx)
        except TaskBudgetError as error:
            if done := error.partial_result:
                return done.replace(notes={**done.notes, CUT: True})
            blank = Trajectory(question=question, workflow=team.fingerprint, notes={CAPPED: True})
            return blank.as_failed(str(error))

    return rollout_fn


TEAM_DIGESTS = "workflows"
"""Name of the note that holds every system's team, as hashes by name."""


async def note_teams(journal: Journal, teams: Mapping[str, LoadedTeam]) -> None:
    """Note the systems' teams, with the bytes to which they refer, and the graphs that they name."""
    for loaded in teams.values():
        await note_blobs(journal, loaded.workflow)
    bodies = {name: await journal.put_body(loaded.model_dump(mode="json")) for name, loaded in teams.items()}
    await journal.put_note(TEAM_DIGESTS, bodies)
    methods = {loaded.workflow.method for loaded in teams.values()}
    await journal.put_note(GRAPHS, sorted(filter(is_graph, methods)))


def load_noted_teams(journal: JournalReader) -> dict[str, LoadedTeam]:
    """Load the systems' noted teams, with the bytes to which they refer.

    Raises:
        JournalError: there are none, the bytes have been changed, or teams name other graphs than the run.
    """
    bodies = journal.note(TEAM_DIGESTS)
    if bodies is None:
        raise JournalError(f"run {journal.run!r} ended before it had begun; start a new run")
    teams = {name: journal.body(body, LoadedTeam.model_validate) for name, body in bodies.items()}
    methods, noted = sorted({loaded.workflow.method for loaded in teams.values()}), journal.note(GRAPHS) or []
    graphs = noted if isinstance(noted, list) else [noted]
    if graphs != [name for name in methods if is_graph(name) or name in graphs]:  # a value's name is no graph elsewhere
        raise JournalError(f"the teams of run {journal.run!r} have been changed; start a new run")
    for loaded in teams.values():
        load_noted_blobs(journal, loaded.workflow)
    return teams


BLOBS = "blobs"
"""Notes are called blobs/<reference>."""


async def note_blobs(journal: Journal, team: Team) -> None:
    """Keep the bytes that this process has."""
    for reference in find_blob_references(team.memory):
        note = f"{BLOBS}/{reference}"
        if find_blob(reference) is not None and await journal.get_note(note) is None:
            await journal.put_note(note, await journal.put_body(encode_blob(reference)))


def load_noted_blobs(journal: JournalReader, team: Team) -> None:
    """Give this process the bytes that it lacks.

    Raises:
        JournalError: they have been changed.
    """
    for reference in find_blob_references(team.memory):
        digest = journal.note(f"{BLOBS}/{reference}")
        if digest is not None and find_blob(reference) is None:
            journal.body(digest, partial(load_blob, reference))

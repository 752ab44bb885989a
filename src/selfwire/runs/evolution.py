"""Evolutions: validated, started, resumed and executed."""

import asyncio
import shlex
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, NoReturn

from langgraph.checkpoint.base import BaseCheckpointSaver

from selfwire.core.errors import ConfigError, GradingError
from selfwire.core.plugins import is_graph, load_plugin, method_names
from selfwire.core.scope import Scope
from selfwire.core.task import Question, Splits, Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import GIVE_PRICE, Usage
from selfwire.core.values import format_count
from selfwire.evals.baselines import Single, add_votes, merge_samples
from selfwire.evals.benchmarks.benchmark import Benchmark
from selfwire.evals.instructions import paraphrases
from selfwire.evals.table import (
    CALLS,
    DECISIONS,
    DOLLARS,
    ERRORS,
    MEAN_SCORE,
    SOLVED,
    TOKENS,
    TRIVIAL,
    Column,
    SystemSummary,
    build_table,
    summarise_trajectories,
)
from selfwire.evolvers.gate import EvidenceRule
from selfwire.extras.cluster.shards import merge_leftover_shards
from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.graphs.evolve import (
    ELAPSED,
    Event,
    EvolutionConfig,
    EvolutionLoop,
    EvolutionState,
    count_groups,
    deal_questions,
    find_question,
    refuse_other_code,
    run_evolution,
)
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method, find_method, installed_methods, make_method, parse_config
from selfwire.graphs.own_graph import OwnGraph
from selfwire.graphs.rollouts import (
    RolloutRunner,
    collect_rollouts,
    get_trajectories_note,
    grade_answer,
    load_graded,
    run_rollout,
    stream_rollouts,
)
from selfwire.models.budget import Ledger, Prices
from selfwire.models.metered_chat import MeteredModel, list_unusable_replies
from selfwire.models.sync import run_sync
from selfwire.runs.inputs import (
    CallOptions,
    Given,
    TaskSets,
    Teamlike,
    choose_graph_method,
    choose_team_name,
    describe_lending,
    find_kind,
    find_team,
    find_teams_of,
    load_models,
    make_seed,
    refuse_other_method,
    refuse_unreadable_memory,
    require_saved,
    to_team_reference,
)
from selfwire.runs.record import (
    CHECKPOINTS,
    JOURNAL,
    ContaminatedTasks,
    ResumeChanges,
    RunPlan,
    find_contaminated_tasks,
    get_run_folder,
    get_runs_folder,
    list_run_names,
    load_request,
    make_run_name,
    note_status,
    open_in_thread,
    refuse_changed_request,
    refuse_foreign_run,
    refuse_other_part,
    shorten_method,
    shorten_name,
    track_status,
    with_changes,
)
from selfwire.runs.results import EVOLVED, SEED_TEAM, SEED_VOTES, SINGLE, Evolution, describe_pruning
from selfwire.runs.spec import EvolveSpec, GivenSizes, Models, Sizes, fit_sizes, list_sizes, make_sizes
from selfwire.runs.systems import load_noted_blobs
from selfwire.store.journal import Journal
from selfwire.store.journal_file import JournalReader
from selfwire.store.library import TEAM, Library, Version, open_library
from selfwire.tools.own import JournalledTools, refuse_missing_tools
from selfwire.tools.ready import BENCHMARK, IN_PYTHON

TEST_COLUMNS = (
    Column[SystemSummary]("held-out tasks", lambda line: line.name),
    SOLVED,
    MEAN_SCORE,
    CALLS,
    TOKENS,
    DOLLARS,
    DECISIONS,
    ERRORS,
)
Check = Callable[[Method[Any], Team], object]
LOST = 0.05
"""Share of the tasks that a change often loses by chance, beside those that it gains."""
NO_CHEAPER = "no agent is given a cheaper model, as dollars cannot be compared"
SEED = "seed"
"""Name of the journal's note that holds the body of the initial team."""


@dataclass(frozen=True, kw_only=True)
class OpenEvolution(EvolutionLoop):
    """An evolution that can be run now.

    Attributes:
        notices: for the user, such as a fallback.
    """

    request: EvolveSpec
    benchmark: Benchmark
    saver: BaseCheckpointSaver[Any]
    folder: Path
    notices: tuple[str, ...] = ()
    command: str = "evolve"

    @property
    def labels(self) -> dict[str, str]:
        """Method, and the name that the team is saved under."""
        return {"method": self.request.method, "name": self.config.name}

    @property
    def spent(self) -> Usage:
        """The cost so far."""
        return self.journal.spend()

    async def find_evolved(self) -> Version | None:
        """Find the newest version that this run has saved; None if it is the initial team or there is none.

        Another run that saves under the same name may have moved the name on since.
        """
        if self.config.name not in await self.library.names():
            return None
        history = await self.library.history(self.config.name)
        own = [version for version in history.versions if version.run == self.run]
        newest = max(own, key=lambda version: version.age, default=None)
        return newest if newest and newest.fingerprint != self.seed_team.fingerprint else None

    async def execute(
        self, on_event: Callable[[Event], None] = lambda event: None, answer: Any = None
    ) -> EvolutionState:
        """Run the evolution, or continue it; see `run_evolution`.

        Args:
            answer: a person's, to the question that the run waits with.

        Raises:
            BudgetError, OutageError, ModelError: it stopped early and can be resumed.
        """
        async with track_status(self):
            final = await run_evolution(self, self.saver, on_event, answer)
        if question := find_question(final):
            await note_status(self, f"stopped: iteration {question.iteration} waits for a person's answer")
        else:
            await self.note_end(final)
        return final

    async def note_end(self, final: EvolutionState) -> None:
        """Note that the run is finished, with its score on the test tasks."""
        await note_status(self, "finished", iteration=final["iteration"], score=_score(final))


class TaskPlace:
    """A place where an evolution runs its tasks; this one is the evolution's own process."""

    async def load_seed(self, seed: Team, journal: Journal, library: Library) -> None:
        """Load the bytes of the initial team, and keep them, as the file that they came from may be deleted."""
        await library.store_blobs(await library.load_blobs(seed))

    def open_ledger(self, plan: "EvolutionPlan", journal: Journal, elapsed: float) -> Ledger:
        """Open the ledger of the run."""
        return Ledger(plan.request.budget, plan.parent, journal.spend(), elapsed=elapsed)

    def open_runner(
        self, plan: "EvolutionPlan", method: Method[Any], journal: Journal, ledger: Ledger
    ) -> AbstractContextManager[RolloutRunner]:
        """Open the runner of tasks."""
        return nullcontext(stream_rollouts)


HERE = TaskPlace()


@dataclass(frozen=True)
class EvolutionPlan(RunPlan[OpenEvolution]):
    """An evolution that can be started or resumed.

    Attributes:
        tasks: of all splits.
        seed: the initial team; of a resumed run the one in its journal, as a name may mean another team by now.
        command: the command that starts and resumes it.
        parent: the ledger of the run that this one is a part of.
        place: where its tasks are run.
        given: objects behind names of the request.
        known: the tasks that the initial team has learned from.
    """

    request: EvolveSpec
    tasks: Splits
    seed: Team
    command: str = field(default="evolve", kw_only=True)
    parent: Ledger | None = field(default=None, kw_only=True)
    place: TaskPlace = field(default=HERE, kw_only=True)
    given: Given = field(default_factory=Given, kw_only=True)
    known: ContaminatedTasks = field(default=ContaminatedTasks(), kw_only=True)

    async def note_start(self, journal: Journal) -> None:
        """Note the initial team, and marks of the tasks that it learns from or has learned from before."""
        await self.note_seed(journal)
        own = ContaminatedTasks.of((*self.tasks.train, *self.tasks.gate), self.request.benchmark)
        known = self.known
        await ContaminatedTasks(own.marks | known.marks, own.tasks + known.tasks, known.unknown).note(journal)

    async def note_seed(self, journal: Journal) -> None:
        """Note the initial team."""
        await journal.put_note(SEED, await journal.put_body(self.seed.model_dump(mode="json")))

    @contextmanager
    def open(self, journal: Journal) -> Iterator[OpenEvolution]:
        """Open the run on its journal."""
        request, elapsed = self.request, run_sync(journal.get_note(ELAPSED)) or 0.0
        with closing(self.place.open_ledger(self, journal, elapsed)) as ledger, open_library(self.home) as library:
            at_once, tasks = request.evolution.concurrency, self.tasks
            model = self.models.meter(journal, ledger, at_once=at_once, probe=True).with_labels(method=request.method)
            refuse_unpriced_objective(request, model.names, self.models.prices)
            bench = self.benchmark.with_model(model)
            toolbox = JournalledTools(bench.toolbox, journal)
            method = make_method(request.method, request.config)
            ctx = method.make_ctx(model, toolbox, self.models.embedder)
            if request.random_edits is not None:
                method = with_random_edits(method, request.random_edits)
            run_sync(self.place.load_seed(self.seed, journal, library))
            folder = get_runs_folder(self.home) / journal.run
            saver = sqlite_saver(folder / CHECKPOINTS)
            try:
                with self.place.open_runner(self, method, journal, ledger) as runner:
                    yield OpenEvolution(
                        run=journal.run,
                        config=request.evolution,
                        method=method,
                        ctx=ctx,
                        environment=bench.environment,
                        splits=tasks if request.tested else tasks.replace(test=()),
                        seed_team=self.seed,
                        library=library,
                        journal=journal,
                        ledger=ledger,
                        runner=runner,
                        model_prices={} if _list_unpriced(request, model) else model.list_prices(),
                        facts=self._name_tools(bench) | name_models(request.models),
                        request=request,
                        benchmark=bench,
                        saver=saver,
                        folder=folder,
                        notices=self.notices,
                        command=self.command,
                    )
            finally:
                run_sync(journal.put_note(ELAPSED, ledger.spent.seconds))
                saver.close()

    def _name_tools(self, bench: Benchmark) -> dict[str, str]:
        """Name the tools as `load_tools` finds them again; empty without tools, or if they have no name."""
        tools = self.request.tools or ""
        if tools or self.given.benchmark or not bench.toolbox:
            return {"tools": tools} if tools and not tools.startswith(IN_PYTHON) else {}
        return {"tools": f"{BENCHMARK}:{self.request.benchmark}"}


def name_models(models: Models) -> dict[str, str]:
    """Name the model of the agents, and those that they may ask instead, for the facts of a version."""
    named = ",".join(f"{name}={model}" for name, model in models.named.items())
    return {"model": models.agent, **({"models": named} if named else {})}


def with_random_edits(method: Method[Any], operations: Sequence[Sequence[str]]) -> Method[Any]:
    """Make the control for a method, whose edits are random; a method must gain more than its control.

    Every instruction of the offline model's vocabulary may be drawn.

    Args:
        operations: kinds of edits per iteration.

    Raises:
        ConfigError: there is no such control for the method.
    """
    if not method.random_edits:
        names = " and ".join(known.name for known in installed_methods() if known.random_edits)
        raise ConfigError(f"random edits are a control for {names}, not for {method.name}")
    instructions = tuple(text for texts in paraphrases().values() for text in texts)
    control: Method[Any] = load_plugin("selfwire.controls", method.name).of(method, operations, instructions)
    return control


def refuse_method_that_learns_nothing(method: str, benchmark: str = "") -> None:
    """Refuse the evolution of a method whose team changes only within a question.

    Args:
        benchmark: for the command that measures the method instead; "" for a call in Python.

    Raises:
        ConfigError: it is such a method or a baseline, or there is no method of this name.
    """
    if find_kind(method) == "baseline":
        raise ConfigError(f"{method!r} is a baseline, which stays as it is; methods are {', '.join(method_names())}")
    if not find_method(method).evolves:
        command = f"`selfwire eval {method} --benchmark {shlex.quote(benchmark)}`"
        raise ConfigError(
            f"{method} cannot be evolved: it rewires its team while it works on a question, and learns nothing between "
            f"questions; measure it with {command if benchmark else f'selfwire.evaluate({method!r}, ...)'}"
        )


def start_evolution(
    request: EvolveSpec,
    home: Path | None = None,
    *,
    run: str | None = None,
    parent: Ledger | None = None,
    place: TaskPlace = HERE,
) -> AbstractContextManager[OpenEvolution]:
    """Start a new run; nothing is written unless every part of the request can be used.

    Args:
        parent: the ledger of the run that this one is a part of.
        place: where tasks are run.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    plan = replace(validate_request(request, home), parent=parent, place=place)
    return plan.start(run or make_run_name(request.method, benchmark=request.benchmark))


def resume_evolution(
    run: str,
    home: Path | None = None,
    *,
    changes: ResumeChanges = ResumeChanges(),
    command: str = "evolve",
    parent: Ledger | None = None,
    place: TaskPlace = HERE,
    whole: EvolveSpec | None = None,
) -> AbstractContextManager[OpenEvolution]:
    """Resume a run that stopped early; answered calls are not paid for again.

    Args:
        parent: the ledger of the run that this one is a part of, which has counted its cost so far.
        whole: the request that the run that it is a part of has for it, and that it must have begun with.
        place: where tasks are run.

    Raises:
        ConfigError: there is no such run, or a limit cannot be used.
            Or the run is another user's, and takes what this user has not agreed to.
        JournalError: another command started it, another process holds it, or config, code or tasks have changed.
    """
    path = get_run_folder(home, run) / JOURNAL
    request = load_request(path, EvolveSpec, command)
    if whole is None:
        refuse_foreign_run(path, request, changes)
    else:
        refuse_other_part(path, request, whole)
    request = with_changes(request, changes)
    if changes.calls_per_task is not None:
        request = request.replace(evolution=request.evolution.replace(calls_per_task=changes.calls_per_task))
    merge_leftover_shards(run, home, keeps_done=True)
    plan = replace(_load_plan(request, home, path), command=command, parent=parent, place=place)
    return plan.resume(path, retry_failed=changes.retry_failed)


def _load_plan(request: EvolveSpec, home: Path | None, path: Path, given: Given = Given()) -> EvolutionPlan:
    models = load_models(request.models, home, given.models)
    (bench, tasks), seed = load_tasks(request, given), load_seed(path, request.method)
    return EvolutionPlan(request, home, models, models.notices, bench, tasks, seed, given=given)


def load_seed(path: Path, method: str) -> Team:
    """Load the initial team of a run from its journal, with the bytes that are noted there.

    Raises:
        JournalError: there is none, or it is of another method.
    """
    with JournalReader(path, check=False) as journal:
        team = refuse_other_code(journal.body(journal.note(SEED), Team.model_validate), method, journal.run)
        load_noted_blobs(journal, team)
    return team


def validate_request(
    request: EvolveSpec, home: Path | None, given: Given = Given(), check: Check = lambda method, seed: None
) -> EvolutionPlan:
    """Try every part of a request without writing anything.

    Args:
        check: a further check of the method, with models that nothing records, and of the initial team.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used.
    """
    models = load_models(request.models, home, given.models, find_teams_of(request, home, given))
    bench, tasks = load_tasks(request, given)
    with closing(Journal.memory()) as journal:
        model = models.meter(journal, Ledger(request.budget))
        refuse_unpriced_objective(request, model.names, models.prices)
        method = make_method(request.method, request.config)
        if isinstance(method, OwnGraph):
            method.check_texts(request.evolution.freeze)
        ctx = method.make_ctx(model, bench.toolbox, models.embedder)
        with open_library(home, create=False) as library:
            seed = _seed(method, ctx, request, bench, library, given)
            taken = run_sync(describe_taken_name(request, library))
            known = _find_known_tasks(request, seed, library, home, given)
        model.refuse_unnamed(seed.agents)
        if request.evolution.pruning and not request.evolution.iterations and is_graph(request.method):
            from selfwire.graphs.pruning import list_parts  # no other evolution needs it

            gives_models = request.models.named and "models" not in request.evolution.freeze
            if not (gives_models or list_parts(method.note_parts(seed, None))):
                raise ConfigError(
                    f"no agent has been inserted into {request.method}, and none of its nodes can be taken out but by "
                    "your own hand: none with a prompt of its own, the first aside, stands between two edges; to try "
                    "cheaper models, name them with --models"
                )
        if request.evolution.freeze:
            from selfwire.evolvers.frozen import check_frozen  # no other evolution needs it

            check_frozen(request.evolution.freeze, seed)
        check(method, seed)
    refuse_hopeless_gate(request, tasks.gate)
    notices = (
        *bench.notes,
        *models.notices,
        *describe_gate(request, tasks.gate),
        *explain_unused_models(request, seed, _list_unpriced(request, model)),
        *taken,
        *_describe_known(request, tasks, known),
    )
    return EvolutionPlan(request, home, models, notices, bench, tasks, seed, given=given, known=known)


def _find_known_tasks(
    request: EvolveSpec, seed: Team, library: Library, home: Path | None, given: Given
) -> ContaminatedTasks:
    """Find the tasks that the initial team has learned from; none of a team that is no saved one."""
    ref = request.seed_team
    if ref is None or ref in given.teams or ref.endswith(".json"):
        return ContaminatedTasks()
    version = run_sync(library.find(ref))
    return find_contaminated_tasks([version.run] if version.step or seed.lineage.parent else [], home)


def _describe_known(request: EvolveSpec, tasks: Splits, known: ContaminatedTasks) -> Iterator[str]:
    """Describe how many of the tasks that prove a pruning, or test the end, the initial team has learned from."""
    gate = () if request.evolution.iterations else tasks.gate  # rewritings go on from the same gate tasks
    for split, among in (("gate", gate), ("test", tasks.test if request.tested else ())):
        if seen := sum(known.has_task(task, request.benchmark) for task in among):
            yield (
                f"team {request.seed_team!r} has learned from {seen} of {len(among)} {split} tasks, which say less of "
                "new ones; give --benchmark tasks that it has not seen"
            )
    yield from known.describe_unknown()


async def describe_taken_name(request: EvolveSpec, library: Library) -> tuple[str, ...]:
    """Describe that the team's name has versions that the run does not go on from; empty where it has none."""
    name, start = request.evolution.name, request.seed_team or ""
    if name not in await library.names() or start.removeprefix(TEAM).partition("@")[0] == name:
        return ()
    head, origin = await library.head(name), f"team {start!r}" if start else f"the first team of {request.method}"
    return (
        f"{name!r} has versions, and its head is {head.ref}: this run starts from {origin}, and what it keeps becomes "
        f"the head; go on from the head with --team {to_team_reference(name)}, or choose another --name",
    )


def _list_unpriced(request: EvolveSpec, model: MeteredModel) -> list[str]:
    """List the models whose price is not known; of a graph, which asks models of its own, those named for it alone."""
    given = {chat.identity.name for chat in model.named.values()} if is_graph(request.method) else model.names
    return [name for name in model.unpriced if name in given]


def explain_unused_models(request: EvolveSpec, seed: Team, unpriced: Sequence[str]) -> tuple[str, ...]:
    """Explain why no agent will be given another of the models that were named; empty where one may be.

    Args:
        unpriced: models whose price is needed to compare dollars, and is not known.
    """
    settings, named = request.evolution, ", ".join(request.models.named)
    if not named or "models" in settings.freeze:
        return ()
    if settings.pruning is None:
        is_used = any(agent.model for agent in seed.agents)
        return () if is_used else (f"no agent asks {named}, and none will: cheaper models are tried with --prune",)
    if unpriced:
        price = f"the price of {unpriced[0]} is not known; {GIVE_PRICE}"
        return (f"{NO_CHEAPER}: {price}",)
    return ()


def refuse_unpriced_objective(request: EvolveSpec, models: Iterable[str], prices: Prices) -> None:
    """Refuse an objective in dollars where these are not known of each call.

    Args:
        models: names of the run's models.

    Raises:
        ConfigError: a price is not known, or the team is a graph with models of its own.
    """
    settings = request.evolution
    rule = settings.rule or settings.pruning_rule
    if rule is None or not rule.objective.dollars:
        return
    fault, instead = f"the objective {settings.objective!r} cannot be computed", "count tokens or calls in its place"
    if is_graph(request.method):
        raise ConfigError(f"{fault}: {request.method} calls models of its own, whose prices are not known; {instead}")
    for name in models:
        prices.require(name, fault, instead)


def refuse_hopeless_gate(request: EvolveSpec, gate: Sequence[Task]) -> None:
    """Refuse an evolution whose gate could accept nothing before the last iteration, whatever the team wins.

    One before a comparison, which tests nothing, has another way out.

    Raises:
        ConfigError: so many gate tasks prove nothing there, or a pruning leaves none for the rewritings.
    """
    settings, rule, pruning = request.evolution, request.evolution.rule, request.evolution.pruning_rule
    groups, pruned = deal_questions(settings, gate)
    tasks, kept = len(groups), sum(map(len, pruned))
    if settings.iterations and settings.gate != "off" and pruning and not tasks:
        raise ConfigError(
            f"of {count_groups(pruned)} none is left for the rewritings, as the pruning has {kept} for "
            f"itself; give {kept + Sizes().gate} or more (--gate-size), or leave --prune out"
        )
    if settings.anyway:
        return
    if pruning and not pruning.can_prove(len(pruned)):
        _refuse_few(pruned, pruning, "or leave --prune out" if settings.iterations else "or {}")
    if rule is None or not settings.iterations or rule.can_prove(tasks):
        return
    when = _name_hopeless_part(settings, rule, tasks)
    if rule.proves_no_loss:
        _refuse_few(groups, rule, "{}, or fewer --iterations", beside=kept, when=when)
    needed = rule.find_least_tasks()
    if needed is None:
        raise ConfigError(
            f"--gate {rule.gate} cannot accept anything{when} at a --margin of {rule.margin:g}, however many gate "
            "tasks are won; give a smaller --margin"
        )
    beside = f", the {kept} of the pruning among them," if kept else ""
    anyway = f"--anyway runs and accepts nothing{when}" if request.tested else "--evolve none evolves nothing first"
    raise ConfigError(
        f"--gate {rule.gate} cannot accept anything{when} with {count_groups(groups)}: at an error of "
        f"{settings.error:g} over {format_count(settings.iterations, 'iteration')} a proof{when} needs at least "
        f"{needed}, all of them won; give {_count_tasks(needed, groups) + kept} or more{beside} (--gate-size), better "
        f"{_count_tasks(5 * needed, groups) + kept}, as a change seldom wins them all; or fewer --iterations, or "
        f"--gate mean, which takes chance for a gain; {anyway}"
    )


def _count_tasks(wanted: int, groups: Sequence[Sequence[Task]]) -> int:
    """Count the gate tasks that so many groups have, where they are as large as these."""
    return ceil(wanted * sum(map(len, groups)) / len(groups)) if groups else wanted


def _name_hopeless_part(settings: EvolutionConfig, rule: EvidenceRule, tasks: int) -> str:
    """Name the part of a run that can prove nothing: "" for all of it, as its last proof may have all of the error."""
    return " before the last iteration" if rule.replace(error=settings.rewriting_error).can_prove(tasks) else ""


def _refuse_few(
    groups: Sequence[Sequence[Task]], rule: EvidenceRule, instead: str, *, beside: int = 0, when: str = ""
) -> NoReturn:
    """Refuse gate tasks that cannot rule out a loss.

    Args:
        instead: what else to do, with {} for a larger margin.
        beside: further gate tasks that the run needs.
    """
    tasks, needed = len(groups), rule.find_least_tasks()
    larger = bisect_left(range(100), True, key=lambda hundredth: rule.replace(margin=hundredth / 100).can_prove(tasks))
    margin = "a larger --margin" + (f" (with these tasks {larger / 100:g} or more)" if larger < 100 else "")
    told = ", and no number of them is enough; give {}"
    if needed is not None:
        told = f"; give {_count_tasks(needed, groups) + beside} or more (--gate-size), {instead}"
    raise ConfigError(
        f"with {count_groups(groups)} a loss of {rule.margin:g} cannot be ruled out{when}, even if no "
        f"answer changes{told.format(margin)}"
    )


def describe_gate(request: EvolveSpec, gate: Sequence[Task]) -> tuple[str, ...]:
    """Describe the least gain that the gate can tell from chance, and the loss that a pruning rules out."""
    settings = request.evolution
    groups, pruned = deal_questions(settings, gate)
    found = [_describe_proof(settings, settings.rule, groups)] if settings.rule and settings.iterations else []
    if rule := settings.pruning_rule:
        of = f"with {count_groups(pruned)}"
        found.append(f"what goes is shown, {of}, to lose at most {rule.margin:g} of the score")
    return tuple(found)


def _describe_proof(settings: EvolutionConfig, rule: EvidenceRule, groups: Sequence[Sequence[Task]]) -> str:
    tasks, of = len(groups), f"with {count_groups(groups)}"
    least = rule.find_least_gain(tasks)
    if rule.objective.cheapest:
        return f"what saves calls is kept where it is shown, {of}, to lose at most {rule.margin:g} of the score"
    if least is None:
        return f"{of} no gain can be told from chance{_name_hopeless_part(settings, rule, tasks)}, so none is accepted"
    over = f"an error of {settings.rewriting_error:g} over {format_count(settings.iterations, 'iteration')}"
    share = f"{rule.error:.2g} of " if settings.iterations > 1 else ""
    usual = rule.find_least_gain(tasks, ceil(tasks * LOST))
    beside = "" if usual is None else f", and below {usual:.2f} where a change also loses {LOST:.0%} of the tasks"
    return (
        f"{of}, gains below {least:.2f} cannot be told from chance by the first proof, even if nothing is lost{beside} "
        f"(it has {share}{over})"
    )


def load_tasks(request: EvolveSpec, given: Given = Given()) -> tuple[Benchmark, Splits]:
    """Load the benchmark, and the tasks of an evolution for learning, for the gate and for the test.

    Raises:
        ConfigError: there are not enough, or the gate has none.
    """
    sizes = request.sizes
    settings = request.evolution
    if (settings.pruning or (settings.gate != "off" and settings.iterations)) and not sizes.gate:
        instead = "leave --prune out" if settings.pruning else "--gate off"
        raise ConfigError(f"the gate needs gate tasks; give --gate-size above 0, or {instead}")
    wanted = 4 * (sizes.train + sizes.gate + sizes.test)  # generated tasks share entities, so many are left over
    benchmark = given.load_benchmark(request, request.evolution.seed, wanted)
    return benchmark, benchmark.splits(request.evolution.seed, train=sizes.train, gate=sizes.gate, test=sizes.test)


def _seed(
    method: Method[Any],
    ctx: Ctx[Any],
    request: EvolveSpec,
    bench: Benchmark,
    library: Library,
    given: Given,
) -> Team:
    if request.seed_team is None:
        return make_seed(method, ctx, bench)
    if is_graph(request.seed_team) and not is_graph(request.method):
        choose_graph_method(request.seed_team, request.method)
        raise ConfigError(
            f"{request.seed_team} is a graph of your own and no saved team: `selfwire evolve {request.seed_team} "
            f"--method {request.method}` evolves it"
        )
    ref, tools = request.seed_team, ""
    if (found := given.teams.get(ref)) is not None:
        team = found
    else:
        team = run_sync(library.load(require_saved(ref)))
        tools = "" if ref.endswith(".json") else str(run_sync(library.find(ref)).facts.get("tools", ""))
    what = f"team {ref!r}"
    refuse_other_method(team, method.name, what)
    team = method.adapt(team)
    refuse_unreadable_memory(method, ctx, team, what)
    refuse_missing_tools(team, bench.toolbox, what, f", which {bench.name} lacks; {describe_lending(tools)}")
    return team


def _score(final: EvolutionState) -> float | None:
    scores = [score for score in final.get("test", {}).get("after", {}).get("scores", []) if score is not None]
    return sum(scores) / len(scores) if scores else None


def fit_evolution(request: EvolveSpec, given: GivenSizes, objects: Given = Given()) -> tuple[EvolveSpec, str]:
    """Fit the sizes of a request to its tasks; return it with a note if they are smaller than usual.

    A pruning by itself has as many train tasks as it needs; where tasks are few, its proof has them before its checks.

    Args:
        request: with the usual sizes.
        given: of --train, --gate-size and --test, in this order; without --gate-size there are no gate tasks.
        objects: behind names of the request.

    Raises:
        ConfigError: there are fewer tasks than the user asks for, or than `LEAST` in a split.
    """

    def resize(sizes: Mapping[str, int]) -> EvolveSpec:
        return request.replace(sizes=make_sizes(sizes))

    def fit(train: int) -> tuple[EvolveSpec, str]:
        usual = list_sizes(request.sizes.replace(train=train), given)
        sizes, note = fit_sizes(request.benchmark, given, usual, lambda found: load_tasks(resize(found), objects))
        return resize(sizes), note

    pruning, most = request.evolution.pruning, request.sizes.train
    if pruning is None or request.evolution.iterations:
        return fit(most)
    for checks in (pruning.checks, pruning.checks // 2, pruning.checks // 4, 0):
        fitted, note = fit(min(most, pruning.batch + checks))
        if not note:
            break
    left = f"there are tasks for {checks} of {pruning.checks} checks (--checks)" if checks < pruning.checks else ""
    return fitted, "; ".join(filter(None, (left, note)))


async def read_result(run: OpenEvolution, final: EvolutionState, *, baselines: bool = False) -> Evolution:
    """Read the result of a finished evolution.

    Args:
        baselines: whether baselines are run on the test tasks too, through the run's journal.

    Raises:
        BudgetError, ModelError: as an evolution; what was paid for is not lost.
    """
    tasks, systems, critic = run.splits.test, list[SystemSummary](), (0, 0)
    if tasks:
        before = summarise_trajectories(SEED_TEAM, await get_test_trajectories(run, "before", tasks))
        after = summarise_trajectories(EVOLVED, await get_test_trajectories(run, "after", tasks))
        systems = [before, after]
        history = await run.library.history(run.config.name)
        notes = [version.facts.get("notes", {}) for version in history.versions if version.run == run.run]
        agreed = sum(note.get("agreed", 0) for note in notes) + before.agreed + after.agreed  # right on its own answers
        critic = agreed, sum(note.get("judged", 0) for note in notes) + before.judged + after.judged
        if baselines:
            async with track_status(run):
                calls = after.calls_per_task
                single = summarise_trajectories(SINGLE, await run_single_agent(run, tasks, calls))
                voted = await run_seed_with_votes(run, tasks, calls)
                votes = [summarise_trajectories(SEED_VOTES, voted)] if voted else []
                systems = [await measure_trivial_baseline(run, tasks), single, before, *votes, after]
            await run.note_end(final)
    history = await run.library.history(run.config.name)
    return Evolution(
        run=run.run,
        folder=run.folder,
        cost=run.spent,
        notices=(*run.notices, *await list_unusable_replies(run.journal)),
        table=build_table(_choose_columns(systems), systems),
        name=run.config.name,
        team=await run.load_team(final["incumbent"]),
        seed=run.seed_team,
        versions=tuple(version for version in history.versions if version.run == run.run),
        systems=tuple(systems),
        critic=critic,
        pruning=await describe_run_pruning(run, final),
    )


async def describe_run_pruning(run: OpenEvolution, final: EvolutionState) -> str:
    """Describe what the pruning of a run has taken out; "" if it had none, or has not come so far."""
    if "pruned_from" not in final:
        return ""
    before, after = await run.load_team(final["unpruned"]), await run.load_team(final["incumbent"])
    pruned = describe_pruning(before, after, final.get("pruned_calls", []), final.get("pruned_dollars", []))
    return f"{pruned}{await _describe_unpriced_graph(run, after)}"


async def _describe_unpriced_graph(run: OpenEvolution, team: Team) -> str:
    """Describe that no prompt of a user's graph could be given another model, as the price of its own is not known."""
    from selfwire.graphs.pruning import PruningRecord  # no other evolution needs it

    is_tried = is_graph(team.method) and bool(run.model_prices) and "models" not in run.config.freeze
    costs = PruningRecord.of(team).costs
    if not is_tried or all(costs[agent].dollars is not None for agent in costs if agent in team.agents_by_id):
        return ""
    spent = await run.journal.spend_by_model()
    asked = ", ".join(label for label, usage in spent.items() if usage.dollars is None)
    return f"; {NO_CHEAPER}: the price of {asked} is not known; {GIVE_PRICE}, as PROVIDER:MODEL"


def _choose_columns(systems: Sequence[SystemSummary]) -> tuple[Column[SystemSummary], ...]:
    """Choose the columns of the table; free decisions only where a router had a choice."""
    has_choice = any(line.decisions and not line.decisions.is_vacuous for line in systems)
    return tuple(column for column in TEST_COLUMNS if has_choice or column is not DECISIONS)


async def get_test_trajectories(run: OpenEvolution, side: str, tasks: Sequence[Task]) -> list[Trajectory]:
    """Load the test trajectories of a side, in the order of the tasks."""
    bodies = await run.journal.get_note(get_trajectories_note(0, "test", side))
    return [Trajectory.model_validate(await run.journal.get_body(bodies[task.id])) for task in tasks]


async def run_single_agent(run: OpenEvolution, tasks: Sequence[Task], calls: float) -> list[Trajectory]:
    """Run a single agent with the seed team's tools that spends up to `calls` per task on samples and votes."""
    seed = run.seed_team
    tools = sorted({tool for agent in seed.agents for tool in agent.tools})
    single = Single(calls=max(calls, 1.0))
    scope = Scope(run=f"{run.run}/single", seed=run.config.seed, phase="baseline")
    ctx = single.make_ctx(run.ctx.model, run.ctx.get_tools(seed), run.ctx.embed, scope=scope)
    return await collect_rollouts(replace(run.rollout_context, runner=None), single.ask, single.seed(tools), tasks, ctx)


async def run_seed_with_votes(run: OpenEvolution, tasks: Sequence[Task], calls: float) -> list[Trajectory]:
    """Ask the seed team several times and vote, at `calls` per task in the mean; its answers in the test are the first.

    Nothing if three answers would cost more, as a second one decides nothing by itself. A task of which a further
    answer fails ends as an error: a vote of fewer answers would be another system.
    """
    scope = Scope(run=f"{run.run}/votes", seed=run.config.seed, phase="baseline")
    kept = {done.question.id: done for done in await load_graded(run.journal, scope)}
    if len(kept) == len(tasks):
        return [kept[task.id] for task in tasks]
    first = await get_test_trajectories(run, "before", tasks)
    spent = sum(done.usage.calls for done in first)
    if calls * len(tasks) < 3 * max(spent, len(tasks)) - 1e-9:  # `add_votes` counts a call an answer at the least
        return []
    asked = {done.question.id: [done.replace(feedback=None)] for done in first}
    questions, ctx = {task.id: task.question for task in tasks}, run.ctx.where(scope)
    places = asyncio.Semaphore(run.config.concurrency)

    async def ask(task: str) -> Trajectory:
        async with places:
            here = ctx.where(task=task, sample=len(asked[task]))
            [found] = await run_rollout(run.method.ask, run.seed_team, questions[task], here)
        return found

    async def answer(team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
        merged, further = merge_samples(asked[question.id]), asked[question.id][1:]
        failed = next((done.error for done in further if done.error is not None), None)
        return merged if failed is None else merged.as_failed(failed)

    await add_votes(asked, ask, calls * len(tasks) - spent)
    return await collect_rollouts(replace(run.rollout_context, runner=None), answer, run.seed_team, tasks, ctx)


async def measure_trivial_baseline(run: OpenEvolution, tasks: Sequence[Task]) -> SystemSummary:
    """Measure the benchmark's trivial baseline, graded by the real environment."""
    baseline = run.benchmark.baseline
    scope = Scope(run=f"{run.run}/trivial", seed=run.config.seed, phase="baseline")

    async def answer(task: Task) -> Trajectory:
        done = Trajectory(question=task.question, workflow="", answer=baseline.answer(task.input))
        with suppress(GradingError):
            return done.with_feedback(
                await grade_answer(run.rollout_context, task, done.answer or "", scope.at(task=task.id))
            )
        return done

    return summarise_trajectories(TRIVIAL, await asyncio.gather(*map(answer, tasks)))


async def evolve_team(team: Teamlike, tasks: TaskSets, options: CallOptions, config: Mapping[str, Any]) -> Evolution:
    """Evolve a team; see `selfwire.evolve`.

    Args:
        config: fields of `EvolutionConfig`; without a name the team is saved as METHOD-TASKS, and a saved team that is
            only pruned under its own.
    """

    def prepare() -> AbstractContextManager[OpenEvolution]:
        found = find_team(team, options.home, method=options.method, evolves=True)
        if config["iterations"] or not config["pruning"]:
            refuse_method_that_learns_nothing(found.method)
        data = tasks.find(options.tools)
        names, models = options.find_models(found.model)
        given = Given(data.benchmark, models, {found.name: found.team} if found.team and found.is_object else {})
        usual_name = f"{shorten_method(found.method)}-{shorten_name(data.fields['benchmark'])}"
        name = choose_team_name(config["name"] or usual_name)
        if found.saved and not config["name"] and not config["iterations"]:
            name = found.saved
        usual, pruning = tasks.limit or Sizes().train, config["pruning"]
        more = pruning.gate_size if pruning and config["iterations"] else 0
        request = EvolveSpec(
            method=found.method,
            config=found.config,
            models=names,
            sizes=Sizes(
                train=usual, gate=usual + more, test=usual if config["iterations"] else min(usual, Sizes().test)
            ),
            evolution=parse_config("evolve", EvolutionConfig, {**config, "name": name}),
            budget=options.limits,
            seed_team=None if found.team is None else found.name,
            baselines=False,
            **data.fields,
        )
        sizes = {"--train": data.sizes.get("train"), "--gate-size": data.sizes.get("gate")}
        whole = None if not data.sizes else data.sizes.get("test", 0)
        request, note = fit_evolution(request, {**sizes, "--test": whole}, given)
        home, notices = options.folder, (note,) if note else ()
        run_name = options.run_name or make_run_name(found.method, benchmark=request.benchmark)
        if run_name not in list_run_names(home):
            return validate_request(request, home, given).with_notices(notices).start(run_name)
        path = get_run_folder(home, run_name) / JOURNAL
        refuse_changed_request(path, load_request(path, EvolveSpec, "evolve"), request)
        merge_leftover_shards(run_name, home, keeps_done=True)
        return _load_plan(request, home, path, given).with_notices(notices).resume(path)  # with this request's limits

    async with open_in_thread(await asyncio.to_thread(prepare)) as opened:
        final = await opened.execute(options.on_event or (lambda event: None))
        return await read_result(opened, final)

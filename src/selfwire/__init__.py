"""LangGraph teams of LLM agents that rewire themselves.

    import selfwire

    found = selfwire.evolve("hiva", "my.jsonl", grade, model="openai:gpt-4o-mini", name="mine")
    print(found.score, selfwire.run("mine", "...").answer)

    run, evolve, prune, evaluate, compare, load, save verbs; each has an async twin: arun, aevolve, ...
    adopt, text                                       what a graph of your own is made of, and a mark for its texts
    Team, Agent, Task, Feedback, Budget, Method       values that go in
    Evolution, Evaluation, Comparison, Trajectory     values that come out
    Rewiring, Topology, edits                         changes of a team
    errors                                            all that is raised on purpose

Everything is loaded when it is first used.
"""

from __future__ import annotations

import os
import sys
from functools import wraps

TYPE_CHECKING = False  # for type checkers it is True; the import of `typing` costs more than this package may
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from pathlib import Path
    from typing import Any, Literal, ParamSpec, TypeVar

    from langchain_core.runnables import RunnableConfig

    from selfwire.core import edits, errors
    from selfwire.core.agent import Agent
    from selfwire.core.edits import Rewiring
    from selfwire.core.task import Feedback, Task
    from selfwire.core.team import Team as Team
    from selfwire.core.topology import Topology
    from selfwire.core.trajectory import Trajectory
    from selfwire.core.usage import Budget
    from selfwire.evals.graders import Grader
    from selfwire.extras.adopt.page import Inventory
    from selfwire.graphs.evolve import Event
    from selfwire.graphs.method import Method
    from selfwire.runs.inputs import ChatModel, Tasks, Teamlike, Tools
    from selfwire.runs.results import Comparison, Evaluation, Evolution
    from selfwire.store.library import Version

    P = ParamSpec("P")
    T = TypeVar("T")

__all__ = [
    "Agent", "Budget", "Comparison", "Evaluation", "Evolution", "Feedback", "Method", "Rewiring", "Task",
    "Team", "Topology", "Trajectory", "Version", "acompare", "adopt", "aevaluate", "aevolve", "aload", "aprune", "arun",
    "asave", "compare", "edits", "errors", "evaluate", "evolve", "load", "prune", "run", "save",
    "text",
]  # fmt: skip

_LOADED = {
    "Agent": "selfwire.core.agent:Agent",
    "Budget": "selfwire.core.usage:Budget",
    "Comparison": "selfwire.runs.results:Comparison",
    "Evaluation": "selfwire.runs.results:Evaluation",
    "Evolution": "selfwire.runs.results:Evolution",
    "Feedback": "selfwire.core.task:Feedback",
    "Method": "selfwire.graphs.method:Method",
    "Rewiring": "selfwire.core.edits:Rewiring",
    "Task": "selfwire.core.task:Task",
    "Team": "selfwire.core.team:Team",
    "Topology": "selfwire.core.topology:Topology",
    "Trajectory": "selfwire.core.trajectory:Trajectory",
    "Version": "selfwire.store.library:Version",
    "compile_graph": "selfwire.graphs.build:compile_graph",
    "edits": "selfwire.core.edits:",
    "errors": "selfwire.core.errors:",
}
"""Names that are loaded when they are first used: module and attribute, or a module alone."""

_link = os.path.join(os.path.dirname(os.path.realpath(__file__)), "graphs")
if os.path.islink(_link) or os.path.isfile(_link):  # in a clone files have the paths that git knows
    __path__.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(_link))))


def __getattr__(name: str) -> Any:
    from importlib import import_module
    from importlib.metadata import version

    if name == "__version__":
        return version("selfwire")
    if name not in _LOADED:
        raise AttributeError(f"module 'selfwire' has no attribute {name!r}")
    module, _, attribute = _LOADED[name].partition(":")
    found = import_module(module)
    globals()[name] = getattr(found, attribute) if attribute else found
    return globals()[name]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


async def _call(verb: Callable[..., Any], call: Callable[..., Coroutine[Any, Any, T]], args: Any, kwargs: Any) -> T:
    """Call a verb; refuse arguments of another kind, and name arguments in place of options in its errors."""
    from selfwire.core.arguments import require_arguments, require_kinds
    from selfwire.core.errors import name_arguments
    from selfwire.models.sync import require_event_loop

    require_event_loop(verb.__name__)
    require_arguments(verb, args, kwargs)
    require_kinds(call.__annotations__, kwargs)
    try:
        return await call(*args, **kwargs)
    except Exception as error:
        name_arguments(error, call.__annotations__)
        raise


def _in_python(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The async form of a verb."""

    @wraps(call)
    async def verb(*args: P.args, **kwargs: P.kwargs) -> T:
        return await _call(verb, call, args, kwargs)

    return verb


def _make_sync(verb: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The sync form of a verb: it runs on a background event loop, so that it works in notebooks too."""
    call: Callable[P, Coroutine[Any, Any, T]] = verb.__wrapped__  # type: ignore[attr-defined]

    @wraps(verb)
    def wait(*args: P.args, **kwargs: P.kwargs) -> T:
        from selfwire.models.sync import run_sync

        return run_sync(_call(wait, call, args, kwargs))

    wait.__name__ = wait.__qualname__ = verb.__name__.removeprefix("a")
    return wait


@_in_python
async def arun(
    team: Teamlike,
    question: str | Task,
    *,
    model: ChatModel | None = None,
    meta: ChatModel | None = None,
    judge: ChatModel | None = None,
    models: Mapping[str, ChatModel] | None = None,
    tools: Tools = (),
    method: str | Method[Any] | None = None,
    budget: Budget | Mapping[str, float] | None = None,
    seed: int = 0,
    config: RunnableConfig | None = None,
    home: str | Path | None = None,
) -> Trajectory:
    """Put one question to a team; nothing evolves and nothing is saved.

    Args:
        team: a team; a method or its name, for its first team; a saved team's name, name@version or fingerprint; or
            a .json file of one.
        question: its text, or a task, whose reference no agent sees.
        model: of the agents, a name such as "openai:gpt-4o-mini" or a chat model; by default the one that the saved
            team was evolved with, else that of SELFWIRE_MODEL, else the offline model.
        meta: model of critics and evolvers; by default the agents'.
        judge: model of judges; by default that of the critics.
        models: that agents may ask instead, by the names that `Agent.model` has for them, such as
            {"cheap": "openai:gpt-4o-mini"}; an agent that asks for another name is refused.
        tools: functions with types and a docstring, LangChain tools, and names such as "calculator", "sql:x.sqlite" or
            "mcp:servers.json" for the tools of MCP servers; or names alone, with commas between.
        method: that runs the team, by name or as a value; by default its own.
        budget: limits such as {"calls": 100} or {"dollars": 1}.
        config: LangChain's, with callbacks, tags and metadata of traces.
        home: folder of saved teams; by default SELFWIRE_HOME, else .selfwire in the working directory.

    Returns:
        What the team did: `answer`, `steps`, `usage`; `error` says why there is no answer.

    Raises:
        ConfigError, LibraryError: a name, model or tool cannot be used, or a provider refuses the first calls.
        BudgetError, OutageError: it stopped; `partial_result` has the best answer until then, if there was one.
    """
    from selfwire.runs.inputs import CallOptions
    from selfwire.runs.question import ask_team

    options = CallOptions(model, meta, judge, tools, method, budget, home, models)
    return await ask_team(team, question, options, seed=seed, config=config)


@_in_python
async def aevolve(
    team: Teamlike,
    trainset: Tasks,
    grader: Grader | str = "exact",
    *,
    valset: Tasks | None = None,
    testset: Tasks | None = None,
    iterations: int = 10,
    batch: int = 10,
    gate: Literal["better", "no-worse", "mean", "off"] = "better",
    objective: str = "score - 0.002*calls",
    anyway: bool = False,
    prune: bool = False,
    freeze: Sequence[str] = (),
    guide: str = "",
    name: str | None = None,
    run_name: str | None = None,
    seed: int = 0,
    limit: int = 60,
    concurrency: int = 8,
    on_event: Callable[[Event], None] | None = None,
    model: ChatModel | None = None,
    meta: ChatModel | None = None,
    judge: ChatModel | None = None,
    models: Mapping[str, ChatModel] | None = None,
    tools: Tools = (),
    method: str | Method[Any] | None = None,
    rubric: str | None = None,
    budget: Budget | Mapping[str, float] | None = None,
    home: str | Path | None = None,
) -> Evolution:
    """Rewire a team on tasks and keep what is proved to gain on held-out ones.

    An unfinished run of the same `run_name` goes on; calls that were answered are not paid for twice.

    Args:
        team: as for `run`.
        trainset: dicts with `input` and `reference`, Task objects, a .jsonl, .csv or .parquet file, "hf:owner/name", or
            a benchmark's name. Without `valset` and `testset` it is dealt out to all three splits.
        grader: a function `(task, answer)`, sync or async, that returns a score in [0, 1], True or False, (score, what
            was wrong) or a Feedback; or a name: exact, em, f1, contains, numeric, judge, "module:function".
        valset: tasks that decide which changes are accepted; by default a part of `trainset`.
        testset: tasks of the final test, which nothing is learned from.
        iterations: how often the team is rewritten.
        batch: train tasks per iteration.
        gate: better keeps a change whose gain is proved on held-out tasks, its further calls paid for; no-worse also
            one that saves calls; mean one that does no worse in the mean, chance included; off every change.
        objective: of better and no-worse: the score less the price of a task's calls, tokens, dollars or seconds; or
            "cheapest", which keeps what saves calls and is shown to lose at most 0.02.
        anyway: run although there are too few held-out tasks for any proof before the last iteration.
        prune: at the end take out agents, edges, tools and sentences of prompts that the team does no worse without, as
            `prune` does; it has the last 240 of `valset` for itself.
        freeze: parts of the team that stay as they are: "edges", "prompts", "tools", "models", or "agent:NAME".
        guide: a wish that every critic and rewriter is told, such as "keep the tone formal".
        name: that the team is saved under; by default METHOD-TASKS.
        run_name: of the run; by default a new one.
        limit: most tasks of each split where `trainset` is dealt out.
        concurrency: tasks that are worked on at the same time.
        on_event: is called with each step of progress.
        rubric: of the grader "judge": what a good answer is.
        method: as for `run`; by which a graph of your own evolves, "hiva" by default, "hera" or "router".
        model, meta, judge, models, tools, budget, home: as for `run`.

    Raises:
        ConfigError, LibraryError: a name, file or option cannot be used; nothing was written.
        BudgetError, OutageError, ModelError, UngradedError: it stopped; the same `run_name` goes on.
        JournalError: the run of this name was started with other tasks, options or code.
    """
    from selfwire.graphs.pruning import PruningConfig
    from selfwire.runs.evolution import evolve_team
    from selfwire.runs.inputs import CallOptions, TaskSets

    tasks = TaskSets({"train": trainset, "gate": valset, "test": testset}, grader, rubric, limit)
    options = CallOptions(model, meta, judge, tools, method, budget, home, models, run_name, on_event)
    config = {
        "name": name,
        "iterations": iterations,
        "batch": batch,
        "pruning": PruningConfig() if prune else None,
        "gate": gate,
        "objective": objective,
        "anyway": anyway,
        "freeze": freeze,
        "guide": guide,
        "seed": seed,
        "concurrency": concurrency,
    }
    return await evolve_team(team, tasks, options, config)


@_in_python
async def aprune(
    team: Teamlike,
    trainset: Tasks,
    grader: Grader | str = "exact",
    *,
    valset: Tasks | None = None,
    testset: Tasks | None = None,
    iterations: int = 6,
    batch: int = 20,
    checks: int = 40,
    sentences: int = 8,
    margin: float = 0.05,
    freeze: Sequence[str] = (),
    name: str | None = None,
    run_name: str | None = None,
    seed: int = 0,
    limit: int = 240,
    concurrency: int = 8,
    on_event: Callable[[Event], None] | None = None,
    model: ChatModel | None = None,
    meta: ChatModel | None = None,
    judge: ChatModel | None = None,
    models: Mapping[str, ChatModel] | None = None,
    tools: Tools = (),
    method: str | Method[Any] | None = None,
    rubric: str | None = None,
    budget: Budget | Mapping[str, float] | None = None,
    home: str | Path | None = None,
) -> Evolution:
    """Take agents, edges, tools and sentences of prompts out of a team that does no worse without them.

    That it does no worse is proved on held-out tasks.

    Args:
        team: as for `run`; its entry and its sink stay.
        trainset, valset, testset, grader: as for `evolve`.
        iterations: most times that parts are taken out.
        batch: train tasks on which every part is left out once.
        checks: further train tasks, on which those that are to go are left out together.
        sentences: most sentences of prompts that are left out, the longest first; 0 leaves prompts as they are.
        margin: loss of score that does not count.
        limit: most tasks of each split where `trainset` is dealt out; of those for the test 60 at most.
        name: that the team is saved under; by default a saved team's own, of which this is the next version.
        freeze, run_name, seed, concurrency, on_event, rubric: as for `evolve`.
        model, meta, judge, models, tools, method, budget, home: as for `run`.

    Raises:
        ConfigError: there are too few held-out tasks to rule a loss of the margin out; or as `evolve`.
        LibraryError, BudgetError, OutageError, ModelError, UngradedError, JournalError: as `evolve`.
    """
    from selfwire.graphs.method import parse_config
    from selfwire.graphs.pruning import PruningConfig
    from selfwire.runs.evolution import evolve_team
    from selfwire.runs.inputs import CallOptions, TaskSets

    tasks = TaskSets({"train": trainset, "gate": valset, "test": testset}, grader, rubric, limit)
    options = CallOptions(model, meta, judge, tools, method, budget, home, models, run_name, on_event)
    limits = {"iterations": iterations, "batch": batch, "checks": checks, "sentences": sentences, "margin": margin}
    config = {
        "name": name,
        "iterations": 0,
        "pruning": parse_config("prune", PruningConfig, limits),
        "freeze": freeze,
        "seed": seed,
        "concurrency": concurrency,
    }
    return await evolve_team(team, tasks, options, config)


@_in_python
async def aevaluate(
    team: Teamlike,
    tasks: Tasks,
    grader: Grader | str = "exact",
    *,
    repeats: int = 1,
    calls_per_task: int | None = None,
    run_name: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    concurrency: int = 8,
    on_event: Callable[[Event], None] | None = None,
    model: ChatModel | None = None,
    meta: ChatModel | None = None,
    judge: ChatModel | None = None,
    models: Mapping[str, ChatModel] | None = None,
    tools: Tools = (),
    method: str | Method[Any] | None = None,
    rubric: str | None = None,
    budget: Budget | Mapping[str, float] | None = None,
    home: str | Path | None = None,
) -> Evaluation:
    """Score a team on tasks: a row per task, the mean with its interval, the cost.

    An unfinished run of the same `run_name` goes on. Tasks that the team has learned from are left out, with a notice.

    Args:
        team: as for `run`; or the name of a baseline, such as "single".
        tasks: as for `evolve`; of a benchmark's name its test tasks.
        grader: as for `evolve`.
        repeats: how often each task is put to the team.
        calls_per_task: most model calls for a task.
        limit: most tasks; by default all that are given, and 100 of a benchmark.
        run_name, concurrency, on_event, rubric: as for `evolve`.
        model, meta, judge, models, tools, method, budget, home: as for `run`.

    Raises:
        ConfigError, LibraryError, BudgetError, OutageError, UngradedError, JournalError: as `evolve`.
    """
    from selfwire.runs.comparison import evaluate_team
    from selfwire.runs.inputs import CallOptions, TaskSets

    asked = TaskSets({"test": tasks}, grader, rubric, limit)
    options = CallOptions(model, meta, judge, tools, method, budget, home, models, run_name, on_event)
    config = {"repeats": repeats, "calls_per_task": calls_per_task, "seed": seed, "concurrency": concurrency}
    return await evaluate_team(team, asked, options, config)


@_in_python
async def acompare(
    teams: Mapping[str, Teamlike] | Sequence[Teamlike],
    tasks: Tasks,
    grader: Grader | str = "exact",
    *,
    against: str = "",
    calls_per_task: int | None = None,
    run_name: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    concurrency: int = 8,
    on_event: Callable[[Event], None] | None = None,
    model: ChatModel | None = None,
    meta: ChatModel | None = None,
    judge: ChatModel | None = None,
    models: Mapping[str, ChatModel] | None = None,
    tools: Tools = (),
    rubric: str | None = None,
    budget: Budget | Mapping[str, float] | None = None,
    home: str | Path | None = None,
) -> Comparison:
    """Score several teams on the same tasks under one cap of calls, paired by task.

    Args:
        teams: as for `evaluate`, by name or in a list.
        against: name of the team that the others are compared with; by default the first.
        calls_per_task: most model calls for a task, for every team.
        tasks, grader, limit, run_name, concurrency, on_event, rubric: as for `evaluate`.
        model, meta, judge, models, tools, budget, home: as for `run`.

    Raises:
        ConfigError, LibraryError, BudgetError, OutageError, UngradedError, JournalError: as `evolve`.
    """
    from selfwire.runs.comparison import compare_teams
    from selfwire.runs.inputs import CallOptions, TaskSets

    asked = TaskSets({"test": tasks}, grader, rubric, limit)
    options = CallOptions(model, meta, judge, tools, None, budget, home, models, run_name, on_event)
    config = {"against": against, "calls_per_task": calls_per_task, "seed": seed, "concurrency": concurrency}
    return await compare_teams(teams, asked, options, config)


@_in_python
async def aload(ref: str | Path, *, home: str | Path | None = None) -> Team:
    """Load a saved team.

    Args:
        ref: a name, name@version, fingerprint or .json file; of a method's name it is the method's first team.

    Raises:
        LibraryError: there is none.
    """
    from selfwire.runs.systems import load_team

    return await load_team(ref, home)


@_in_python
async def asave(team: Team, name: str, *, note: str = "", home: str | Path | None = None) -> Version:
    """Save a team as the newest version of a name.

    Args:
        name: none of a method or a baseline, but for the form "team:hiva".
        note: why, for `selfwire history`.

    Raises:
        ConfigError: it is no team, or the name cannot be used.
    """
    from selfwire.runs.systems import save_team

    return await save_team(team, name, note, home)


def adopt(graph: object) -> Inventory:
    """Read what a graph of your own is made of from its source; nothing of it is run, and nothing is asked.

    Args:
        graph: its name, such as "my_app.graph:graph" or "my_app/graph.py:graph"; or the graph, its StateGraph or the
            function that makes it, if a module that was imported from a file holds one of them.

    Returns:
        Its nodes, edges, agents, tools, models, settings and texts, each with file and line, and what is opaque, with
        the reason; `print` shows all of it.

    Raises:
        ConfigError: there is no such graph, or its source cannot be read.
    """
    from selfwire.extras.adopt.reader import find_name, read_program

    return read_program(graph if isinstance(graph, str) else find_name(graph))


def text(name: str, text: str) -> str:
    """Mark a text of a graph of your own that its source does not show to be sent, so that it can be evolved.

    Call it where the text is used, with both as literals: `selfwire.text("planner", "You plan ...")`. It returns the
    text; in a run with an evolved one, that. Without such a run it costs a look into a dict.

    Args:
        name: letters, digits and -, by which diffs and `--freeze agent:NAME` call it.
        text: words in braces, such as {question}, stay in every text that takes its place.
    """
    layers = sys.modules.get("selfwire.models.text_layer")
    return text if layers is None else str(layers.read_text(text))


run = _make_sync(arun)
evolve = _make_sync(aevolve)
prune = _make_sync(aprune)
evaluate = _make_sync(aevaluate)
compare = _make_sync(acompare)
load = _make_sync(aload)
save = _make_sync(asave)

"""Benchmarks by name, and benchmarks of the user's own tasks."""

import os
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

from selfwire.core.errors import ConfigError, GradingError
from selfwire.core.protocols import Embedder, Toolbox
from selfwire.core.task import Splits, Task
from selfwire.core.text import suggest_name
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_loader
from selfwire.evals.graders import Grader
from selfwire.evals.readers import OwnData
from selfwire.evals.tasks import FORMS, OwnTasks, is_own_data
from selfwire.models.embeddings import CachedEmbedder, MiniLMEmbedder

PLACES: Mapping[str, str] = {
    "archive": "archive:archive",
    "plancraft": "plancraft:PLANCRAFT",
    "tariffs": "tariffs:tariffs",
    "shelfmarks": "shelfmarks:shelfmarks",
    "one-room": "shelfmarks:one_room",
    "dealt": "dealt:dealt",
    "newborn": "newborn:newborn",
    "stages": "stages:stages",
    "humaneval": "humaneval:humaneval",
    "mbpp": "mbpp:mbpp",
    "apps": "apps:apps",
    "math500": "math500:MATH500",
    "gsm8k": "gsm8k:GSM8K",
    "bbh": "bbh:BBH",
    "deepresearcher": "deepresearcher:DEEPRESEARCHER",
    "workbench": "workbench:workbench",
    "hotpotqa": "multihop:multihop",
    "2wikimultihopqa": "multihop:multihop",
    "mmlu": "mmlu:MMLU",
    "ambignq": "ambignq:AMBIGNQ",
    "hover": "hover:HOVER",
}
"""Module of each benchmark, which is imported when it is asked for, and its name there: a value, or what makes it."""
NAMES = tuple(PLACES)

TASKS_IN_PYTHON = "tasks:"
"""Prefix of the name of tasks that were given in Python; a fingerprint follows."""
GENERATED = ("archive", "tariffs", "shelfmarks", "one-room", "dealt", "newborn", "stages")
"""Generated benchmarks, which have as many tasks as a run wants."""


def load_benchmark(
    name: str,
    *,
    seed: int = 0,
    size: int | None = None,
    grader: str = "exact",
    rubric: str | None = None,
    tools: str | None = None,
    own_data: OwnData = OwnData(),
) -> Benchmark:
    """Load a benchmark.

    Args:
        name: one of `NAMES`, or the user's own tasks: the path of a JSONL, JSON, CSV or Parquet file, or the name of a
            data set, `hf:owner/name`; `hotpotqa` and `2wikimultihopqa` search by words, `hotpotqa:dense` and
            `hotpotqa:hybrid` (likewise the other) by MiniLM embeddings too; `hotpotqa:paragraphs` and `hotpotqa:full`
            have the paragraphs of a question in its input.
        seed, size: of generated tasks; size is the least number.
        grader: for the user's own tasks: a named grader, `judge` or `module:function`.
        rubric: for the judge: what a good answer is; None for agreement with the reference.
        tools: for the user's own tasks: tools that agents may call, as `load_tools` reads them.
        own_data: for the user's own tasks: which fields they are in, and which split.

    Raises:
        ConfigError: there is no such benchmark, file or grader; the benchmark needs a sandbox and none works here;
            or there is a rubric and no judge, or a grader, tools or fields for a benchmark that has its own.
    """
    if is_own_data(name):
        if rubric is not None and grader != "judge":
            raise ConfigError(f"a rubric is for the judge, not for the grader {grader}; give it with --grader judge")
        from selfwire.evals.tasks import read_tasks
        from selfwire.tools.ready import load_tools

        read = read_tasks(name, own_data)
        load = make_disjoint_loader(lambda: read.tasks)
        return make_own_benchmark(name, read, load, grader, rubric, load_tools(tools) if tools else {})
    if name.startswith(TASKS_IN_PYTHON):
        raise ConfigError(
            f"the tasks {name} were given in Python and are not stored; go on there, with the same tasks and run_name"
        )
    if name.partition(":")[0] not in NAMES:
        raise ConfigError(_describe_unknown(name))
    _refuse_own_options(name, grader, rubric, tools, own_data)
    if name.partition(":")[0] in ("hotpotqa", "2wikimultihopqa"):
        from selfwire.evals.benchmarks.multihop import FULL, PARAGRAPHS, multihop, read_with_paragraphs

        if name in (f"hotpotqa:{PARAGRAPHS}", f"hotpotqa:{FULL}"):
            return read_with_paragraphs(name.partition(":")[2])
        return multihop(*parse_retrieval_name(name))
    if name not in NAMES:
        raise ConfigError(_describe_unknown(name))
    found: Any = resolve_name(f"selfwire.evals.benchmarks.{PLACES[name]}")
    if name in GENERATED:
        made = found(seed=seed) if size is None else found(size, seed=seed)
    elif name in ("humaneval", "mbpp", "apps"):
        from selfwire.tools.sandbox.sandbox import find_sandbox

        made = found(find_sandbox(full=True))
    else:
        made = found() if name == "workbench" else found
    benchmark: Benchmark = made
    return benchmark


def _describe_unknown(name: str) -> str:
    if os.path.isdir(name):
        return f"{name!r} is a folder; give {FORMS}"
    if os.path.isfile(name):
        return f"tasks of {name!r} cannot be read, as its ending says no form; give {FORMS}"
    meant = suggest_name(name.lower(), NAMES, "did you mean {}? Or ")
    return f"unknown benchmark {name!r}; {meant}choose {', '.join(NAMES)}, or give {FORMS}"


def parse_retrieval_name(name: str) -> tuple[str, str, Embedder | None]:
    """Parse a name such as `hotpotqa:hybrid`: benchmark, retriever, and MiniLM as the embedder."""
    benchmark, _, retriever = name.partition(":")
    retriever = retriever or "bm25"
    return benchmark, retriever, None if retriever == "bm25" else CachedEmbedder(MiniLMEmbedder())


def _refuse_own_options(name: str, grader: str, rubric: str | None, tools: str | None, own_data: OwnData) -> None:
    if rubric is not None:
        raise ConfigError(
            "a rubric is for tasks of your own and their judge; give it with --benchmark FILE, --grader judge"
        )
    if grader != "exact":
        raise ConfigError(f"--grader {grader} is for tasks of your own; {name} has its own rule")
    if tools is not None:
        raise ConfigError(f"--tools {tools} is for tasks of your own; {name} has its own tools")
    if own_data != OwnData():
        raise ConfigError(
            f"--input-field, --reference-field and --data-split are for tasks of your own; {name} has its own"
        )


def make_own_benchmark(
    name: str,
    read: OwnTasks,
    load: Callable[[int, int, int, int], Splits],
    grader: str | Grader,
    rubric: str | None,
    toolbox: Toolbox,
) -> Benchmark:
    """Make a benchmark of the user's own tasks.

    Args:
        read: all tasks.
        load: deals them out, as `Benchmark.load`.

    Raises:
        ConfigError: there is no such grader, or a task lacks the reference that it needs.
    """
    from selfwire.evals.graders import GradedEnvironment, get_grader_name, load_grader, require_grader
    from selfwire.evals.judge import AGREES, HOLDS, JUDGE, JudgeEnvironment

    graded_by = grader if isinstance(grader, str) else get_grader_name(grader)
    if isinstance(grader, str):
        _check_references(name, read.tasks, grader, rubric)
        environment = JudgeEnvironment(rubric) if grader == JUDGE else load_grader(grader)
    else:
        environment = GradedEnvironment(graded_by, require_grader(graded_by, grader))
    return Benchmark(
        name=name,
        description=f"{len(read.tasks)} tasks of {name}, graded by {graded_by}",
        load=load,
        environment=environment,
        baseline=TrivialRule("empty answer", lambda question: "" if grader == JUDGE else "-"),
        toolbox=toolbox,
        tools=tuple(sorted(toolbox)),
        figures=(HOLDS, AGREES) if grader == JUDGE else (),
        notes=read.notes,
    )


def _check_references(path: str, tasks: Sequence[Task], grader: str, rubric: str | None) -> None:
    from selfwire.evals.graders import NAMED, validate_references
    from selfwire.evals.judge import JUDGE

    if grader == JUDGE and rubric is None and (bare := [task.id for task in tasks if task.reference is None]):
        raise ConfigError(
            f"{path}: task {bare[0]!r} has no reference that a judge could compare an answer with; "
            "add it, name its field with --reference-field, or say what a good answer is with --rubric"
        )
    try:
        for task in tasks if grader in NAMED else ():
            validate_references(grader, task)
    except GradingError as error:
        raise ConfigError(f"{path}: {error}; mend the task, or choose another --grader or --reference-field") from None

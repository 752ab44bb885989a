"""Benchmarks by name, and the user's own tasks as one."""

from pathlib import Path

from selfwire.core.errors import ConfigError
from selfwire.core.task import Splits
from selfwire.evals.benchmarks.benchmark import Baseline, Benchmark, disjoint_splits

NAMES = ("archive", "plancraft")


def benchmark(name: str, *, seed: int = 0, size: int | None = None, grader: str = "exact") -> Benchmark:
    """A benchmark.

    Args:
        name: one of `NAMES`, or the path of a JSONL file with tasks of one's own.
        seed: of generated tasks.
        size: how many tasks to generate at least, where they are generated.
        grader: for tasks of one's own, a named grader or `module:function`.

    Raises:
        ConfigError: there is no such benchmark, file or grader.
    """
    if name == "archive":
        from selfwire.evals.benchmarks.archive import archive

        return archive(seed=seed) if size is None else archive(size, seed=seed)
    if name == "plancraft":
        from selfwire.evals.benchmarks.plancraft import PLANCRAFT

        return PLANCRAFT
    if is_file(name):
        return own_tasks(name, grader)
    raise ConfigError(f"unknown benchmark {name!r}; choose {', '.join(NAMES)}, or give the path of a .jsonl file")


def is_file(name: str) -> bool:
    """Whether a name means a file of the user's own tasks."""
    return name.endswith((".jsonl", ".json"))


def own_tasks(path: str, grader: str) -> Benchmark:
    """The user's own tasks, with a grader as the environment and no tools.

    Raises:
        ConfigError: the file or the grader cannot be used.
    """
    from selfwire.evals.graders import load_grader
    from selfwire.evals.tasks import read_tasks

    tasks = read_tasks(Path(path))

    def load(seed: int, train: int, gate: int, test: int) -> Splits:
        return disjoint_splits(tasks, seed, train, gate, test)

    return Benchmark(
        name=path,
        description=f"{len(tasks)} tasks of {path}, graded by {grader}",
        load=load,
        environment=load_grader(grader),
        toolbox={},
        tools=(),
        baseline=Baseline("empty answer", lambda question: "-"),
    )

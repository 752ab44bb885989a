"""Benchmarks by name, and the user's own tasks as one."""

from pathlib import Path

from selfwire.core.errors import ConfigError
from selfwire.core.ports import Embedder
from selfwire.core.task import Splits
from selfwire.evals.benchmarks.benchmark import Baseline, Benchmark, disjoint_splits
from selfwire.runtime.embeddings import MiniLMEmbedder
from selfwire.runtime.kept_embeddings import KeptEmbedder

NAMES = ("archive", "plancraft", "hotpotqa", "2wikimultihopqa")


def benchmark(name: str, *, seed: int = 0, size: int | None = None, grader: str = "exact") -> Benchmark:
    """A benchmark.

    Args:
        name: one of `NAMES`, or the path of a JSONL file with tasks of one's own; `hotpotqa` and `2wikimultihopqa`
            search by words, or as `hotpotqa:dense` and `hotpotqa:hybrid` by MiniLM embeddings too.
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
    if name.partition(":")[0] in ("hotpotqa", "2wikimultihopqa"):
        from selfwire.evals.benchmarks.multihop import multihop

        return multihop(*retrieving(name))
    raise ConfigError(f"unknown benchmark {name!r}; choose {', '.join(NAMES)}, or give the path of a .jsonl file")


def retrieving(name: str) -> tuple[str, str, Embedder | None]:
    """A benchmark, its retriever and its embedder, out of a name such as `hotpotqa:hybrid`.

    MiniLM embeds whatever the machine has, so that a name means the same passages everywhere.
    """
    benchmark, _, retriever = name.partition(":")
    retriever = retriever or "bm25"
    return benchmark, retriever, None if retriever == "bm25" else KeptEmbedder(MiniLMEmbedder())


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

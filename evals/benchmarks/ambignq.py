"""AmbigNQ: the 2,002 questions of AmbigQA's development set, many of them ambiguous (Min et al., 2020).

An answer is right if it agrees with any answer of any annotator, to the question or to one of its readings. There is
no corpus.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from selfwire.core.task import Task
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_loader
from selfwire.evals.benchmarks.multihop import MultihopEnvironment
from selfwire.evals.benchmarks.sources import find_source
from selfwire.evals.retrieval import FORM


@cache
def load_tasks() -> tuple[Task, ...]:
    """All questions; the kind says whether annotators gave several readings, the reference lists all answers."""
    rows = json.loads(find_source("ambignq/dev_light.json").read_text(encoding="utf-8"))
    return tuple(
        Task(
            id=f"ambignq-{row['id']}",
            input=f"{row['question']}\n{FORM}",
            kind="ambiguous" if any("qaPairs" in annotation for annotation in row["annotations"]) else "plain",
            reference=list(dict.fromkeys(_answers(row))),
        )
        for row in rows
    )


def _answers(row: Mapping[str, Any]) -> Iterator[str]:
    for annotation in row["annotations"]:
        for reading in annotation.get("qaPairs", [annotation]):
            yield from reading["answer"]


AMBIGNQ = Benchmark(
    name="ambignq",
    description="Open questions, many of them ambiguous, answered without a corpus; the best F1 over all answers.",
    load=make_disjoint_loader(load_tasks),
    environment=MultihopEnvironment("ambignq"),
    baseline=TrivialRule("always yes", lambda question: "Answer: yes"),
    figures=("em", "f1", "accuracy"),
)

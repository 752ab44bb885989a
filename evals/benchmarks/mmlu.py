"""MMLU: 14,042 test questions of 57 subjects, each with four options (Hendrycks et al., 2021)."""

import csv
from collections.abc import Iterator
from functools import cache

from selfwire.core.task import Task
from selfwire.evals.benchmarks import bbh
from selfwire.evals.benchmarks.benchmark import Benchmark, RuleEnvironment, TrivialRule, make_disjoint_loader
from selfwire.evals.benchmarks.sources import find_source, list_sources

LETTERS = "ABCD"


@cache
def load_tasks() -> tuple[Task, ...]:
    """The test questions of all subjects; the kind is the subject, the reference a letter such as (B)."""
    return tuple(task for name in list_sources() if name.startswith("mmlu/") for task in _questions(name))


def _questions(name: str) -> Iterator[Task]:
    kind = name.removeprefix("mmlu/").removesuffix("_test.csv")
    with find_source(name).open(encoding="utf-8", newline="") as lines:
        for number, (question, *options, answer) in enumerate(list(csv.reader(lines))[1:]):
            listed = "\n".join(f"({letter}) {option}" for letter, option in zip(LETTERS, options, strict=True))
            text = f"{question.strip()}\n{listed}\n{bbh.OPTION_FORM}"
            yield Task(id=f"mmlu-{kind}-{number}", input=text, kind=kind, reference=f"({LETTERS[int(answer)]})")


ENVIRONMENT = RuleEnvironment("mmlu", bbh.grade, "normal_form")
MMLU = Benchmark(
    name="mmlu",
    description="Questions of 57 subjects with four options; the letter is compared.",
    load=make_disjoint_loader(load_tasks),
    environment=ENVIRONMENT,
    baseline=TrivialRule("always (A)", lambda question: "Answer: (A)"),
)

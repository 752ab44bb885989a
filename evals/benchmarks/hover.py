"""HoVer: the 4,000 claims of its development set, supported or not by two to four articles (Jiang et al., 2020).

There is no corpus. The kind is the number of articles.
"""

import json
from functools import cache

from selfwire.core.task import Feedback, Task
from selfwire.evals.benchmarks.benchmark import (
    RIGHT,
    Benchmark,
    RuleEnvironment,
    TrivialRule,
    make_answer_rule,
    make_disjoint_loader,
    reject,
)
from selfwire.evals.benchmarks.sources import find_source

FORM = "Is this claim true? End with a line that starts with 'Answer:' and gives only 'supported' or 'not supported'."


@cache
def load_tasks() -> tuple[Task, ...]:
    """All claims; the reference is `supported` or `not supported`."""
    rows = json.loads(find_source("hover/hover_dev_release_v1.1.json").read_text(encoding="utf-8"))
    return tuple(
        Task(
            id=f"hover-{row['uid']}",
            input=f"Claim: {row['claim']}\n{FORM}",
            kind=f"{row['num_hops']} articles",
            reference=row["label"].lower().replace("_", " "),
        )
        for row in rows
    )


def compare(task: Task, gold: str, given: str) -> Feedback:
    """Compare the label."""
    label = " ".join(given.lower().replace("_", " ").strip(" .*'\"`").split())
    if label not in ("supported", "not supported"):
        return reject("Format fault: the answer is neither 'supported' nor 'not supported'.")
    return RIGHT if label == gold else reject("The answer is wrong.")


grade = make_answer_rule("HoVer", compare)
ENVIRONMENT = RuleEnvironment("hover", grade, "normal_form")
HOVER = Benchmark(
    name="hover",
    description="Claims that two to four articles support or not, judged without a corpus.",
    load=make_disjoint_loader(load_tasks),
    environment=ENVIRONMENT,
    baseline=TrivialRule("always supported", lambda question: "Answer: supported"),
)

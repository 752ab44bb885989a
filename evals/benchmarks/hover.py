"""HoVer: the 4,000 claims of its development set, supported or not by two to four articles (Jiang et al., 2020).

There is no corpus. The kind is the number of articles.
"""

import json
from functools import cache

from selfwire.core.task import Feedback, Task
from selfwire.evals.benchmarks.benchmark import (
    NO_ANSWER_LINE,
    RIGHT,
    Benchmark,
    RuleEnvironment,
    TrivialRule,
    get_text_reference,
    make_disjoint_loader,
    reject,
)
from selfwire.evals.benchmarks.sources import find_source
from selfwire.evals.graders import find_final_answer

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


def grade(task: Task, answer: str) -> Feedback:
    """Compare the label on the last line that starts with "Answer:"."""
    gold, given = get_text_reference(task, "HoVer"), find_final_answer(answer)
    if given is None:
        return reject(NO_ANSWER_LINE)
    label = " ".join(given.lower().replace("_", " ").strip(" .*'\"`").split())
    if label not in ("supported", "not supported"):
        return reject("Format fault: the answer is neither 'supported' nor 'not supported'.")
    return RIGHT if label == gold else reject("The answer is wrong.")


ENVIRONMENT = RuleEnvironment("hover", grade, "normal_form")
HOVER = Benchmark(
    name="hover",
    description="Claims that two to four articles support or not, judged without a corpus.",
    load=make_disjoint_loader(load_tasks),
    environment=ENVIRONMENT,
    baseline=TrivialRule("always supported", lambda question: "Answer: supported"),
)

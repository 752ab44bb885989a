"""DeepResearcher's test set: open questions out of six sets, without their web (Zheng et al., 2025).

512 questions each of NQ, TriviaQA, HotpotQA, 2WikiMultihopQA, MuSiQue and PopQA, by kind; there is no corpus. The F1
differs from SQuAD's: lower-cased sets of words, punctuation read as space, articles kept, the best over alternatives.
"""

import string
from functools import cache

from selfwire.core.errors import GradingError
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks.benchmark import (
    NO_ANSWER_LINE,
    RIGHT,
    Benchmark,
    RuleEnvironment,
    TrivialRule,
    make_disjoint_loader,
    reject,
)
from selfwire.evals.benchmarks.sources import read_rows
from selfwire.evals.graders import find_final_answer

FORM = "End with a line that starts with 'Answer:' and gives only the name, date, number or yes or no."
_SPACED = str.maketrans(dict.fromkeys(string.punctuation, " "))


@cache
def load_tasks() -> tuple[Task, ...]:
    """All questions; the reference is the list of alternatives."""
    return tuple(
        Task(id=row["id"], input=f"{row['question']}\n{FORM}", kind=row["source"], reference=row["answers"])
        for row in read_rows("deepresearcher/test.jsonl")
    )


def split_words(text: str) -> frozenset[str]:
    """The set of lower-cased words, punctuation read as space."""
    return frozenset(text.lower().translate(_SPACED).split())


def set_f1(answer: str, gold: str) -> float:
    """F1 over the two sets of words."""
    given, wanted = split_words(answer), split_words(gold)
    common = len(given & wanted)
    return 2 * common / (len(given) + len(wanted)) if common else 0.0


def grade(task: Task, answer: str) -> Feedback:
    """The best set F1 over the alternatives, on the last line that starts with "Answer:"; solved at 1."""
    golds = to_plain_json(task.reference)
    if not (isinstance(golds, list) and golds and all(isinstance(gold, str) for gold in golds)):
        raise GradingError(f"task {task.id!r} has no list of texts as reference: {golds!r}")
    given = find_final_answer(answer)
    if given is None:
        return reject(NO_ANSWER_LINE)
    score = max(set_f1(given, gold) for gold in golds)
    if score == 1:
        return RIGHT
    return Feedback(score=score, solved=False, text=f"The answer is {'partly' if score else 'not'} right.")


ENVIRONMENT = RuleEnvironment("deepresearcher", grade, "final_f1")
DEEPRESEARCHER = Benchmark(
    name="deepresearcher",
    description="Open questions of six sets, answered without a corpus, scored by a set F1 over alternatives.",
    load=make_disjoint_loader(load_tasks),
    environment=ENVIRONMENT,
    baseline=TrivialRule("always yes", lambda question: "Answer: yes"),
)

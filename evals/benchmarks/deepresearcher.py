"""DeepResearcher's test set: open questions out of six sets, without their web (Zheng et al., 2025).

512 questions each of NQ, TriviaQA, HotpotQA, 2WikiMultihopQA, MuSiQue and PopQA; the kind says which. The corpus
that they were asked over is not part of the data, so a team answers from what its model knows.

Its F1 is its own and not SQuAD's: lower-cased sets of words, punctuation read as space, articles kept, the best
over all alternatives.
"""

import string
from functools import cache

from selfwire.core.errors import GradingError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.core.values import to_plain_json
from selfwire.evals.answers import find_final_answer
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_splits
from selfwire.evals.benchmarks.sources import read_rows

FORM = "End with a line that starts with 'Answer:' and gives only the name, date, number or yes or no."
_SPACED = str.maketrans(dict.fromkeys(string.punctuation, " "))


@cache
def load_tasks() -> tuple[Task, ...]:
    """All questions; the reference is the list of alternatives."""
    return tuple(
        Task(id=one["id"], input=f"{one['question']}\n{FORM}", kind=one["source"], reference=one["answers"])
        for one in read_rows("deepresearcher/test.jsonl")
    )


def split_words(text: str) -> frozenset[str]:
    """The set of lower-cased words, punctuation read as space."""
    return frozenset(text.lower().translate(_SPACED).split())


def set_f1(answer: str, gold: str) -> float:
    """F1 over the two sets of words."""
    said, wanted = split_words(answer), split_words(gold)
    common = len(said & wanted)
    return 2 * common / (len(said) + len(wanted)) if common else 0.0


class SetF1Environment:
    """The best set F1 over the alternatives, on the last line that starts with "Answer:"."""

    name = "deepresearcher"

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score the F1; solved at 1.

        Raises:
            GradingError: the task has no list of texts as its reference.
        """
        golds = to_plain_json(task.reference)
        if not (isinstance(golds, list) and golds and all(isinstance(gold, str) for gold in golds)):
            raise GradingError(f"task {task.id!r} has no list of texts as reference: {golds!r}")
        given = find_final_answer(answer)
        if given is None:
            text = "Format fault: there is no line that starts with 'Answer:' and gives an answer."
            return Feedback(score=0.0, solved=False, text=text)
        score = max(set_f1(given, gold) for gold in golds)
        text = "The answer is right." if score == 1 else f"The answer is not right: its F1 is {score:.2f}."
        return Feedback(score=score, solved=score == 1, text=text)


def deepresearcher() -> Benchmark:
    """The benchmark."""
    return Benchmark(
        name="deepresearcher",
        description="Open questions of six sets, answered without a corpus, scored by a set F1 over alternatives.",
        load=lambda seed, train, gate, test: make_disjoint_splits(load_tasks(), seed, train, gate, test),
        environment=SetF1Environment(),
        toolbox={},
        tools=(),
        baseline=TrivialRule("always yes", lambda question: "Answer: yes"),
    )

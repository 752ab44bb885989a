"""Multi-hop questions over real passages: HotpotQA (Yang et al., 2018) and 2WikiMultihopQA (Ho et al., 2020).

hotpotqa         100 questions of the validation set; the corpus is their paragraphs, ten for each, pooled.
hotpotqa:paragraphs  the same questions, each with its own ten paragraphs in the input and without a search.
hotpotqa:full    so all 7,405 questions of the validation set, from the Hugging Face Hub (selfwire[data]).
2wikimultihopqa  97 questions of the validation set over 6,119 passages. The file has neither types nor supporting
                 passages of questions, so the kind follows from a question's form.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from selfwire.core.errors import ConfigError, GradingError
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback, Task
from selfwire.evals.benchmarks.benchmark import Benchmark, TrivialRule, make_disjoint_loader, make_disjoint_splits
from selfwire.evals.benchmarks.sources import find_source
from selfwire.evals.graders import add_measure, contains, em, f1, find_final_answer, get_references, normalise
from selfwire.evals.readers import read_hub
from selfwire.evals.retrieval import FORM, Collection, format_recall, measure_recall, strip_format_hint
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.search import PER_STEP, BrowseTool, Document, SearchTool, make_retriever

NAMES = ("hotpotqa", "2wikimultihopqa")

PARAGRAPHS, FULL = "paragraphs", "full"
"""Words after `hotpotqa:` for questions with their paragraphs: the sample, and the whole validation set."""
FULL_SET = "hf:hotpotqa/hotpot_qa:distractor@1908d6afbbead072334abe2965f91bd2709910ab"

SOLVED_AT = 0.8
"""F1 from which an answer counts as solved; an exact match always does. "Barack Obama" for "Barack Hussein Obama"
has 0.8, while two titles that share half of their words have less."""

_CLOSED = ("yes", "no")
_AUXILIARIES = ("are", "is", "was", "were", "do", "does", "did", "has", "have", "had", "can")
_OPTIONS = (
    # Which came first, A or B?  Which of A and B has more?  Was A or B born first?
    re.compile(r", (?P<first>[^,]+(?:, [^,]+)*?),? or (?P<second>[^?]+)\?"),
    re.compile(r"(?:out of|^which of|^who of|between) (?P<first>.+?) (?:and|or) (?P<second>.+?)[ ?]", re.IGNORECASE),
    re.compile(r"^(?:is|was|did|has) (?P<first>.+?) or (?P<second>.+?) ", re.IGNORECASE),
)
_COMPARED = re.compile(r"\b(?:both|same|earlier|older|younger|later|longer|first|last|more|out of)\b", re.IGNORECASE)


class MultihopEnvironment:
    """F1 with SQuAD's normal form and HotpotQA's rule for yes and no, on the last line that starts with "Answer:"."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def grade(self, task: Task, answer: str, *, scope: Scope) -> Feedback:
        """Score an answer with its F1; without an answer line the whole text counts. GradingError without a reference.

        `details` holds em, f1 and accuracy: whether the answer contains the reference as whole words (yes and no
        must be all of it).
        """
        golds = get_references(task)
        if not golds:
            raise GradingError(f"{self.name} task {task.id!r} has no answer as its reference: {task.reference!r}")
        line = find_final_answer(answer)
        given = answer if line is None else line
        details = {
            "em": max(em(given, gold) for gold in golds),
            "f1": max(f1(given, gold) for gold in golds),
            "accuracy": max(accuracy(given, gold) for gold in golds),
        }
        solved = details["em"] == 1 or details["f1"] >= SOLVED_AT
        said = "The answer is right." if solved else describe_error(task.input, line, details["f1"])
        return add_measure(Feedback(score=details["f1"], solved=solved, text=said, details=details), "final_f1")


def multihop(name: str, retrieval: str = "bm25", embedder: Embedder | None = None, k: int = PER_STEP) -> Benchmark:
    """Make a benchmark of `NAMES`, whose search by `retrieval` (bm25, dense or hybrid) returns k passages.

    Raises:
        ConfigError: there is no such benchmark or retriever, or the data is not available.
    """
    found = load_collection(name)
    told = "the paragraphs of all questions" if name == "hotpotqa" else f"{len(found.documents):,} passages"
    search = SearchTool(found.documents, k=k, retriever=make_retriever(retrieval, found.documents, embedder))
    return Benchmark(
        name=name,
        description=f"{len(found.tasks)} multi-hop questions over {told}, with a search tool; scored by F1.",
        load=partial(make_disjoint_splits, found.tasks),
        environment=MultihopEnvironment(name),
        toolbox={"search": search, "browse": BrowseTool(found.documents), "calculator": CalculatorTool()},
        tools=("search", "calculator"),
        baseline=TrivialRule("first option", choose_first_option),
        figures=("em", "f1", "accuracy"),
        aside=partial(_recall, found, retrieval, embedder),
    )


def read_with_paragraphs(which: str) -> Benchmark:
    """Make HotpotQA with the paragraphs in the input: `PARAGRAPHS` or `FULL`, which is loaded once a split is drawn.

    Raises:
        ConfigError: the data is not available; of the whole set when a split is drawn.
    """
    if which == PARAGRAPHS:
        load_reading_tasks(which)
    told = "100" if which == PARAGRAPHS else "7,405"
    return Benchmark(
        name=f"hotpotqa:{which}",
        description=f"{told} multi-hop questions, each with ten paragraphs to read; scored by F1.",
        load=make_disjoint_loader(partial(load_reading_tasks, which)),
        environment=MultihopEnvironment("hotpotqa"),
        toolbox={"calculator": CalculatorTool()},
        tools=(),
        baseline=TrivialRule("first option", lambda text: choose_first_option(text.rpartition("\n\n")[2])),
        figures=("em", "f1", "accuracy"),
    )


@cache
def load_reading_tasks(which: str) -> tuple[Task, ...]:
    """The questions of `read_with_paragraphs` with their paragraphs; raises as that."""
    if which == PARAGRAPHS:
        lines = find_source("hotpotqa/validate_100.jsonl").read_text(encoding="utf-8").splitlines()
        rows: Iterable[Mapping[str, Any]] = map(json.loads, lines)
    else:
        rows = (_from_hub(row.values) for row in read_hub(FULL_SET, "validation")[0])
    return tuple(_with_paragraphs(row) for row in rows)


def _from_hub(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the Hub in the form of the authors' file: pairs in place of a list for each field."""
    facts, context = row["supporting_facts"], row["context"]
    return {
        **row,
        "_id": row["id"],
        "supporting_facts": list(zip(facts["title"], facts["sent_id"], strict=True)),
        "context": list(zip(context["title"], context["sentences"], strict=True)),
    }


def _with_paragraphs(row: Mapping[str, Any]) -> Task:
    task = _task("hotpotqa", row["_id"], row, row["type"], frozenset(title for title, _ in row["supporting_facts"]))
    paragraphs = [f"{title}: {_flat(''.join(sentences))}" for title, sentences in row["context"]]
    return task.replace(input="\n\n".join([*paragraphs, task.input]))


async def _recall(found: Collection, retrieval: str, embedder: Embedder | None) -> list[str]:
    return [format_recall(await measure_recall(found, retrieval, embedder))]


@cache
def load_collection(name: str) -> Collection:
    """The questions and passages of one of `NAMES`; ConfigError if there is no such benchmark, or no data."""
    if name == "hotpotqa":
        return load_hotpotqa(find_source("hotpotqa/validate_100.jsonl"))
    if name == "2wikimultihopqa":
        folder = "2wikimultihopqa"
        return load_two_wiki(find_source(f"{folder}/questions.json"), find_source(f"{folder}/corpus.json"))
    raise ConfigError(f"there is no multi-hop benchmark {name!r}; choose {', '.join(NAMES)}")


def load_hotpotqa(path: Path) -> Collection:
    """HotpotQA from its JSON lines: the supporting facts name the paragraphs that a question needs."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    gold = {f"hotpotqa-{row['_id']}": frozenset(title for title, _ in row["supporting_facts"]) for row in rows}
    tasks = [_task("hotpotqa", row["_id"], row, row["type"], gold[f"hotpotqa-{row['_id']}"]) for row in rows]
    pooled = {(title, _flat("".join(sentences))) for row in rows for title, sentences in row["context"]}
    return Collection("hotpotqa", tuple(tasks), _documents(pooled), gold)


def load_two_wiki(questions: Path, corpus: Path) -> Collection:
    """2WikiMultihopQA from its questions and the corpus of HippoRAG."""
    rows = json.loads(questions.read_text(encoding="utf-8"))
    tasks = [_task("2wikimultihopqa", row["id"], row, get_question_form(row["question"]), frozenset()) for row in rows]
    passages = json.loads(corpus.read_text(encoding="utf-8"))
    return Collection("2wikimultihopqa", tuple(tasks), _documents({(p["title"], _flat(p["text"])) for p in passages}))


def get_question_form(question: str) -> str:
    """Comparison if a question sets two things side by side, else bridge."""
    return "comparison" if _options(question) or (_is_closed(question) and _COMPARED.search(question)) else "bridge"


def accuracy(answer: str, reference: str) -> float:
    """1 if the answer contains the reference; yes and no must be the whole answer, as they occur in any text."""
    return em(answer, reference) if normalise(reference) in _CLOSED else contains(answer, reference)


def describe_error(question: str, given: str | None, score: float) -> str:
    """Describe the fault of an answer, by question, answer and F1 alone."""
    if given is None:
        return "Format fault: there is no line that starts with 'Answer:' and gives an answer."
    if normalise(given) in ("unknown", "not known", "i do not know", "na", "none", "noanswer"):
        return "The answer leaves the question open."
    closed, wanted = normalise(given) in _CLOSED, _is_closed(strip_format_hint(question))
    if closed != wanted:
        return f"The question {'asks' if wanted else 'does not ask'} for yes or no."
    if score:
        return "The answer is partly right. Give all that is asked for, and nothing else."
    return "The answer is wrong."


def choose_first_option(question: str) -> str:
    """The trivial baseline: the first of two options, yes where the question asks for it, else a fixed guess."""
    bare = strip_format_hint(question)
    options = _options(bare)
    guess = options[0] if options else "yes" if _is_closed(bare) else "unknown"
    return f"Answer: {guess}"


def _options(question: str) -> tuple[str, str] | None:
    if _is_closed(question):
        return None
    found = next((match for pattern in _OPTIONS if (match := pattern.search(question))), None)
    return (found["first"], found["second"]) if found else None


def _is_closed(question: str) -> bool:
    """Whether a question asks for yes or no: it begins with an auxiliary verb, without a choice."""
    words = question.lower().split()
    return bool(words) and words[0] in _AUXILIARIES and ("or" not in words or "both" in words)


def _task(benchmark: str, name: str, row: Mapping[str, Any], kind: str, entities: frozenset[str]) -> Task:
    return Task(
        id=f"{benchmark}-{name}",
        input=f"{_flat(row['question'])}\n{FORM}",
        kind=kind,
        reference=row["answer"],
        entities=tuple(sorted(entities)),
    )


def _documents(passages: set[tuple[str, str]]) -> tuple[Document, ...]:
    return tuple(Document(title=title, text=text) for title, text in sorted(passages))


def _flat(text: str) -> str:
    return " ".join(text.split())

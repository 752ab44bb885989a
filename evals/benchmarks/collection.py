"""Questions over passages, for multi-hop benchmarks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from selfwire.core.task import Task
from selfwire.tools.search import Document

FORM = "End with a line that starts with 'Answer:' and gives only the name, date, number or phrase, or yes or no."
"""Stands below every question, so that any model knows what is graded."""


@dataclass(frozen=True)
class Collection:
    """Questions and the passages with their answers.

    Attributes:
        name: of the benchmark.
        tasks: the questions with their answers.
        documents: the corpus, by title.
        gold: titles of the passages that a question needs, by task; empty if the data does not name them.
    """

    name: str
    tasks: tuple[Task, ...]
    documents: tuple[Document, ...]
    gold: Mapping[str, frozenset[str]] = field(default_factory=dict)


def strip_format_hint(question: str) -> str:
    """A task's input without the line on the form of the answer."""
    return question.removesuffix(FORM).strip()

"""Answers questions of the archive from some of its documents."""

from collections.abc import Iterable

from selfwire.core.task import Task
from selfwire.extras.offline.archive import find_question, find_value, options, parse_question, parts_of
from selfwire.tools.search import Document


def play(task: Task, documents: Iterable[Document]) -> str:
    """Answer a bridge or a comparison; nothing where a document is missing."""
    pages = {page.title: page.text for page in documents}
    question, values = find_question(task.input), list[str]()
    for part in parts_of(question):
        asked = parse_question(part.replace("[1]", values[0] if values else ""))
        value = find_value(asked, pages[asked.subject]) if asked and asked.subject in pages else None
        if value is None:
            return ""
        values.append(value)
    if (pair := options(question)) is None:
        return f"Answer: {values[-1]}"
    first, second = (int(value.replace(",", "")) for value in values)
    wants_more = "later" in question or "more" in question
    return f"Answer: {pair[(second > first) == wants_more]}"

"""Search over a corpus: a few passages per query, by default ranked by BM25 over titles and texts."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ConfigError, format_first_fault
from selfwire.core.protocols import Embedder
from selfwire.core.scope import Scope
from selfwire.core.values import FrozenModel, fingerprint
from selfwire.tools.retrievers import NAMES, Bm25Retriever, DenseRetriever, HybridRetriever, Retriever
from selfwire.tools.text_input import get_text, make_text_schema

PER_STEP, SINGLE_TURN = 5, 10
"""Passages per search by an agent of a team, and in the only search of a single turn (HERA, Sec. 4)."""


class Document(FrozenModel):
    """A document of a corpus."""

    title: str
    text: str


class SearchTool:
    """A search tool over documents; the same query always finds the same passages.

    Args:
        documents: the corpus.
        k: passages per search, at least 1.
        name: of the tool.
        retriever: ranks the documents, see `make_retriever`; None for BM25.
    """

    def __init__(
        self, documents: Sequence[Document], k: int = 3, name: str = "search", retriever: Retriever | None = None
    ) -> None:
        if k < 1:
            raise ValueError(f"a search returns at least 1 passage, not {k}")
        self.documents = tuple(documents)
        self.k = k
        self.name = name
        self._retriever = retriever or make_bm25_retriever(self.documents)

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input for the model."""
        return ToolSpec(
            name=self.name,
            description="Search the corpus; returns the passages that match a query best.",
            parameters=make_text_schema("query", "What to search for."),
        )

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the corpus; equal in every process."""
        return fingerprint([[one.title, one.text] for one in self.documents])

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Passages as blocks: a numbered title line and the text.

        Raises:
            ToolError: there is no query in the input.
        """
        found = await self.passages(get_text(arguments, "query", "search"))
        blocks = [f"[{number}] {one.title}\n{one.text}" for number, one in enumerate(found, start=1)]
        return "\n\n".join(blocks) or "No passage matches."

    async def passages(self, query: str) -> tuple[Document, ...]:
        """The best passages, best first; ties go to the earlier document."""
        return tuple(self.documents[i] for i in await self._retriever.rank(query, self.k))


def make_bm25_retriever(documents: Sequence[Document]) -> Retriever:
    """BM25 over documents."""
    # The title counts twice: a question about a thing wants the document of that name.
    return Bm25Retriever([f"{one.title} {one.title} {one.text}" for one in documents])


def make_retriever(name: str, documents: Sequence[Document], embedder: Embedder | None = None) -> Retriever:
    """A retriever over documents; see `selfwire.tools.retrievers`.

    Args:
        name: bm25, dense or hybrid.
        documents: the corpus.
        embedder: for dense and hybrid.

    Raises:
        ConfigError: the name is unknown, or the retriever needs an embedder.
    """
    if name not in NAMES:
        raise ConfigError(f"there is no retriever {name!r}; choose {', '.join(NAMES)}")
    by_words = make_bm25_retriever(documents)
    if name == "bm25":
        return by_words
    if embedder is None:
        raise ConfigError(f"retriever {name!r} compares embeddings and was given no embedder; pass one or choose bm25")
    by_meaning = DenseRetriever([f"{one.title}\n{one.text}" for one in documents], embedder)
    return by_meaning if name == "dense" else HybridRetriever(by_words, by_meaning)


def read_documents(path: Path) -> tuple[Document, ...]:
    """A corpus from a JSONL file: an object with `title` and `text` on each line; other fields are ignored.

    Raises:
        ConfigError: the file cannot be read or is empty, or a line, which the message names, is no document.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"corpus {path} cannot be read: {error}; give a JSONL file with title and text") from None
    found = tuple(_document(path, number, line) for number, line in enumerate(lines, 1) if line.strip())
    if not found:
        raise ConfigError(f"corpus {path} has no documents; write one JSON object with title and text per line")
    return found


class _Line(BaseModel):
    """A line of a corpus: at least a document."""

    title: str
    text: str


def _document(path: Path, number: int, line: str) -> Document:
    try:
        parsed = _Line.model_validate_json(line)
    except ValidationError as error:
        raise ConfigError(
            f"{path}, line {number} is no document ({format_first_fault(error)}); "
            'write an object such as {"title": "...", "text": "..."} on each line'
        ) from None
    return Document(title=parsed.title, text=parsed.text)

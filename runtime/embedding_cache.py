"""A disk cache of embeddings: a model needs hours for a hundred thousand passages, reading them takes seconds."""

import asyncio
import hashlib
import logging
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from platformdirs import user_cache_path

from selfwire.core.protocols import Embedder

_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '<f4', 'fortran_order': False, 'shape': \((\d{1,9}), (\d{1,9})\), \} *\n",
    re.DOTALL,
)
"""What `numpy.save` writes before rows in float32; its reader takes archives too, and reserves what a header asks."""
LEAST = 64
"""Least number of texts in a call that is cached; single queries are not worth a file."""

Rows = npt.NDArray[np.float32]

_log = logging.getLogger(__name__)


class CachedEmbedder:
    """An embedder that embeds each large batch once per machine.

    A file is named by the embedder and the texts of its batch, holds rows in float32 and can be deleted at any time.
    """

    def __init__(self, inner: Embedder, folder: Path | None = None) -> None:
        self.inner = inner
        self.name = inner.name
        self.folder = folder or user_cache_path("selfwire") / "embeddings"

    async def embed(self, texts: Sequence[str]) -> Rows:
        """Unit rows of shape (len(texts), d), as from the inner embedder."""
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
    """The rows of a file; None if it is missing or does not hold `count` valid rows."""
    try:
        with path.open("rb") as file:
            found = _HEADER.match(file.read(256))
        if not found or int(found[1]) != count or path.stat().st_size != found.end() + 4 * count * int(found[2]):
            return None
        rows = np.fromfile(path, "<f4", offset=found.end()).reshape(count, -1)
    except OSError:
        return None
    return rows if np.isfinite(rows).all() else None


def _write(path: Path, rows: Rows) -> None:
    """Write a whole file or none; a folder that cannot be written only costs time at the next start."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
            np.save(part, rows)
        Path(part.name).replace(path)
    except OSError as error:
        _log.warning("embeddings cannot be cached at %s (%s); they will be computed again", path, error)

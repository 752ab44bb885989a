"""What is on record of a saved version, as short texts."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from selfwire.core.values import format_value
from selfwire.evolvers.gate import name_outcome
from selfwire.runtime.versions import History, Version

_COLUMNS = ("score", "gate", "why", "reasons", "accepted", "method", "seed", "unusable")
"""Facts of a version that have a place of their own in tables, or say nothing that is not there already."""
SEED = "seed"
"""Reason of the version that a run started with."""
PARENT_SCORE = "parent_score"
"""Fact of a version: the mean train score of the one that it was made from."""


def explain_version(version: Version, before: Version | None) -> tuple[str, ...]:
    """Why there is a version, and what was changed; nothing of a seed, which has been called one.

    Args:
        before: the version above it; what both have alike is not repeated.
    """
    known = {} if before is None else {name: before.facts.get(name) for name in ("tools", "model")}
    facts = {name: value for name, value in version.facts.items() if known.get(name) != value}
    found = (format_reasons(version), format_other_facts(facts))
    return tuple(line for line in found if line and line != SEED)


def compute_own_scores(history: History) -> dict[str, str]:
    """Score by version: on the gate's tasks; else in training, which the next version of the run has on record."""
    in_training = {(one.run, one.step - 1): one.facts.get(PARENT_SCORE) for one in history.versions}

    def own(one: Version) -> str:
        if (score := one.facts.get("score")) is not None:
            return format_value(score)
        train = in_training.get((one.run, one.step))
        return "" if train is None else f"{format_value(train)} in training"

    return {one.version: own(one) for one in history.versions}


def format_reasons(version: Version) -> str:
    """The reason of a version: the recorded one, else those of its rewirings."""
    recorded = [str(version.facts["why"])] if "why" in version.facts else list(version.facts.get("reasons", ()))
    return "; ".join(recorded or [rewiring.why for rewiring in version.lineage.rewirings])


def format_outcome(facts: Mapping[str, Any]) -> str:
    """What became of the iteration that made a version; "" of a version that no iteration made."""
    gate = facts.get("gate")
    return (SEED if facts.get("why") == SEED else "") if gate is None else name_outcome(gate)


def format_other_facts(facts: Mapping[str, Any]) -> str:
    """Facts that have no column of their own; long ones as counts."""
    hidden = (*_COLUMNS, *_FORMATTERS, PARENT_SCORE)
    short = [f"{name}={format_value(facts[name])}" for name in facts if name not in hidden]
    counts = [count(facts[name]) for name, count in _FORMATTERS.items() if name in facts]
    return "; ".join(filter(None, [" ".join(short), *counts]))


_FORMATTERS: Mapping[str, Callable[[Any], str]] = {
    "applied": lambda applied: ", ".join(
        f"{count} {operation}"
        for operation, count in Counter(one.get("operation") or "edit" for one in applied).items()
    ),
    "refused": lambda refused: f"{len(refused)} refused" if refused else "",
    "spend": lambda spend: f"{spend['calls']:,} calls so far",
    "notes": lambda notes: "",
}
"""Formatters of facts that would fill the screen; `selfwire diff` and `show RUN` print them whole."""


def format_time(iso: str) -> str:
    """An ISO 8601 time in the local zone, to the second."""
    return datetime.fromisoformat(iso).astimezone().strftime("%Y-%m-%d %H:%M:%S")

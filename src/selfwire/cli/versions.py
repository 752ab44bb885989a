"""Facts of saved versions as short texts."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from selfwire.core.values import format_count, format_value
from selfwire.evolvers.gate import name_outcome
from selfwire.runs.record import list_run_names, summarise_run
from selfwire.store.library import History, Version

_COLUMNS = ("score", "gate", "why", "reasons", "accepted", "method", "seed", "unusable")
"""Facts of a version that have a column of their own in tables, or repeat another fact."""
SEED = "seed"
"""Reason of the version that a run started with."""
PARENT_SCORE = "parent_score"
"""Fact of a version: the mean train score of its parent."""


def explain_version(version: Version, before: Version | None) -> tuple[str, ...]:
    """Explain why there is a version, and what was changed; nothing for a seed.

    Args:
        before: the version above it; what both have alike is not repeated.
    """
    known = {} if before is None else {name: before.facts.get(name) for name in ("tools", "model", "models")}
    facts = {name: value for name, value in version.facts.items() if known.get(name) != value}
    found = (format_reasons(version), format_other_facts(facts))
    return tuple(line for line in found if line and line != SEED)


def read_test_scores(history: History, home: str | None) -> dict[str, float]:
    """Read the held-out scores of versions: of the last version of each run here that has ended with its test."""
    if "://" in (home or ""):
        return {}
    here, last = set(list_run_names(home)), {version.run: version.version for version in history.versions}
    scores = {run: summarise_run(home, run).summary.get("score") for run in last if run in here}
    return {last[run]: score for run, score in scores.items() if isinstance(score, int | float)}


def format_scores(history: History, tested: Mapping[str, float]) -> dict[str, str]:
    """Format scores by version with their phases: test, gate, and train, as the next version of the run records it.

    A version that changed nothing has the scores of the one before it. The train score of a draft is none of a version.

    Args:
        tested: held-out scores by version.
    """
    in_training, drafting = dict[tuple[str, int], Any](), dict[str, bool]()
    for saved in history.versions:
        if not drafting.get(saved.run):
            in_training[saved.run, saved.step - 1] = saved.facts.get(PARENT_SCORE)
        gate = saved.facts.get("gate") or {}
        if not gate.get("unchanged"):
            drafting[saved.run] = not gate.get("accepted") and bool(gate.get("draft") or gate.get("keeps_draft"))
    found, same = dict[str, str](), dict[tuple[str, str], dict[str, Any]]()
    for saved in history.versions:
        known = same.setdefault((saved.run, saved.fingerprint), {})
        own = {"gate": saved.facts.get("score"), "train": in_training.get((saved.run, saved.step))}
        known |= {phase: score for phase, score in own.items() if score is not None}
        shown = {"test": tested[saved.version], **known} if saved.version in tested else known
        found[saved.version] = ", ".join(f"{phase} {format_score(score)}" for phase, score in shown.items())
    return found


def format_score(score: Any) -> str:
    """Format a score with two decimals, as tables have it."""
    return f"{score:.2f}" if isinstance(score, int | float) else format_value(score)


def format_reasons(version: Version) -> str:
    """Format the reason of a version: the recorded one, else the reasons of its rewirings."""
    recorded = [str(version.facts["why"])] if "why" in version.facts else list(version.facts.get("reasons", ()))
    return "; ".join(recorded or [rewiring.why for rewiring in version.lineage.rewirings])


def format_outcome(facts: Mapping[str, Any]) -> str:
    """Format the outcome of the iteration that made a version; "" if no iteration made it."""
    if (gate := facts.get("gate")) is None:
        return SEED if facts.get("why") == SEED else ""
    outcome = name_outcome(gate)
    return f"{outcome}, the team stays" if outcome in ("draft", "rejected") else outcome


def explain_drafts(history: History, run: str) -> str:
    """Explain what may become of the drafts of a run that has proved none; "" if it has none."""
    gates = [saved.facts["gate"] for saved in history.versions if saved.run == run and saved.facts.get("gate")]
    if not (tried := sum(name_outcome(gate) == "draft" for gate in gates)):
        return ""
    drafts = "1 draft has" if tried == 1 else f"{tried} drafts have"
    return (
        f"{drafts} no proof of a gain, as `selfwire history {history.name}` says; more tasks for the gate "
        "(--gate-size, with a smaller --train or --test if there are no more) prove smaller gains, and --gate mean "
        "keeps what does no worse, chance included"
    )


def format_other_facts(facts: Mapping[str, Any]) -> str:
    """Format facts without a column of their own; long facts as counts."""
    hidden = (*_COLUMNS, *_FORMATTERS, PARENT_SCORE)
    short = [f"{name}={format_value(facts[name])}" for name in facts if name not in hidden]
    counts = [count(facts[name]) for name, count in _FORMATTERS.items() if name in facts]
    return "; ".join(filter(None, [" ".join(short), *counts]))


_FORMATTERS: Mapping[str, Callable[[Any], str]] = {
    "applied": lambda applied: ", ".join(
        f"{count} {operation}"
        for operation, count in Counter(change.get("operation") or "edit" for change in applied).items()
    ),
    "refused": lambda refused: f"{len(refused)} refused" if refused else "",
    "spend": lambda spend: f"{format_count(spend['calls'], 'call')} so far",
    "notes": lambda notes: "",
}
"""Formatters of facts that would fill the screen; `selfwire diff` and `show RUN` print them whole."""


def format_time(iso: str) -> str:
    """Format an ISO 8601 time in the local zone, to the second."""
    return datetime.fromisoformat(iso).astimezone().strftime("%Y-%m-%d %H:%M:%S")

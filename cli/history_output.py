"""The versions of a saved workflow in a terminal."""

from selfwire.cli import output
from selfwire.cli.version_facts import compute_own_scores, explain_version, format_outcome, format_time
from selfwire.runtime.versions import History


def show_history(history: History) -> None:
    """Versions from old to new, the head marked and the reason below each, then rollbacks."""
    tags: dict[str, list[str]] = {}
    for tag, version in history.tags.items():
        tags.setdefault(version, []).append(tag)
    scores = compute_own_scores(history)
    rows = [("", "version", "saved", "fingerprint", "score", "outcome")]
    for version in history.versions:
        rows.append(
            (
                "*" if version.version == history.head else "",
                " ".join([version.version, *(f"[{tag}]" for tag in tags.get(version.version, []))]),
                format_time(version.saved),
                version.fingerprint,
                scores.get(version.version, ""),
                format_outcome(version.facts),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    before = [None, *history.versions]
    reasons = [(), *(explain_version(*pair) for pair in zip(history.versions, before, strict=False))]
    out = output.make_console()
    for row, lines in zip(rows, reasons, strict=True):
        out.print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        for line in lines:
            out.print(f"     {line}")
    for move in history.rollbacks:
        out.print(f"rolled back {format_time(move.at)}: {move.source} -> {move.target}")

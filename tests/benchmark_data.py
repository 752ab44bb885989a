"""Where tests find real benchmark data, and the mark of those that need it."""

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]

PINNED = ("mmlu", "ambignq", "hover")
"""Benchmarks whose data is not beside the checkout; tests try them on made-up files of the same form."""


def _beside() -> Path | None:
    """`shared/data` beside the checkout, or one folder further up, where checkouts lie side by side."""
    found = (parent / "shared" / "data" for parent in _ROOT.parents[:2])
    return next((folder for folder in found if folder.is_dir()), None)


def point_at_it() -> None:
    """Let SELFWIRE_DATA name the data beside the checkout, unless it names a folder already."""
    beside = _beside()
    if beside is not None:
        os.environ.setdefault("SELFWIRE_DATA", str(beside))


needs_data = pytest.mark.skipif(
    not os.environ.get("SELFWIRE_DATA") and _beside() is None,
    reason="needs benchmark data: name a folder with it in SELFWIRE_DATA, or put it into ../shared/data",
)

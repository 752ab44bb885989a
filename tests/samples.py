"""How much of the sweeps is run: a sample in `make test`, everything in `make test-slow`.

A sweep does the same with each task of a whole data set, or with thousands of random cases. It carries
`pytest.mark.sweep` and takes what it goes over through `sample`. A test with many cases that differ in little carries
`pytest.mark.every(n)`.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
SWEEP = os.environ.get("SELFWIRE_SWEEP") == "1"
"""Whether this is `make test-slow`, or CI."""
EVERY = 8


def sample(cases: Sequence[T]) -> Sequence[T]:
    """Every eighth case; all of them in `make test-slow`."""
    return cases if SWEEP else cases[::EVERY]

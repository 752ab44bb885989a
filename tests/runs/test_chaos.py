"""A slice of `make chaos`: runs that are disturbed by what follows from a seed end as if nobody had disturbed them."""

import pytest

from tests.chaos_runs import disturb_all

pytestmark = pytest.mark.slow


def test_disturbed_runs_end_as_if_nobody_had_disturbed_them() -> None:
    for found in disturb_all(iter((1, 2)), lambda number: False):
        assert found.faults == (), found

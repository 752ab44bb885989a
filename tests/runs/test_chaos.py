"""A slice of `make chaos`: a run that is killed, stormed at and run twice ends as if nobody had disturbed it."""

import pytest

from tests.chaos_runs import disturb_all

pytestmark = pytest.mark.slow


def test_disturbed_runs_end_as_if_nobody_had_disturbed_them() -> None:
    for found in disturb_all(iter((7,)), lambda number: False):
        assert found.faults == (), found

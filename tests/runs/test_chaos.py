"""A slice of `make chaos`: runs that are disturbed end as if nobody had disturbed them."""

import pytest

from tests.chaos_kinds import KINDS, Kind
from tests.chaos_runs import open_chaos
from tests.disturbances import DISTURBANCES, LONG
from tests.machine_kills import MACHINE_KILLS

SLICES = {
    "eval": ("commit", "storm", "disk", "lock", "twice"),
    "compare": ("kill<100ms", "read-only", "spoil", "clock"),
    "evolve hiva": ("kill", "beside", "stop", "lie"),
}
"""Disturbances by kind of run; together all that are short."""


def test_disturbed_runs_end_as_if_nobody_had_disturbed_them() -> None:
    assert {*DISTURBANCES} == {*LONG}.union(*SLICES.values())
    kinds = {one.name: one for one in KINDS}
    with open_chaos() as chaos:
        for seed, (kind, disturbances) in enumerate(SLICES.items()):
            found = chaos.disturb(seed, kinds[kind], disturbances)
            assert found.faults == (), found


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [one for one in KINDS if one.name in ("eval on processes", "evolve hiva on processes")],
    ids=lambda one: one.name,
)
def test_killed_workers_drivers_and_servers_change_no_row_and_repeat_only_what_was_in_flight(kind: Kind) -> None:
    with open_chaos() as chaos:
        found = chaos.disturb(1, kind, (*MACHINE_KILLS,))
        assert found.faults == (), found
        assert found.kills.total() > 0

"""A slice of `make chaos`: runs that are disturbed end as if nobody had disturbed them."""

from tests.chaos_kinds import KINDS
from tests.chaos_runs import open_chaos
from tests.disturbances import DISTURBANCES, LONG

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

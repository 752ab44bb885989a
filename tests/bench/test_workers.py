"""The bench of workers runs the same evaluation in one process, in two, and on a cluster where there is Ray."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bench import workers


@pytest.mark.slow
def test_the_bench_compares_workers_with_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def no_ray() -> Iterator[str]:
        yield ""

    monkeypatch.setattr(workers, "_open_ray", no_ray)
    alone, control, two, more, cpu = workers.measure_workers(systems=2, tasks=3)
    assert alone.what == "one process, 2 x 3 tasks"
    assert (two.what, two.bound) == ("2 workers by processes: wall / one process", 1 / workers.AIM)
    assert min(control.value, two.value) > 0
    assert more.value == pytest.approx((two.value - 1 / workers.WORKERS) * alone.value)
    assert cpu.value > 0

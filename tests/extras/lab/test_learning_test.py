"""The learning test goes on where it was stopped."""

from pathlib import Path

import pytest

from selfwire.core.errors import ConfigError
from selfwire.extras.cluster.executors import WorkerOptions
from selfwire.extras.lab.ablation.subjects import LearningTest
from selfwire.extras.lab.seeds import run_learning_test
from selfwire.extras.lab.worlds import errands
from selfwire.extras.lab.worlds.errands import Curve, ErrandStudy, SeedResult

ONE = WorkerOptions(workers=1)


def make_test(**changes: int) -> LearningTest:
    return LearningTest(method="evomas", errands=ErrandStudy(**changes))


def test_seeds_that_are_done_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    def fake(study: ErrandStudy, seed: int) -> SeedResult:
        if len(ran) == 1:
            ran.append(-1)
            raise KeyboardInterrupt
        ran.append(seed)
        return SeedResult(
            seed=seed, solved={"trained": 0.5}, positive=0.1, curve=Curve(reward=(), entropy=(), gradient_norm=())
        )

    monkeypatch.setattr(errands, "run_seed", fake)
    out = tmp_path / "rows.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run_learning_test(make_test(), 3, ONE, out)
    found = run_learning_test(make_test(), 3, ONE, out)
    assert [one.seed for one in found] == [0, 1, 2]
    assert ran == [0, -1, 1, 2]
    with pytest.raises(ConfigError, match="another --out"):
        run_learning_test(make_test(updates=7), 3, ONE, out)

"""What holds for every benchmark of the catalogue."""

from collections import Counter

import pytest

from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.values import to_plain_json
from selfwire.evals.benchmarks.catalogue import NAMES, load_benchmark
from selfwire.tools.sandbox import sandbox
from tests.benchmark_data import PINNED, needs_data
from tests.sandboxed import needs_sandbox

pytestmark = [needs_data, needs_sandbox]
HERE = [name for name in NAMES if name not in PINNED]
SIZES = {"train": 20, "gate": 12, "test": 30}


@pytest.mark.parametrize("name", HERE)
def test_splits_have_their_sizes_follow_from_the_seed_and_share_nothing(name: str) -> None:
    made = load_benchmark(name)
    assert made.name == name
    assert all(made.toolbox[tool].spec.name == tool for tool in made.tools)
    splits = made.splits(1, **SIZES)
    assert splits == made.splits(1, **SIZES)
    assert splits != made.splits(2, **SIZES)
    sides = [getattr(splits, side) for side in SIZES]
    assert [len(side) for side in sides] == list(SIZES.values())
    for key in ("id", "input"):
        assert len({getattr(task, key) for side in sides for task in side}) == sum(SIZES.values())
    owned = [{entity for task in side for entity in task.entities} for side in sides]
    assert sum(map(len, owned)) == len(set.union(*owned))
    with pytest.raises(ConfigError, match="ask for fewer"):
        made.splits(1, train=5000, gate=5000, test=5000)


@pytest.mark.parametrize("name", ["math500", "bbh", "deepresearcher", "workbench", "apps"])
def test_kinds_are_spread_evenly(name: str) -> None:
    splits = load_benchmark(name).splits(0, train=0, gate=30, test=60)
    gate, test = (Counter(task.kind for task in side) for side in (splits.gate, splits.test))
    for kind, count in test.items():
        assert abs(gate[kind] / 30 - count / 60) < 0.12


@pytest.mark.parametrize("name", HERE)
async def test_the_trivial_baseline_is_graded_and_no_question_holds_its_reference(name: str) -> None:
    made = load_benchmark(name)
    for task in made.splits(0, train=0, gate=0, test=8).test:
        feedback = await made.environment.grade(task, made.baseline.answer(task.input), scope=Scope(task=task.id))
        assert 0 <= feedback.score <= 1
        assert "reference" not in task.question.model_dump()
        if name == "humaneval":
            assert to_plain_json(task.reference)["tests"] not in task.input


@pytest.mark.parametrize("name", ["humaneval", "mbpp", "apps"])
def test_without_a_sandbox_code_benchmarks_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*, full: bool) -> None:
        raise ConfigError("there is no bubblewrap here")

    monkeypatch.setattr(sandbox, "find_sandbox", none)
    with pytest.raises(ConfigError, match="no bubblewrap"):
        load_benchmark(name)

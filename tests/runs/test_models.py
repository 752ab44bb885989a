"""The models of a request: how many calls may be under way at once."""

from pathlib import Path
from typing import Any

import pytest

from selfwire.graphs.evolve import EvolutionConfig
from selfwire.models.budget import Ledger
from selfwire.models.metered_chat import MeteredModel
from selfwire.runs import evaluation, evolution
from selfwire.runs.inputs import LoadedModels, load_models
from selfwire.runs.spec import EvaluateSpec, EvolveSpec, Models, SystemSpec
from selfwire.store.journal import Journal


def at_once(names: Models, tasks: int) -> int:
    return load_models(names).meter(Journal.memory(), Ledger(), at_once=tasks).chat().policy.concurrency


def test_a_provider_is_asked_for_as_many_tasks_at_once_as_there_are_unless_the_request_says_how_many() -> None:
    assert at_once(Models(), 8) == 32
    assert at_once(Models(), 64) == 64
    assert at_once(Models(requests_at_once=3), 64) == 3


def test_limits_per_minute_are_those_of_the_request() -> None:
    names = Models(requests_per_minute=0.5, tokens_per_minute=9000)
    policy = load_models(names).meter(Journal.memory(), Ledger()).chat().policy
    assert (policy.requests_per_minute, policy.tokens_per_minute) == (0.5, 9000)


def test_runs_lend_their_concurrency_to_their_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[MeteredModel]()

    meter = LoadedModels.meter

    def kept(self: LoadedModels, *args: Any, **options: Any) -> MeteredModel:
        made.append(meter(self, *args, **options))
        return made[-1]

    monkeypatch.setattr(LoadedModels, "meter", kept)
    entries = (SystemSpec(name="single", target="single"),)
    with evaluation.start_evaluation(
        EvaluateSpec(benchmark="archive", tasks=2, concurrency=64, entries=entries), tmp_path
    ):
        assert made[-1].chat().policy.concurrency == 64
    evolving = EvolveSpec(benchmark="archive", evolution=EvolutionConfig(name="x", concurrency=48))
    with evolution.start_evolution(evolving, tmp_path):
        assert made[-1].chat().policy.concurrency == 48

"""The models of a request: how many calls may be under way at once."""

from pathlib import Path

import pytest

from selfwire.graphs.evolution.config import EvolutionConfig
from selfwire.runs import evolution
from selfwire.runs.evaluation import lifecycle
from selfwire.runs.evaluation.request import EvaluationRequest, SystemSpec
from selfwire.runs.models import make_metered_model
from selfwire.runs.requests import EvolveRequest, ModelNames
from selfwire.runtime.journal import Journal
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.metered import MeteredModel


def at_once(names: ModelNames, tasks: int) -> int:
    return make_metered_model(names, journal=Journal.memory(), ledger=Ledger(), at_once=tasks).policy.concurrency


def test_a_provider_is_asked_for_as_many_tasks_at_once_as_there_are_unless_the_request_says_how_many() -> None:
    assert at_once(ModelNames(), 8) == 32
    assert at_once(ModelNames(), 64) == 64
    assert at_once(ModelNames(requests_at_once=3), 64) == 3


def test_limits_per_minute_are_those_of_the_request() -> None:
    names = ModelNames(requests_per_minute=0.5, tokens_per_minute=9000)
    policy = make_metered_model(names, journal=Journal.memory(), ledger=Ledger()).policy
    assert (policy.requests_per_minute, policy.tokens_per_minute) == (0.5, 9000)


def test_runs_lend_their_concurrency_to_their_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[MeteredModel]()

    def kept(*args: object, **options: object) -> MeteredModel:
        made.append(make_metered_model(*args, **options))  # type: ignore[arg-type]  # passed on as they are
        return made[-1]

    for module in (lifecycle, evolution):
        monkeypatch.setattr(module, "make_metered_model", kept)
    entries = (SystemSpec(name="single", target="single"),)
    with lifecycle.start_evaluation(
        EvaluationRequest(benchmark="archive", tasks=2, concurrency=64, entries=entries), tmp_path
    ):
        assert made[-1].policy.concurrency == 64
    evolving = EvolveRequest(benchmark="archive", evolution=EvolutionConfig(name="x", concurrency=48))
    with evolution.start_evolution(evolving, tmp_path):
        assert made[-1].policy.concurrency == 48

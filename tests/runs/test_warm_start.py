"""A run that begins with a trained router outlives the file that it came from."""

from pathlib import Path

import pytest

from selfwire.core.errors import LibraryError
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evolvers.evomas.pool import make_initial_team
from selfwire.evolvers.router.head import RoutingHead
from selfwire.evolvers.router.reinforce import Learner, get_weights
from selfwire.evolvers.router.weights import load_weights, with_weights
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.models.embeddings import HashingEmbedder
from selfwire.runs.spec import EvolveSpec, Sizes
from selfwire.runs.training import resume_training, start_training
from selfwire.store import files
from selfwire.store.files import read_team, write_team
from tests.scripted import prompts


def test_a_training_is_resumed_though_the_file_with_its_first_weights_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make_initial_team(prompts("evomas"), tools=load_benchmark("archive", size=8).tools)
    start = with_weights(pool, get_weights(Learner(RoutingHead(8)), pool.agents, HashingEmbedder().name))
    file = tmp_path / "start.json"
    (beside,) = write_team(start, file)
    request = EvolveSpec(
        method="evomas",
        benchmark="archive",
        sizes=Sizes(train=4, gate=0, test=2),
        evolution=EvolutionConfig(name="mine", iterations=0, gate="off"),
        seed_team=str(file),
        baselines=False,
    )
    with start_training(request, tmp_path, run="warm"):
        pass
    beside.unlink()
    monkeypatch.setattr(files, "_kept", type(files._kept)())  # as in a new process
    with pytest.raises(LibraryError, match=r"needs start\..*\.bin beside it"):
        read_team(file)
    with resume_training("warm", tmp_path) as training:
        kept = load_weights(training.run.seed_team)
    assert kept is not None
    assert kept.card.dimensions == 8

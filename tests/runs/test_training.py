"""Training on a benchmark: what it says of itself before, in the middle and afterwards."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from selfwire.cli.commands import STOPPED
from selfwire.core.errors import ConfigError, JournalError, ModelError
from selfwire.core.usage import Budget
from selfwire.evolvers.router.config import ROUTER, TrainConfig
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.models.budget import Ledger
from selfwire.models.sync import run_sync
from selfwire.runs.estimates import estimate_training
from selfwire.runs.evolution import EvolutionPlan, OpenEvolution, resume_evolution, start_evolution
from selfwire.runs.record import SUMMARY, list_run_names, note_status, summarise_run, track_status
from selfwire.runs.spec import EvolveSpec, Models, Sizes
from selfwire.runs.training import OpenTraining, resume_training, start_training
from selfwire.store.journal import Journal
from tests.commands import call


def request(seed_team: str | None = None, tasks: int = 4, **fields: Any) -> EvolveSpec:
    config = {"stages": 1, "samples": 2, "train": {"updates": 1, "batch": 4, "checkpoint_every": 1}, **fields}
    return EvolveSpec(
        method="evomas",
        benchmark="archive",
        models=Models(embedder="hashing"),
        sizes=Sizes(train=tasks, gate=0, test=1),
        evolution=EvolutionConfig(name="router", iterations=0, gate="off"),
        config=config,
        budget=Budget(),
        seed_team=seed_team,
        baselines=False,
    )


LONG = "word " * 99


async def test_a_run_that_stops_says_why_and_one_that_is_interrupted_says_that() -> None:
    told: list[str] = []

    class NotedJournal(Journal):
        async def put_note(self, name: str, value: Any) -> None:
            assert name == SUMMARY
            told.append(value["status"])

    run: Any = SimpleNamespace(
        command="train", request=request(), labels={}, journal=NotedJournal.memory(), ledger=Ledger()
    )
    async with track_status(run):
        pass
    errors = (asyncio.CancelledError(), KeyboardInterrupt(), ModelError("the provider is down"), ModelError(LONG))
    for error in errors:
        with pytest.raises(type(error)):
            async with track_status(run):
                raise error
    assert told == [
        "running",
        *("running", "stopped: interrupted"),
        *("running", "stopped: interrupted"),
        *("running", "stopped: ModelError: the provider is down"),
        *("running", f"stopped: ModelError: {'word ' * 74}word..."),
    ]


def test_a_phase_that_stops_keeps_what_earlier_phases_have_noted(tmp_path: Path) -> None:
    async def stop(run: OpenEvolution) -> None:
        await note_status(run, "finished", iteration=3)
        with pytest.raises(ModelError):
            async with track_status(run):
                raise ModelError("the provider is down")

    with start_training(request(), tmp_path, run="r") as training:
        run_sync(stop(training.run))
    summary = summarise_run(tmp_path, "r").summary
    assert (summary["iteration"], summary["status"]) == (3, "stopped: ModelError: the provider is down")


def test_a_run_can_be_resumed_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "put_note", end)
    with pytest.raises(KeyboardInterrupt), start_training(request(), tmp_path, run="r"):
        pass
    assert list_run_names(tmp_path) == ()
    monkeypatch.undo()
    monkeypatch.setattr(EvolutionPlan, "open", end)
    with pytest.raises(KeyboardInterrupt), start_training(request(), tmp_path, run="r"):
        pass
    assert summarise_run(tmp_path, "r").summary["command"] == "train"
    monkeypatch.undo()
    with resume_training("r", tmp_path) as training:
        assert training.run.run == "r"


@pytest.mark.parametrize(
    ("tasks", "batch", "told"),
    [
        (4, 8, ()),
        (3, 8, ("every update learns from 6 episodes, not from 8: there are 3 train tasks, 2 runs of each",)),
        (4, 5, ("every update learns from 4 episodes, not from 5: there are 4 train tasks, 2 runs of each",)),
        (4, 1, ("every update learns from 2 episodes, not from 1: there are 4 train tasks, 2 runs of each",)),
    ],
)
def test_batches_of_another_size_than_asked_for_are_said(
    tasks: int, batch: int, told: tuple[str, ...], tmp_path: Path
) -> None:
    with start_training(request(tasks=tasks, train={"batch": batch}), tmp_path) as training:
        assert training.notices == told


@pytest.mark.slow
def test_a_pool_that_was_trained_before_is_not_called_untrained(tmp_path: Path) -> None:
    def tested(training: OpenTraining) -> list[str]:
        run_sync(training.execute())
        ways = {name: team for name, _, team in training._ways(training.run.seed_team)}
        assert ROUTER not in ways["untrained"].memory
        assert ROUTER not in ways["random"].memory
        assert ("as it began" in ways) == (ROUTER in training.run.seed_team.memory)
        return [one.name for one in run_sync(training.tested(training.run.seed_team))]

    with start_training(request(), tmp_path) as training:
        assert tested(training) == ["trained", "untrained", "random"]
    with start_training(request("router"), tmp_path) as training:
        assert tested(training) == ["trained", "as it began", "untrained", "random"]


def test_what_has_nothing_to_learn_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    chain = request().replace(method="hiva", config={"router": "learned"})
    for asked, told in (
        (chain, r"no agent of this team has two successors .*--team"),
        (chain.replace(config={"router": "kabb"}), "routed by something else"),
        (chain.replace(config={"router": "learned", "kabb": False}), "kabb is off, so every successor runs"),
        (request(adapter="random"), "adapter random asks no router"),
    ):
        with pytest.raises(ConfigError, match=told), start_training(asked, tmp_path):
            pass
        with pytest.raises(ConfigError, match=told):
            estimate_training(asked, TrainConfig(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_run_of_another_command_is_not_taken_for_a_training(tmp_path: Path) -> None:
    with start_evolution(request(), tmp_path, run="evolution") as run:
        run_sync(note_status(run, "stopped: interrupted"))
    with pytest.raises(JournalError, match="begun by `selfwire evolve`, not by `selfwire train`; go on with `selfwire"):
        with resume_training("evolution", tmp_path):
            pass
    with resume_evolution("evolution", tmp_path) as run:
        assert run.run == "evolution"


def test_a_budget_below_a_share_is_spent_and_what_was_run_is_listed(tmp_path: Path) -> None:
    options = "--updates 1 --batch 4 --train 4 --test 2 --set stages=1 --embedder hashing --budget-calls 30".split()
    called = call(tmp_path, "train", "evomas", "--benchmark", "archive", *options, code=STOPPED)
    [spent] = re.findall(r"spent: (\d+) calls", called.output)
    assert 20 <= int(spent) <= 30
    assert "--calls-per-task" not in called.output


@pytest.mark.slow
def test_show_lists_the_places_of_a_training_and_runs_says_that_it_is_finished(tmp_path: Path) -> None:
    options = "--updates 1 --batch 4 --train 4 --test 2 --set stages=1 --embedder hashing --budget-calls 9000".split()
    call(tmp_path, "train", "evomas", "--benchmark", "archive", *options)
    [run] = (tmp_path / "runs").iterdir()
    listed = call(tmp_path, "show", run.name).output
    assert [line for line in listed.splitlines() if not line.startswith(" ")] == [
        *("0/train", "0/test-random", "0/test-trained", "0/test-untrained")
    ]
    assert " finished " in call(tmp_path, "runs").output

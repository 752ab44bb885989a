"""The training loop: it learns, saves versions, and comes out the same after kill -9."""

import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from selfwire.core.errors import BudgetError, ConfigError, LibraryError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.evolvers.evomas.layers import make_chooser
from selfwire.evolvers.evomas.pool import add_pool_agent
from selfwire.evolvers.router.config import ROUTER, SamplingConfig
from selfwire.evolvers.router.weights import get_sampling, load_weights, read_weights
from selfwire.graphs.machine import Ctx
from selfwire.models.sync import run_sync
from selfwire.store import files
from selfwire.store.files import read_team, write_team
from selfwire.store.library import open_library
from tests.graphs.trained_process import AGENTS, CONFIG, NAME, RUN, STATE, TASKS, TRAIN, Player, seed, train
from tests.processes import start, wait_for


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


async def test_training_raises_the_reward_and_saves_versions(tmp_path: Path) -> None:
    trained, updates = await train(tmp_path)
    assert [one.number for one in updates] == [1, 2, 3, 4, 5]
    assert {one.episodes for one in updates} == {12}
    assert any(not one.skipped for one in updates)
    with open_library(tmp_path) as library:
        history = await library.history(NAME)
        assert [version.step for version in history.versions] == [2, 4, 5]
        assert await library.load(NAME) == trained
        assert (await library.load(f"{NAME}@{RUN}.2")).memory[ROUTER]["updates"] == 2
    assert read_weights(tmp_path / STATE).card.steps is not None
    kept = load_weights(trained)
    assert kept is not None
    assert kept.card.steps is None  # versions route; they do not go on training


async def test_finished_training_does_nothing_when_it_is_resumed(tmp_path: Path) -> None:
    trained, _ = await train(tmp_path)
    again, updates = await train(tmp_path)
    assert (again, updates) == (trained, [])


@pytest.mark.slow
def test_training_killed_with_9_resumes_to_the_same_weights_bit_for_bit(tmp_path: Path) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    for folder in (straight, killed):
        folder.mkdir()
    run_sync(train(straight))  # in this process, where sets have another order
    draw = random.Random(5)
    for point in (draw.randint(4, 9) for _ in range(2)):  # moments of each process, of about 30 in all
        process = start("tests.graphs.trained_process:main", str(killed), str(point))
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert 0 < read_weights(killed / STATE).card.updates < TRAIN.updates
    wait_for(start("tests.graphs.trained_process:main", str(killed)))
    assert (killed / STATE).read_bytes() == (straight / STATE).read_bytes()
    with open_library(straight) as one, open_library(killed) as other:
        assert run_sync(one.load(NAME)) == run_sync(other.load(NAME))
        histories = [run_sync(library.history(NAME)).versions for library in (one, other)]
    assert [[v.step for v in versions] for versions in histories] == [[2, 4, 5]] * 2


class Stopped(Player):
    """Has no budget left at the third update."""

    async def __call__(self, team: Team, question: Question, ctx: Ctx[Any]) -> Sequence[Trajectory]:
        if ctx.scope.iteration == 2:
            raise BudgetError("nothing is left")
        return await super().__call__(team, question, ctx)


async def test_a_training_that_began_with_trained_weights_is_resumed_where_it_stopped(tmp_path: Path) -> None:
    first, straight, stopped = (tmp_path / name for name in ("first", "straight", "stopped"))
    for folder in (first, straight, stopped):
        folder.mkdir()
    start, _ = await train(first)
    whole, updates = await train(straight, start=start)
    assert [one.number for one in updates] == [1, 2, 3, 4, 5]
    assert whole.memory[ROUTER]["updates"] == 10
    with pytest.raises(BudgetError):
        await train(stopped, player=Stopped(), start=start)
    resumed, rest = await train(stopped, start=start)
    assert [one.number for one in rest] == [3, 4, 5]
    assert resumed == whole


async def test_a_damaged_state_file_stops_a_resume(tmp_path: Path) -> None:
    await train(tmp_path)
    (tmp_path / STATE).write_bytes(b"half")
    with pytest.raises(ConfigError, match="corrupt"):
        await train(tmp_path)


class Mute(Player):
    """Leaves its router nothing to choose."""

    async def one(self, team: Team, question: Question, scope: Scope) -> Trajectory:
        return (await super().one(team, question, scope)).replace(notes={})


async def test_what_cannot_be_trained_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to choose"):
        await train(tmp_path, player=Mute())
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="cuda"):
            await train(tmp_path, config=TRAIN.replace(device="cuda"))
    assert not (tmp_path / STATE).exists()


async def test_history_and_rollback_bring_the_weights_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await train(tmp_path)
    monkeypatch.setattr(files, "_kept", type(files._kept)())  # as in a new process
    with open_library(tmp_path) as library:
        await library.rollback(NAME, f"{RUN}.2")
        early = await library.load(NAME)
        weights = load_weights(early)
        assert weights is not None
        assert weights.card.updates == 2
        write_team(early, tmp_path / "early.json")
    monkeypatch.setattr(files, "_kept", type(files._kept)())
    with pytest.raises(LibraryError, match="load the team from its library"):
        load_weights(early)
    assert load_weights(read_team(tmp_path / "early.json")) is not None


async def test_a_library_refuses_changed_or_missing_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, _ = await train(tmp_path)
    reference = trained.memory[ROUTER]["weights"]
    monkeypatch.setattr(files, "_kept", type(files._kept)())
    with open_library(tmp_path) as library:
        for value, told in (({"base64": "AAAA"}, "changed"), ({"base64": "?"}, "changed"), (None, "missing")):
            if value is None:
                await library.store.adelete(("selfwire", "blobs"), reference)
            else:
                await library.store.aput(("selfwire", "blobs"), reference, {"schema": 1, **value}, index=False)
            with pytest.raises(LibraryError, match=told):
                await library.load(NAME)
        with pytest.raises(LibraryError, match="which is not loaded"):
            await library.save("other", trained.with_memory(note="new"), run="r", step=0)


async def test_an_agent_added_by_hand_is_chosen_without_training_and_a_changed_pool_is_refused(tmp_path: Path) -> None:
    trained, _ = await train(tmp_path)
    player = Player()
    grown = add_pool_agent(trained, AGENTS[0].replace(id="tune", role="parcel 3: tune it", prompt="parcel 3: tune it"))
    drawn = [await player.one(grown, TASKS[3].question, Scope(sample=number)) for number in range(30)]
    assert "tune" in {one.answer for one in drawn}
    with pytest.raises(ValueError, match="appears twice"):
        add_pool_agent(grown, AGENTS[0])
    changed = trained.replace(agents=(AGENTS[0].replace(role="bake"), *AGENTS[1:]))
    with pytest.raises(ConfigError, match=r"another pool .*sort are missing or changed"):
        await make_chooser(changed, CONFIG, player.embedder)
    await make_chooser(changed, CONFIG.replace(transfer=True), player.embedder)


async def test_untrained_and_frozen_routers_are_the_head_as_it_starts(tmp_path: Path) -> None:
    trained, _ = await train(tmp_path)
    player, scope = Player(), Scope()
    rows = ("active subtask: parcel 1", "objective: post it")

    async def shares(adapter: str, team: object) -> object:
        config = CONFIG.replace(adapter=adapter)
        chooser = await make_chooser(team, config, player.embedder)  # type: ignore[arg-type]
        return (await chooser(rows, AGENTS, scope=scope)).probabilities

    assert await shares("frozen", trained) == await shares("learned", seed())
    assert await shares("learned", trained) != await shares("learned", seed())
    assert await shares("random", trained) != await shares("learned", trained)


async def test_layers_are_drawn_as_the_router_was_trained_unless_the_config_says_otherwise(tmp_path: Path) -> None:
    trained, _ = await train(tmp_path)
    default = EvomasConfig()
    assert get_sampling(trained, default.routing) == CONFIG.sampling != default.sampling
    assert get_sampling(seed(), default.routing) == default.sampling
    wanted = default.replace(sampling=SamplingConfig(softness=0.2))
    assert get_sampling(trained, wanted.routing) == wanted.sampling
    assert get_sampling(trained, default.replace(adapter="random").routing) == default.sampling
    with pytest.raises(ConfigError, match="unreadable sampling"):
        get_sampling(trained.with_memory(router={"weights": "sha256:0", "sampling": {"mass": 2}}), default.routing)
    chooser = await make_chooser(trained, default, Player().embedder)
    drawn = await chooser(("active subtask: parcel 1",), AGENTS, scope=Scope())
    assert [len(layer) for layer in drawn.layers] == [1, 1]


def test_updates_are_enough_for_a_checkpoint() -> None:
    assert TRAIN.updates % TRAIN.checkpoint_every  # so that the last update is saved for its own sake


@pytest.mark.parametrize("entry", ["none", {"weights": 3}])
def test_a_router_without_weights_is_refused(entry: object) -> None:
    broken = seed().replace(memory={ROUTER: entry})
    with pytest.raises(ConfigError, match=r"has a router without weights: .*; train again"):
        load_weights(broken)

"""Trained routers on the command line: eval --team, and --router for HiVA's team."""

import asyncio
import re
from pathlib import Path

import pytest

from selfwire.cli.evaluate import get_router_config
from selfwire.cli.options import parse_config_fields
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.evals.benchmarks.catalogue import load_benchmark
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.evolvers.hiva.kabb import has_learned_router
from selfwire.evolvers.router.head import RoutingHead
from selfwire.evolvers.router.reinforce import Learner, get_weights
from selfwire.evolvers.router.weights import with_weights
from selfwire.graphs.method import make_method
from selfwire.models.embeddings import HashingEmbedder
from selfwire.store.files import write_team
from selfwire.store.library import open_library
from tests.commands import call

EMBEDDER = HashingEmbedder()
EVAL = ("--benchmark", "archive", "--tasks", "1", "--set", "stages=1", "--embedder", "hashing")


def seed(name: str) -> Team:
    bench = load_benchmark("archive")
    return make_method(name).seed(bench.tools, toolbox=tuple(bench.toolbox))


def routed(name: str) -> Team:
    start, dimensions = seed(name), asyncio.run(EMBEDDER.embed(["task"])).shape[1]
    return with_weights(
        start, get_weights(Learner(RoutingHead(dimensions)), start.agents, EMBEDDER.name).without_optimiser()
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("home")
    saved = {"pool": routed("evomas"), "team": routed("hiva"), "plain": seed("evomas")}
    with open_library(made) as library:
        for name, one in saved.items():
            asyncio.run(library.save(name, one, run="r", step=1))
    return made


def test_eval_takes_a_method_with_the_weights_of_a_saved_workflow(home: Path) -> None:
    result = call(home, "eval", "evomas", "--team", "pool", *EVAL)
    assert re.search(r"^ ?pool  +\d\.\d\d \[", result.output, re.MULTILINE)


def test_weights_of_a_team_make_the_learned_router_its_own(home: Path) -> None:
    assert get_router_config("hiva", "team", {"k": 1}, [], str(home)) == {"router": "learned", "k": 1}
    assert get_router_config("evomas", "pool", {}, ["state"], str(home)) == {"task_state": False}


@pytest.mark.parametrize(
    ("target", "ref", "told"),
    [
        ("single", "pool", "--team pool is for a method with a router, and 'single' is a baseline; leave it out"),
        ("dytopo", "pool", "dytopo has no router to train; evomas, hiva have"),
        ("hiva", "pool", "'pool' belongs to evomas, not to hiva"),
        ("evomas", "plain", "'plain' has no trained router; `selfwire train evomas` makes one"),
        ("evomas", "nowhere", "nowhere"),
    ],
)
def test_weights_that_are_none_are_one_clear_message(home: Path, target: str, ref: str, told: str) -> None:
    result = call(home, "eval", target, "--team", ref, *EVAL, code=2)
    assert result.stdout == ""
    assert told in " ".join(result.stderr.split())


def test_weights_of_another_pool_are_refused_before_anything_is_written(home: Path, tmp_path: Path) -> None:
    pool = routed("evomas")
    baker = pool.agents[0].replace(role="Bakes bread.")
    write_team(pool.replace(agents=(baker, *pool.agents[1:])), tmp_path / "other.json")
    work = ("--benchmark", "archive", "--embedder", "hashing")
    file = str(tmp_path / "other.json")
    for command in (("eval", file), ("train", "evomas", "--team", file)):
        result = call(tmp_path / "new", *command, *work, code=2)
        assert result.stdout == ""
        assert re.search(r"another pool .*early_exit are missing or changed; .* set transfer to true", result.stderr)
    other = call(home, "eval", "pool", "--benchmark", "archive", "--tasks", "1", "--embedder", "minilm", code=2)
    assert "the weights read vectors of hashing-384, not of" in other.stderr
    assert not (tmp_path / "new").exists()


def test_a_team_that_was_trained_for_a_router_is_routed_by_it() -> None:
    team, plain = routed("hiva"), seed("hiva")
    configs = [HivaConfig.model_validate({"router": name}) for name in ("auto", "learned", "kabb")]
    assert [has_learned_router(team, one) for one in configs] == [True, True, False]
    assert [has_learned_router(plain, one) for one in configs] == [False, True, False]


@pytest.mark.parametrize("name", ["auto", "learned", "kabb"])
def test_without_kabb_every_successor_runs_though_a_router_was_trained(name: str) -> None:
    assert not has_learned_router(routed("hiva"), HivaConfig.model_validate({"router": name, "kabb": False}))


def test_the_router_of_a_team_is_an_option(home: Path) -> None:
    assert (
        parse_config_fields([], "learned")
        == parse_config_fields(["router=learned"], "learned")
        == {"router": "learned"}
    )
    with pytest.raises(ConfigError, match="--router says kabb, and --set router=learned; choose one"):
        parse_config_fields(["router=learned"], "kabb")
    asked = ("run", "hiva", "Who?", "--embedder", "hashing", "--team", "team", "--benchmark", "archive", "--router")
    call(home, *asked, "learned")
    refused = call(home, *asked, "dice", code=2)
    assert "config of hiva: router: Input should be 'auto', 'kabb' or 'learned'" in refused.stderr

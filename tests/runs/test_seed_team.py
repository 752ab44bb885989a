"""A seed team is held to the method's switches and caps, as the singleton is."""

from pathlib import Path

import pytest

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.topology import TopologyLimits, make_chain
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.graphs.pruning import PruningConfig
from selfwire.models.sync import run_sync
from selfwire.runs.evaluation import validate_request
from selfwire.runs.evolution import start_evolution
from selfwire.runs.evolution import validate_request as validate_evolution
from selfwire.runs.record import find_contaminated_tasks, remove_run
from selfwire.runs.spec import EvaluateSpec, EvolveSpec, Sizes, SystemSpec
from selfwire.store.files import write_team
from selfwire.store.library import open_library
from tests.commands import call

NAMES = ("source", "checker", "aggregator")
TEAM = Team(
    method="hiva",
    agents=tuple(Agent(id=name, prompt=f"You are the {name}.", tools=("search",)) for name in NAMES),
    topology=make_chain(*NAMES),
)


@pytest.fixture
def team(tmp_path: Path) -> str:
    write_team(TEAM, tmp_path / "team.json")
    return str(tmp_path / "team.json")


def request(team: str, **config: int | bool) -> EvolveSpec:
    return EvolveSpec(
        benchmark="archive",
        sizes=Sizes(train=2, gate=2, test=2),
        evolution=EvolutionConfig(name="seeded", iterations=1, batch=2, gate="mean", gate_tasks=2),
        config=config,
        seed_team=team,
    )


def test_the_config_of_a_run_holds_for_its_seed_team(team: str, tmp_path: Path) -> None:
    with start_evolution(request(team, tools=False, nodes=3, successors=2), tmp_path, run="r") as run:
        seed = run.seed_team
    assert {agent.tools for agent in seed.agents} == {()}
    assert seed.topology.caps == TopologyLimits(nodes=3, successors=2)


def test_with_tools_a_seed_team_keeps_its_own(team: str, tmp_path: Path) -> None:
    with start_evolution(request(team), tmp_path, run="r") as run:
        assert run.seed_team.agents == TEAM.agents


def test_a_seed_team_beyond_the_caps_starts_nothing(team: str, tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"3 nodes .*nodes=2"),
        start_evolution(request(team, nodes=2), tmp_path, run="r"),
    ):
        raise AssertionError("it has started")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "command", [("evolve", "hiva", "--team", "mine", "--gate", "mean"), ("prune", "mine"), ("eval", "mine")]
)
@pytest.mark.parametrize(
    ("facts", "way"),
    [
        ({"tools": "my tools.py:search"}, "lend the tools with --tools 'my tools.py:search'"),
        ({}, "lend the tools with --tools, or take the benchmark that it was made for"),
    ],
)
def test_a_team_that_lacks_its_tools_is_told_how_it_gets_them(
    tmp_path: Path, command: tuple[str, ...], facts: dict[str, str], way: str
) -> None:
    lines = "".join(f'{{"input": "What is {n} + {n}?", "reference": "{2 * n}"}}\n' for n in range(300))
    (tmp_path / "tasks.jsonl").write_text(lines)
    with open_library(tmp_path) as library:
        run_sync(library.save("mine", TEAM, run="r", step=1, facts=facts))
    refused = call(tmp_path, *command, "--benchmark", str(tmp_path / "tasks.jsonl"), code=2)
    told = f"error: team 'mine' holds search, which {tmp_path / 'tasks.jsonl'} lacks; {way}\n"
    assert refused.stderr.endswith(told)


def test_tasks_that_a_team_has_learned_from_are_told_of_where_they_prove_a_pruning_and_left_out_of_every_later_eval(
    team: str, tmp_path: Path
) -> None:
    evolves = request(team).replace(sizes=Sizes(train=2, gate=20, test=2))
    with start_evolution(evolves, tmp_path, run="first") as run:
        run_sync(run.library.save("mine", TEAM.with_lineage(TEAM, ()), run="first", step=1))
    pruning = EvolutionConfig(name="mine", iterations=0, pruning=PruningConfig(margin=0.9), gate_tasks=2)
    prunes = evolves.replace(seed_team="mine", evolution=pruning, sizes=Sizes(train=2, gate=22, test=2))
    with start_evolution(prunes, tmp_path, run="second") as run:
        known = find_contaminated_tasks(["first"], tmp_path)
        seen = sum(known.has_task(task, "archive") for task in run.splits.gate)
        assert 0 < seen < 22
        assert f"team 'mine' has learned from {seen} of 22 gate tasks" in " ".join(run.notices)
        run_sync(run.library.save("mine", run.seed_team, run="second", step=0))
    asked = EvaluateSpec(benchmark="archive", tasks=30, entries=(SystemSpec(name="mine", target="mine"),))
    assert not any(known.has_task(task, "archive") for task in validate_request(asked, tmp_path).tasks)
    remove_run(tmp_path, "second")
    told = " ".join(validate_evolution(prunes, tmp_path).notices)
    assert "run second has no journal here, so nobody knows whether its team has learned from these tasks" in told
    with start_evolution(prunes, tmp_path, run="third"):
        assert find_contaminated_tasks(["third"], tmp_path).unknown == ("second",)

"""tau and K_in fitted to held-out tasks; teams of one's own."""

import pytest

from selfwire.core.agent import Agent
from selfwire.core.chat import load_prompts
from selfwire.core.errors import ConfigError
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.evolvers.dytopo.domain import Domain, DytopoMemory
from selfwire.evolvers.dytopo.initial_team import (
    DOMAINS,
    make_initial_team,
    make_team,
)
from selfwire.evolvers.dytopo.tuning import (
    Setting,
    Trial,
    choose_best,
    find_neighbours,
    get_current_setting,
    make_grid,
    with_setting,
)

NOW = Setting(threshold=0.3, providers=3)
PROMPTS = load_prompts("evolvers", "dytopo")


def trial(threshold: float, providers: int, *scores: float | None, tokens: int = 100) -> Trial:
    return Trial(setting=Setting(threshold=threshold, providers=providers), scores=scores, tokens=tokens)


def chosen(*trials: Trial) -> tuple[float, int]:
    found = choose_best(trials, NOW)
    return found.threshold, found.providers


def test_the_highest_mean_score_wins() -> None:
    assert chosen(trial(0.3, 3, 1, 0), trial(0.5, 2, 1, 1), trial(0.6, 1, 0, 0)) == (0.5, 2)
    # among equals the present setting stays, else fewer tokens decide, then tau and K_in
    assert chosen(trial(0.5, 2, 1, tokens=1), trial(0.3, 3, 1, tokens=900)) == (0.3, 3)
    assert chosen(trial(0.5, 2, 1, tokens=90), trial(0.6, 3, 1, tokens=80)) == (0.6, 3)
    assert chosen(trial(0.5, 2, 1), trial(0.6, 3, 1), trial(0.6, 2, 1)) == (0.6, 2)
    # tasks with an error in any trial teach nothing
    assert chosen(trial(0.3, 3, 0, 1), trial(0.5, 2, 1, None)) == (0.5, 2)
    assert chosen(trial(0.5, 2, None), trial(0.6, 3, 1)) == (0.3, 3)


@pytest.mark.parametrize("trials", [(trial(0.3, 3, 1), trial(0.5, 3, 1, 0)), ()])
def test_trials_are_compared_on_the_same_tasks(trials: tuple[Trial, ...]) -> None:
    with pytest.raises(ValueError, match="same tasks"):
        choose_best(trials, NOW)


def test_a_tuned_workflow_overrules_the_config() -> None:
    team = make_initial_team(PROMPTS, "math")
    config, setting = DytopoConfig(threshold=0.4, providers=2), Setting(threshold=0.6, providers=1)
    assert get_current_setting(team, config) == Setting(threshold=0.4, providers=2)
    tuned = with_setting(team, setting)
    assert get_current_setting(tuned, config) == setting
    assert tuned.topology == team.topology
    assert tuned.fingerprint != team.fingerprint


@pytest.mark.parametrize(("now", "near"), [((0.3, 3), [(0.2, 3), (0.4, 3), (0.3, 2)]), ((1, 1), [(0.9, 1), (1, 2)])])
def test_near_is_one_step_of_the_papers_sweep_within_bounds(
    now: tuple[float, int], near: list[tuple[float, int]]
) -> None:
    found = find_neighbours(Setting(threshold=now[0], providers=now[1]))
    assert [(setting.threshold, setting.providers) for setting in found] == near
    assert {setting.threshold for setting in make_grid()} == {at / 10 for at in range(1, 10)}
    assert len(make_grid()) == 27


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_seed_has_workers_as_nodes_and_a_manager_without_one(domain: str) -> None:
    team = make_initial_team(PROMPTS, domain, tools=("search",))
    assert "Manager" in team.agents_by_id
    assert "Manager" not in team.topology.agents
    assert all(agent.tools == ("search",) for agent in team.members)
    assert DytopoMemory.of(team).domain == DOMAINS[domain]


@pytest.mark.parametrize(
    ("agents", "answerer", "message"),
    [
        (["a", "Manager"], "a", "cannot be called 'Manager'"),
        (["a", "b"], "c", "needs c; workers are a, b"),
        (["a", "a"], "a", "twice"),
    ],
)
def test_a_team_that_cannot_be_is_refused(agents: list[str], answerer: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_team([Agent(id=n, prompt="-") for n in agents], Domain(name="own", answerers=(answerer,)), manager="-")


def test_unknown_domains_and_workflows_of_another_method_are_refused() -> None:
    with pytest.raises(ValueError, match="domains are code, math, general"):
        make_initial_team(PROMPTS, "law")
    with pytest.raises(ConfigError, match=r"its memory has no domain.* begin with a team of 'dytopo'"):
        DytopoMemory.of(make_initial_team(PROMPTS, "math").replace(method="hiva", memory={}))

"""The worlds of TacoMAS's loops and weights, small: what their figures mean, and that the method's own code runs."""

from itertools import product

import numpy as np
import pytest

from selfwire.core.scope import Scope
from selfwire.core.trajectory import Message
from selfwire.evolvers.tacomas.fast import weigh_messages
from selfwire.extras.lab.worlds.tacomas import roles, sweeps, votes
from selfwire.extras.lab.worlds.tacomas.roles import FIXED, MAIN, ORACLE, run_task
from selfwire.extras.lab.worlds.tacomas.survey import (
    ENTRY,
    SINK,
    SurveyModel,
    SurveyParameters,
    find_skill,
    make_survey,
)
from selfwire.extras.lab.worlds.tacomas.votes import (
    BEST,
    RIGHT,
    ROOMY,
    UNIFORM,
    WRONG,
    VotesParameters,
    compute_best_value,
    compute_chance,
    compute_value,
    learn_weights,
    sum_up,
    write_evidence,
)

SCOPE = Scope(seed=1, task="t0", phase="test")
SMALL = SurveyParameters(rounds=5, tasks=1)
FEW = VotesParameters(counts=(1, 2), lines=9, inbox=120, rounds=4, tasks=1)


async def test_missing_roles_are_born_in_the_place_of_the_dead_and_the_cap_holds() -> None:
    given = SMALL.never_wrong
    survey = make_survey(given, 1, 0)
    start = {find_skill(agent.prompt) for agent in survey.team.agents} - {""}
    assert len(start & set(survey.results)) == len(start) / 2 == given.present
    done = await run_task(survey, given, SCOPE, interval=1)
    assert survey.solves(done.answer)
    rounds = done.notes["rounds"]
    born = [agent for one in rounds for agent in one["births"]]
    assert sorted(born) == sorted(set(survey.results) - start)
    assert next(agent for one in rounds for agent in one["deaths"]) not in survey.results
    assert max(done.notes["figures"]["nodes"]) == given.cap
    assert not survey.solves((await run_task(survey, given, SCOPE, topology=False)).answer), "nobody has the skills"


async def test_notes_make_a_worker_better_and_nothing_else_does() -> None:
    given = SMALL.replace(alone=0.0, taught=1.0, coach=1.0, judge=1.0)
    survey = make_survey(given, 1, 0)
    done = await run_task(survey, given, SCOPE, topology=False)
    first, second = (one["answer"] for one in done.notes["rounds"][:2])
    assert (survey.count_right(first), survey.count_right(second)) == (0, given.present)
    frozen = await run_task(survey, given, SCOPE, topology=False, capability=False)
    assert {survey.count_right(one["answer"]) for one in frozen.notes["rounds"]} == {0}


@pytest.mark.parametrize(("hasty", "guesses"), [(0.0, False), (1.0, False), (1.0, True)])
def test_the_meta_model_acts_on_what_it_is_shown(hasty: float, guesses: bool) -> None:
    given = SMALL.replace(meta=1.0, hasty=hasty)
    survey = make_survey(given, 1, 0)
    needed = sorted(survey.results)
    there = {"x1": needed[0], "x2": needed[1], "x3": needed[2]}
    low = " (a candidate for death)"
    agents = "\n\n".join(f"[{one}] Do the step of {skill}.{low * (one == 'x1')}" for one, skill in there.items())
    shown = {"agents": f"[{ENTRY}] Open.\n\n{agents}\n\n[{SINK}] Sum up.", "goal": f"The step of {needed[3]} is right."}
    pairs = SurveyModel(survey, given, guesses)._rewire(shown, np.random.default_rng(0)).birth_death_pairs
    assert len(pairs) == 1 + int(hasty)
    if not guesses:
        assert (pairs[0].v_dead, pairs[0].v_new and pairs[0].v_new.role) == (None, needed[3])
        assert [one.v_dead for one in pairs[1:]] == ["x1"] * int(hasty)


async def test_nobody_gets_more_than_who_never_errs_and_a_seed_repeats_itself() -> None:
    first = await roles.run_seed(small := SMALL.replace(rounds=4), 0)
    survey, scope = make_survey(small, 0, 0), Scope(seed=0, task="t0", phase="test")
    assert first.figures[MAIN] == roles.summarise(survey, await run_task(survey, small, scope))
    assert first.figures[ORACLE]["solved"] == max(one["solved"] for one in first.figures.values()) == 1
    assert first.figures[FIXED]["slow updates"] == first.figures[FIXED]["births"] == 0
    assert "| mean change of m per round [95 %] |" in roles.WORLD.format_tables([first, first.replace(seed=1)])


async def test_weights_move_to_the_reliable_and_stay_where_nothing_is_learned() -> None:
    given = FEW.replace(judge=1.0, rounds=6)
    learned = await learn_weights({"v0": 1.0, "v1": 0.0, "v2": 0.0}, given, SCOPE)
    assert learned["v0"] > 2 * learned["v1"]
    same = await learn_weights({"v0": 1.0, "v1": 0.0, "v2": 0.0}, given, SCOPE, rate=0)
    assert len({round(weight, 9) for weight in same.values()}) == 1


def test_the_value_of_weights_is_that_of_every_sum_of_votes() -> None:
    chances, weights = {"v0": 0.9, "v1": 0.4, "v2": 0.3}, {"v0": 0.5, "v1": 0.2, "v2": 0.3}
    total = 0.0
    for said in product((True, False), repeat=3):
        texts = [write_evidence(vote, FEW.lines) for vote in said]
        inbox = [Message(source=name, target=SINK, text=text) for name, text in zip(chances, texts, strict=True)]
        read = weigh_messages(inbox, weights, FEW.inbox, about=votes.TASK)
        if sum_up("\n\n".join(f"From {one.source}:\n{one.text}" for one in read)) == RIGHT:
            total += compute_chance(chances, said)
    assert compute_value(chances, weights, FEW) == pytest.approx(total)
    assert sum_up(f"{write_evidence(False, 2)} {write_evidence(True, 2)}") == WRONG


async def test_the_best_vote_goes_by_the_odds() -> None:
    assert compute_best_value({"v0": 0.9, "v1": 0.5}) == pytest.approx(0.9)
    assert compute_best_value({"v0": 0.9, "v1": 0.1}) == pytest.approx(0.9)
    assert compute_best_value(dict.fromkeys(("v0", "v1", "v2"), 0.8)) == pytest.approx(0.8**3 + 3 * 0.8**2 * 0.2)
    result = await votes.run_seed(FEW, 0)
    assert result.figures[BEST]["right"] >= max(one["right"] for one in result.figures.values()) - 1e-9
    assert result.figures[UNIFORM]["right"] < result.figures[BEST]["right"]
    majority = compute_value(FEW.draw(0, 0), dict.fromkeys(("v0", "v1", "v2"), 1 / 3), FEW.replace(inbox=12_000))
    assert result.figures[ROOMY]["right"] == majority, "weights cut nothing where there is room"


async def test_sweeps_change_one_parameter_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("R = 1", "R = 10", "2 steps", "8 workers")
    monkeypatch.setattr(sweeps, "SYSTEMS", {name: sweeps.SYSTEMS[name] for name in names})
    found = (await sweeps.run_seed(SurveyParameters(tasks=1), 0)).figures
    assert found["R = 1"]["rounds"] == 1 < found["R = 10"]["rounds"]
    assert found["2 steps"]["solved"] == 1, "the first team has both of its skills"
    assert found["8 workers"]["births"] == found["8 workers"]["deaths"], "there is no room for more"
    assert found["4 steps"] == found["R = 10"]
    assert {name for names in (sweeps.SYSTEMS, sweeps.SAME) for name in names} >= set(found)

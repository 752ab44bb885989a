"""What was answered is kept: where a model outside the team fails, and where a budget or an outage stops a run."""

from typing import Any

import pytest

from selfwire.core.errors import BudgetError, OutageError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Budget
from selfwire.core.values import to_plain_json
from selfwire.evolvers.evomas.pictures import format_stage
from selfwire.evolvers.evomas.stages import Stage
from selfwire.evolvers.router.decisions import to_router_episode
from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.evolvers.tacomas.pictures import format_end, format_round
from selfwire.evolvers.tacomas.rounds import TacomasRound
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs import tacomas
from selfwire.graphs.dytopo import Dytopo
from selfwire.graphs.evomas import Evomas
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import make_method
from selfwire.graphs.tacomas import Tacomas
from selfwire.models.budget import Ledger
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import Journal
from tests.graphs import test_evomas, test_tacomas
from tests.graphs.rounds import SpokenModel
from tests.graphs.test_evomas import HALF
from tests.graphs.test_tacomas import SCRIPT, verdict

DOWN = "the provider is down"
ASKED = Question(id="q", input="What am I?")
HALF_GOOD = verdict(True, False, True, True)


async def rewired(model: Any, **fields: Any) -> tuple[Trajectory, list[TacomasRound]]:
    method = Tacomas(rounds=4, **fields)
    done = await method.answer(method.seed(), ASKED, test_tacomas.make_ctx(method, model))
    return done, [TacomasRound.model_validate(to_plain_json(one)) for one in done.notes["rounds"]]


async def staged_run(model: Any, *layers: list[str], journal: Journal | None = None) -> tuple[Trajectory, list[Stage]]:
    method = Evomas(test_evomas.config(*layers))
    ctx = method.make_ctx(MeteredModel(model, journal=journal), {}, HashingEmbedder(64))
    done = await method.answer(method.seed(), ASKED, ctx)
    return done, [Stage.model_validate(to_plain_json(one)) for one in done.notes["stages"]]


async def test_a_judge_that_fails_ends_the_run_with_the_best_judged_round() -> None:
    model = test_tacomas.scripted(Verdict=[HALF_GOOD, verdict(False, False, False, True), DOWN])
    done, rounds = await rewired(model)
    assert [one.score for one in rounds] == [0.5, 0.0, None]
    assert [one.fault is not None and DOWN in one.fault for one in rounds] == [False, False, True]
    assert (done.answer, done.error) == (rounds[0].answer, None)
    assert (done.notes["figures"]["stop"], done.notes["figures"]["best"]) == ("failure", 0)
    assert format_end(to_plain_json(done.notes)).startswith("failure; the answer is that of round 1")
    assert any("the run ends here" in line and DOWN in line for line in format_round(rounds[-1]).splitlines())


async def test_where_no_round_was_judged_the_last_answer_stands() -> None:
    done, rounds = await rewired(test_tacomas.scripted(Verdict=[DOWN]))
    assert [one.score for one in rounds] == [None]
    assert done.answer == rounds[0].answer is not None


async def test_a_verdict_outlasts_contributions_that_fail() -> None:
    done, rounds = await rewired(test_tacomas.scripted(Contributions=[DOWN]))
    assert [(one.score, one.contributions) for one in rounds] == [(0.5, ())]
    assert done.notes["figures"]["stop"] == "failure"
    good = test_tacomas.scripted(Verdict=[test_tacomas.GOOD, test_tacomas.TURNED], Contributions=[DOWN])
    assert (await rewired(good))[0].notes["figures"]["stop"] == "threshold"


@pytest.mark.parametrize(("schema", "rounds"), [("Refinement", 1), ("SlowUpdate", 2)])
async def test_a_meta_model_that_fails_ends_the_run_with_the_best_round(schema: str, rounds: int) -> None:
    done, found = await rewired(test_tacomas.scripted(**{schema: [DOWN]}))
    assert [one.score for one in found] == [0.5] * rounds
    assert DOWN in (found[-1].fault or "")
    assert done.answer == found[-1].answer is not None


def test_the_served_graph_keeps_what_was_answered_too() -> None:
    model = test_tacomas.scripted(Refinement=[SCRIPT["Refinement"], DOWN])
    result = tacomas.build(model, config=TacomasConfig(rounds=4)).compile().invoke({"question": "What am I?"})
    assert (result["answer"], result["figures"]["stop"], len(result["rounds"])) == ("answer 10", "failure", 2)


async def test_an_evaluator_that_fails_ends_the_run_with_what_was_passed_before() -> None:
    done, stages = await staged_run(test_evomas.scripted(test_evomas.GOOD, DOWN))
    assert (done.answer, done.error, done.notes["status"]) == ("answer 2", None, "failure")
    assert [one.fault is not None and DOWN in one.fault for one in stages] == [False, True]
    assert stages[-1].outcome == "answer 4"
    assert any("the run ends here" in line and DOWN in line for line in format_stage(stages[-1]).splitlines())
    assert (episode := to_router_episode(done)) is not None
    assert episode.reward is None  # what was cut short teaches nothing


async def test_an_evaluator_that_never_answers_leaves_the_last_attempt_and_asks_for_no_synthesis() -> None:
    model = test_evomas.scripted(DOWN)
    done, stages = await staged_run(model)
    assert (done.answer, len(stages), model.objects.count("LastAnswer")) == ("answer 2", 1, 0)


async def test_a_planner_that_fails_ends_the_run_with_what_was_passed_before() -> None:
    done, stages = await staged_run(test_evomas.scripted(plans=(test_evomas.TWO, DOWN)))
    assert (done.answer, done.notes["status"], len(stages)) == ("answer 2", "failure", 2)
    assert DOWN in (stages[-1].fault or "")
    nothing, _ = await staged_run(test_evomas.scripted(plans=(DOWN,)))
    assert nothing.answer is None
    assert DOWN in (nothing.error or "")


async def test_a_synthesis_that_fails_leaves_the_last_attempt() -> None:
    model = test_evomas.Script(script={**test_evomas.SCRIPT, "Assessed": HALF, "LastAnswer": DOWN})
    done, stages = await staged_run(model)
    assert (done.answer, done.error, done.notes["status"]) == (stages[-1].outcome, None, "failure")
    assert DOWN in (stages[-1].fault or "")


QUICK: dict[str, dict[str, Any]] = {
    "tacomas": {"rounds": 2},
    "dytopo": {"rounds": 3},
    "evomas": {"adapter": "fixed", "plan": [["io"], ["multi_generate"]], "stages": 2},
}


@pytest.mark.parametrize("name", QUICK)
async def test_what_a_budget_stops_tells_the_best_until_then(name: str) -> None:
    method = make_method(name, QUICK[name])

    def paid_by(ledger: Ledger) -> Ctx[Any]:
        return method.make_ctx(MeteredModel(OfflineChat(), ledger=ledger), {}, HashingEmbedder(), scope=Scope(task="q"))

    whole, reached = Ledger(), list[Trajectory | None]()
    await method.answer(method.seed(), ASKED, paid_by(whole))
    for calls in (1, whole.spent.calls - 1):
        with pytest.raises(BudgetError) as stopped:
            await method.answer(method.seed(), ASKED, paid_by(Ledger(Budget(calls=calls))))
        reached.append(stopped.value.partial_result)
    nothing, late = reached
    assert nothing is None
    assert late is not None
    assert late.answer
    assert late.error is None
    assert method.format_notes(to_plain_json(late.notes))[-1].startswith("ended: stopped")
    assert Trajectory.model_validate_json(late.model_dump_json()) == late


async def test_what_a_budget_stops_before_a_verdict_is_the_round_that_was_judged() -> None:
    ledger = Ledger(Budget(calls=15))  # a checklist, and per round five agents, a judge, contributions, a coach
    method, model = Tacomas(rounds=4), MeteredModel(test_tacomas.scripted(), ledger=ledger)
    with pytest.raises(BudgetError) as stopped:
        await method.answer(method.seed(), ASKED, method.make_ctx(model, {}, HashingEmbedder(64)))
    assert (reached := stopped.value.partial_result) is not None
    assert (reached.answer, reached.notes["figures"]["best"], reached.usage.calls) == ("answer 5", 0, 14)


async def test_an_outage_still_stops_and_tells_the_best_until_then() -> None:
    class Out(SpokenModel):
        async def generate_structured(self, schema: Any, messages: Any, *, scope: Scope, **options: Any) -> Any:
            if (scope.node, scope.visit) == ("Manager", 1):
                raise OutageError("nobody answers")
            return await super().generate_structured(schema, messages, scope=scope, **options)

    method = Dytopo()
    ctx = method.make_ctx(Out(), {}, HashingEmbedder(), scope=Scope(task="q"))
    with pytest.raises(OutageError) as stopped:
        await method.answer(method.seed(domain="math"), ASKED, ctx)
    assert (reached := stopped.value.partial_result) is not None
    assert (reached.answer, reached.notes["stopped"], len(reached.notes["rounds"])) == ("7", "stopped", 2)

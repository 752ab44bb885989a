"""What an evolution says of its worth: the evolved team beside the best of those that may make as many calls.

`tests/docs/test_first_hour.py` looks at a whole run.
"""

from pathlib import Path
from typing import Any

import pytest

from selfwire.core.agent import Agent
from selfwire.core.errors import ModelError
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Objective, Usage, UsageAccumulator
from selfwire.evals.table import ResultTable, SystemInfo, SystemSummary
from selfwire.graphs.evolve import EvolutionConfig
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import Method
from selfwire.models.sync import run_sync
from selfwire.runs.evolution import OpenEvolution, run_seed_with_votes, start_evolution
from selfwire.runs.results import EVOLVED, SEED_TEAM, Evolution, describe_payback, describe_worth
from selfwire.runs.spec import EvolveSpec, Sizes


def line(name: str, scores: list[float], calls: int, dollars: float | None = None) -> SystemSummary:
    info = SystemInfo(name=name, target=name, method="", workflow="")
    by_task: dict[str, float | None] = {str(at): score for at, score in enumerate(scores)}
    return SystemSummary(
        info, scores=by_task, _spend=UsageAccumulator(Usage(calls=calls * len(scores), dollars=dollars))
    )


SEED = line("seed team", [0.0] * 20 + [1.0] * 20, 3)


def test_it_is_worth_it_only_if_the_best_at_as_many_calls_is_beaten() -> None:
    evolved = line("evolved team", [1.0] * 40, 6)
    weak = line("seed team with votes", [0.0] * 18 + [1.0] * 22, 6)
    strong = line("single agent with votes", [0.0] + [1.0] * 39, 6)
    assert describe_worth(evolved, [SEED, weak]).startswith("worth it: +0.45 [")
    told = describe_worth(evolved, [SEED, weak, strong])
    assert told.startswith("not shown to be worth it: +0.03 [")
    assert told.endswith("over the single agent with votes, at 6.0 calls per task against 6.0")
    assert describe_worth(evolved, [SEED]) == describe_worth(None, [SEED, weak]) == ""


def test_an_error_of_the_evolved_team_alone_counts_as_wrong() -> None:
    voted = line("seed team with votes", [1.0] * 20 + [0.0] * 20, 6)
    evolved = line("evolved team", [1.0] * 40, 6)
    evolved.scores |= {str(at): None for at in range(20)}
    told = describe_worth(evolved, [SEED, voted])
    assert told.startswith("not shown to be worth it: +0.00 [")
    assert told.endswith(", 20 errors counted as wrong")
    evolved.scores |= {str(at): None for at in range(40)}
    assert describe_worth(evolved, [SEED, voted]) == ""


SINGLE = Team(method="m", agents=(Agent(id="a", prompt="Work."),), topology=make_chain("a"))


def pay(
    after: list[float],
    calls: int,
    objective: str = "score - 0.002*calls",
    dollars: tuple[float | None, ...] = (None,) * 3,
) -> str:
    spent, old, new = dollars
    before = line(SEED_TEAM, [0.0] * 20 + [1.0] * 20, 3, old)
    found = Evolution(
        run="r", folder=Path(), cost=Usage(calls=5000, dollars=spent), notices=(), table=ResultTable((), ()), name="w",
        team=SINGLE, seed=SINGLE, versions=(), systems=(before, line(EVOLVED, after, calls, new)),
    )  # fmt: skip
    return describe_payback(found, Objective.parse(objective))


def test_what_an_evolution_has_cost_is_set_against_what_its_team_gains_or_saves() -> None:
    won = [1.0] * 20 + [0.0] * 10 + [1.0] * 10  # +0.25 in the mean, of 20 won and 10 lost
    told = pay(won, 8)  # 5 further calls cost 0.01 of it
    assert told.startswith("by the objective's price the 5,000 calls of this run count as 10.0 of score, and an answer")
    assert told.endswith("is worth +0.24 on the seed team's: it pays after 42 questions (20 to never by its interval)")
    assert "it pays after 21 questions (16 to 31 by its interval)" in pay([1.0] * 40, 8)
    assert "it pays after 1 question (1 to 1 by its interval)" in pay([1.0] * 40, 8, "score - 0.00001*calls")
    assert pay(won, 130).endswith("is worth -0.00 on the seed team's: it does not pay")
    assert pay(won, 8, "score") == ""
    same = [0.0, 1.0, *[0.0] * 18, 0.0, *[1.0] * 19]
    score = "and its score differs from the seed team's by +0.00 [-0.07, +0.07], which may be chance"
    for objective in ("score", "cheapest", "score - 0.002*calls"):
        assert pay(same, 1, objective) == (
            f"the team saves 2.0 calls a question, {score}: "
            "it has saved the 5,000 calls of this run after 2,500 questions"
        )
    for calls in (1, 3, 5):  # the bill counts where prices are known
        assert pay(same, calls, dollars=(5.0, 0.08, 0.004)) == (
            f"the team saves $0.0019 a question, {score}: it has saved the $5.00 of this run after 2,632 questions"
        )
    assert "saves 2.0 calls a question" in pay(same, 1, dollars=(5.0, 0.08, 0.08))
    assert pay([0.0] * 40, 1).endswith("is worth -0.50 on the seed team's: it does not pay")
    assert pay([0.0] * 20 + [1.0] * 20, 3) == ""


REQUEST = EvolveSpec(
    benchmark="archive",
    sizes=Sizes(train=2, gate=2, test=4),
    evolution=EvolutionConfig(name="voted", iterations=1, batch=2, gate="mean", gate_tasks=2),
)


def vote(run: OpenEvolution, calls: float) -> list[Trajectory]:
    return run_sync(run_seed_with_votes(run, run.splits.test, calls))


def test_a_task_of_which_a_further_answer_fails_is_an_error_and_its_vote_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, down = Method.ask, set[str]()

    async def answer(self: Method[Any], team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
        if "/votes" in ctx.scope.run and question.id in down:
            raise ModelError("503 from the provider")
        return await real(self, team, question, ctx)

    monkeypatch.setattr(Method, "ask", answer)
    with start_evolution(REQUEST, tmp_path, run="r") as run:
        run_sync(run.execute())
        tasks = [task.id for task in run.splits.test]
        down.update(tasks)
        with pytest.raises(ModelError, match=r"4 of 4 runs of phase 'baseline' ended as errors, the first with: .*503"):
            vote(run, 9.0)
        down.intersection_update(tasks[1:2])
        assert [done.error is not None for done in vote(run, 9.0)] == [False, True, False, False]
        down.clear()
        mended = vote(run, 9.0)
        assert all(done.error is None and done.feedback is not None for done in mended)
        assert mended == vote(run, 9.0)


def test_a_seed_whose_calls_are_not_counted_has_no_votes_that_are_its_own_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(self: Method[Any], team: Team, question: Question, ctx: Ctx[Any]) -> Trajectory:
        return Trajectory(question=question, workflow=team.fingerprint, answer="0")

    monkeypatch.setattr(Method, "ask", answer)
    request = REQUEST.replace(evolution=REQUEST.evolution.replace(iterations=0))
    with start_evolution(request, tmp_path, run="r") as run:
        run_sync(run.execute())
        assert vote(run, 0.0) == vote(run, 2.9) == []
        assert len(vote(run, 3.0)) == 4

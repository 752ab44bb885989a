from collections.abc import Sequence

import pytest

from selfwire.core.agent import Agent
from selfwire.core.errors import ModelError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step
from selfwire.core.usage import Usage
from selfwire.evals.baselines.single import SingleAgent, single_workflow, vote

QUESTION = Question(id="q", input="?")


class Acts:
    """Answers from a list, two calls each; None fails."""

    def __init__(self, *answers: str | None) -> None:
        self.answers, self.samples = list(answers), list[int]()

    async def __call__(self, agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        self.samples.append(scope.sample)
        answer = self.answers[scope.sample]
        if answer is None:
            raise ModelError("down")
        return Step(node="", agent=agent.id, output=answer, usage=Usage(calls=2))


@pytest.mark.parametrize(
    ("answers", "winner"),
    [(["a"], "a"), (["a", "B ", "b"], "B "), (["x\n y", "z", "X y"], "x\n y"), (["a", "b"], "a")],
)
def test_the_most_frequent_answer_wins_and_ties_go_to_the_first(answers: list[str], winner: str) -> None:
    assert vote(answers) == winner


def test_no_answers_cannot_be_voted_on() -> None:
    with pytest.raises(ValueError, match="no answers"):
        vote([])


@pytest.mark.parametrize(("calls", "samples"), [(1, 1), (2, 1), (3.9, 1), (4, 2), (7, 3), (8, 4)])
async def test_it_samples_until_the_next_sample_would_exceed_its_calls(calls: float, samples: int) -> None:
    acts = Acts("a", "b", "b", "b")
    done = await SingleAgent(acts, calls=calls).solve(single_workflow([]), QUESTION, scope=Scope())
    assert acts.samples == list(range(samples))
    assert done.usage.calls == 2 * samples
    assert done.answer == ("b" if samples > 2 else "a")


async def test_a_failed_sample_has_no_vote_and_only_failures_are_an_error() -> None:
    done = await SingleAgent(Acts("a", None, "b", "b"), calls=8).solve(single_workflow([]), QUESTION, scope=Scope())
    assert (done.answer, done.error) == ("b", None)
    failed = await SingleAgent(Acts(None), calls=1).solve(single_workflow([]), QUESTION, scope=Scope())
    assert failed.answer is None
    assert "down" in (failed.error or "")

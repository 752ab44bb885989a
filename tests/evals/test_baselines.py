from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.agent import Agent
from selfwire.core.chat import ChatMessage, Prompts, Reply
from selfwire.core.errors import ConfigError, ModelError, TaskBudgetError
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.core.trajectory import CUT, Message, Step, Trajectory
from selfwire.core.usage import Usage
from selfwire.evals.baselines import (
    BASELINES,
    MOST_ANSWERS,
    VOTE,
    Baseline,
    Single,
    add_votes,
    choose_by_vote,
    is_decided,
    make_baseline,
    make_voting_runner,
    merge_samples,
)
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.machine import Ctx
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel

QUESTION = Question(id="q", input="?")


class Acts:
    def __init__(self, *answers: str | Exception) -> None:
        self.answers, self.samples = list(answers), list[int]()

    async def __call__(self, agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        self.samples.append(scope.sample)
        answer = self.answers[scope.sample]
        if isinstance(answer, Exception):
            raise answer
        return Step(node="", agent=agent.id, output=answer, usage=Usage(calls=2))


class ActingCtx(Ctx[Any]):
    """A context whose agents act by a function."""

    act: Any

    def __init__(self, act: Any, options: Any, scope: Scope = Scope()) -> None:
        super().__init__(MeteredModel(OfflineChat()), {}, HashingEmbedder(), options, Prompts(texts={}), scope=scope)
        object.__setattr__(self, "act", act)

    def where(self, scope: Scope | None = None, **place: str | int) -> Ctx[Any]:
        return ActingCtx(self.act, self.options, (scope or self.scope).at(**place))

    def make_runner(self, team: Team) -> Any:
        return self.act


async def sampled(acts: Acts, calls: float = 8) -> Trajectory:
    single = Single(calls=calls)
    return await single.answer(single.seed(), QUESTION, ActingCtx(acts, single.config))


@pytest.mark.parametrize(
    ("answers", "winner"),
    [
        (["a"], "a"),
        (["a", "B ", "b"], "B "),
        (["x\n y", "z", "X y"], "x\n y"),
        (["a", "b"], "a"),
        (["for 5\nAnswer: 5", "Answer: 6", "on reflection\n**Final answer:** 6"], "Answer: 6"),
        (["Answer: ", "5", "5"], "5"),
    ],
)
def test_the_most_frequent_answer_wins_and_ties_go_to_the_first(answers: list[str], winner: str) -> None:
    assert choose_by_vote(answers) == winner


def test_no_answers_cannot_be_voted_on() -> None:
    with pytest.raises(ValueError, match="no answers"):
        choose_by_vote([])


@pytest.mark.parametrize(("calls", "samples"), [(1, 1), (2, 1), (3.9, 1), (4, 1), (5.9, 1), (6, 3), (7, 3), (8, 4)])
async def test_it_samples_until_its_calls_are_spent_and_asks_no_second_time_alone(calls: float, samples: int) -> None:
    acts = Acts("a", "b", "b", "b")
    done = await sampled(acts, calls)
    assert acts.samples == list(range(samples))
    assert done.usage.calls == 2 * samples
    assert done.answer == ("b" if samples > 2 else "a")


async def test_a_vote_ends_however_many_calls_it_may_make() -> None:
    acts = Acts(*["a"] * MOST_ANSWERS)
    await sampled(acts, calls=10**400)
    assert len(acts.samples) == MOST_ANSWERS / 2  # the others cannot outvote these


async def test_a_failed_sample_has_no_vote_and_only_failures_are_an_error() -> None:
    done = await sampled(Acts("a", ModelError("down"), "b", "b"))
    assert (done.answer, done.error) == ("b", None)
    failed = await sampled(Acts(ModelError("down")), calls=1)
    assert failed.answer is None
    assert "down" in (failed.error or "")


async def test_a_sample_that_takes_too_much_is_lost_and_those_before_it_stand() -> None:
    done = await sampled(Acts("a", TaskBudgetError("used up")))
    assert (done.answer, dict(done.notes)) == ("a", {CUT: True})
    with pytest.raises(TaskBudgetError):
        await sampled(Acts(TaskBudgetError("used up")))


class Told:
    """Says "Answer: 4", unless a place has a reply of its own."""

    def __init__(self, **replies: str) -> None:
        self.asked, self.replies = dict[str, str](), {name.replace("_", "-"): said for name, said in replies.items()}

    async def generate(self, messages: Sequence[ChatMessage], *, scope: Scope, **_: Any) -> Reply:
        self.asked[f"{scope.node}/{scope.sample}"] = messages[-1].content
        said = self.replies.get(scope.node, f"{scope.node} says\nAnswer: 4")
        return Reply(content=said, usage=Usage(calls=1))

    async def generate_structured(self, *_: Any, **__: Any) -> Any:
        raise ModelError("baselines ask for no objects")


def asked(baseline: Baseline[Any], model: Any) -> Ctx[Any]:
    return baseline.make_ctx(model, {}, HashingEmbedder(), scope=Scope(task="q"))


async def solved(name: str, model: Told, **options: Any) -> Trajectory:
    made = make_baseline(name, **options)
    return await made.answer(made.seed(), QUESTION, asked(made, model))


CALLS = {
    "direct": 1, "cot": 1, "self-consistency": 3, "single": 1, "self-refine": 7, "debate": 9, "independent": 4,
    "centralised": 9, "decentralised": 6, "hybrid": 15,
}  # fmt: skip
"""Model calls of an answer where nobody calls a tool, and all give the same answer."""


@pytest.mark.parametrize("name", BASELINES)
async def test_every_baseline_is_a_team_that_can_run_and_takes_the_calls_that_it_should(name: str) -> None:
    model = Told()
    made = make_baseline(name)
    team = made.seed()
    assert (made.name, team.method) == (name, name)
    assert team.topology.problems() == ()
    assert made.seed() == team
    done = await made.answer(team, QUESTION, asked(made, model))
    assert done.error is None
    assert str(done.answer).endswith("Answer: 4")
    assert done.usage.calls == len(model.asked) == CALLS.get(name, done.usage.calls)


@pytest.mark.parametrize("name", BASELINES)
def test_tools_are_held_by_those_who_work_and_not_by_single_calls(name: str) -> None:
    team = make_baseline(name).seed(["search"])
    held = {agent.id: agent.tools for agent in team.agents}
    if name in ("direct", "cot", "self-consistency"):
        assert held == {"single": ()}
    else:
        assert ("search",) in held.values()
        assert all(held[name] == () for name in ("critic", "leader", "summary", "vote", "opening") if name in held)


@pytest.mark.parametrize(
    ("name", "config", "most"),
    [
        ("direct", {}, 1),
        ("direct", {"samples": None}, 8),
        ("cot", {}, 1),
        ("cot", {"samples": None}, 8),
        ("single", {}, 8),
        ("self-consistency", {}, 5),
    ],
)
async def test_a_single_agent_asks_as_often_as_its_samples_and_the_cap_allow_while_a_vote_may_decide(
    name: str, config: dict[str, Any], most: int
) -> None:
    made = make_baseline(name, calls=8, config=config)
    for answers, wanted in (("abcdefgh", most), ("aaaaaaaa", most // 2 + (most % 2))):
        acts = Votes(*answers)
        done = await made.answer(made.seed(), QUESTION, ActingCtx(acts, made.config))
        assert (done.usage.calls, done.answer) == (wanted, "a")


class Votes(Acts):
    """Acts whose samples cost a call each."""

    async def __call__(self, agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        return (await super().__call__(agent, question, inbox, scope=scope)).replace(usage=Usage(calls=1))


@given(st.text("abc", min_size=1, max_size=9), st.integers(0, 5))
def test_a_vote_is_decided_where_no_further_answers_change_its_winner(answers: str, left: int) -> None:
    further = ["".join(more) for n in range(left + 1) for more in product("abcd", repeat=n)]
    winners = {choose_by_vote([*answers, *more]) for more in further}
    assert is_decided([*answers], left) == (winners == {choose_by_vote([*answers])})


def answered(task: str, answer: str | None, calls: int = 2, planning: int = 0) -> Trajectory:
    question, step = Question(id=task, input="?"), Step(node="", agent="single", usage=Usage(calls=calls))
    found = Trajectory(question=question, workflow="", steps=(step,), overhead=Usage(calls=planning))
    return found.as_failed("down") if answer is None else found.replace(answer=answer)


@pytest.mark.parametrize(
    ("calls", "votes"),
    [
        (1, ["a", "x", "p"]),
        (2, ["aa", "x", "p"]),
        (7, ["aa", "xx", "p-"]),
        (8, ["aa", "xx", "p-q"]),
        (10, ["aa", "xx", "p-qq"]),
        (13, ["aaa", "xx", "p-qq"]),  # each vote may have five answers by now
        (14, ["aaa", "xxx", "p-qq"]),
        (16, ["aaa", "xxx", "p-qqq"]),
        (18, ["aaaa", "xxx", "p-qqq"]),
    ],
)
async def test_only_open_votes_are_asked_anew_until_the_calls_of_all_are_spent(calls: float, votes: list[str]) -> None:
    replies = {"1": "a" * 9, "2": "x" * 9, "3": "p-" + "q" * 9}
    found = {task: [answered(task, texts[0])] for task, texts in replies.items()}

    async def ask(task: str) -> Trajectory:
        said = replies[task][len(found[task])]
        return answered(task, None if said == "-" else said)

    await add_votes(found, ask, calls)
    assert ["".join(done.answer or "-" for done in found[task]) for task in replies] == votes


async def test_votes_end_where_all_that_is_asked_fails_without_a_call() -> None:
    found = {"1": [answered("1", None, calls=0)]}

    async def ask(task: str) -> Trajectory:
        return answered(task, None, calls=0)

    await add_votes(found, ask, 4)
    assert len(found["1"]) == 5


def test_samples_together_cost_what_each_has_spent_beside_its_steps() -> None:
    merged = merge_samples([answered("q", "a", planning=1), answered("q", "b", planning=3)])
    assert (merged.answer, merged.usage.calls) == ("a", 2 + 1 + 2 + 3)


@pytest.mark.parametrize(
    ("replies", "calls", "answer"),
    [
        ({"critic_1": "No fault found."}, 2, "draft says\nAnswer: 4"),
        ({"critic_2": "**No faults were found**"}, 4, "refine-1 says\nAnswer: 4"),
        ({"critic_1": "Form: no fault found. The number is wrong."}, 7, "refine-3 says\nAnswer: 4"),
    ],
)
async def test_self_refine_ends_with_the_answer_in_which_its_critic_finds_no_fault(
    replies: dict[str, str], calls: int, answer: str
) -> None:
    model = Told(**replies)
    done = await solved("self-refine", model)
    assert (done.usage.calls, len(model.asked), done.answer) == (calls, calls, answer)


@pytest.mark.parametrize("name", ["centralised", "hybrid"])
async def test_a_led_team_ends_with_the_answer_that_its_leader_gives(name: str) -> None:
    model = Told(leader_2="Nothing is left to do.\n\nAnswer: 5\nin all")
    done = await solved(name, model, config={"agents": 2, "rounds": 3})
    assert done.answer == "Answer: 5\nin all"
    assert done.usage.calls == len(model.asked) == (4 if name == "centralised" else 6)
    goes_on = await solved(name, Told(leader_2="Nothing is left to do."), config={"agents": 2, "rounds": 3})
    assert str(goes_on.answer).startswith("summary says")
    early = await solved(name, Told(leader_1="Nothing is left to do.\n5"), config={"agents": 2, "rounds": 3})
    assert str(early.answer).startswith("summary says"), "nobody had worked"


@pytest.mark.parametrize("answer", ['{\n  "a": 1\n}', "```\n42\n```", "..#\n#.#\n7"])
async def test_an_answer_of_a_leader_keeps_its_lines_of_signs(answer: str) -> None:
    model = Told(leader_2=f"**Nothing is left to do.**\n{answer}")
    assert (await solved("centralised", model, config={"agents": 2, "rounds": 3})).answer == answer


async def test_members_of_a_led_team_know_who_they_are_and_its_summary_reads_what_stood_before() -> None:
    model = Told()
    await solved("centralised", model, config={"agents": 2, "rounds": 2})
    assert "a team of 2 members, member 1 to member 2" in model.asked["leader-1/0"]
    for number in (1, 2):
        assert f"You are member {number} of a team of 2." in model.asked[f"member-{number}-report-1/0"]
    assert [f"From {one}:" in model.asked["summary/0"] for one in ("leader-2", "member-2-report-2")] == [True, True]


@pytest.mark.parametrize(("name", "told"), [("centralised", False), ("hybrid", True)])
async def test_members_who_read_reports_are_told_what_to_do_with_them(name: str, told: bool) -> None:
    model = Told()
    await solved(name, model, config={"agents": 2, "rounds": 2})
    assert ("Where you get reports instead" in model.asked["member-1-report-1/0"]) is told
    assert ("member-1-reply-1/0" in model.asked) is told
    assert (
        "who read only the task and your message, and then each other's reports." in model.asked["leader-1/0"]
    ) is told


@pytest.mark.parametrize("name", ["centralised", "debate"])
async def test_a_report_that_several_members_give_stands_once_in_a_request(name: str) -> None:
    report = "- The bridge was built by A. Roe, says the second passage.\n- Its year of opening stands nowhere."
    before = ["member-1-report-1", "member-2-report-1"] if name == "centralised" else ["debater-1-1", "debater-1-2"]
    model = Told(**{node.replace("-", "_"): report for node in before})
    await solved(name, model, config={"agents": 2, "rounds": 2})
    reader = model.asked["leader-2/0" if name == "centralised" else "debater-2-1/0"]
    assert reader.count(report) == 1
    assert f"From {before[1]}:\n(the same as that of {before[0]})" in reader


async def test_debaters_read_everybody_of_the_round_before_and_nobody_reads_the_opening() -> None:
    model = Told()
    await solved("debate", model, config={"agents": 2, "rounds": 2})
    assert "<messages>" not in model.asked["debater-1-1/0"]
    second = model.asked["debater-2-1/0"]
    assert "From debater-1-1:\ndebater-1-1 says" in second
    assert "From debater-1-2:\ndebater-1-2 says" in second
    assert sorted(model.asked) == ["debater-1-1/0", "debater-1-2/0", "debater-2-1/0", "debater-2-2/0"]


@pytest.mark.parametrize(("name", "agent"), [("debate", "debater"), ("decentralised", "peer")])
async def test_equals_are_told_which_message_is_their_own(name: str, agent: str) -> None:
    model = Told()
    await solved(name, model, config={"agents": 2, "rounds": 2})
    for number in (1, 2):
        asked = model.asked[f"{agent}-2-{number}/0"]
        assert f"You are number {number} " in asked
        assert f"from {agent}-1-{number}, {agent}-2-{number} and so on:" in asked
        assert f"From {agent}-1-{number}:" in asked


async def test_members_of_a_hybrid_hear_leader_and_each_other_and_independent_ones_nobody() -> None:
    model = Told()
    for name in ("hybrid", "independent"):
        await solved(name, model, config={"agents": 2, "rounds": 1})
    assert "From leader-1:" in model.asked["member-1-report-1/0"]
    assert "From member-2-report-1:" in model.asked["member-1-reply-1/0"]
    assert "<messages>" not in model.asked["worker-1/0"]
    assert "From worker-2:" in model.asked["summary/0"]


def test_random_rewirings_are_drawn_from_the_seed_and_counted() -> None:
    made = [make_baseline("random", config={"seed": n, "edits": 4}) for n in (0, 0, 1)]
    teams = [one.seed(["search"]) for one in made]
    assert teams[0] == teams[1] != teams[2]
    assert len(teams[0].lineage.rewirings) == 4


def test_an_unknown_baseline_and_an_unknown_config_field_are_named() -> None:
    with pytest.raises(ConfigError, match="unknown baseline 'bold'; baselines are direct, cot"):
        make_baseline("bold")
    with pytest.raises(ConfigError, match="config of debate: heat"):
        make_baseline("debate", config={"heat": 1})


async def test_a_vote_without_answers_is_refused() -> None:
    voter = Agent(id="vote", kind=VOTE, role="counts", prompt="")
    with pytest.raises(ModelError, match="nobody has given an answer to vote on"):
        await make_voting_runner(Acts())(voter, QUESTION, [], scope=Scope())

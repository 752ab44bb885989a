"""What a team of offline agents can do on the archive, and what a lone one cannot."""

from collections.abc import Sequence

from selfwire.core.scope import Scope
from selfwire.evals.benchmarks.archive import archive
from selfwire.extras.offline.model import OfflineChat
from selfwire.extras.offline.skills import CriticView
from selfwire.extras.offline.vocabulary import FAMILIES
from tests.extras.offline.replies import run_team

GENERALIST = "You are a helpful assistant. Answer the task."
TEAM = (
    "Split the question into two simpler ones, then use the search tool to find passages.",
    GENERALIST,
    GENERALIST,
    "Compare the two values and name the one that is asked for. Find who appears on both lists.",
    "Work out for how many years the two periods overlap. Count the different names.",
)
BENCHMARK = archive(40)
MISSING = next(family.missing for family in FAMILIES if family.name == "archive")


async def solved_kinds(prompts: Sequence[str], model: OfflineChat) -> dict[str, float]:
    search, kinds = BENCHMARK.toolbox["search"], dict[str, list[bool]]()
    for task in BENCHMARK.splits(0, train=0, gate=0, test=40).test:
        text = await run_team(prompts, task.input, search, model)
        feedback = await BENCHMARK.environment.grade(task, text, scope=Scope())
        kinds.setdefault(task.kind, []).append(feedback.solved)
    return {kind: sum(solved) / len(solved) for kind, solved in kinds.items()}


async def test_a_lone_generalist_answers_single_hop_questions_only() -> None:
    kinds = await solved_kinds([GENERALIST], OfflineChat(error_rate=0))
    assert kinds.pop("single") == 1
    assert set(kinds.values()) == {0}


async def test_no_lone_agent_comes_near_the_team() -> None:
    for prompt in (
        *TEAM,
        "Split the question into two. Read the passages.",
        "Compare the two values. Count the names.",
    ):
        kinds = await solved_kinds([prompt], OfflineChat(error_rate=0))
        assert sum(kinds[kind] for kind in kinds if kind != "single") == 0


async def test_a_team_whose_skills_fit_answers_every_kind() -> None:
    assert set((await solved_kinds(TEAM, OfflineChat(error_rate=0))).values()) == {1}


async def test_useless_skills_cost_the_places_of_useful_ones() -> None:
    chatty = ("Brainstorm. Debate the matter.", *TEAM[1:])
    kinds = await solved_kinds(chatty, OfflineChat(error_rate=0))
    assert kinds["comparison"] == kinds["counting"] == kinds["temporal"] == 0


def test_missing_steps_are_told_from_what_the_trace_does_not_show() -> None:
    task = "Which was founded earlier, Brol Works or Tas Press?"
    parts = "- Part 1: When was Brol Works founded?\n- Part 2: When was Tas Press founded?\n"
    facts = "- Fact: When was Brol Works founded? = 1901\n- Fact: When was Tas Press founded? = 1907\n"
    assert MISSING(CriticView(task, "")) == ("split", "look up", "compare")
    assert MISSING(CriticView(task, parts)) == ("look up", "compare")
    assert MISSING(CriticView(task, f"{parts}- Passage: x | y")) == ("read", "compare")
    assert MISSING(CriticView(task, parts + facts)) == ("compare",)
    assert MISSING(CriticView(task, f"{parts}{facts}- Conclusion: Brol Works")) == ()

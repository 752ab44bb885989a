"""The offline model on shelf marks: rules are heard wherever they stand, and critics know them from feedback alone."""

import json
import re
from importlib.resources import files

import pytest
from langchain_core.messages import HumanMessage, SystemMessage

from selfwire.evals.benchmarks.shelfmarks import ROOMS, RULES, generate_tasks, grade
from selfwire.evals.instructions import paraphrases
from selfwire.evolvers.dytopo.schemas import turn_schema
from selfwire.evolvers.evomas.planner import Plan
from selfwire.evolvers.hera.schemas import Mutation, PromptVariant
from selfwire.evolvers.hiva.schemas import AgentGradient, GlobalGradient, PromptRewrite, SelfCriticism, TopologyDecision
from selfwire.evolvers.tacomas.schemas import Refinement, SlowUpdate
from selfwire.extras.offline.instructions import Voice
from selfwire.extras.offline.model import OfflineChat
from selfwire.extras.offline.vocabulary import FED_BACK, find_skills
from tests.extras.offline.replies import replied

TASK = generate_tasks(1, 0)[0]
FEEDBACK = grade(TASK, "Answer: 0").text
TOLD = " ".join(f"Give {RULES[rule].text} as a part of the mark." for rule in ROOMS[TASK.kind])
GRAPH = "entry: a\nsink: b\na -> b\nb -> nobody"
AGENTS = "\n\n".join(f"[{name}] works\ntools: none\ncontributions, oldest first: 0.7\nprompt: Work." for name in "ab")


def ask(system: str, text: str, voice: Voice = "all") -> str:
    model = OfflineChat(error_rate=0, critic_error_rate=0, voice=voice)
    return str(model.invoke([SystemMessage(system), HumanMessage(text)]).text)


@pytest.mark.parametrize(
    ("system", "user", "deaf"),
    [
        (TOLD, "", "user"),
        ("You answer.", f"\n\nYour part of the task now, and nothing else: {TOLD}", "system"),
        ("You answer.", f"\n\nFrom a1:\n{TOLD}\n- Remark: nothing.", "system"),
    ],
)
def test_a_worker_follows_its_rules_wherever_they_stand_unless_its_voice_is_deaf_to_them(
    system: str, user: str, deaf: Voice
) -> None:
    text = f"Task:\n{TASK.input}{user}"
    assert grade(TASK, ask(system, text)).solved
    assert grade(TASK, ask(system, text, "user" if deaf == "system" else "system")).solved
    assert ask(system, text, deaf).endswith("Answer: unknown")


def test_a_rule_spoils_the_mark_of_a_room_that_does_not_have_it() -> None:
    third = next(rule for rule in RULES if rule not in ROOMS[TASK.kind])
    parts = ask(TOLD, f"Task:\n{TASK.input}")
    spoilt = ask(f"Give {RULES[third].text} as a part of the mark.", f"Task:\n{TASK.input}\n\nFrom a1:\n{parts}")
    assert spoilt.count("/") == parts.count("/") + 1
    assert not grade(TASK, spoilt).solved


def test_what_a_task_or_feedback_on_record_says_tells_a_worker_nothing() -> None:
    for text in (f"Task:\n{TASK.input} {FEEDBACK}", f"Task:\n{TASK.input}\n\nFrom a1:\n- {FEEDBACK}"):
        assert ask("You answer.", text).endswith("Answer: unknown")


def everything_that_critics_say(error_rate: float, feedback: str) -> str:
    trace = "[a] Answer: unknown"
    turn = turn_schema(answers=True, checks=True, tools=False)
    asked = (GlobalGradient, SelfCriticism, AgentGradient, PromptRewrite, TopologyDecision, Mutation, SlowUpdate, turn)
    replies = [
        replied(
            schema,
            seed=seed,
            error_rate=error_rate,
            task=TASK.input,
            trace=trace,
            answer="Answer: unknown",
            role="You help.",
            feedback=f"score 0.00 of 1\n{feedback}",
            agents=AGENTS,
            graph=GRAPH,
            operations="ADD_SERIAL\nNO_CHANGE",
        )
        for schema in (*asked, Refinement)
        for seed in range(8)
    ]
    failures = f"task: {TASK.input}\n{trace}\n{feedback}"
    replies += [
        replied(schema, seed=seed, error_rate=error_rate, task=TASK.input, failures=failures)
        for schema in (PromptVariant, Plan)
        for seed in range(8)
    ]
    return "\n".join(json.dumps(reply.model_dump(mode="json")) for reply in replies)


@pytest.mark.parametrize("error_rate", [0, 1])
def test_critics_that_are_shown_no_feedback_name_no_rule_even_by_mistake(error_rate: float) -> None:
    assert set(find_skills(everything_that_critics_say(error_rate, ""))) & FED_BACK == set()
    other = grade(next(one for one in generate_tasks(6, 0) if one.kind != TASK.kind), "Answer: 0").text
    assert set(find_skills(everything_that_critics_say(error_rate, other))) & FED_BACK == set()


def test_critics_that_are_shown_feedback_name_the_rules_of_the_room() -> None:
    assert set(find_skills(everything_that_critics_say(0, FEEDBACK))) & FED_BACK == set(ROOMS[TASK.kind])


@pytest.mark.parametrize("name", ["critic", "leader"])
def test_free_text_critics_name_rules_as_little_as_those_with_a_schema(name: str) -> None:
    system = files("selfwire.evals").joinpath("prompts", "baselines", f"{name}.md").read_text("utf-8")
    said = ask(system, f"Task:\n{TASK.input}\n\nFrom draft:\nAnswer: unknown")
    assert set(find_skills(said)) & FED_BACK == set()


def test_most_wordings_of_a_rule_are_understood_and_none_as_another_skill() -> None:
    for rule in RULES:
        heard = [find_skills(text) for text in paraphrases()[rule]]
        assert set(heard) == {(rule,), ()}
        assert heard.count((rule,)) >= 0.8 * len(heard)
    assert FED_BACK == set(RULES)
    assert not re.search("mirror", " ".join(find_skills("The Silver Mirror was written by Ada Tron.")))

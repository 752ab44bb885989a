"""Members of a round: skills from their instructions, needs and offers from what the work lacks and gives."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from selfwire.core.chat import load_prompts
from selfwire.evals.instructions import paraphrases
from selfwire.evolvers.dytopo.schemas import Halting, Turn, turn_schema
from selfwire.extras.offline.dytopo import WORDINGS
from selfwire.extras.offline.model import OfflineChat
from selfwire.extras.offline.vocabulary import active_skills
from tests.extras.offline.replies import replied

COMPARISON = "Which was founded earlier, Brol Works or Tas Press?"
PARTS = "- Part 1: When was Brol Works founded?\n- Part 2: When was Tas Press founded?"
FACTS = "- Fact: When was Brol Works founded? = 1900\n- Fact: When was Tas Press founded? = 1950"
SEARCH = 'search: Search the corpus. Input: {"query": {"type": "string"}}'
FULL = turn_schema(answers=True, checks=True, tools=True)


def said(
    schema: type[BaseModel] = FULL, *, role: str = "You help.", slip: float = 0.0, err: float = 0.0, **sections: str
) -> dict[str, Any]:
    shown: dict[str, Any] = {"task": COMPARISON, "role": role, "tools": SEARCH, "memory": "nothing yet", **sections}
    return replied(schema, system="You work in rounds.", error_rate=err, slip=slip, **shown).model_dump()


def wordings(what: str) -> dict[str, tuple[str, ...]]:
    return {skill: tuple(texts[what]) for skill, texts in WORDINGS.items()}


def from_peer(text: str, number: int = 0) -> str:
    return f"[You, round {number}]\nNothing new.\n\n[From Analyst, round {number}]\n{text}"


def test_skills_come_from_the_role_and_the_goal_and_from_nothing_else() -> None:
    splitter = paraphrases()["split"][0]
    assert "Part 1:" in said(role=splitter)["public"]
    assert "Part 1:" in said(goal=splitter)["public"]
    assert "Part 1:" not in said(team=f"Analyst: {splitter}", memory=from_peer(splitter), needs=splitter)["public"]


def test_the_protocol_of_a_round_switches_no_skill_on() -> None:
    prompts = load_prompts("evolvers", "dytopo")
    blank = dict.fromkeys(("prompt", "task", "goal", "team", "tools", "needs", "memory", "number", "rounds"), "")
    shown = prompts.messages("worker", **blank, **dict.fromkeys(("name", "fields", "answer"), ""))
    assert active_skills("\n".join(message.content for message in shown)) == ("look up", "read")
    lead = prompts.messages("manager", **blank, rule="", check="", trace="", answer="")
    assert active_skills("\n".join(message.content for message in lead)) == ("look up", "read")


def test_a_third_skill_is_ignored() -> None:
    three = "Count the names. Brainstorm ideas. Split the question."
    assert "Part 1:" not in said(role=three)["public"]


def test_needs_are_what_the_work_lacks_and_own_skills_do_not_give() -> None:
    needs = wordings("needs")
    assert said()["query"].endswith(f"? {COMPARISON}") or said()["query"].endswith(f": {COMPARISON}")
    assert said()["query"].startswith(needs["split"])
    assert not said(role=paraphrases()["split"][0])["query"].startswith(needs["split"])
    assert said(memory=from_peer(f"{PARTS}\n{FACTS}"))["query"].startswith(needs["compare"])


def test_offers_are_what_skills_have_given() -> None:
    assert said()["key"] == ""
    assert said(role=paraphrases()["split"][0])["key"].startswith(wordings("offers")["split"])


def test_messages_of_others_are_worked_on() -> None:
    found = said(role="Compare the two values.", memory=from_peer(f"{PARTS}\n{FACTS}"))
    assert "Conclusion: Brol Works" in found["public"]
    assert found["answer"].endswith("Answer: Brol Works")
    assert found["query"] == ""


def test_the_own_answer_so_far_is_worked_on_where_messages_only_refer_to_it() -> None:
    memory = f"[Your answer so far, round 1]\n{PARTS}\n{FACTS}\n\n[From Analyst, round 1]\n(the answer, shown apart)"
    assert said(role="Compare the values.", memory=memory)["answer"].endswith("Answer: Brol Works")


def test_a_search_is_asked_for_and_its_result_read_in_the_next_round() -> None:
    task = "Who founded Brol Works?"
    call = said(task=task)["calls"][0]
    assert call["tool"] == "search"
    given = json.loads(call["arguments"])
    assert given == {"query": "Who founded Brol Works?"}
    passage = "[1] Brol Works\nA firm. It was founded by Ann Lee."
    result = f"[Result of search, round 0]\nquery: {given['query']}\n\nIt gave:\n{passage}"
    found = said(task=task, memory=result)
    assert "Passage: Brol Works | A firm." in found["public"]
    assert found["calls"] == []
    old = said(task=task, memory=f"{result}\n\n[You, round 1]\nnothing")
    assert "Passage" not in old["public"]


def test_without_tools_nothing_is_searched() -> None:
    assert said(tools="none")["calls"] == []


def test_a_step_slips_at_the_workers_rate_not_at_the_judges() -> None:
    splitter = paraphrases()["split"][0]
    assert said(role=splitter, err=1.0)["public"].count("Part") == 2
    assert said(role=splitter, slip=1.0)["public"].count("Part") == 1


@pytest.mark.parametrize(("rates", "parts"), [({"error_rate": 1}, 1), ({"critic_error_rate": 1}, 2)])
def test_the_chat_model_hands_its_rates_on(rates: dict[str, float], parts: int) -> None:
    model = OfflineChat(**{"error_rate": 0, "critic_error_rate": 0, **rates}).with_structured_output(Turn)
    role = f"<role>\n{paraphrases()['split'][0]}\n</role>"
    found: Any = model.invoke([("system", "You work."), ("user", f"<task>\n{COMPARISON}\n</task>\n{role}")])
    assert found.public.count("Part") == parts


@pytest.mark.parametrize("tools", ["search: Search. Input: {broken", "search: Search. Input: []", "Input: "])
def test_a_tool_that_is_not_understood_is_not_used(tools: str) -> None:
    assert said(tools=tools)["calls"] == []


def test_a_checker_passes_what_shows_no_gap() -> None:
    assert said()["verdict"] == "open"
    assert said(memory=from_peer(PARTS))["verdict"] == "open"
    whole = f"{PARTS}\n{FACTS}\n- Conclusion: Brol Works"
    assert said(memory=from_peer(whole))["verdict"] == "pass"


@pytest.mark.parametrize(
    ("trace", "complete"),
    [
        ("[Writer]\nNothing new.\nIts answer: - Fact: a = b\n\nAnswer: Brol Works", True),
        ("[Writer]\nNothing new.\nIts answer: - Fact: a = b\n\nAnswer: unknown", False),
        ("[Writer]\nIts answer: Nothing is known yet.\n\n[Reasoner]\nAnswer: Brol Works", False),
        ("[Writer]\nAnswer: Brol Works", False),
        ("[A]\nIts answer: Answer: unknown\nIts verdict: pass\n\n[B]\nIts answer: move: from [A1]", True),
        ("[A]\nIts answer: Answer: unknown\nIts need: x\nIts offer: y", False),
    ],
)
def test_a_manager_is_content_with_an_answer_that_leaves_nothing_open(trace: str, complete: bool) -> None:
    assert said(Halting, trace=trace)["is_complete"] is complete


def test_a_manager_names_a_step_that_nobody_took() -> None:
    assert "split" in active_skills(said(Halting, trace="[Writer]\nNothing new.")["next_goal"])

"""Critics of co-evolution see what the prompt shows them, and symptoms only."""

from typing import Any

from selfwire.evals.instructions import paraphrases
from selfwire.evolvers.tacomas import schemas
from selfwire.extras.offline.tacomas import ITEMS
from selfwire.extras.offline.vocabulary import active_skills, find_skills
from tests.extras.offline.replies import replied

COMPARISON = "Which was founded earlier, Brol Works or Tas Press?"
WORK = "[searcher] - Part 1: a\n- Passage: x\n- Fact: a = 1990\n- Fact: b = 1980\n- Conclusion: Tas Press"
CHECKLIST = "\n".join(f"{n}. ({operator}) {criterion}" for n, (criterion, operator) in enumerate(ITEMS, 1))
GRAPH = "entry: planner\nsink: reflector\nplanner -> searcher\nsearcher -> reflector\nreflector -> nobody"
AGENTS = (
    "[planner] plans\ntools: none\ncontributions, oldest first: 0.7\nprompt: Plan.\n\n"
    "[searcher] finds\ntools: search\ncontributions, oldest first: {searcher}\nprompt: Search.\n\n"
    "[reflector] answers\ntools: none\ncontributions, oldest first: 0\nprompt: Answer."
)


def passed(answer: str, trace: str, error_rate: float = 0.0, seed: int = 0) -> list[bool]:
    verdict = replied(
        schemas.Verdict, seed=seed, error_rate=error_rate,
        task=COMPARISON, answer=answer, trace=trace, checklist=CHECKLIST,
    )  # fmt: skip
    pairs = zip(verdict.results, ITEMS, strict=True)
    return [result == (operator == "correctness") for result, (_, operator) in pairs]


def test_a_verdict_follows_symptoms() -> None:
    assert passed("Answer: Tas Press", WORK) == [True] * 4
    assert passed("Answer: unknown", WORK) == [False, True, True, False]
    assert passed("Answer: Tas Press", "nothing was done") == [True, False, False, False]


def test_a_judge_is_no_oracle() -> None:
    assert passed("Answer: Brol Works", WORK) == passed("Answer: Tas Press", WORK)


def test_a_judge_errs_at_the_error_rate() -> None:
    wrong = sum(passed("Answer: Tas Press", WORK, 0.2, seed) != [True] * 4 for seed in range(300))
    assert 30 < wrong < 90


def test_contributions_count_what_is_new() -> None:
    agents = (
        "[a] first\nevidence precheck: PASS\n- Fact: one\n- Fact: two\n\n"
        "[b] repeats\nevidence precheck: PASS\n- Fact: one\n\n"
        "[c] decides\nevidence precheck: PASS\n- Conclusion: x\nAnswer: x\n\n"
        "[d] fails\nevidence precheck: FAIL\n- Fact: three\n\n"
        "[e] idle\nevidence precheck: FAIL\n(it was not reached in this round)"
    )
    found = replied(schemas.Contributions, task=COMPARISON, answer="Answer: x", agents=agents)
    assert {one.agent: one.score for one in found.scores} == {"a": 0.7, "b": 0.3, "c": 1.0, "d": 0.3, "e": 0.0}


def test_a_coach_asks_for_a_step_that_does_not_show_where_there_is_a_place_for_it() -> None:
    seen = "- Part 1: a\n- Passage: x\n- Fact: a = 1990\n- Fact: b = 1980"

    def coached(prompt: str, work: str) -> list[str]:
        trace = f"[planner] nothing\n[searcher] {work}\n[reflector] a guess"
        agents = f"[searcher]\ncontribution: 0.3. hm\ntools: none\nprompt: {prompt}"
        found = replied(schemas.Refinement, task=COMPARISON, graph=GRAPH, trace=trace, agents=agents)
        assert {one.agent for one in found.agents} <= {"searcher"}
        return [one.update for one in found.agents]

    [update] = coached("You help.", seen)
    assert "compare" in active_skills(update)
    full = f"{paraphrases()['split'][0]} {paraphrases()['brainstorm'][0]}"
    assert coached(full, seen) == []
    assert coached("You help.", WORK.removeprefix("[searcher] ")) == []
    assert coached(f"You help.\nnotes:\n- {paraphrases()['compare'][0]}", seen) == []


def test_a_newborn_takes_the_step_that_is_missing() -> None:
    seen = "- Part 1: a\n- Passage: x\n- Fact: a = 1990\n- Fact: b = 1980"
    tools = "search: Search the archive."
    sections: dict[str, Any] = {"task": COMPARISON, "graph": GRAPH, "trace": seen, "tools": tools}
    born = replied(schemas.SlowUpdate, agents=AGENTS.format(searcher="0.7"), **sections)
    [pair] = born.birth_death_pairs
    assert pair.v_dead is None
    assert pair.v_new is not None
    assert "compare" in find_skills(pair.v_new.goal)
    assert pair.v_new.tools == ["search"]
    assert [(edit.source, edit.target) for edit in born.graph_edit] == [
        ("planner", "specialist"),
        ("specialist", "reflector"),
    ]
    replaced = replied(schemas.SlowUpdate, agents=AGENTS.format(searcher="0, 0.1"), **sections)
    assert replaced.birth_death_pairs[0].v_dead == "searcher"


def test_where_nothing_is_missing_evidence_gets_a_path_and_stagnation_ends_it() -> None:
    agents = AGENTS.format(searcher="0.3")
    sections: dict[str, Any] = {"task": COMPARISON, "graph": GRAPH, "trace": WORK, "agents": agents}
    found = replied(schemas.SlowUpdate, scores="round 0: 0.50", **sections)
    assert [(edit.source, edit.target) for edit in found.graph_edit] == [("planner", "reflector")]
    assert found.time_control == "continue"
    stuck = "\n".join(f"round {n}: 0.50" for n in range(4))
    assert replied(schemas.SlowUpdate, scores=stuck, **sections).time_control == "stop"

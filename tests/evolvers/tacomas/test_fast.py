"""Weights and refinements, by hand-worked numbers."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.agent import Agent
from selfwire.core.edits import RemoveAgent, RemoveNode, ReplaceAgent, Rewiring
from selfwire.core.errors import ReplyError
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Message
from selfwire.core.values import FrozenMap
from selfwire.evolvers.tacomas.config import FastConfig
from selfwire.evolvers.tacomas.fast import (
    Coaching,
    append_notes,
    drop_notes,
    inherit_weights,
    make_uniform_weights,
    refine_agents,
    share_budget,
    to_note,
    update_weights,
    weigh_messages,
)
from selfwire.evolvers.tacomas.judge import Contribution
from selfwire.evolvers.tacomas.rounds import RunSoFar, TacomasRound
from selfwire.evolvers.tacomas.schemas import AgentRefinement, Refinement
from selfwire.evolvers.tacomas.work import Notes
from selfwire.tools.calculator import CalculatorTool
from tests.evolvers.tacomas.doubles import done, meta_model, step, team
from tests.scripted import ScriptedModel, section

UPDATE = AgentRefinement(
    agent="searcher", errors="one search", plan="search twice", kind="tool", update="one name at a time"
)


def by_letter(*values: float) -> dict[str, float]:
    return dict(zip("abcdefghij", values, strict=False))


def test_the_replicator_by_hand() -> None:
    now = update_weights(by_letter(0.5, 0.3, 0.2), by_letter(1, 0.5, 0), rate=1, floor=0)
    assert now == pytest.approx(by_letter(0.661783, 0.240835, 0.097382), abs=1e-6)
    now = update_weights(make_uniform_weights("abcd"), by_letter(1, 0.5, 0.3, 0), rate=0.5, floor=0)
    assert now == pytest.approx(by_letter(0.323623, 0.252037, 0.228053, 0.196287), abs=1e-6)


def test_equal_contributions_change_nothing() -> None:
    weights = by_letter(0.5, 0.3, 0.2)
    assert update_weights(weights, by_letter(0.7, 0.7, 0.7), rate=3, floor=0) == pytest.approx(weights)


def test_d2_weights_keep_a_floor() -> None:
    now = update_weights(make_uniform_weights("abcd"), by_letter(1, 0.5, 0.3, 0), rate=0.5, floor=0.1)
    assert now == pytest.approx(by_letter(0.316260, 0.251834, 0.230248, 0.201658), abs=1e-6)
    bare = floored = make_uniform_weights("ab")
    for _ in range(10):
        bare = update_weights(bare, by_letter(1, 0), rate=1, floor=0)
        floored = update_weights(floored, by_letter(1, 0), rate=1, floor=0.1)
    assert bare["b"] == pytest.approx(4.54e-5, rel=0.01)
    assert floored["b"] > 0.05


def expected_contribution(weights: Mapping[str, float], contributions: Mapping[str, float]) -> float:
    return sum(w * contributions[agent] for agent, w in weights.items())


SHARES = st.floats(min_value=0.01, max_value=1)


@given(st.lists(st.tuples(SHARES, st.floats(min_value=0, max_value=1)), min_size=2, max_size=8), st.floats(0, 5))
def test_without_a_floor_an_update_never_lowers_what_the_weights_expect(
    drawn: list[tuple[float, float]], rate: float
) -> None:
    whole = sum(weight for weight, _ in drawn)
    weights = by_letter(*(weight / whole for weight, _ in drawn))
    gains = by_letter(*(gain for _, gain in drawn))
    now = update_weights(weights, gains, rate=rate, floor=0)
    assert expected_contribution(now, gains) >= expected_contribution(weights, gains) - 1e-12


def test_d2_with_a_floor_an_update_may_lower_what_the_weights_expect() -> None:
    weights, gains = by_letter(0.9, 0.1), by_letter(1, 0)
    assert update_weights(weights, gains, rate=0.5, floor=0)["a"] == pytest.approx(0.936863, abs=1e-6)
    assert update_weights(weights, gains, rate=0.5, floor=0.1)["a"] == pytest.approx(0.893176, abs=1e-6)


def test_d6_who_was_not_scored_grows_as_the_mean_does() -> None:
    assert update_weights(by_letter(0.5, 0.5), {"a": 0.1}, rate=1, floor=0) == pytest.approx(by_letter(0.5, 0.5))
    now = update_weights(make_uniform_weights("abc"), {"a": 1.0, "b": 0.0}, rate=1, floor=0)
    assert now["a"] / now["c"] == pytest.approx(now["c"] / now["b"])


def test_a_newborn_starts_with_the_survivors_mean() -> None:
    now = inherit_weights({"a": 0.4, "b": 0.35, "c": 0.15, "d": 0.1}, ["a", "b", "c", "new"])
    assert now == pytest.approx({"a": 0.333333, "b": 0.291667, "c": 0.125, "new": 0.25}, abs=1e-6)


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1), min_size=1), st.floats(0, 10), st.floats(0, 1))
def test_weights_stay_a_distribution(scores: dict[str, float], rate: float, floor: float) -> None:
    now = update_weights(make_uniform_weights("abcdef"), scores, rate=rate, floor=floor)
    assert sum(now.values()) == pytest.approx(1)
    assert min(now.values()) >= floor / 6 - 1e-12


def mail(source: str, text: str) -> Message:
    return Message(source=source, target="z", text=text)


def test_d1_messages_come_in_the_order_of_their_senders_weights() -> None:
    inbox = [mail("a", "1"), mail("b", "2"), mail("c", "3"), mail("gone", "4")]
    ordered = weigh_messages(inbox, {"a": 0.2, "b": 0.6, "c": 0.2}, 100)
    assert [message.source for message in ordered] == ["b", "a", "c", "gone"]


def test_d1_the_message_budget_is_shared_by_weight() -> None:
    assert share_budget([80, 80, 80], [0.5, 0.3, 0.2], 100) == (50, 30, 20)
    assert share_budget([80, 80, 10], [0.5, 0.3, 0.2], 100) == (56, 33, 10)
    assert share_budget([10, 20], [0.9, 0.1], 100) == (10, 20)
    assert share_budget([80, 80], [0, 0], 100) == (50, 50)
    read = weigh_messages([mail("a", "x" * 500), mail("b", "y" * 500)], {"a": 0.25, "b": 0.75}, 400)
    assert [(message.source, len(message.text)) for message in read] == [("b", 300), ("a", 100)]


def test_of_a_long_message_the_passages_that_matter_stay_whole() -> None:
    inns = "\n\n".join(f"Town {n} has a market and {n} inns." for n in range(40))
    [read] = weigh_messages(
        [mail("a", f"{inns}\n\nTarn was founded by Mira Holt.\n\n{inns}")], {}, 300, about="Mira Holt"
    )
    assert "Tarn was founded by Mira Holt." in read.text
    assert len(read.text) <= 300


@given(st.lists(st.tuples(st.integers(0, 200), st.floats(0, 1)), max_size=6), st.integers(0, 500))
def test_shares_fit_the_budget_and_nothing_is_cut_that_fits(parts: list[tuple[int, float]], budget: int) -> None:
    lengths = [length for length, _ in parts]
    shares = share_budget(lengths, [weight for _, weight in parts], budget)
    assert sum(shares) <= budget
    assert all(share <= length for share, length in zip(shares, lengths, strict=True))
    if sum(lengths) <= budget:
        assert list(shares) == lengths


def test_an_agent_keeps_its_last_refinements() -> None:
    notes: dict[str, tuple[str, ...]] = {}
    for number in range(4):
        notes = append_notes(notes, {"a": to_note(UPDATE, number)}, ["a", "b"], keep=3)
    assert [note.split(".")[0] for note in notes["a"]] == ["After round 2", "After round 3", "After round 4"]
    assert "b" not in notes
    assert append_notes(notes, {}, ["b"], keep=3) == {}


def test_a_refinement_that_says_nothing_is_no_note() -> None:
    assert to_note(AgentRefinement(agent="a", errors=" ", plan="", kind="memory", update=""), 1) == ""
    assert to_note(UPDATE, 2) == "After round 3. Fault: one search Next: search twice Tools: one name at a time"


def advice(*agents: str) -> Refinement:
    return Refinement(agents=[UPDATE.model_copy(update={"agent": agent}) for agent in agents])


def judged(failed: Sequence[str] = (), **scores: float) -> TacomasRound:
    found = [Contribution(agent=agent, score=score, reason=f"{agent} did little") for agent, score in scores.items()]
    return TacomasRound(number=0, goal="", failed=tuple(failed), contributions=tuple(found))


NOTHING: Notes = FrozenMap()
TOOLS = {"calculator": CalculatorTool()}
RAN = done(
    step("planner", "my plan"),
    step("searcher", "my find"),
    step("calculator"),
    step("verifier", error="down"),
    step("reflector", "the red one"),
)


async def refined(
    *said: str, failed: Sequence[str] = (), notes: Notes = NOTHING, each: bool = False, **scores: float
) -> tuple[Coaching, ScriptedModel]:
    meta, model = meta_model(Refinement=advice(*said))
    config = FastConfig(judge_each=each)
    run = RunSoFar([judged(failed, **scores)], RAN, notes)
    found = await refine_agents(team(), run, meta, tools=TOOLS, config=config, scope=Scope())
    assert found.usage.calls == len(model.asked)
    return found, model


async def test_d13_one_call_coaches_those_who_acted_and_contributed_little() -> None:
    coached, model = await refined(
        "planner", "calculator", "searcher", "stranger",
        planner=0.5, searcher=0.7, verifier=0.0, calculator=0.3, reflector=0.9,
    )  # fmt: skip
    assert set(coached.notes) == {"planner", "calculator"}
    assert [(refused.change, refused.reason) for refused in coached.refused] == [
        (f"advice for {name}", "this call coached planner, calculator alone") for name in ("searcher", "stranger")
    ]
    [shown] = model.shown("Refinement")
    listed = section(shown, "agents")
    assert "[planner]" in listed
    assert "calculator did little" in listed
    assert not any(f"[{name}]" in listed for name in ("searcher", "verifier", "reflector"))
    assert "my find" in section(shown, "trace")


async def test_d13_the_sink_is_coached_where_the_answer_fails_an_item() -> None:
    _, model = await refined("reflector", failed=["It names a source."], planner=0.9, reflector=0.9)
    [shown] = model.shown("Refinement")
    assert "[reflector]" in section(shown, "agents")
    assert section(shown, "goal") == "- It names a source."


async def test_d13_nobody_is_asked_where_nobody_needs_a_coach() -> None:
    coached, model = await refined("planner", planner=0.7, reflector=1.0)
    assert (coached.notes, model.asked) == ({}, [])


async def test_agents_may_be_coached_one_by_one() -> None:
    coached, model = await refined("planner", "searcher", each=True, planner=0.5, searcher=0.5)
    assert set(coached.notes) == {"planner", "searcher"}
    assert [scope.node for _, _, scope, _ in model.asked] == ["refine-planner", "refine-searcher"]
    assert [(no.change, no.reason) for no in coached.refused] == [
        ("advice for searcher", "this call coached planner alone"),
        ("advice for planner", "this call coached searcher alone"),
    ]


async def test_the_coach_sees_the_notes_and_tools_that_an_agent_has() -> None:
    noted = {"searcher": ("After round 1. Next: search twice",)}
    _, model = await refined("searcher", notes=noted, searcher=0.3, reflector=0.3)
    coached = section(model.shown("Refinement")[0], "agents")
    assert "notes:\n1. After round 1. Next: search twice" in coached
    assert "tools: search, calculator" in coached
    assert "tools: none" in coached  # the reflector
    assert (
        section(model.shown("Refinement")[0], "tools") == f"search\ncalculator: {TOOLS['calculator'].spec.description}"
    )


async def test_of_two_entries_for_an_agent_the_first_one_counts_and_the_other_is_noted() -> None:
    coached, _ = await refined("planner", "planner", planner=0.3, reflector=0.9)
    assert set(coached.notes) == {"planner"}
    assert [(no.change, no.reason) for no in coached.refused] == [("advice for planner", "planner has advice already")]


async def test_the_coach_withdraws_notes_by_their_numbers() -> None:
    withdrawn = UPDATE.model_copy(update={"agent": "planner", "drop": [1, 7]})
    meta, model = meta_model(Refinement=Refinement(agents=[withdrawn]))
    noted = {"planner": ("Look east.", "Look closely."), "searcher": ("Search.",)}
    run = RunSoFar([judged(planner=0.3)], RAN, noted)
    coached = await refine_agents(team(), run, meta, tools=TOOLS, config=FastConfig(), scope=Scope())
    assert "1. Look east.\n2. Look closely." in section(model.shown("Refinement")[0], "agents")
    held = drop_notes(noted, coached.dropped)
    assert held == {"planner": ("Look closely.",), "searcher": ("Search.",)}
    assert append_notes(held, coached.notes, ["planner", "searcher"], keep=3)["planner"][0] == "Look closely."


async def test_the_dead_are_not_coached() -> None:
    gone = team().apply(Rewiring(RemoveNode("calculator"), RemoveAgent("calculator"), why="nothing to compute"))
    meta, model = meta_model(Refinement=advice("calculator"))
    run = RunSoFar([judged(calculator=0.1, reflector=0.9)], RAN, {})
    coached = await refine_agents(gone, run, meta, tools=TOOLS, config=FastConfig(), scope=Scope())
    assert (coached, model.asked) == (Coaching(), [])


async def test_the_coach_is_told_who_has_left_and_joined_since_the_round_that_it_reads() -> None:
    reader = Agent(id="reader", role="reader: Reads the passages.", prompt="You read.")
    changed = team().apply(Rewiring(ReplaceAgent("searcher", reader), why="it finds nothing"))
    last = judged(planner=0.3)
    for now, record, told in (
        (changed, last.replace(births=("reader",), deaths=("searcher",)), True),
        (team(), last, False),
    ):
        meta, model = meta_model(Refinement=advice("planner"))
        await refine_agents(now, RunSoFar([record], RAN, {}), meta, tools=TOOLS, config=FastConfig(), scope=Scope())
        [shown] = model.shown("Refinement")
        assert "[searcher] my find" in shown
        assert ("\nleft: searcher; joined: reader (reader: Reads the passages.)\n" in shown) is told
        assert ("joined" in shown) is told


async def test_without_a_valid_diagnosis_there_is_no_note() -> None:
    meta, _ = meta_model(Refinement=ReplyError("garbage"))
    run = RunSoFar([judged(planner=0.5)], RAN, {})
    coached = await refine_agents(team(), run, meta, tools=TOOLS, config=FastConfig(), scope=Scope())
    assert (coached.notes, coached.dropped) == ({}, {})

"""Pi_C: prompts in three parts, within limits, and what changed as a diff."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.evolvers.hera.rules import PRINCIPLES, RULES, Prompt, PromptChange, apply_prompt_diff
from selfwire.evolvers.hera.schemas import PromptDiff

CORE = "You are the retriever. Search with the search tool."


def adding(*rules: str, principles: tuple[str, ...] = (), **more: object) -> PromptDiff:
    return PromptDiff.model_validate({"added_rules": list(rules), "added_principles": list(principles), **more})


def project(prompt: Prompt, wanted: PromptDiff, length: int = 4000) -> tuple[Prompt, PromptChange]:
    return apply_prompt_diff(prompt, wanted, rules=8, length=length)


def test_a_prompt_reads_as_core_principles_and_rules() -> None:
    prompt = Prompt(core=CORE, principles=("Be sure.",), rules=("Search twice.", "One name per query."))
    assert prompt.text == f"{CORE}\n\n{PRINCIPLES}\n- Be sure.\n\n{RULES}\n- Search twice.\n- One name per query."
    assert Prompt.of(prompt.text) == prompt
    assert Prompt.of(CORE) == Prompt(core=CORE)


def test_text_that_people_wrote_below_the_rules_stays_core() -> None:
    text = f"{CORE}\n\n{RULES}\n- Search twice.\n\nAnd be kind."
    assert Prompt.of(text) == Prompt(core=text)


def test_at_most_eight_rules_the_oldest_go_first() -> None:
    full = Prompt(core=CORE, rules=tuple(f"rule {n}" for n in range(8)))
    found, diff = project(full, adding("new one", "new two"))
    assert found.rules == (*(f"rule {n}" for n in range(2, 8)), "new one", "new two")
    assert (diff.added, diff.deleted) == (("new one", "new two"), ("rule 0", "rule 1"))
    assert str(diff) == "+ new one; + new two; - rule 0; - rule 1"


def test_d10_no_principle_goes_for_a_rule() -> None:
    prompt = Prompt(core=CORE, principles=("Be sure.",), rules=("old",))
    room = len(prompt.text)
    found, diff = project(prompt, adding("a rule that needs much room", "short"), room)
    assert found.principles == ("Be sure.",)
    assert found.rules == ("old",)  # nothing that is new fits, so it goes for nothing
    assert any("no room" in one for one in diff.left_out)
    assert project(prompt, PromptDiff(deleted=["Be sure."]))[0].principles == ("Be sure.",)


def test_d10_role_and_tool_instructions_are_out_of_reach() -> None:
    reworded = [{"old": CORE, "new": "You are a poet."}]
    wanted = adding(deleted=[CORE, "Search with the search tool."], replaced=reworded)
    found, diff = project(Prompt(core=CORE), wanted)
    assert (found, bool(diff), len(diff.left_out)) == (Prompt(core=CORE), False, 3)


def test_lines_are_replaced_and_deleted() -> None:
    prompt = Prompt(core=CORE, principles=("Be sure.",), rules=("Search once.", "Be quick."))
    pairs = [("Search once.", "Search once per name."), ("- Be sure.", "Be very sure.")]
    wanted = adding(replaced=[{"old": old, "new": new} for old, new in pairs], deleted=["Be quick."])
    found, diff = project(prompt, wanted)
    assert found == Prompt(core=CORE, principles=("Be very sure.",), rules=("Search once per name.",))
    assert set(diff.replaced) == {("Search once.", "Search once per name."), ("Be sure.", "Be very sure.")}
    assert (diff.deleted, diff.added) == (("Be quick.",), ())


def test_one_line_takes_the_place_of_several_rules_and_of_no_principle() -> None:
    prompt = Prompt(
        core=CORE, principles=("Be sure.", "Be kind."), rules=("Search once.", "Search each name.", "Stop.")
    )
    pairs = [
        ("Search once.", "Search once per name."),
        ("Search each name.", "Search once per name."),
        ("Be kind.", "Be sure."),
        ("Stop.", "Stop."),
    ]
    found, diff = project(prompt, adding(replaced=[{"old": old, "new": new} for old, new in pairs]))
    assert found == prompt.replace(rules=("Search once per name.", "Stop."))
    assert diff.left_out == ("Be kind. -> Be sure.: only rules are deleted",)


@pytest.mark.parametrize(
    ("pairs", "deleted", "rules", "left_out"),
    [
        ([("A.", "C.")], ["C."], ("B.", "C."), ("deletion of C.: it takes the place of another line",)),
        ([("A.", "B."), ("B.", "A.")], [], ("B.", "A.", "C."), ()),
        ([("A.", "B."), ("B.", "D.")], [], ("B.", "D.", "C."), ()),
        ([("A.", "N.")], ["A."], ("N.", "B.", "C."), ()),
        ([("A.", "N."), ("A.", "M.")], [], ("N.", "B.", "C."), ("A. -> M.: the line has another replacement",)),
        ([("A.", "B.")], ["A."], ("B.", "C."), ()),
        ([("P.", "C.")], ["C.", "P."], ("A.", "B."), ("deletion of C.: it takes the place of another line",)),
        ([("P.", "C.")], [], ("A.", "B."), ()),
        ([], ["P.", "X."], ("A.", "B.", "C."), tuple(f"deletion of {one}.: only rules are deleted" for one in "PX")),
    ],
)
def test_replacements_are_made_at_once_and_nothing_that_takes_a_place_is_lost(
    pairs: list[tuple[str, str]], deleted: list[str], rules: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    prompt = Prompt(core=CORE, principles=("P.",), rules=("A.", "B.", "C."))
    wanted = adding(replaced=[{"old": old, "new": new} for old, new in pairs], deleted=deleted)
    found, diff = project(prompt, wanted)
    assert (found.rules, found.principles) == (rules, (dict(pairs).get("P.", "P."),))
    assert diff.left_out == left_out


def test_what_is_there_already_is_not_added() -> None:
    prompt = Prompt(core=CORE, principles=("Be sure.",), rules=("Search twice.",))
    found, diff = project(prompt, adding("search twice.", "BE SURE.", "  - Search   twice.\n"))
    assert (found, bool(diff)) == (prompt, False)


def test_a_principle_that_does_not_fit_is_left_out() -> None:
    found, diff = project(Prompt(core=CORE), adding(principles=("x" * 300,)), len(CORE) + 50)
    assert (found.principles, len(diff.left_out)) == ((), 1)


def test_a_principle_is_reworded_no_further_than_it_fits() -> None:
    prompt = Prompt(core=CORE, principles=("Be sure.",))
    wanted = adding(replaced=[{"old": "Be sure.", "new": "x" * 300}])
    found, diff = project(prompt, wanted, len(prompt.text) + 50)
    assert (found, bool(diff), len(diff.left_out)) == (prompt, False, 1)
    assert project(prompt, wanted)[0].principles == ("x" * 300,)


def test_a_rule_that_can_never_fit_takes_no_other_rule_with_it() -> None:
    prompt = Prompt(core=CORE, rules=("Search twice.", "One name per query."))
    found, diff = project(prompt, adding("x" * 300), len(prompt.text) + 50)
    assert (found, bool(diff), diff.left_out) == (prompt, False, ("x" * 300 + ": no room for it",))


line = st.text(st.characters(categories=["L", "N", "Z", "P"]), max_size=40)
lines = st.lists(line, max_size=6)


@given(lines, lines, lines, lines, st.lists(st.tuples(line, line), max_size=4), st.integers(1, 4), st.integers(60, 400))
def test_every_projection_keeps_the_core_and_the_limits(
    rules: list[str], principles: list[str], gone: list[str], more: list[str], pairs: list[tuple[str, str]],
    most: int, length: int,
) -> None:  # fmt: skip
    prompt = Prompt(core=CORE)
    for wanted in (
        adding(*rules, principles=tuple(principles)),
        adding(*more, deleted=gone, replaced=[{"old": old, "new": new} for old, new in pairs]),
    ):
        before = prompt
        prompt, _ = apply_prompt_diff(prompt, wanted, rules=most, length=length)
        assert prompt.core == CORE
        assert len(prompt.rules) <= most
        assert len(prompt.text) <= max(length, len(CORE))
        assert len(prompt.principles) >= len(before.principles)
        assert Prompt.of(prompt.text) == prompt

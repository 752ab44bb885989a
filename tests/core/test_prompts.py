"""Prompt templates."""

import pytest

from selfwire.core.chat import ChatMessage, Prompts, load_prompts
from selfwire.core.errors import ConfigError

PROMPTS = Prompts(texts={"ask": "You are $role.\n---\nAnswer: $question\n", "flat": "Cost: $$5 for $name"})


def test_a_prompt_is_filled() -> None:
    assert PROMPTS.text("flat", **{"name": "you"}) == "Cost: $5 for you"


def test_a_prompt_is_split_into_system_and_user() -> None:
    assert PROMPTS.messages("ask", role="a poet", question="Why?") == (
        ChatMessage.system("You are a poet."),
        ChatMessage.user("Answer: Why?"),
    )


def test_a_value_with_a_divider_or_a_dollar_stays_where_it_is() -> None:
    system, user = PROMPTS.messages("ask", role="x\n---\ny", question="$role costs $$1")
    assert system.content == "You are x\n---\ny."
    assert user.content == "Answer: $role costs $$1"


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("other", {}, "there is no prompt 'other'; prompts are ask, flat"),
        ("ask", {"role": "x"}, "prompt 'ask' cannot be filled.*question.*given role"),
        ("flat", {"name": "x"}, "prompt 'flat' has no line of three dashes"),
    ],
)
def test_what_cannot_be_filled_is_said(name: str, values: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PROMPTS.messages(name, **values)


TAGGED = Prompts(texts={"judge": "You judge.\n---\n<task>\n$task\n</task>\n<answer>\n$answer\n</answer>"})


@pytest.mark.parametrize("forged", ["</task>", "<task>", "</TASK>", "< answer >", "</ answer>"])
def test_no_value_can_forge_a_section(forged: str) -> None:
    _, user = TAGGED.messages("judge", task=f"x{forged}y", answer=f"{forged}")
    assert forged not in user.content.replace("<task>", "", 1).replace("</task>", "", 1)
    assert user.content.count("<") == 4
    assert f"x[{forged[1:-1]}]y" in user.content


def test_other_markup_stays_as_it_is() -> None:
    text = "<b>1</b> if a < b > c; <input>"
    assert text in TAGGED.messages("judge", task=text, answer="")[1].content


SECTIONS = Prompts(
    texts={"coach": "You coach.\n---\n<task>\n$task\n</task>\n\nIts notes:\n<notes>\n$notes\n</notes>\n\nCoach."}
)


def test_a_blank_section_is_left_out_with_its_heading() -> None:
    assert SECTIONS.messages("coach", task="Why?\n\nHow?", notes=" ")[1].content == (
        "<task>\nWhy?\n\nHow?\n</task>\n\nCoach."
    )
    assert (
        "Its notes:\n<notes>\nbe exact\n</notes>"
        in SECTIONS.messages("coach", task="Why?", notes="be exact")[1].content
    )
    assert SECTIONS.text("coach", task="Why?", notes=" ") == "You coach.\n---\n<task>\nWhy?\n</task>\n\nCoach."
    with pytest.raises(ConfigError, match="notes"):
        SECTIONS.messages("coach", task="Why?")


def test_a_paragraph_that_is_a_blank_variable_leaves_no_gap() -> None:
    prompts = Prompts(texts={"ask": "Work.\n\n$more\n\nSay it.", "meta": "Decide.\n---\nFirst.\n\n$more\n\nLast."})
    assert prompts.text("ask", more="") == "Work.\n\nSay it."
    assert prompts.text("ask", more="Search.") == "Work.\n\nSearch.\n\nSay it."
    assert prompts.messages("meta", more=" ")[1].content == "First.\n\nLast."
    with pytest.raises(ConfigError, match="more"):
        prompts.text("ask")


def test_a_folder_that_is_missing_has_no_prompts() -> None:
    with pytest.raises(ConfigError, match=r"selfwire\.evolvers has no prompts for 'nobody'; reinstall the package"):
        load_prompts("evolvers", "nobody")

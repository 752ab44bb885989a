import pytest

from selfwire.core.chat import ChatMessage, ToolCall, ToolSpec
from selfwire.core.errors import ModelError
from selfwire.models.metered_chat import estimate_tokens, truncate_messages

SYSTEM = ChatMessage.system("s" * 3000)
TOOL = ToolSpec(name="t", description="d" * 300, parameters={})


def said(size: int, role: str = "user") -> ChatMessage:
    if role == "tool":
        return ChatMessage.tool(ToolCall(id="c", name="t"), "t" * size)
    return ChatMessage.user("u" * size)


def test_what_fits_is_left_alone() -> None:
    messages = [SYSTEM, said(3000)]
    assert truncate_messages(messages, [], None) == (messages, [])
    assert truncate_messages(messages, [], estimate_tokens(messages)) == (messages, [])


def test_tool_results_go_first_and_the_oldest_before_the_newer() -> None:
    messages = [SYSTEM, said(3000), said(3000, "tool"), said(3000, "tool")]
    limit = estimate_tokens(messages) - 500
    fitting, cuts = truncate_messages(messages, [], limit)
    assert [(cut.message, cut.role) for cut in cuts] == [(2, "tool")]
    assert estimate_tokens(fitting) <= limit
    fitting, cuts = truncate_messages(messages, [], estimate_tokens(messages) - 1000)
    assert [cut.message for cut in cuts] == [2, 3]


def test_then_the_longest_user_text_loses_its_middle() -> None:
    long = ChatMessage.user("begin " + "x" * 6000 + " end")
    fitting, cuts = truncate_messages([SYSTEM, long, said(900)], [TOOL], 2500)
    assert [cut.message for cut in cuts] == [1]
    assert fitting[1].content.startswith("begin ")
    assert fitting[1].content.endswith(" end")
    assert cuts[0].characters == len(long.content) - len(fitting[1].content)


def test_a_prompt_that_cannot_be_made_to_fit_is_an_error() -> None:
    with pytest.raises(ModelError, match="does not fit into 900 even after cutting 1 messages"):
        truncate_messages([SYSTEM, said(3000)], [], 900)


def test_sections_lose_their_middle_before_the_instructions_beside_them() -> None:
    instructions = "You weigh what you read. " * 40
    user = ChatMessage.user(f"<task>\n{'t' * 9000}\n</task>\n\n{instructions}\n\n<messages>\n{'m' * 6000}\n</messages>")
    fitting, cuts = truncate_messages([SYSTEM, user], [], 3000)
    assert len(cuts) == 2
    assert instructions in fitting[1].content
    assert fitting[1].content.startswith("<task>\nttt")
    assert fitting[1].content.endswith("mmm\n</messages>")

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.calls import OperationCall, make_call, parse_call
from selfwire.tools.workbench.operations import OPERATIONS


def test_there_are_27_operations_of_which_14_change_something() -> None:
    assert len(OPERATIONS) == 27
    assert sum(one.changes for one in OPERATIONS.values()) == 14
    for one in OPERATIONS.values():
        assert set(one.required) <= set(one.parameters)
        assert one.spec.name == one.name
        assert set(one.spec.parameters["required"]) == set(one.required)


@pytest.mark.parametrize(
    "text",
    [
        'calendar.delete_event.func(event_id="00000256")',
        'calendar.delete_event(event_id="00000256")',
        "calendar_delete_event('00000256')",
        " calendar_delete_event( event_id = '00000256' , ) ",
    ],
)
def test_calls_are_read_in_every_spelling(text: str) -> None:
    assert parse_call(text) == OperationCall("calendar_delete_event", {"event_id": "00000256"})


def test_arguments_are_texts_in_the_order_of_the_operation() -> None:
    read = parse_call('calendar.create_event(duration=30, event_name="a", event_start="b", participant_email="c")')
    assert str(read) == ('calendar_create_event(event_name="a", participant_email="c", event_start="b", duration="30")')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "calendar",
        "1 + 1",
        "calendar.delete_event",
        "calendar.delete_event(",
        "nobody.knows(x='1')",
        "calendar.delete_event(id='1')",
        "calendar.delete_event('1', '2')",
        "calendar.delete_event(*['1'])",
        "calendar.delete_event(**{'event_id': '1'})",
        "calendar.delete_event(event_id=str(1))",
        "calendar.delete_event(event_id=f'{1}')",
        "calendar.delete_event(event_id='a' + 'b')",
        "calendar.delete_event(event_id=True)",
        "calendar.delete_event(event_id=b'1')",
        "calendar.delete_event(event_id=1.5)",
        "__import__('os').system('true')",
        "calendar.delete_event(event_id=__import__('os').system('true'))",
        "(lambda: calendar.delete_event)()(event_id='1')",
        "calendar.delete_event(event_id='1'); calendar.delete_event(event_id='2')",
        "calendar.delete_event(event_id='\0')",
        "(" * 5000 + ")" * 5000,
        "-" * 9000 + "1",
        "calendar.delete_event(event_id='" + "1" * 20_000 + "')",
    ],
)
def test_what_is_no_call_is_refused_and_never_run(text: str) -> None:
    with pytest.raises(ToolError):
        parse_call(text)


@given(st.text(max_size=200))
def test_any_text_is_a_call_or_refused(text: str) -> None:
    try:
        parse_call(text)
    except ToolError:
        return


@given(st.dictionaries(st.sampled_from(["recipient", "subject", "body"]), st.text(min_size=1, max_size=50)))
def test_a_call_is_read_as_it_was_written(arguments: dict[str, str]) -> None:
    written = make_call("email_send_email", arguments)
    assert parse_call(str(written)) == written
    assert "\n" not in str(written)

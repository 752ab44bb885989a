"""Operations on the calendar, and the company's directory."""

import json

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.records import Records
from selfwire.tools.workbench.tables import Operation, Tables, check_address, format_rows, is_between

_FIELDS = "event_name, participant_email, event_start or duration."


def _check(tables: Tables, field: str, value: str) -> str:
    return check_address(value) if field == "participant_email" else value


EVENTS = Records("events", "event", _check)


def _search(tables: Tables, query: str, time_min: str, time_max: str) -> str:
    words = query.lower()
    found = [
        event
        for event in tables.events
        if (words in event["event_name"].lower() or words in event["participant_email"].lower())
        and is_between(event["event_start"], time_min, time_max)
    ]
    return format_rows(found)


def _find_address(tables: Tables, name: str) -> str:
    found = [address for address in tables.directory if name.lower() in address]
    if not found:
        raise ToolError(f"nobody of the name {name!r} works here")
    return json.dumps(found)


OPERATIONS = (
    EVENTS.look_up_operation(
        "calendar_get_event_information_by_id", "Look up one field of an event.", f"One of event_id, {_FIELDS}"
    ),
    Operation(
        "calendar_search_events",
        "Find events by a part of their name or of the participant's address; shows at most 5.",
        {
            "query": "Part of the name or address; empty for all.",
            "time_min": "Earliest start, YYYY-MM-DD HH:MM:SS.",
            "time_max": "Latest start, YYYY-MM-DD HH:MM:SS.",
        },
        _search,
    ),
    Operation(
        "calendar_create_event",
        "Put an event into the calendar; returns its event_id.",
        {
            "event_name": "What it is called.",
            "participant_email": "Address of the participant.",
            "event_start": "YYYY-MM-DD HH:MM:SS.",
            "duration": "Minutes, as digits.",
        },
        EVENTS.add,
        ("event_name", "participant_email", "event_start", "duration"),
        changes=True,
    ),
    EVENTS.delete_operation("calendar_delete_event", "Take an event out of the calendar."),
    EVENTS.update_operation("calendar_update_event", "Change one field of an event.", f"One of {_FIELDS}"),
    Operation(
        "company_directory_find_email_address",
        "Find the addresses of people who work here by a part of their name.",
        {"name": "First or last name."},
        _find_address,
        ("name",),
    ),
)

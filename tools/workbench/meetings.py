"""Operations on the calendar, and the company's directory."""

import json

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.tables import (
    Operation,
    Tables,
    address,
    field_of,
    find_row_index,
    format_rows,
    next_id,
    update_row,
)

_ID = {"event_id": "Eight digits."}
_FIELDS = "event_name, participant_email, event_start or duration."


def _get(tables: Tables, event_id: str, field: str) -> str:
    return field_of(tables.events, "event_id", event_id, field)


def _search(tables: Tables, query: str, time_min: str, time_max: str) -> str:
    words = query.lower()
    found = [
        event
        for event in tables.events
        if (words in event["event_name"].lower() or words in event["participant_email"].lower())
        and (not time_min or event["event_start"] >= time_min)
        and (not time_max or event["event_start"] <= time_max)
    ]
    return format_rows(found)


def _create(tables: Tables, event_name: str, participant_email: str, event_start: str, duration: str) -> str:
    number = next_id(tables.events, "event_id")
    tables.events.append(
        {
            "event_id": number,
            "event_name": event_name,
            "participant_email": address(participant_email),
            "event_start": event_start,
            "duration": duration,
        }
    )
    return number


def _delete(tables: Tables, event_id: str) -> str:
    del tables.events[find_row_index(tables.events, "event_id", event_id)]
    return "The event was deleted."


def _update(tables: Tables, event_id: str, field: str, new_value: str) -> str:
    value = address(new_value) if field == "participant_email" else new_value
    update_row(tables.events, "event_id", event_id, field, value)
    return "The event was updated."


def _find(tables: Tables, name: str) -> str:
    found = [one for one in tables.directory if name.lower() in one]
    if not found:
        raise ToolError(f"nobody of the name {name!r} works here")
    return json.dumps(found)


OPERATIONS = (
    Operation(
        "calendar_get_event_information_by_id",
        "Look up one field of an event.",
        {**_ID, "field": f"One of event_id, {_FIELDS}"},
        _get,
        ("event_id", "field"),
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
        _create,
        ("event_name", "participant_email", "event_start", "duration"),
        changes=True,
    ),
    Operation("calendar_delete_event", "Take an event out of the calendar.", _ID, _delete, ("event_id",), changes=True),
    Operation(
        "calendar_update_event",
        "Change one field of an event.",
        {**_ID, "field": f"One of {_FIELDS}", "new_value": "What it becomes."},
        _update,
        ("event_id", "field", "new_value"),
        changes=True,
    ),
    Operation(
        "company_directory_find_email_address",
        "Find the addresses of people who work here by a part of their name.",
        {"name": "First or last name."},
        _find,
        ("name",),
    ),
)

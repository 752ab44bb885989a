"""The tables of the office, and what every operation on them needs."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolError

Row = Mapping[str, str]
"""One row; never changed in place, so that copies of a table may share it."""

NOW = "2023-11-30 00:00:00"
"""The time at which every request is made."""

SHOWN = 5
"""Rows that a search returns at most."""


@dataclass
class Tables:
    """The five tables that operations change, and the two that they only read.

    Attributes:
        events: event_id, event_name, participant_email, event_start, duration.
        emails: email_id, inbox/outbox, sender/recipient, subject, sent_datetime, body.
        plots: file_path; empty at first.
        tasks: task_id, task_name, assigned_to_email, list_name, due_date, board.
        customers: customer_id and nine more fields.
        visits: date_of_visit, visitor_id, page_views, session_duration_seconds, traffic_source, user_engaged.
        directory: email addresses of the company.
    """

    events: list[Row]
    emails: list[Row]
    tasks: list[Row]
    customers: list[Row]
    visits: tuple[Row, ...]
    directory: tuple[str, ...]
    plots: list[Row] = field(default_factory=list)

    def copy(self) -> "Tables":
        """Tables that can be changed without changing these."""
        return Tables(
            events=list(self.events),
            emails=list(self.emails),
            tasks=list(self.tasks),
            customers=list(self.customers),
            visits=self.visits,
            directory=self.directory,
            plots=list(self.plots),
        )


@dataclass(frozen=True)
class Operation:
    """One thing that can be done.

    Attributes:
        name: the tool's, such as calendar_delete_event.
        does: its description for models.
        parameters: description by name, in order; all are texts.
        required: those that must be given.
        act: works on tables with the given parameters, the others ""; returns what is told.
        changes: whether it changes tables.
    """

    name: str
    does: str
    parameters: Mapping[str, str]
    act: Callable[..., str]
    required: tuple[str, ...] = ()
    changes: bool = False

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        properties = {name: {"type": "string", "description": told} for name, told in self.parameters.items()}
        schema = {"type": "object", "properties": properties, "required": list(self.required)}
        return ToolSpec(name=self.name, description=self.does, parameters={**schema, "additionalProperties": False})

    def run(self, tables: Tables, arguments: Mapping[str, str]) -> str:
        """Do it.

        Raises:
            ToolError: a required parameter is missing, or the operation refuses; nothing was changed then.
        """
        missing = [name for name in self.required if not arguments.get(name)]
        if missing:
            raise ToolError(f"{self.name} needs {', '.join(missing)}")
        return self.act(tables, **{name: arguments.get(name) or "" for name in self.parameters})


def find_row_index(rows: list[Row], key: str, wanted: str) -> int:
    """Index of the row with an id.

    Raises:
        ToolError: there is none.
    """
    for index, row in enumerate(rows):
        if row[key] == wanted:
            return index
    raise ToolError(f"there is no row whose {key} is {wanted!r}")


def next_id(rows: list[Row], key: str) -> str:
    """The id after the largest one, in eight digits."""
    return f"{max((int(row[key]) for row in rows), default=0) + 1:08d}"


def field_of(rows: list[Row], key: str, wanted: str, name: str) -> str:
    """One field of a row, as JSON.

    Raises:
        ToolError: there is no such row or field.
    """
    row = rows[find_row_index(rows, key, wanted)]
    return json.dumps({name: row[check_known(name, tuple(row), "field")]})


def update_row(rows: list[Row], key: str, wanted: str, name: str, value: str) -> None:
    """Replace a row by one with another value in a field.

    Raises:
        ToolError: there is no such row or field.
    """
    index = find_row_index(rows, key, wanted)
    rows[index] = {**rows[index], check_known(name, tuple(rows[index]), "field"): value}


def check_known(value: str, values: tuple[str, ...], what: str) -> str:
    """The value, if it is one of the known ones; case counts.

    Raises:
        ToolError: it is not.
    """
    if value not in values:
        raise ToolError(f"{value!r} is no {what}; choose from {', '.join(values)}")
    return value


def address(text: str) -> str:
    """An email address in lower case.

    Raises:
        ToolError: it is none.
    """
    if "@" not in text or "." not in text:
        raise ToolError(f"{text!r} is no email address; look it up with company_directory_find_email_address")
    return text.lower()


def format_rows(rows: list[Row]) -> str:
    """The first rows of a search as JSON, and how many more there are."""
    if not rows:
        return "Nothing was found."
    more = f"\n{len(rows) - SHOWN} more match; narrow the search to see them." if len(rows) > SHOWN else ""
    return json.dumps([dict(row) for row in rows[:SHOWN]]) + more


def per_day(visits: tuple[Row, ...], time_min: str, time_max: str, of: Callable[[list[Row]], Any]) -> str:
    """A figure for every day with visits between two days, both included, as JSON."""
    days: dict[str, list[Row]] = {}
    for visit in visits:
        day = visit["date_of_visit"]
        if (not time_min or day >= time_min) and (not time_max or day <= time_max):
            days.setdefault(day, []).append(visit)
    return json.dumps({day: of(days[day]) for day in sorted(days)})

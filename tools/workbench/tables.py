"""The tables of the office, and the operations on them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolError

Row = Mapping[str, str]
"""A row; it is replaced and never changed in place, so that copies of a table can share it."""

NOW = "2023-11-30 00:00:00"
"""The time of every task."""

SHOWN = 5
"""Most rows that a search returns."""

CHANGED = ("events", "emails", "plots", "tasks", "customers")
"""The tables that operations change."""


@dataclass
class Tables:
    """Five tables that operations change, and two tables that they only read.

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
        """Copy the tables, so that the copy can be changed."""
        changed: dict[str, Any] = {name: list(getattr(self, name)) for name in CHANGED}
        return replace(self, **changed)


@dataclass(frozen=True)
class Operation:
    """An operation of the office, which agents call as a tool.

    Attributes:
        parameters: description by name, in order; all parameters are texts.
        act: takes the tables and all parameters, "" for missing ones; returns the result for the model.
    """

    name: str
    description: str
    parameters: Mapping[str, str]
    act: Callable[..., str]
    required: tuple[str, ...] = ()
    changes: bool = False

    @property
    def spec(self) -> ToolSpec:
        """Name, description and parameters for the model."""
        properties = {name: {"type": "string", "description": text} for name, text in self.parameters.items()}
        schema = {"type": "object", "properties": properties, "required": list(self.required)}
        return ToolSpec(
            name=self.name, description=self.description, parameters={**schema, "additionalProperties": False}
        )

    def run(self, tables: Tables, arguments: Mapping[str, str]) -> str:
        """Run the operation; after a ToolError, for a missing parameter or a refusal, nothing has changed."""
        missing = [name for name in self.required if not arguments.get(name)]
        if missing:
            raise ToolError(f"{self.name} needs {', '.join(missing)}")
        return self.act(tables, **{name: arguments.get(name) or "" for name in self.parameters})


def check_known(value: str, values: tuple[str, ...], what: str) -> str:
    """Return the value if it is among the known values, else raise ToolError; case counts."""
    if value not in values:
        raise ToolError(f"{value!r} is no {what}; choose from {', '.join(values)}")
    return value


def check_address(text: str) -> str:
    """Return an email address in lower case; ToolError if the text is no address."""
    if "@" not in text or "." not in text:
        raise ToolError(f"{text!r} is no email address; look it up with company_directory_find_email_address")
    return text.lower()


def is_between(value: str, least: str, most: str) -> bool:
    """Whether a text is in a range, ends included; an empty end is open."""
    return (not least or value >= least) and (not most or value <= most)


def format_rows(rows: list[Row]) -> str:
    """Format the first rows of a search as JSON, and the number of further rows."""
    if not rows:
        return "Nothing was found."
    more = f"\n{len(rows) - SHOWN} more match; narrow the search to see them." if len(rows) > SHOWN else ""
    return json.dumps([dict(row) for row in rows[:SHOWN]]) + more


def format_per_day(visits: tuple[Row, ...], time_min: str, time_max: str, figure: Callable[[list[Row]], Any]) -> str:
    """Compute a figure for every day with visits between two days, both included, as JSON."""
    days: dict[str, list[Row]] = {}
    for visit in visits:
        day = visit["date_of_visit"]
        if is_between(day, time_min, time_max):
            days.setdefault(day, []).append(visit)
    return json.dumps({day: figure(days[day]) for day in sorted(days)})

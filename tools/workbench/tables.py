"""The tables of the office, and the operations on them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolError

Row = Mapping[str, str]
"""One row; it is replaced and never changed in place, so that copies of a table can share it."""

NOW = "2023-11-30 00:00:00"
"""The time of every request."""

SHOWN = 5
"""Most rows that a search returns."""


@dataclass
class Tables:
    """Five tables that operations change, and two that they only read.

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
        """A copy that can be changed without changing these tables."""
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
    """One operation.

    Attributes:
        name: of the tool, such as calendar_delete_event.
        description: for models.
        parameters: description by name, in order; all are texts.
        act: takes the tables and all parameters, "" for those that are not given; returns the result for the model.
        required: parameters that must be given.
        changes: whether it changes tables.
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
        """Do it.

        Raises:
            ToolError: a required parameter is missing, or the operation refuses; then nothing has changed.
        """
        missing = [name for name in self.required if not arguments.get(name)]
        if missing:
            raise ToolError(f"{self.name} needs {', '.join(missing)}")
        return self.act(tables, **{name: arguments.get(name) or "" for name in self.parameters})


def check_known(value: str, values: tuple[str, ...], what: str) -> str:
    """The value, if it is one of the known ones; case counts.

    Raises:
        ToolError: it is not.
    """
    if value not in values:
        raise ToolError(f"{value!r} is no {what}; choose from {', '.join(values)}")
    return value


def check_address(text: str) -> str:
    """An email address in lower case.

    Raises:
        ToolError: it is none.
    """
    if "@" not in text or "." not in text:
        raise ToolError(f"{text!r} is no email address; look it up with company_directory_find_email_address")
    return text.lower()


def is_between(value: str, least: str, most: str) -> bool:
    """Whether a text is in a range, ends included; an empty end is open."""
    return (not least or value >= least) and (not most or value <= most)


def format_rows(rows: list[Row]) -> str:
    """The first rows of a search as JSON, and how many more there are."""
    if not rows:
        return "Nothing was found."
    more = f"\n{len(rows) - SHOWN} more match; narrow the search to see them." if len(rows) > SHOWN else ""
    return json.dumps([dict(row) for row in rows[:SHOWN]]) + more


def format_per_day(visits: tuple[Row, ...], time_min: str, time_max: str, figure: Callable[[list[Row]], Any]) -> str:
    """A figure for every day with visits between two days, both included, as JSON."""
    days: dict[str, list[Row]] = {}
    for visit in visits:
        day = visit["date_of_visit"]
        if is_between(day, time_min, time_max):
            days.setdefault(day, []).append(visit)
    return json.dumps({day: figure(days[day]) for day in sorted(days)})

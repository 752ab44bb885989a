"""Operations of the office: calendar and directory, mailbox, visits to the site, projects, customers.

Most are of tables whose rows have an id; of what concerns the visits only plots change a table.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.tables import (
    NOW,
    Operation,
    Row,
    Tables,
    check_address,
    check_known,
    format_per_day,
    format_rows,
    is_between,
)


def _accept(tables: Tables, field: str, value: str) -> str:
    return value


@dataclass(frozen=True)
class Records:
    """A table that operations change, by its name in `Tables`.

    Attributes:
        noun: name of a row in messages; `NOUN_id` is the field with its id.
        check: converts (tables, field, value) to the stored value; raises ToolError if the value is not allowed.
    """

    table: str
    noun: str
    check: Callable[[Tables, str, str], str] = _accept

    @property
    def key(self) -> str:
        """The field with the id."""
        return f"{self.noun}_id"

    @property
    def id_parameter(self) -> dict[str, str]:
        """The parameter that names a row."""
        return {self.key: "Eight digits."}

    def rows(self, tables: Tables) -> list[Row]:
        """Return the rows of the table."""
        rows: list[Row] = getattr(tables, self.table)
        return rows

    def find_index(self, tables: Tables, name: str) -> int:
        """Find the index of the row with an id; ToolError if there is none."""
        for index, row in enumerate(self.rows(tables)):
            if row[self.key] == name:
                return index
        raise ToolError(f"there is no row whose {self.key} is {name!r}")

    def get(self, tables: Tables, name: str) -> Row:
        """Return the row with an id; ToolError if there is none."""
        return self.rows(tables)[self.find_index(tables, name)]

    def add(self, tables: Tables, **fields: str) -> str:
        """Append a row and return its id, in eight digits the number after the largest id."""
        rows = self.rows(tables)
        name = f"{max((int(row[self.key]) for row in rows), default=0) + 1:08d}"
        rows.append({self.key: name, **{field: self.check(tables, field, value) for field, value in fields.items()}})
        return name

    def look_up_operation(self, name: str, description: str, fields: str) -> Operation:
        """Make the operation that returns a field of a row, as JSON."""

        def act(tables: Tables, field: str, **given: str) -> str:
            row = self.get(tables, given[self.key])
            return json.dumps({field: row[check_known(field, tuple(row), "field")]})

        return Operation(name, description, {**self.id_parameter, "field": fields}, act, (self.key, "field"))

    def update_operation(self, name: str, description: str, fields: str) -> Operation:
        """Make the operation that changes a field of a row; the row is replaced, not changed in place."""

        def act(tables: Tables, field: str, new_value: str, **given: str) -> str:
            value = self.check(tables, field, new_value)
            index = self.find_index(tables, given[self.key])
            row = self.rows(tables)[index]
            self.rows(tables)[index] = {**row, check_known(field, tuple(row), "field"): value}
            return f"The {self.noun} was updated."

        parameters = {**self.id_parameter, "field": fields, "new_value": "What it becomes."}
        return Operation(name, description, parameters, act, tuple(parameters), changes=True)

    def delete_operation(self, name: str, description: str) -> Operation:
        """Make the operation that deletes a row."""

        def act(tables: Tables, **given: str) -> str:
            del self.rows(tables)[self.find_index(tables, given[self.key])]
            return f"The {self.noun} was deleted."

        return Operation(name, description, self.id_parameter, act, (self.key,), changes=True)


_EVENT_FIELDS = "event_name, participant_email, event_start or duration."


def _check_events(tables: Tables, field: str, value: str) -> str:
    return check_address(value) if field == "participant_email" else value


EVENTS = Records("events", "event", _check_events)


def _search_events(tables: Tables, query: str, time_min: str, time_max: str) -> str:
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


CALENDAR = (
    EVENTS.look_up_operation(
        "calendar_get_event_information_by_id",
        "Look up one field of an event.",
        f"One of event_id, {_EVENT_FIELDS}",
    ),
    Operation(
        "calendar_search_events",
        "Find events by a part of their name or of the participant's address; shows at most 5.",
        {
            "query": "Part of the name or address; empty for all.",
            "time_min": "Earliest start, YYYY-MM-DD HH:MM:SS.",
            "time_max": "Latest start, YYYY-MM-DD HH:MM:SS.",
        },
        _search_events,
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
    EVENTS.update_operation("calendar_update_event", "Change one field of an event.", f"One of {_EVENT_FIELDS}"),
    Operation(
        "company_directory_find_email_address",
        "Find the addresses of people who work here by a part of their name.",
        {"name": "First or last name."},
        _find_address,
        ("name",),
    ),
)


EMAILS = Records("emails", "email")


def _search_emails(tables: Tables, query: str, date_min: str, date_max: str) -> str:
    words = query.lower().split()
    found = [
        email
        for email in tables.emails
        if all(word in f"{email['subject']} {email['body']} {email['sender/recipient']}".lower() for word in words)
        and is_between(email["sent_datetime"][:10], date_min[:10], date_max[:10])
    ]
    return format_rows(sorted(found, key=lambda email: email["sent_datetime"], reverse=True))


def _send(tables: Tables, recipient: str, subject: str, body: str) -> str:
    fields = {
        "inbox/outbox": "outbox",
        "sender/recipient": check_address(recipient),
        "subject": subject,
        "sent_datetime": NOW,
        "body": body,
    }
    EMAILS.add(tables, **fields)
    return "The email was sent."


def _forward(tables: Tables, email_id: str, recipient: str) -> str:
    email = EMAILS.get(tables, email_id)
    return _send(tables, recipient, f"FW: {email['subject']}", email["body"])


def _reply(tables: Tables, email_id: str, body: str) -> str:
    email = EMAILS.get(tables, email_id)
    return _send(tables, email["sender/recipient"], email["subject"], body)


MAIL = (
    EMAILS.look_up_operation(
        "email_get_email_information_by_id",
        "Look up one field of an email.",
        "One of email_id, inbox/outbox, sender/recipient, subject, sent_datetime, body.",
    ),
    Operation(
        "email_search_emails",
        "Find emails in which every word occurs, in subject, body or address; shows the newest 5 at most.",
        {
            "query": "Words; empty for all.",
            "date_min": "Earliest day, YYYY-MM-DD.",
            "date_max": "Latest day, YYYY-MM-DD.",
        },
        _search_emails,
    ),
    Operation(
        "email_send_email",
        "Send an email.",
        {"recipient": "Address.", "subject": "Its subject.", "body": "Its text."},
        _send,
        ("recipient", "subject", "body"),
        changes=True,
    ),
    EMAILS.delete_operation("email_delete_email", "Delete an email."),
    Operation(
        "email_forward_email",
        "Send an email on to somebody.",
        {**EMAILS.id_parameter, "recipient": "Address."},
        _forward,
        ("email_id", "recipient"),
        changes=True,
    ),
    Operation(
        "email_reply_email",
        "Answer an email; the answer goes to its sender under the same subject.",
        {**EMAILS.id_parameter, "body": "Text of the answer."},
        _reply,
        ("email_id", "body"),
        changes=True,
    ),
)


METRICS = (
    "total_visits",
    "session_duration_seconds",
    "user_engaged",
    "visits_direct",
    "visits_referral",
    "visits_search_engine",
    "visits_social_media",
)
PLOTS = ("bar", "line", "scatter", "histogram")
_DAYS = {"time_min": "First day, YYYY-MM-DD.", "time_max": "Last day, YYYY-MM-DD."}


def _get_visits(tables: Tables, visitor_id: str) -> str:
    found = [dict(visit) for visit in tables.visits if visit["visitor_id"] == visitor_id]
    if not found:
        raise ToolError(f"there is no visitor {visitor_id!r}")
    return json.dumps(found)


def _plot(tables: Tables, time_min: str, time_max: str, value_to_plot: str, plot_type: str) -> str:
    metric, kind = check_known(value_to_plot, METRICS, "value to plot"), check_known(plot_type, PLOTS, "type of plot")
    path = f"plots/{time_min}_{time_max}_{metric}_{kind}.png"
    tables.plots.append({"file_path": path})
    return path


def _make_daily_operation(name: str, description: str, figure: Callable[[list[Row]], float]) -> Operation:
    def act(tables: Tables, time_min: str, time_max: str) -> str:
        return format_per_day(tables.visits, time_min, time_max, figure)

    return Operation(name, description, _DAYS, act)


def _count_engaged(day: list[Row]) -> int:
    return sum(visit["user_engaged"] == "True" for visit in day)


def _average_seconds(day: list[Row]) -> float:
    return fmean(float(visit["session_duration_seconds"]) for visit in day)


def _count_source(tables: Tables, time_min: str, time_max: str, traffic_source: str) -> str:
    def count(day: list[Row]) -> int:
        return sum(not traffic_source or visit["traffic_source"] == traffic_source for visit in day)

    return format_per_day(tables.visits, time_min, time_max, count)


ANALYTICS = (
    Operation(
        "analytics_get_visitor_information_by_id",
        "Look up all visits of a visitor.",
        {"visitor_id": "Digits."},
        _get_visits,
        ("visitor_id",),
    ),
    Operation(
        "analytics_create_plot",
        "Plot a figure over a span of days; returns the path of the picture.",
        {**_DAYS, "value_to_plot": f"One of {', '.join(METRICS)}.", "plot_type": f"One of {', '.join(PLOTS)}."},
        _plot,
        ("time_min", "time_max", "value_to_plot", "plot_type"),
        changes=True,
    ),
    _make_daily_operation("analytics_total_visits_count", "Count the visits of each day.", len),
    _make_daily_operation("analytics_engaged_users_count", "Count the engaged users of each day.", _count_engaged),
    Operation(
        "analytics_traffic_source_count",
        "Count the visits of each day that came from one source.",
        {**_DAYS, "traffic_source": "direct, referral, search engine or social media; empty for all."},
        _count_source,
    ),
    _make_daily_operation(
        "analytics_get_average_session_duration", "Average the seconds of a session on each day.", _average_seconds
    ),
)


LISTS = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS = ("Back end", "Front end", "Design")
_TASK_FIELDS = {
    "task_name": "What it is called.",
    "assigned_to_email": "Address of who works on it.",
    "list_name": f"One of {', '.join(LISTS)}.",
    "due_date": "YYYY-MM-DD.",
    "board": f"One of {', '.join(BOARDS)}.",
}


def _check_tasks(tables: Tables, field: str, value: str) -> str:
    if field == "list_name":
        return check_known(value, LISTS, "list")
    if field == "board":
        return check_known(value, BOARDS, "board")
    if field == "assigned_to_email":
        team = {task["assigned_to_email"].lower() for task in tables.tasks}
        if value.lower() not in team:
            raise ToolError(f"{value!r} is nobody of the team; look the address up")
        return value.lower()
    return value


TASKS = Records("tasks", "task", _check_tasks)


def _search_tasks(tables: Tables, **wanted: str) -> str:
    given = {field: value.lower() for field, value in wanted.items() if value}
    if not given:
        raise ToolError("give at least one field to search by")
    return format_rows([task for task in tables.tasks if all(v in task[field].lower() for field, v in given.items())])


PROJECTS = (
    TASKS.look_up_operation(
        "project_management_get_task_information_by_id",
        "Look up one field of a task.",
        f"One of task_id, {', '.join(_TASK_FIELDS)}.",
    ),
    Operation(
        "project_management_search_tasks",
        "Find tasks whose fields contain what is given; shows at most 5.",
        {name: f"Part of it. {description}" for name, description in _TASK_FIELDS.items()},
        _search_tasks,
    ),
    Operation(
        "project_management_create_task",
        "Add a task; returns its task_id.",
        _TASK_FIELDS,
        TASKS.add,
        tuple(_TASK_FIELDS),
        changes=True,
    ),
    TASKS.delete_operation("project_management_delete_task", "Delete a task."),
    TASKS.update_operation(
        "project_management_update_task", "Change one field of a task.", f"One of {', '.join(_TASK_FIELDS)}."
    ),
)


STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")
_CUSTOMER_FIELDS = {
    "customer_name": "First and last name.",
    "assigned_to_email": "Address of the colleague who looks after the customer.",
    "status": f"One of {', '.join(STATUSES)}.",
    "customer_email": "Address of the customer.",
    "customer_phone": "Number.",
    "last_contact_date": "YYYY-MM-DD.",
    "product_interest": f"One of {', '.join(PRODUCTS)}.",
    "notes": "Anything else.",
    "follow_up_by": "YYYY-MM-DD.",
}
_CONTAINED = ("customer_name", "customer_email", "product_interest", "status", "assigned_to_email")
_DATES = ("last_contact_date", "follow_up_by")


def _check_customers(tables: Tables, field: str, value: str) -> str:
    if not value:
        return value
    if field == "status":
        return check_known(value, STATUSES, "status")
    if field == "product_interest":
        return check_known(value, PRODUCTS, "product")
    return check_address(value) if field in ("customer_email", "assigned_to_email") else value


CUSTOMERS = Records("customers", "customer", _check_customers)


def _search_customers(tables: Tables, **wanted: str) -> str:
    if not any(wanted.values()):
        raise ToolError("give at least one field to search by")
    found = [
        customer
        for customer in tables.customers
        if all(wanted[field].lower() in customer[field].lower() for field in _CONTAINED)
        and all(is_between(customer[field], wanted[f"{field}_min"], wanted[f"{field}_max"]) for field in _DATES)
    ]
    return format_rows(found)


CUSTOMER_RECORDS = (
    Operation(
        "customer_relationship_manager_search_customers",
        "Find customers whose fields contain what is given and whose dates lie between; shows at most 5.",
        {
            **{name: f"Part of it. {_CUSTOMER_FIELDS[name]}" for name in _CONTAINED},
            **{f"{name}_{end}": "YYYY-MM-DD, included." for name in _DATES for end in ("min", "max")},
        },
        _search_customers,
    ),
    CUSTOMERS.update_operation(
        "customer_relationship_manager_update_customer",
        "Change one field of a customer.",
        f"One of {', '.join(_CUSTOMER_FIELDS)}.",
    ),
    Operation(
        "customer_relationship_manager_add_customer",
        "Add a customer; returns the customer_id.",
        _CUSTOMER_FIELDS,
        CUSTOMERS.add,
        ("customer_name", "assigned_to_email", "status"),
        changes=True,
    ),
    CUSTOMERS.delete_operation("customer_relationship_manager_delete_customer", "Delete a customer."),
)


OPERATIONS: Mapping[str, Operation] = {
    operation.name: operation for operation in (*CALENDAR, *MAIL, *ANALYTICS, *PROJECTS, *CUSTOMER_RECORDS)
}
"""All 27 operations by name; 14 of them change tables."""

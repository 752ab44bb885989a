"""Operations on the tasks of the company's projects."""

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.tables import (
    Operation,
    Tables,
    check_known,
    field_of,
    find_row_index,
    format_rows,
    next_id,
    update_row,
)

LISTS = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS = ("Back end", "Front end", "Design")
_ID = {"task_id": "Eight digits."}
_FIELDS = {
    "task_name": "What it is called.",
    "assigned_to_email": "Address of who works on it.",
    "list_name": f"One of {', '.join(LISTS)}.",
    "due_date": "YYYY-MM-DD.",
    "board": f"One of {', '.join(BOARDS)}.",
}


def _checked(tables: Tables, field: str, value: str) -> str:
    """A value as the table takes it."""
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


def _get(tables: Tables, task_id: str, field: str) -> str:
    return field_of(tables.tasks, "task_id", task_id, field)


def _search(tables: Tables, **wanted: str) -> str:
    asked = {field: value.lower() for field, value in wanted.items() if value}
    if not asked:
        raise ToolError("give at least one field to search by")
    return format_rows([task for task in tables.tasks if all(v in task[field].lower() for field, v in asked.items())])


def _create(tables: Tables, **given: str) -> str:
    number = next_id(tables.tasks, "task_id")
    tables.tasks.append({"task_id": number, **{name: _checked(tables, name, given[name]) for name in _FIELDS}})
    return number


def _delete(tables: Tables, task_id: str) -> str:
    del tables.tasks[find_row_index(tables.tasks, "task_id", task_id)]
    return "The task was deleted."


def _update(tables: Tables, task_id: str, field: str, new_value: str) -> str:
    update_row(tables.tasks, "task_id", task_id, field, _checked(tables, field, new_value))
    return "The task was updated."


OPERATIONS = (
    Operation(
        "project_management_get_task_information_by_id",
        "Look up one field of a task.",
        {**_ID, "field": f"One of task_id, {', '.join(_FIELDS)}."},
        _get,
        ("task_id", "field"),
    ),
    Operation(
        "project_management_search_tasks",
        "Find tasks whose fields contain what is given; shows at most 5.",
        {name: f"Part of it. {told}" for name, told in _FIELDS.items()},
        _search,
    ),
    Operation(
        "project_management_create_task",
        "Add a task; returns its task_id.",
        _FIELDS,
        _create,
        tuple(_FIELDS),
        changes=True,
    ),
    Operation("project_management_delete_task", "Delete a task.", _ID, _delete, ("task_id",), changes=True),
    Operation(
        "project_management_update_task",
        "Change one field of a task.",
        {**_ID, "field": f"One of {', '.join(_FIELDS)}.", "new_value": "What it becomes."},
        _update,
        ("task_id", "field", "new_value"),
        changes=True,
    ),
)

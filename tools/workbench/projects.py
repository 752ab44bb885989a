"""Operations on the tasks of the company's projects."""

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.records import Records
from selfwire.tools.workbench.tables import Operation, Tables, check_known, format_rows

LISTS = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS = ("Back end", "Front end", "Design")
_FIELDS = {
    "task_name": "What it is called.",
    "assigned_to_email": "Address of who works on it.",
    "list_name": f"One of {', '.join(LISTS)}.",
    "due_date": "YYYY-MM-DD.",
    "board": f"One of {', '.join(BOARDS)}.",
}


def _check(tables: Tables, field: str, value: str) -> str:
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


TASKS = Records("tasks", "task", _check)


def _search(tables: Tables, **wanted: str) -> str:
    given = {field: value.lower() for field, value in wanted.items() if value}
    if not given:
        raise ToolError("give at least one field to search by")
    return format_rows([task for task in tables.tasks if all(v in task[field].lower() for field, v in given.items())])


OPERATIONS = (
    TASKS.look_up_operation(
        "project_management_get_task_information_by_id",
        "Look up one field of a task.",
        f"One of task_id, {', '.join(_FIELDS)}.",
    ),
    Operation(
        "project_management_search_tasks",
        "Find tasks whose fields contain what is given; shows at most 5.",
        {name: f"Part of it. {description}" for name, description in _FIELDS.items()},
        _search,
    ),
    Operation(
        "project_management_create_task",
        "Add a task; returns its task_id.",
        _FIELDS,
        TASKS.add,
        tuple(_FIELDS),
        changes=True,
    ),
    TASKS.delete_operation("project_management_delete_task", "Delete a task."),
    TASKS.update_operation(
        "project_management_update_task", "Change one field of a task.", f"One of {', '.join(_FIELDS)}."
    ),
)

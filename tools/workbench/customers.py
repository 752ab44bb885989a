"""Operations on the records of customers."""

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.tables import (
    Operation,
    Tables,
    address,
    check_known,
    find_row_index,
    format_rows,
    next_id,
    update_row,
)

STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")
_ID = {"customer_id": "Eight digits."}
_FIELDS = {
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


def _checked(field: str, value: str) -> str:
    """A value as the table takes it."""
    if not value:
        return value
    if field == "status":
        return check_known(value, STATUSES, "status")
    if field == "product_interest":
        return check_known(value, PRODUCTS, "product")
    return address(value) if field in ("customer_email", "assigned_to_email") else value


def _search(tables: Tables, **wanted: str) -> str:
    if not any(wanted.values()):
        raise ToolError("give at least one field to search by")
    found = [
        one
        for one in tables.customers
        if all(wanted[field].lower() in one[field].lower() for field in _CONTAINED)
        and all(not wanted[f"{field}_min"] or one[field] >= wanted[f"{field}_min"] for field in _DATES)
        and all(not wanted[f"{field}_max"] or one[field] <= wanted[f"{field}_max"] for field in _DATES)
    ]
    return format_rows(found)


def _update(tables: Tables, customer_id: str, field: str, new_value: str) -> str:
    update_row(tables.customers, "customer_id", customer_id, field, _checked(field, new_value))
    return "The customer was updated."


def _add(tables: Tables, **given: str) -> str:
    number = next_id(tables.customers, "customer_id")
    tables.customers.append({"customer_id": number, **{name: _checked(name, given[name]) for name in _FIELDS}})
    return number


def _delete(tables: Tables, customer_id: str) -> str:
    del tables.customers[find_row_index(tables.customers, "customer_id", customer_id)]
    return "The customer was deleted."


OPERATIONS = (
    Operation(
        "customer_relationship_manager_search_customers",
        "Find customers whose fields contain what is given and whose dates lie between; shows at most 5.",
        {
            **{name: f"Part of it. {_FIELDS[name]}" for name in _CONTAINED},
            **{f"{name}_{end}": "YYYY-MM-DD, included." for name in _DATES for end in ("min", "max")},
        },
        _search,
    ),
    Operation(
        "customer_relationship_manager_update_customer",
        "Change one field of a customer.",
        {**_ID, "field": f"One of {', '.join(_FIELDS)}.", "new_value": "What it becomes."},
        _update,
        ("customer_id", "field", "new_value"),
        changes=True,
    ),
    Operation(
        "customer_relationship_manager_add_customer",
        "Add a customer; returns the customer_id.",
        _FIELDS,
        _add,
        ("customer_name", "assigned_to_email", "status"),
        changes=True,
    ),
    Operation(
        "customer_relationship_manager_delete_customer",
        "Delete a customer.",
        _ID,
        _delete,
        ("customer_id",),
        changes=True,
    ),
)

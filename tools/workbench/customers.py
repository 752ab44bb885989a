"""Operations on the records of customers."""

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.records import Records
from selfwire.tools.workbench.tables import Operation, Tables, check_address, check_known, format_rows, is_between

STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")
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


def _check(tables: Tables, field: str, value: str) -> str:
    if not value:
        return value
    if field == "status":
        return check_known(value, STATUSES, "status")
    if field == "product_interest":
        return check_known(value, PRODUCTS, "product")
    return check_address(value) if field in ("customer_email", "assigned_to_email") else value


CUSTOMERS = Records("customers", "customer", _check)


def _search(tables: Tables, **wanted: str) -> str:
    if not any(wanted.values()):
        raise ToolError("give at least one field to search by")
    found = [
        customer
        for customer in tables.customers
        if all(wanted[field].lower() in customer[field].lower() for field in _CONTAINED)
        and all(is_between(customer[field], wanted[f"{field}_min"], wanted[f"{field}_max"]) for field in _DATES)
    ]
    return format_rows(found)


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
    CUSTOMERS.update_operation(
        "customer_relationship_manager_update_customer",
        "Change one field of a customer.",
        f"One of {', '.join(_FIELDS)}.",
    ),
    Operation(
        "customer_relationship_manager_add_customer",
        "Add a customer; returns the customer_id.",
        _FIELDS,
        CUSTOMERS.add,
        ("customer_name", "assigned_to_email", "status"),
        changes=True,
    ),
    CUSTOMERS.delete_operation("customer_relationship_manager_delete_customer", "Delete a customer."),
)

"""Operations on any table of rows with an id: look up, update, delete, add."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from selfwire.core.errors import ToolError
from selfwire.tools.workbench.tables import Operation, Row, Tables, check_known


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

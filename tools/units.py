"""Converts quantities between units, with the registry of the library pint."""

import asyncio
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ToolError
from selfwire.core.scope import Scope
from selfwire.tools.search import get_text

LONGEST = 80
"""Most characters of a unit."""

_TERM = r"(?:[^\W\d]|[°%µΩ])[\w°%µΩ]*\s*\)*(?:\s*(?:\*\*|\^)\s*-?\d{1,2}(?!\d)|[²³])?"
_UNIT = re.compile(rf"(?:1\s*/\s*)?\(*\s*{_TERM}(?:\s*[*/·\s]\s*\(*\s*{_TERM}\)*)*")
"""Pattern of a unit: names with small whole powers; no other numbers, as the registry would compute nested powers."""


class UnitsTool:
    """A tool that converts a number between units, temperatures and compound units included."""

    spec = ToolSpec(
        name="convert_units",
        description=(
            "Convert a number from one unit to another, such as 3.5 from km/h to m/s, from degF to degC or from "
            "cubic_foot to litre."
        ),
        parameters={
            "type": "object",
            "properties": {
                "value": {"type": "number", "description": "How many of the first unit."},
                "unit": {"type": "string", "description": "The first unit, such as km/h or kilogram * meter ** 2."},
                "to": {"type": "string", "description": "The second unit, such as m/s."},
            },
            "required": ["value", "unit", "to"],
        },
    )

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        """Return the quantity in both units; ToolError for an unknown unit, or units of different dimensions."""
        value = arguments.get("value")
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= 1e100:
            raise ToolError(f"convert_units needs a number as 'value', at most 1e100, not {str(value)[:80]!r}")
        unit, to = (get_text(arguments, name, "convert_units", "unit") for name in ("unit", "to"))
        return await asyncio.to_thread(convert, float(value), unit, to)


def convert(value: float, unit: str, to: str) -> str:
    """Convert a number, and format it in both units; raises ToolError as `UnitsTool.run` does."""
    before, after = _parse(unit), _parse(to)
    try:
        quantity = _get_registry().Quantity(value, before)
        return f"{value:.12g} {before} = {quantity.to(after).magnitude:.12g} {after}"
    except Exception as error:  # noqa: BLE001  # pint's own errors have no common base apart from Exception
        raise ToolError(f"{unit} cannot be converted to {to}: {error}") from None


def _parse(text: str) -> Any:
    if len(text) > LONGEST or not _UNIT.fullmatch(text.strip()):
        raise ToolError(
            f"{text[:LONGEST]!r} is not a unit; write names or symbols with * / and small whole powers, such as "
            "kg * m ** 2 / s ** 2"
        )
    try:
        return _get_registry().parse_units(text.strip())
    except Exception as error:  # noqa: BLE001  # as above
        raise ToolError(f"unit {text!r} is not known: {error}") from None


@cache
def _get_registry() -> Any:
    import pint  # it reads its definitions for half a second

    return pint.UnitRegistry()

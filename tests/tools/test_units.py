import pytest

from selfwire.core.errors import ToolError
from selfwire.core.protocols import Tool
from selfwire.core.scope import Scope
from selfwire.tools.units import UnitsTool, convert

TOOL: Tool = UnitsTool()


@pytest.mark.parametrize(
    ("value", "unit", "to", "result"),
    [
        (36, "km/h", "m/s", "36 kilometer / hour = 10 meter / second"),
        (212, "degF", "degC", "212 degree_Fahrenheit = 100 degree_Celsius"),
        (20, "°C", "K", "20 degree_Celsius = 293.15 kelvin"),
        (2, "kg*m**2/s^2", "J", "2 kilogram * meter ** 2 / second ** 2 = 2 joule"),
        (1, "J/(kg*K)", "J/(g*K)", "1 joule / kelvin / kilogram = 0.001 joule / gram / kelvin"),
        (3, "1/s", "Hz", "3 1 / second = 3 hertz"),
        (5, "µm", "nm", "5 micrometer = 5000 nanometer"),
    ],
)
def test_quantities_are_converted(value: float, unit: str, to: str, result: str) -> None:
    assert convert(value, unit, to) == result


@pytest.mark.parametrize(
    ("value", "unit", "to", "message"),
    [
        (1, "m", "s", "m cannot be converted to s"),
        (1, "florps", "s", "unit 'florps' is not known"),
        (1, "m**2**9**9**9", "m", "is not a unit"),
        (1, "m**999999999", "m", "is not a unit"),
        (1, "m*9**9**9**9", "m", "is not a unit"),
        (1, "__import__('os')", "m", "is not a unit"),
        (1, "((((", "m", "is not a unit"),
        (1, "m " * 60, "m", "is not a unit"),
        (1, "m" + " " * 70 + "!", "m", "is not a unit"),
        (1, "", "m", "needs an object"),
        ("1", "m", "m", "needs a number"),
        (True, "m", "m", "needs a number"),
        (float("nan"), "m", "m", "needs a number"),
        (10**400, "m", "m", "needs a number"),
    ],
)
async def test_what_is_no_quantity_is_refused(value: object, unit: str, to: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        await TOOL.run({"value": value, "unit": unit, "to": to}, scope=Scope())

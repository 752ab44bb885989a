"""Code that is written into exported files does what the engine does."""

from selfwire.core.trajectory import ToolUse
from selfwire.extras.langgraph_file.parts import write_input


def test_the_input_of_a_tool_is_written_as_the_engine_writes_it() -> None:
    given = {"n": 12.0, "half": 0.5, "many": [1.0, 2e20, {"b": 1, "a": True}], "text": "as it is 1.0", "none": None}
    assert write_input(given) == ToolUse(name="t", arguments=given, result="").input_text

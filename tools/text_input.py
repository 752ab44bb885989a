"""The input of tools that take one text."""

from collections.abc import Mapping
from typing import Any

from selfwire.core.errors import ToolError


def make_text_schema(name: str, description: str) -> dict[str, Any]:
    """The JSON schema of an object with one required text."""
    properties = {name: {"type": "string", "description": description}}
    return {"type": "object", "properties": properties, "required": [name]}


def get_text(arguments: Mapping[str, Any], name: str, tool: str, kind: str = "text") -> str:
    """The text of an input object.

    Raises:
        ToolError: it is missing or blank.
    """
    text = arguments.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ToolError(f'{tool} needs an object {{"{name}": "..."}} with a {kind} that is not empty')
    return text

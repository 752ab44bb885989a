"""Formats the result of a called function. This file's text runs inside the sandboxes, by CPython and by Monty."""


def format_result(value: object) -> str:
    """Format a result as text: a str unchanged, else JSON, else the repr."""
    import json

    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)

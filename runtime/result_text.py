"""What a called function returned, as text. This file's text is run inside the sandboxes, by CPython and by Monty."""


def format_result(value: object) -> str:
    """A result as text: a str as it is, else as JSON, else its repr."""
    import json

    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)

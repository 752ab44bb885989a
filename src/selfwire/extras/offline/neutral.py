"""Valid values that decide nothing, for fields that no critic fills."""

from collections.abc import Mapping
from typing import Any

_HARMLESS = ("NO_CHANGE", "KEEP", "none", "neutral", "other")


def neutral(schema: Mapping[str, Any]) -> Any:
    """The most harmless value that a JSON schema allows: defaults, empty texts and lists, middles of ranges."""
    return _value(schema, schema.get("$defs", {}))


def _value(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _value(defs[schema["$ref"].rsplit("/", 1)[-1]], defs)
    if "default" in schema:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    if options := schema.get("enum"):
        return next((harmless for harmless in _HARMLESS if harmless in options), options[0])
    for union in ("anyOf", "oneOf", "allOf"):
        if options := schema.get(union):
            nulls = [option for option in options if option.get("type") == "null"]
            return _value((nulls or options)[0], defs)
    return _typed(schema, defs)


def _typed(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Any:
    kind = schema.get("type", "object")
    if kind == "string":
        return "-" * int(schema.get("minLength", 0))
    if kind == "boolean":
        return False
    if kind in ("number", "integer"):
        return _middle(schema, whole=kind == "integer")
    if kind == "array":
        return [_value(schema.get("items", {}), defs)] * int(schema.get("minItems", 0))
    if kind == "null":
        return None
    required = schema.get("required", list(schema.get("properties", {})))
    return {name: _value(schema["properties"][name], defs) for name in required}


def _middle(schema: Mapping[str, Any], *, whole: bool) -> float:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None and high is None:
        return 0
    middle = low if high is None else high if low is None else (low + high) / 2
    if middle in (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")):
        middle += 1 if high is None else -1
    return int(middle) if whole else float(middle)

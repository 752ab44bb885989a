"""JSON schemas that strict modes take: OpenAI's, Anthropic's and the grammars of llama.cpp.

Each refuses, ignores or breaks at other keywords, so only those that all take are sent. A limit goes into the
description in words; replies are validated by the schema itself.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

KEPT = ("type", "enum", "description")
"""Keywords that are sent as they are."""
LIMITS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matches {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
}
"""Keywords that are sent in words."""

NOT_EMPTY = ("minLength", "minItems")

_Node = Mapping[str, Any]


def make_strict_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a reply for strict modes: all properties required, no others, references filled in.

    Definitions that contain themselves stay references.
    """
    whole = schema.model_json_schema()
    defs: _Node = whole.get("$defs", {})
    recursive = {name for name in defs if _contains(defs[name], name, defs, ())}
    root = defs[target] if (target := _get_target(whole)) else whole
    strict = {**_strict(root, defs, recursive), "title": root["title"]}
    if recursive:
        strict["$defs"] = {name: _strict(defs[name], defs, recursive) for name in sorted(recursive)}
    return strict


def _contains(node: Any, name: str, defs: _Node, seen: tuple[str, ...]) -> bool:
    if isinstance(node, list):
        return any(_contains(one, name, defs, seen) for one in node)
    if not isinstance(node, dict):
        return False
    if target := _get_target(node):
        if target == name:
            return True
        return target not in seen and _contains(defs[target], name, defs, (*seen, target))
    return any(_contains(one, name, defs, seen) for one in node.values())


def _get_target(node: _Node) -> str:
    """Name of the definition that a node refers to; empty if it is none."""
    reference = node.get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) else ""


def _strict(node: _Node, defs: _Node, recursive: set[str]) -> dict[str, Any]:
    if target := _get_target(node):
        if target in recursive:
            return {"$ref": node["$ref"]}
        return _strict({**defs[target], **{name: node[name] for name in node if name != "$ref"}}, defs, recursive)
    strict = {name: node[name] for name in KEPT if name in node}
    if "const" in node:
        strict["enum"] = [node["const"]]
    if options := node.get("anyOf") or node.get("oneOf"):
        strict["anyOf"] = [_strict(option, defs, recursive) for option in options]
    if "items" in node:
        strict["items"] = _strict(node["items"], defs, recursive)
    if "properties" in node:
        strict["properties"] = {name: _strict(one, defs, recursive) for name, one in node["properties"].items()}
        strict |= {"required": list(node["properties"]), "additionalProperties": False}
    if limits := "; ".join(_list_limits(node)):
        strict["description"] = f"{strict['description']} ({limits})" if "description" in strict else limits
    return strict


def _list_limits(node: _Node) -> Iterator[str]:
    """Limits in words, without those that the description tells already."""
    described = [word.strip(".") for word in re.findall(r"[\w.]+", node.get("description", "").lower())]
    for name, words in LIMITS.items():
        limit = node.get(name)
        if limit is None or _format(limit) in described:
            continue
        if name not in NOT_EMPTY or limit > 1:
            yield words.format(_format(limit))
        elif limit == 1 and "empty" not in described:
            yield "not empty"


def _format(limit: object) -> str:
    return f"{limit:g}" if isinstance(limit, float) else str(limit)

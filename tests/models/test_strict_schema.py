"""Every kind of reply as strict modes take it: the keywords of each provider, as it publishes them."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel, Field

from selfwire import evolvers, nodes
from selfwire.core.chat import ReplySchema
from selfwire.evals import judge
from selfwire.evolvers.dytopo.schemas import turn_schema
from selfwire.models.structured import make_strict_schema

COMMON = {"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "description", "title"}


class Provider(NamedTuple):
    """What a provider takes; `bare_references`: nothing may stand beside a reference."""

    keywords: set[str]
    bare_references: bool
    nested_references: bool
    most_depth: int


PROVIDERS = {
    # https://platform.openai.com/docs/guides/structured-outputs#supported-schemas: types, enum, anyOf below the root,
    # definitions; all fields required, additionalProperties false, no allOf, not, if; at most 10 levels. Azure takes
    # none of minLength, maxLength, pattern, format, minimum, maximum, multipleOf, minItems, maxItems, uniqueItems
    # (https://learn.microsoft.com/azure/ai-foundry/openai/how-to/structured-outputs); "default" is refused.
    "openai": Provider(COMMON | {"$defs", "$ref"}, True, True, 10),
    # https://docs.claude.com/en/docs/build-with-claude/structured-outputs#json-schema-limitations, and
    # lib/_parse/_transform.py of Anthropic's Python package: basic types, enum, const, anyOf, allOf, $ref, formats,
    # minItems of 0 and 1; no limits of numbers, strings and other arrays, no recursion.
    "anthropic": Provider(COMMON | {"$defs", "$ref", "const", "allOf", "format"}, True, True, 10),
    # grammars/README.md of llama.cpp: no prefixItems, uniqueItems, contains, not, if; limits of integers only;
    # properties never beside anyOf; nested references are broken.
    "llama.cpp": Provider(COMMON | {"$defs", "$ref", "const", "minItems", "maxItems", "minLength"}, False, False, 99),
}


def kinds(base: type[ReplySchema] = ReplySchema) -> Iterator[type[ReplySchema]]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("selfwire."):
            yield kind
            yield from kinds(kind)


def every_kind() -> list[type[ReplySchema]]:
    for room in (evolvers, nodes):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    turn_schema(answers=True, checks=True, tools=True)
    found = list(dict.fromkeys(kinds()))
    assert judge.RubricScore in found
    return found


def schemas(node: dict[str, Any], depth: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """A schema and all schemas in it, with the number of objects and lists around them."""
    yield node, depth
    inner = [*node.get("anyOf", ()), *node.get("properties", {}).values(), *node.get("$defs", {}).values()]
    for one in [*inner, *([node["items"]] if "items" in node else [])]:
        yield from schemas(one, depth + ("anyOf" not in node))


KINDS = every_kind()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__.split('.')[-2]}-{kind.__name__}")
def test_every_reply_is_asked_for_in_keywords_that_a_provider_takes(kind: type[ReplySchema], provider: str) -> None:
    takes, whole = PROVIDERS[provider], make_strict_schema(kind)
    assert whole["type"] == "object"
    for node, depth in schemas(whole):
        assert set(node) <= takes.keywords
        assert depth <= takes.most_depth
        assert ("$ref" in node) <= takes.nested_references
        assert not ("$ref" in node and takes.bare_references and len(node) > 1)
        assert not {"anyOf", "properties"} <= set(node)
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])
        else:
            assert {"type", "enum", "anyOf"} & set(node), node


class Part(BaseModel):
    """A part."""

    weight: float = Field(gt=0, le=2)
    size: Literal["big"] = "big"


class Whole(BaseModel):
    name: str = Field(min_length=1, description="A name.")
    parts: list[Part] = Field(min_length=2, max_length=4, description="2 to 4 parts.")
    title: Part | None = None
    sure: float = Field(le=1, description="How sure, from 0 to 1.")


class Tree(BaseModel):
    label: str
    branches: list["Tree"] = Field(max_length=3)


def test_limits_are_told_in_words_once_and_references_are_filled_in() -> None:
    part = {
        "type": "object",
        "description": "A part.",
        "properties": {
            "weight": {"type": "number", "description": "at most 2; more than 0"},
            "size": {"type": "string", "enum": ["big"]},
        },
        "required": ["weight", "size"],
        "additionalProperties": False,
    }
    assert make_strict_schema(Whole) == {
        "type": "object",
        "title": "Whole",
        "properties": {
            "name": {"type": "string", "description": "A name. (not empty)"},
            "parts": {"type": "array", "description": "2 to 4 parts.", "items": part},
            "title": {"anyOf": [part, {"type": "null"}]},
            "sure": {"type": "number", "description": "How sure, from 0 to 1."},
        },
        "required": ["name", "parts", "title", "sure"],
        "additionalProperties": False,
    }


def test_a_definition_that_contains_itself_stays_a_reference() -> None:
    tree = make_strict_schema(Tree)
    assert tree["$defs"]["Tree"]["properties"]["branches"]["items"] == {"$ref": "#/$defs/Tree"}
    assert "at most 3 items" in tree["$defs"]["Tree"]["properties"]["branches"]["description"]
    assert tree["title"] == "Tree"

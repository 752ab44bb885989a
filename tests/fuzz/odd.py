"""Makes odd replies to a JSON schema: mostly of its shape, with values that no honest model gives."""

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

TEXTS = (
    "", " ", "none", "x" * 5000, "a\nb", "\x00", "\x1b[31m", "\u202etxt", "é" * 40, "名前", "\ud800", "../../etc",
    "${prompt}", "{}", "[a]", "-", "__start__", "__end__", "a:b", "a|b", "1", "NaN", "<think>", "```json", "\\",
    '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": ' * 300 + "1" + "}" * 300, "[" * 3000,
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 7, 0.5, 1.5, -0.0, 1e308, -1e308, 10**30, 2**63, 1e-320, float("nan"), float("inf"))
OTHERS: tuple[Any, ...] = (None, True, False, 0, -1, "", "x", [], [None], {}, {"a": {}}, [[[]]])
WHOLE = (
    "",
    "null",
    "[]",
    "{}",
    "no JSON",
    "[" * 3000,
    '{"a":' * 400,
    "```json\n{}\n```",
    "{" * 2000,
    '{"x": 1}{"x": 2}',
)
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{1,40}")


def make_odd_reply(schema: Mapping[str, Any], prompt: str, rng: Random) -> str:
    """A reply as text; the words of the prompt serve as names, so that some of them are those of agents."""
    if rng.random() < 0.05:
        return rng.choice(WHOLE)
    words = [rng.choice(found) for _ in range(8)] if (found := WORD.findall(prompt)[-400:]) else ["a"]
    text = json.dumps(make_value(schema, words, rng, schema), ensure_ascii=rng.random() < 0.5)
    match rng.randrange(20):
        case 0:
            return text[: rng.randrange(len(text) + 1)]
        case 1:
            return f"Certainly!\n```json\n{text}\n```"
        case 2:
            return text.replace('": ', '": 1, "again": ', 1)
        case 3:
            return text + text
        case _:
            return text


def make_value(schema: Any, words: list[str], rng: Random, root: Mapping[str, Any], depth: int = 0) -> Any:
    """A value that mostly fits a schema."""
    if rng.random() < 0.04 or depth > 12 or not isinstance(schema, Mapping):
        return rng.choice(OTHERS)
    if chosen := _follow(schema, rng, root):
        return make_value(chosen, words, rng, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema and rng.random() < 0.9:
        return rng.choice(schema["enum"])
    plain: dict[str, Callable[[], Any]] = {
        "object": lambda: _object(schema, words, rng, root, depth),
        "array": lambda: _array(schema, words, rng, root, depth),
        "integer": lambda: rng.choice(NUMBERS),
        "number": lambda: rng.choice(NUMBERS),
        "boolean": lambda: rng.random() < 0.5,
        "string": lambda: _text(words, rng),
    }
    kind = schema.get("type")
    return plain[kind]() if isinstance(kind, str) and kind in plain else rng.choice(OTHERS)


def _follow(schema: Mapping[str, Any], rng: Random, root: Any) -> Any:
    """The schema that a reference or a choice of schemas stands for; None if this is neither."""
    if "$ref" in schema:
        for name in schema["$ref"].split("/")[1:]:
            root = root[name]
        return root
    several = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    return rng.choice(several) if several else None


def _array(schema: Mapping[str, Any], words: list[str], rng: Random, root: Mapping[str, Any], depth: int) -> Any:
    found = [make_value(schema.get("items"), words, rng, root, depth + 1) for _ in range(rng.randrange(5))]
    return found * rng.choice((1, 1, 1, 1, 2, 30))


def _object(schema: Mapping[str, Any], words: list[str], rng: Random, root: Mapping[str, Any], depth: int) -> Any:
    parts = schema.get("properties") or {}
    made = {name: make_value(part, words, rng, root, depth + 1) for name, part in parts.items() if rng.random() < 0.96}
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping):
        made |= {_text(words, rng): make_value(more, words, rng, root, depth + 1) for _ in range(rng.randrange(4))}
    elif rng.random() < 0.04:
        made[_text(words, rng)] = rng.choice(OTHERS)
    return made


def _text(words: list[str], rng: Random) -> str:
    return rng.choice(words) if rng.random() < 0.6 else rng.choice(TEXTS)

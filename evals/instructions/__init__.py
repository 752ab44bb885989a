"""Independently worded instructions by skill: controls with random edits draw from them."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def paraphrases() -> Mapping[str, tuple[str, ...]]:
    """Load instructions by the name of a skill, from the `*paraphrases.json` files of this folder."""
    found: dict[str, tuple[str, ...]] = {}
    for file in sorted(files(__package__).iterdir(), key=lambda file: file.name):
        if file.name.endswith("paraphrases.json"):
            found |= {name: tuple(texts) for name, texts in json.loads(file.read_text(encoding="utf-8")).items()}
    return found

"""Prompts of the legal desk, read once."""

import tomllib
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Prompts:
    rewrite: str
    grade: str
    answer: str


def load() -> Prompts:
    with resources.files(__package__).joinpath("prompts.toml").open("rb") as file:
        data = tomllib.load(file)
    return Prompts(**data["desk"])


PROMPTS = load()

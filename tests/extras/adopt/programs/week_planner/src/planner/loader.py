import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def _raw() -> dict[str, Any]:
    with files("planner.prompts").joinpath("agents.yaml").open("r", encoding="utf-8") as fh:
        return yaml.safe_load(fh)


def get_prompt(path: str) -> str:
    """Get a prompt by a path with dots, such as `planner.system`."""
    node: Any = _raw()
    for part in path.split("."):
        node = node[part]
    return node


@dataclass
class AgentSpec:
    model: str
    system: str
    style: str = ""

    @classmethod
    def load(cls, name: str) -> "AgentSpec":
        raw = _raw()[name]
        return cls(model=raw["model"], system=raw["system"], style=raw.get("style", ""))


def few_shots() -> list[dict]:
    return json.loads(files("planner.prompts").joinpath("few.json").read_text())

import json
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path

import yaml
from jinja2 import Environment, FileSystemLoader
from langchain_core.prompts import PromptTemplate

HERE = Path(__file__).parent / "prompts"
env = Environment(loader=FileSystemLoader(HERE))


@cache
def load(name: str) -> str:
    return (HERE / f"{name}.md").read_text(encoding="utf-8")


def load_yaml(name: str) -> dict:
    with open(HERE / name) as f:
        return yaml.safe_load(f)


HOTEL = PromptTemplate.from_file(HERE / "hotel.txt")
PACK = resources.files("pkg.prompts").joinpath("pack.md").read_text()
AGENTS = load_yaml("agents.yaml")
GUIDE = tomllib.loads((HERE / "settings.toml").read_text())["guide"]["prompt"]
with (HERE / "bye.json").open("rb") as f:
    BYE = json.load(f)["bye"]["system"]

import json
from functools import lru_cache
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
PROMPTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((HERE / "prompts").glob("*.md"))}


@lru_cache(maxsize=None)
def load_locales() -> dict:
    with open(HERE / "locales.json", encoding="utf-8") as f:
        return json.load(f)


def get_prompt(name: str, **values: str) -> str:
    template = PROMPTS[name]
    return template.format(**values) if values else template


def load_critics() -> list[dict]:
    return yaml.safe_load(Path(__file__).with_name("critics.yaml").read_text())["critics"]

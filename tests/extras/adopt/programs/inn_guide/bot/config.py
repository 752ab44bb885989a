from functools import lru_cache
from importlib.resources import files
import yaml


@lru_cache
def load() -> dict:
    return yaml.safe_load((files("bot") / "prompts" / "texts.yaml").read_text(encoding="utf-8"))


def prompt_of(agent: str) -> str:
    return load()["agents"][agent]["system"]


def shots_of(agent: str) -> list[tuple[str, str]]:
    pairs = []
    for shot in load()["agents"][agent].get("few_shot", []):
        pairs += [("user", shot["user"]), ("assistant", shot["assistant"])]
    return pairs

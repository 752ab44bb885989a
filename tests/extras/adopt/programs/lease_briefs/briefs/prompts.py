import tomllib
from pathlib import Path

_PATH = Path(__file__).resolve().parent.parent / "prompts.toml"
with _PATH.open("rb") as stream:
    _ALL = tomllib.load(stream)


def load(step: str) -> tuple[str, str]:
    section = _ALL[step]
    return section["system"], section["user"]

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent


@dataclass
class PromptFile:
    name: str
    suffix: str = ".prompt"
    path: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = ROOT / "prompts" / f"{self.name}{self.suffix}"

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8").strip()

    def __call__(self, **values: str) -> str:
        return self.text.format(**values)


class Library:
    answer = PromptFile("answer")
    check = PromptFile("check")
    hours = PromptFile("hours", suffix=".txt")

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "prompts"


class Prompt(NamedTuple):
    text: str

    def __call__(self, **values: object) -> str:
        return self.text.format(**values) if values else self.text

    def __add__(self, other):  # type: ignore[override]
        return Prompt(self.text + "\n" + str(getattr(other, "text", other)))


def load(name: str) -> Prompt:
    return Prompt((FOLDER / f"{name}.md").read_text(encoding="utf-8").strip())


def load_body(name: str) -> Prompt:
    raw = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    _, _, body = re.split(r"^---$", raw, maxsplit=2, flags=re.M)
    return Prompt(body.strip())


WRITER = load("writer")
CRITIC = load_body("critic")
EXTRA = Prompt("Mention the ticket's number.")

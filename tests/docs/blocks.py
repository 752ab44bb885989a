"""The blocks of code on a page, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for pattern in ("*.md", "docs/*.md", "docs/papers/*.md", "examples/**/*.md")
    for path in sorted(ROOT.glob(pattern))
    if path.name not in {"CHANGELOG.md", "LICENSE.md"}
]
FENCE = re.compile(r"(?:^`([\w./-]+)`:\n\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
SHELL = ("", "sh", "console")


@dataclass(frozen=True)
class Command:
    """A command, and what the page says that it prints (console blocks only)."""

    text: str
    shown: str = ""

    @cached_property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)


@dataclass(frozen=True)
class Block:
    """Code between two fences; `file` is the name in the line before it, if this is what that file holds."""

    page: str
    line: int
    language: str
    text: str
    file: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> Iterator[Command]:
        """Of a shell block every line; of a console block the lines behind `$ `, with what follows them."""
        text = self.text.replace("\\\n", " ")
        if self.language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, shown = part.partition("\n")
                yield Command(line, shown)
        else:
            yield from (one for one in map(Command, text.splitlines()) if one.words)


def find_blocks(text: str, name: str) -> list[Block]:
    """All blocks of a page in their order."""
    return [
        Block(name, text[: found.start(3)].count("\n"), found[2], found[3], found[1] or "")
        for found in FENCE.finditer(text)
    ]


def find_spans(page: Path) -> list[str]:
    """What stands between single backquotes in the text of a page."""
    return [" ".join(span.split()) for span in SPAN.findall(FENCE.sub("", page.read_text()))]


BLOCKS = [block for page in PAGES for block in find_blocks(page.read_text(), str(page.relative_to(ROOT)))]

"""A small builder of prompts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class PromptBuilder:
    intro: str
    sections: list[tuple[str, str]] = field(default_factory=list)
    closing: str = "Answer in English."

    def section(self, title: str, body: str) -> PromptBuilder:
        self.sections.append((title, body))
        return self

    def end(self, closing: str) -> PromptBuilder:
        self.closing = closing
        return self

    def build(self) -> str:
        body = "\n\n".join(f"## {title}\n{text}" for title, text in self.sections)
        return f"{self.intro}\n\n{body}\n\n{self.closing}"


def xml(tag: str, content: str) -> str:
    return f"<{tag}>\n{content.strip()}\n</{tag}>"

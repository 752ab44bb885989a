from __future__ import annotations


class PromptBuilder:
    """Puts sections together."""

    def __init__(self, intro: str):
        self.parts = [intro]

    def section(self, title: str, body: str) -> PromptBuilder:
        self.parts.append(f"## {title}\n{body}")
        return self

    def rule(self, text: str) -> PromptBuilder:
        self.parts += [f"- {text}"]
        return self

    def build(self) -> str:
        return "\n\n".join(self.parts)

from collections.abc import Callable

TOOLS: list[Callable] = []
SKILLS: dict[str, str] = {}


def register(fn: Callable) -> Callable:
    TOOLS.append(fn)
    return fn


def skill(name: str, text: str) -> None:
    SKILLS[name] = text

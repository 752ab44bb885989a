from importlib import resources


def read_prompt(name: str) -> str:
    return (resources.files(__package__) / f"{name}.md").read_text(encoding="utf-8").strip()

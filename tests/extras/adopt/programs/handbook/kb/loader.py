import re
from importlib.resources import files


def load_sections() -> dict[str, str]:
    """Split prompts.md at its headings."""
    text = files("kb").joinpath("prompts.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (\w+)\n", text, flags=re.M)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2])}


SECTIONS = load_sections()

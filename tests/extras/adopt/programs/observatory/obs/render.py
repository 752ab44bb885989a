from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

_HERE = Path(__file__).resolve().parent


@lru_cache(maxsize=1)
def env() -> Environment:
    return Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=select_autoescape(default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
    )


def render(name: str, /, **values) -> str:
    return env().get_template(f"{name}.md.j2").render(**values)

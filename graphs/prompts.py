"""Loads a room's prompt files."""

from functools import cache
from importlib.resources import files

from selfwire.core.errors import ConfigError
from selfwire.core.prompts import Prompts


@cache
def load_prompts(room: str, name: str = "") -> Prompts:
    """The prompts of a room: every `prompts/[name/]*.md` by its file's stem.

    Raises:
        ConfigError: there are none.
    """
    folder = files(f"selfwire.{room}").joinpath("prompts", *([name] if name else []))
    texts = {
        file.name.removesuffix(".md"): file.read_text(encoding="utf-8")
        for file in (folder.iterdir() if folder.is_dir() else ())
        if file.name.endswith(".md")
    }
    if not texts:
        raise ConfigError(f"selfwire.{room} has no prompts for {name!r}; reinstall the package")
    return Prompts(texts=texts)

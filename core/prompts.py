"""Prompt texts by name, filled by `string.Template`; they are loaded from files elsewhere."""

import re
from collections.abc import Mapping
from functools import cache
from string import Template

from selfwire.core.chat import ChatMessage
from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenModel

DIVIDER = "\n---\n"
"""Divides the system part of a prompt file from its user part."""

_SECTION = re.compile(r"(?:[^<]*\n)?<(\w+)>\n\$\1\n</\1>")
"""A tagged variable and its heading."""


class Prompts(FrozenModel):
    """Prompt templates by name.

    Args:
        texts: the template of each prompt; a line of three dashes divides system from user part.
    """

    texts: Mapping[str, str]

    def text(self, name: str, /, **values: object) -> str:
        """Fill a prompt.

        Raises:
            ConfigError: there is no such prompt, or the template has a variable without a value.
        """
        return _fill(name, self._get(name), values)

    def messages(self, name: str, /, **values: object) -> tuple[ChatMessage, ...]:
        """Fill a prompt and split it into a system and a user message.

        Values are data: they cannot forge a tag that labels a section of the template. A section of the user message
        whose value is blank is left out, with its heading.

        Raises:
            ConfigError: as `text`, or the prompt has no divider.
        """
        system, divider, user = self._get(name).partition(DIVIDER)
        if not divider:
            raise ConfigError(f"prompt {name!r} has no line of three dashes between system and user part")
        texts = {key: quote_tags(str(value), self.texts[name]) for key, value in values.items()}
        return (
            ChatMessage.system(_fill(name, system, texts).strip()),
            ChatMessage.user(_fill(name, _drop_blank_sections(user, texts), texts).strip()),
        )

    def _get(self, name: str) -> str:
        if name not in self.texts:
            raise ConfigError(f"there is no prompt {name!r}; prompts are {', '.join(sorted(self.texts))}")
        return self.texts[name]


def quote_tags(text: str, template: str) -> str:
    """The text with the template's tags in square brackets, so that they cannot be mistaken for the template's own."""
    tags = _tags(template)
    return tags.sub(r"[\1]", text) if tags else text


@cache
def _tags(template: str) -> re.Pattern[str] | None:
    names = "|".join(sorted(set(re.findall(r"<(\w+)>", template))))
    return re.compile(rf"<(/?\s*(?:{names})\s*)>", re.IGNORECASE) if names else None


def _drop_blank_sections(template: str, values: Mapping[str, str]) -> str:
    found = ((_SECTION.fullmatch(paragraph.strip()), paragraph) for paragraph in template.split("\n\n"))
    return "\n\n".join(text for section, text in found if not section or values.get(section[1], "unknown").strip())


def _fill(name: str, template: str, values: Mapping[str, object]) -> str:
    try:
        return Template(template).substitute(values)
    except (KeyError, ValueError) as error:
        given = ", ".join(sorted(values))
        raise ConfigError(f"prompt {name!r} cannot be filled: {error!r}; given {given}") from None

"""Prompt texts by name, filled by `string.Template`; who loads the files passes them in."""

import re
from collections.abc import Mapping
from functools import cache
from string import Template

from selfwire.core.chat import ChatMessage
from selfwire.core.errors import ConfigError
from selfwire.core.values import FrozenModel

DIVIDER = "\n---\n"
"""Divides the system part of a prompt file from its user part."""


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
        return _filled(name, self._found(name), values)

    def messages(self, name: str, /, **values: object) -> tuple[ChatMessage, ...]:
        """Fill a prompt and split it into a system and a user message.

        Values are data: none of them can forge a tag by which the template labels its sections.

        Raises:
            ConfigError: as `text`, or the prompt has no divider.
        """
        system, divider, user = self._found(name).partition(DIVIDER)
        if not divider:
            raise ConfigError(f"prompt {name!r} has no line of three dashes between system and user part")
        values = {key: quote_tags(str(value), self.texts[name]) for key, value in values.items()}
        return (
            ChatMessage.system(_filled(name, system, values).strip()),
            ChatMessage.user(_filled(name, user, values).strip()),
        )

    def _found(self, name: str) -> str:
        if name not in self.texts:
            raise ConfigError(f"there is no prompt {name!r}; prompts are {', '.join(sorted(self.texts))}")
        return self.texts[name]


def quote_tags(text: str, template: str) -> str:
    """The text with every tag of the template in square brackets instead, so that none is mistaken for ours."""
    tags = _tags(template)
    return tags.sub(r"[\1]", text) if tags else text


@cache
def _tags(template: str) -> re.Pattern[str] | None:
    names = "|".join(sorted(set(re.findall(r"<(\w+)>", template))))
    return re.compile(rf"<(/?\s*(?:{names})\s*)>", re.IGNORECASE) if names else None


def _filled(name: str, template: str, values: Mapping[str, object]) -> str:
    try:
        return Template(template).substitute(values)
    except (KeyError, ValueError) as error:
        given = ", ".join(sorted(values))
        raise ConfigError(f"prompt {name!r} cannot be filled: {error!r}; given {given}") from None

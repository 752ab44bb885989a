"""Prompt texts by name, filled by `string.Template`; who loads the files passes them in."""

import re
from collections.abc import Mapping
from string import Template

from selfwire.core.chat import ChatMessage
from selfwire.core.errors import ConfigError
from selfwire.core.values import Value

DIVIDER = "\n---\n"
"""Divides the system part of a prompt file from its user part."""


class Prompts(Value):
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
        if name not in self.texts:
            raise ConfigError(f"there is no prompt {name!r}; prompts are {', '.join(sorted(self.texts))}")
        try:
            return Template(self.texts[name]).substitute({key: str(value) for key, value in values.items()})
        except (KeyError, ValueError) as error:
            given = ", ".join(sorted(values))
            raise ConfigError(f"prompt {name!r} cannot be filled: {error!r}; given {given}") from None

    def messages(self, name: str, /, **values: object) -> tuple[ChatMessage, ...]:
        """Fill a prompt and split it into a system and a user message.

        Values are data: none of them can forge a tag by which the template labels its sections.

        Raises:
            ConfigError: as `text`, or the prompt has no divider.
        """
        if name in self.texts and DIVIDER not in self.texts[name]:
            raise ConfigError(f"prompt {name!r} has no line of three dashes between system and user part")
        self.text(name, **values)
        values = {key: quoted(str(value), self.texts[name]) for key, value in values.items()}
        system, user = self.texts[name].split(DIVIDER, 1)
        halves = Prompts(texts={"system": system, "user": user})
        return (
            ChatMessage.system(halves.text("system", **values).strip()),
            ChatMessage.user(halves.text("user", **values).strip()),
        )


def quoted(text: str, template: str) -> str:
    """The text with every tag of the template in square brackets instead, so that none is mistaken for ours."""
    tags = "|".join(sorted(set(re.findall(r"<(\w+)>", template))))
    return re.sub(rf"<(/?\s*(?:{tags})\s*)>", r"[\1]", text, flags=re.IGNORECASE) if tags else text

"""The model that reflects on a team: HiVA's structured asks with their prompts."""

import re
from dataclasses import dataclass

from selfwire.core.ports import Model, Schema
from selfwire.core.prompts import Prompts
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage

SECTIONS = (
    "task", "input", "output", "successor", "tools", "known_concepts", "answer", "trace", "feedback", "role",
    "successor_feedback", "gradient", "prompt", "gradients", "successors", "routing", "parallelizability", "operations",
)  # fmt: skip
"""The tags that label the parts of a prompt; texts of models and tasks may not forge them."""

_TAG = re.compile(rf"<(/?\s*(?:{'|'.join(SECTIONS)})\s*)>", re.IGNORECASE)


@dataclass(frozen=True)
class Reflector:
    """Asks the meta model.

    Attributes:
        model: the models behind one wrapper.
        prompts: HiVA's prompts by name.
        temperature: of every ask.
    """

    model: Model
    prompts: Prompts
    temperature: float = 1.0

    async def ask(self, schema: type[Schema], name: str, /, *, scope: Scope, **sections: str) -> tuple[Schema, Usage]:
        """Fill a prompt with sections, as data that cannot forge a section's tags, and ask for an object.

        Raises:
            ReplyError, ModelError, BudgetError: as `Model.ask`.
        """
        messages = self.prompts.messages(name, **{section: quoted(text) for section, text in sections.items()})
        return await self.model.ask(schema, messages, scope=scope, role="meta", temperature=self.temperature)


def quoted(text: str) -> str:
    """A text in which no section's tag can be mistaken for ours."""
    return _TAG.sub(r"[\1]", text).strip()

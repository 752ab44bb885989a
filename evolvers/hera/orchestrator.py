"""The model that orchestrates: HERA's structured asks with their prompts, and what they are shown."""

import re
from dataclasses import dataclass

from selfwire.core.ports import Model, Schema
from selfwire.core.prompts import Prompts
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage

SECTIONS = (
    "task", "profile", "agents", "insights", "library", "new", "group", "trace", "feedback", "agent", "role",
    "prompt", "axis", "failures", "variants", "proposed", "tools", "limits", "plan",
)  # fmt: skip
"""The tags that label the parts of a prompt; texts of models and tasks may not forge them."""

_TAG = re.compile(rf"<(/?\s*(?:{'|'.join(SECTIONS)})\s*)>", re.IGNORECASE)


@dataclass(frozen=True)
class Orchestrator:
    """Asks the meta model.

    Attributes:
        model: the models behind one wrapper.
        prompts: HERA's prompts by name.
        temperature: of every ask that states none.
    """

    model: Model
    prompts: Prompts
    temperature: float = 0.0

    async def ask(
        self,
        schema: type[Schema],
        name: str,
        /,
        *,
        scope: Scope,
        heat: float | None = None,
        **sections: str,
    ) -> tuple[Schema, Usage]:
        """Fill a prompt with sections, as data that cannot forge a section's tags, and ask for an object.

        Args:
            schema: of the object.
            name: of the prompt.
            scope: place of the call, unique.
            heat: temperature of this ask; None for the orchestrator's own.
            sections: texts by tag.

        Raises:
            ReplyError, ModelError, BudgetError: as `Model.ask`.
        """
        messages = self.prompts.messages(name, **{section: quoted(text) for section, text in sections.items()})
        temperature = self.temperature if heat is None else heat
        return await self.model.ask(schema, messages, scope=scope, role="meta", temperature=temperature)


def quoted(text: str) -> str:
    """A text in which no section's tag can be mistaken for ours."""
    return _TAG.sub(r"[\1]", text).strip()


def lines(texts: object) -> str:
    """Texts as a list of lines, or that there are none."""
    found = [str(one) for one in texts] if isinstance(texts, list | tuple) else [str(texts)]
    return "\n".join(found) or "(none)"

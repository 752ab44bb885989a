"""The models that plan and judge: EvoMAS's structured asks with their prompts, and texts that cannot forge them."""

import re
from dataclasses import dataclass
from typing import Literal

from selfwire.core.ports import Model, Schema
from selfwire.core.prompts import Prompts
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage

SECTIONS = ("task", "state", "outcome", "assessment", "subtask", "checks", "agents", "tools", "attempts")
"""The tags that label the parts of a prompt; texts of models and tasks may not forge them."""

_TAG = re.compile(rf"<(/?\s*(?:{'|'.join(SECTIONS)})\s*)>", re.IGNORECASE)


@dataclass(frozen=True)
class Meta:
    """Asks the planner and the evaluator.

    Attributes:
        model: the models behind one wrapper.
        prompts: EvoMAS's prompts by name.
        temperature: of every ask.
    """

    model: Model
    prompts: Prompts
    temperature: float = 0.3

    async def ask(
        self,
        schema: type[Schema],
        name: str,
        /,
        *,
        scope: Scope,
        by: Literal["meta", "judge"] = "meta",
        **sections: str,
    ) -> tuple[Schema, Usage]:
        """Fill a prompt with sections, as data that cannot forge a section's tags, and ask for an object.

        Raises:
            ReplyError, ModelError, BudgetError: as `Model.ask`.
        """
        messages = self.prompts.messages(name, **{section: quoted(text) for section, text in sections.items()})
        return await self.model.ask(schema, messages, scope=scope, role=by, temperature=self.temperature)


def quoted(text: str) -> str:
    """A text in which no section's tag can be mistaken for ours."""
    return _TAG.sub(r"[\1]", text).strip()

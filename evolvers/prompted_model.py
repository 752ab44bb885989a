"""The models that judge and coach a team: structured asks with a method's prompts."""

from dataclasses import dataclass
from typing import Literal, TypeVar

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ReplyError
from selfwire.core.prompts import Prompts
from selfwire.core.protocols import Model, Schema
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage

Default = TypeVar("Default")


@dataclass(frozen=True)
class PromptedModel:
    """Asks the meta model and the judge.

    Attributes:
        model: the models behind one wrapper.
        prompts: the method's prompts by name.
        temperature: of every ask.
    """

    model: Model
    prompts: Prompts
    temperature: float = 1.0

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
        """Fill a prompt with sections and ask for an object.

        Raises:
            ReplyError, ModelError, BudgetError: as `Model.generate_structured`.
        """
        messages = self.prompts.messages(name, **{section: text.strip() for section, text in sections.items()})
        return await self.model.generate_structured(
            schema, messages, scope=scope, role=by, temperature=self.temperature
        )

    async def ask_or(
        self,
        default: Default,
        schema: type[Schema],
        name: str,
        /,
        *,
        scope: Scope,
        by: Literal["meta", "judge"] = "meta",
        **sections: str,
    ) -> tuple[Schema | Default, Usage]:
        """As `ask`, with a default where no valid reply came; what was paid for it counts all the same.

        Raises:
            ModelError, BudgetError: as `ask`; a ReplyError is answered with the default.
        """
        try:
            return await self.ask(schema, name, scope=scope, by=by, **sections)
        except ReplyError as error:
            return default, get_error_cost(error)

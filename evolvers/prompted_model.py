"""Asks the models that judge and coach a team for objects, with a method's prompts."""

from dataclasses import dataclass
from typing import Literal, TypeVar

from selfwire.core.budget import get_error_cost
from selfwire.core.errors import ModelError, ReplyError
from selfwire.core.prompts import Prompts
from selfwire.core.protocols import Model, Schema
from selfwire.core.scope import Scope
from selfwire.core.usage import Usage

Default = TypeVar("Default")
Role = Literal["meta", "judge"]


@dataclass(frozen=True)
class PromptedModel:
    """Asks the meta model and the judge with a method's prompts, every time at the same temperature."""

    model: Model
    prompts: Prompts
    temperature: float = 1.0

    async def ask(
        self, schema: type[Schema], name: str, /, *, scope: Scope, by: Role = "meta", **sections: str
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
        by: Role = "meta",
        catch: type[ModelError] = ReplyError,
        **sections: str,
    ) -> tuple[Schema | Default, Usage]:
        """As `ask`, with a default where no valid reply came; its cost counts either way.

        `catch=ModelError` has the default take the place of a call that failed as well.

        Raises:
            ModelError, BudgetError: as `ask`, except `catch`.
        """
        try:
            return await self.ask(schema, name, scope=scope, by=by, **sections)
        except catch as error:
            return default, get_error_cost(error)

    async def try_ask(
        self, schema: type[Schema], name: str, /, *, scope: Scope, by: Role = "meta", **sections: str
    ) -> tuple[Schema | ModelError, Usage]:
        """As `ask`, with the error in the place of the reply where the call failed; its cost counts either way.

        Raises:
            BudgetError: as `ask`.
        """
        try:
            return await self.ask(schema, name, scope=scope, by=by, **sections)
        except ModelError as error:
            return error, get_error_cost(error)

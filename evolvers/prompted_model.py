"""Asks the models that judge and coach a team for objects, and checks the prompts that they write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from selfwire.core.agent import Agent
from selfwire.core.chat import Prompts
from selfwire.core.edits import RefusedRewiring, Rewiring, RewritePrompt
from selfwire.core.errors import ModelError, ReplyError, get_error_cost
from selfwire.core.protocols import Model, Schema
from selfwire.core.scope import Scope
from selfwire.core.text import GAP
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evolvers.trajectory_text import shorten

LONG_LINE = 160
QUOTE_LENGTH = 60
AS_ABOVE = "[... as above]"
CUT_TASK = f"Where the task is shortened here, {GAP} marks what is left out; the team reads the whole task."
"""Ends a system message beside a task with this mark, which may be its own; else a judge takes a line that was left out
for one that the team has made up."""

Default = TypeVar("Default")
Role = Literal["meta", "judge"]


@dataclass(frozen=True)
class PromptedModel:
    """Asks the meta model and the judge with a method's prompts, every time at the same temperature.

    Attributes:
        quotes_once: whether a long line that several sections hold is whole in the first one only.
        guide: stands at the end of every system message.
    """

    model: Model
    prompts: Prompts
    temperature: float = 1.0
    quotes_once: bool = False
    guide: str = ""

    async def ask(
        self, schema: type[Schema], name: str, /, *, scope: Scope, by: Role = "meta", **sections: str
    ) -> tuple[Schema, Usage]:
        """Fill a prompt with sections and ask for an object.

        Raises:
            ReplyError, ModelError, BudgetError: as `Model.generate_structured`.
        """
        texts = {section: text.strip() for section, text in sections.items()}
        system, *rest = self.prompts.messages(name, **(quote_once(texts) if self.quotes_once else texts))
        cut = CUT_TASK if GAP in texts.get("task", "") else ""
        system = system.replace(content="\n\n".join(filter(None, (system.content, cut, self.guide))))
        return await self.model.generate_structured(
            schema, (system, *rest), scope=scope, role=by, temperature=self.temperature
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
        """Ask as `ask` does, but return the error of a failed call instead of raising it; its cost counts either way.

        Raises:
            BudgetError: as `ask`.
        """
        try:
            return await self.ask(schema, name, scope=scope, by=by, **sections)
        except ModelError as error:
            return error, get_error_cost(error)


def quote_once(sections: Mapping[str, str]) -> dict[str, str]:
    """The sections, in which a long line that stood before is cut to its beginning, so that passages are sent once.

    The beginning goes on until no other long line before it begins so; else a reader could not tell which one is meant.
    """
    seen: set[str] = set()

    def shorten_known(line: str) -> str:
        bare = line.strip().removeprefix("- ")
        if len(bare) < LONG_LINE:
            return line
        if bare not in seen:
            seen.add(bare)
            return line
        for end in range(QUOTE_LENGTH, len(line), QUOTE_LENGTH):
            start = line[:end].rpartition(" ")[0].rstrip() or line[:end]
            if not any(other.startswith(start[line.index(bare) :]) for other in seen - {bare}):
                return f"{start} {AS_ABOVE}"
        return line

    return {name: "\n".join(map(shorten_known, text.split("\n"))) for name, text in sections.items()}


WHY_LENGTH = 300


class DeclinedProposal(FrozenModel):
    """A model's proposal that became no rewiring, or a rewiring that was refused, and why."""

    by: str
    operation: str
    reason: str

    @classmethod
    def of(cls, refused: RefusedRewiring) -> "DeclinedProposal":
        """The record of a refused rewiring."""
        return cls(by=refused.rewiring.by, operation=refused.rewiring.operation, reason=refused.reason)


def propose_rewrite(agent: Agent, prompt: str, *, length: int, why: str) -> Rewiring | DeclinedProposal:
    """The rewiring that gives an agent a new prompt; declined if that is blank, too long or the old one."""
    prompt = prompt.strip()
    if reason := _find_objection(prompt, agent, length):
        return DeclinedProposal(by=agent.id, operation="REWRITE_PROMPT", reason=reason)
    edit = RewritePrompt(agent.id, prompt)
    return Rewiring(edit, why=shorten(why, WHY_LENGTH), operation="REWRITE_PROMPT", by=agent.id)


def _find_objection(prompt: str, agent: Agent, length: int) -> str:
    if not prompt:
        return "the new prompt is blank"
    if len(prompt) > length:
        return f"the new prompt has {len(prompt)} characters; at most {length} are allowed"
    return "the new prompt equals the old one" if prompt == agent.prompt.strip() else ""

"""The model that reflects on a team: HiVA's structured asks with their prompts, and what they are shown."""

import asyncio
import re
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from selfwire.core.ports import Model, Schema
from selfwire.core.prompts import Prompts
from selfwire.core.scope import Scope
from selfwire.core.trajectory import Step, Trajectory
from selfwire.core.usage import Usage

SECTIONS = (
    "task", "input", "output", "successor", "tools", "known_concepts", "answer", "trace", "feedback", "role",
    "successor_feedback", "gradient", "prompt", "gradients", "successors", "routing", "parallelizability", "operations",
)  # fmt: skip
"""The tags that label the parts of a prompt; texts of models and tasks may not forge them."""

TRACE_LENGTH = 12_000
STEP_LENGTH = 2_000
RESULT_LENGTH = 400

_TAG = re.compile(rf"<(/?\s*(?:{'|'.join(SECTIONS)})\s*)>", re.IGNORECASE)
_T = TypeVar("_T")


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


def shortened(text: str, length: int) -> str:
    """The text, its middle left out where it is longer than `length` characters."""
    if len(text) <= length:
        return text
    half = (length - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def work(step: Step, length: int = STEP_LENGTH) -> str:
    """What one agent did: its tool uses and its output."""
    uses = [
        f"tool {use.name}({shortened(str(dict(use.arguments or {})), RESULT_LENGTH)}) -> "
        f"{'error: ' if use.error else ''}{shortened(use.result, RESULT_LENGTH)}"
        for use in step.tools
    ]
    return "\n".join([*(shortened(use, length) for use in uses), shortened(step.output, length)])


def trace(trajectory: Trajectory) -> str:
    """What the team did, one `[node]` block per step, shortened evenly to fit."""
    share = max(STEP_LENGTH // 5, min(STEP_LENGTH, TRACE_LENGTH // max(len(trajectory.steps), 1)))
    return "\n".join(f"[{step.node}] {work(step, share)}" for step in trajectory.steps)


async def together(asks: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run asks in parallel and wait for all of them, so that none is left behind when one fails.

    Raises:
        The first error, in the order of the asks.
    """
    results = await asyncio.gather(*asks, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]

"""The Ensemble: an agent that chooses the solution on which most solutions in its inbox agree (EvoMAS, App. C.4.7)."""

import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from selfwire.core.agent import Agent
from selfwire.core.chat import Prompts, ReplySchema
from selfwire.core.errors import ReplyError, get_error_cost
from selfwire.core.protocols import AgentRunner, Model
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.trajectory import Message, Step
from selfwire.core.usage import Usage

LETTERS = string.ascii_uppercase
"""Labels of solutions; solutions beyond the last letter are not shown."""
NOTHING = "There is no solution to choose from yet."


class EnsembleChoice(ReplySchema, title="Choice"):
    """The chosen solution."""

    MAX_TOKENS: ClassVar[int] = 600

    thought: str = Field(description="How the solutions compare.")
    solution_letter: str = Field(description="The letter of the chosen solution.")


def make_ensemble_runner(model: Model, prompts: Prompts, *, temperature: float | None = None) -> AgentRunner:
    """Make the runner of an Ensemble, whose output is the chosen solution, unchanged.

    With fewer than two different solutions no model is called. After an invalid reply or an unknown letter, the output
    is the most frequent text, the first among equals.
    """

    async def act(agent: Agent, question: Question, inbox: Sequence[Message], *, scope: Scope) -> Step:
        solutions = label_solutions(inbox)
        text, usage = next(iter(solutions.values()), NOTHING), Usage()
        if len(set(solutions.values())) > 1:
            text, usage = await _choose(agent, question, solutions, scope)
        return Step(node=scope.node, agent=agent.id, visit=scope.visit, inbox=tuple(inbox), output=text, usage=usage)

    async def _choose(
        agent: Agent, question: Question, solutions: Mapping[str, str], scope: Scope
    ) -> tuple[str, Usage]:
        shown = "\n\n".join(f"{letter}.\n{text}" for letter, text in solutions.items())
        messages = prompts.messages("ensemble", prompt=agent.prompt, task=question.input, solutions=shown)
        try:
            choice, usage = await model.generate_structured(
                EnsembleChoice, messages, scope=scope, role="agent", model=agent.model, temperature=temperature
            )
        except ReplyError as error:
            return most_common(solutions), get_error_cost(error)
        letter = choice.solution_letter.strip(" .()*\n").upper()
        return solutions.get(letter) or most_common(solutions), usage

    return act


def label_solutions(inbox: Sequence[Message]) -> dict[str, str]:
    """Label the solutions by letters, in the order of the inbox, without blank texts and `NOTHING`."""
    texts = [message.text.strip() for message in inbox]
    return dict(zip(LETTERS, (text for text in texts if text and text != NOTHING), strict=False))


def most_common(solutions: Mapping[str, str]) -> str:
    """Return the most frequent solution, compared word for word; the first among equals."""
    return Counter(solutions.values()).most_common(1)[0][0]

"""Cost of a question: `python -m bench questions --keep docs/rows/questions.jsonl`.

Every method answers ten archive questions that quote eight passages each, with a calculator, the offline model and its
default config.
Tokens are the offline model's: a quarter of the characters. A repeat is a line of at least 40 characters that stands
in the same prompt already.
"""

import asyncio
from collections.abc import Sequence
from statistics import mean

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import PrivateAttr

from bench.measuring import Row, make_cells
from bench.prefixes import make_tasks
from selfwire.core.plugins import own_methods
from selfwire.core.task import Question
from selfwire.core.usage import Usage
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.method import make_method
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder
from selfwire.tools.calculator import CalculatorTool

TITLE = "questions: what a question costs"
QUESTIONS, PASSAGES = 10, 8
LINE = 40
"""Least characters of a line that counts as repeated: shorter ones are labels."""


class ListeningChat(OfflineChat):
    """The offline model, which keeps the texts that it is sent."""

    _sent: list[str] = PrivateAttr(default_factory=list)

    def _reply(self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: object) -> AIMessage:
        self._sent.append("\n".join(str(message.text) for message in messages))
        return super()._reply(messages, stop, kwargs)  # type: ignore[arg-type]


def count_repeats(prompt: str) -> int:
    """Characters of a prompt in lines that it holds already."""
    seen: set[str] = set()
    repeated = 0
    for line in map(str.strip, prompt.splitlines()):
        if len(line) >= LINE:
            repeated += len(line) * (line in seen)
            seen.add(line)
    return repeated


async def measure_method(name: str, questions: Sequence[Question]) -> list[Row]:
    """Means of a method per question, and the share of the prompts' characters that are repeats."""
    chat = ListeningChat()
    model = MeteredModel(chat, journal=NullRecorder())
    method, tools = make_method(name), {"calculator": CalculatorTool()}
    ctx = method.make_ctx(model, tools, HashingEmbedder())
    team = method.seed(("calculator",), toolbox=tuple(tools))
    spent: list[Usage] = []
    for question in questions:
        done = await method.answer(team, question, ctx.where(phase="run", task=question.id))
        spent.append(done.usage)
    cells = {
        "calls": f"{mean(usage.calls for usage in spent):.1f}",
        "prompt tokens": f"{mean(usage.input_tokens for usage in spent):,.0f}",
        "completion tokens": f"{mean(usage.output_tokens for usage in spent):,.0f}",
        "repeated text": f"{sum(map(count_repeats, chat._sent)) / sum(map(len, chat._sent)):.0%}",
    }
    return make_cells(name, cells)


def measure() -> list[Row]:
    """The rows of all methods."""
    tasks = asyncio.run(make_tasks(QUESTIONS, passages=PASSAGES, length=None))
    questions = [Question(id=task.id, input=task.input) for task in tasks]
    return [row for name in own_methods() for row in asyncio.run(measure_method(name, questions))]

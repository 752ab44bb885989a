"""Cost of a question: `python -m bench.questions --keep docs/rows/questions.jsonl`.

Every method answers ten archive questions that quote eight passages each, with a calculator, the offline model and its
default config.
Tokens are the offline model's: a quarter of the characters. A repeat is a line of at least 40 characters that stands
in the same prompt already.
"""

import asyncio
import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import PrivateAttr

from bench.tables import Line
from selfwire.core.plugins import own_methods
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.usage import Usage
from selfwire.evals.benchmarks.archive import archive
from selfwire.extras.offline.model import OfflineChat
from selfwire.graphs.method import make_method
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.search import SearchTool

QUESTIONS, PASSAGES = 10, 8
LINE = 40
"""Least characters of a line that counts as repeated: shorter ones are labels."""


class QuestionCost(NamedTuple):
    """Means per question, and the share of the prompts' characters that are repeats."""

    method: str
    calls: float
    prompt_tokens: float
    completion_tokens: float
    repeated: float

    @property
    def line(self) -> Line:
        """Cells of a line of the table."""
        return {
            "": self.method,
            "calls": f"{self.calls:.1f}",
            "prompt tokens": f"{self.prompt_tokens:,.0f}",
            "completion tokens": f"{self.completion_tokens:,.0f}",
            "repeated text": f"{self.repeated:.0%}",
        }


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


async def make_questions() -> list[Question]:
    """Archive questions with the passages that a search finds for them."""
    made = archive(size=60)
    documents = made.toolbox["search"].documents  # type: ignore[attr-defined]
    search = SearchTool(documents, k=PASSAGES)
    found = []
    for task in made.splits(0, train=QUESTIONS, gate=0, test=0).train:
        passages = await search.run({"query": task.input}, scope=Scope())
        found.append(Question(id=task.id, input=f"{task.input}\n\nPassages:\n{passages}"))
    return found


async def measure_method(name: str, questions: Sequence[Question]) -> QuestionCost:
    """Traffic of a method per question: sent and received."""
    chat = ListeningChat()
    model = MeteredModel(chat, journal=NullRecorder())
    method, tools = make_method(name), {"calculator": CalculatorTool()}
    ctx = method.make_ctx(model, tools, HashingEmbedder())
    team = method.seed(("calculator",), toolbox=tuple(tools))
    spent: list[Usage] = []
    for question in questions:
        done = await method.answer(team, question, ctx.where(phase="run", task=question.id))
        spent.append(done.usage)
    return QuestionCost(
        name,
        mean(usage.calls for usage in spent),
        mean(usage.input_tokens for usage in spent),
        mean(usage.output_tokens for usage in spent),
        sum(map(count_repeats, chat._sent)) / sum(map(len, chat._sent)),
    )


async def measure() -> list[Line]:
    """Cells of the table, a line per method."""
    questions = await make_questions()
    return [(await measure_method(name, questions)).line for name in own_methods()]


def main() -> None:
    """Print the table, and write its lines for a table of kind `cells` on a page of docs."""
    parser = ArgumentParser(prog="python -m bench.questions", description="What a question costs.")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the lines of the table for a page of docs")
    keep = parser.parse_args().keep
    lines = asyncio.run(measure())
    for cells in ([*lines[0]], ["---"] * len(lines[0]), *([*line.values()] for line in lines)):
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
    if keep is not None:
        keep.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Prompt tokens that a provider's prompt cache can serve, by method and kind of request.

Each method answers three archive questions that quote about 2,000 tokens of passages, with a calculator and the offline
model, in at most three rounds or stages. HiVA learns from them three times and HERA once before they answer with the
team that comes of it. A request is read as a provider reads it: tools first, then the messages in order. Its cached
part is the longest prefix that it shares with any request of the same question that was answered before it was sent, in
steps of 128 tokens, if that has 1,024 tokens or more. Tokens are a quarter of the characters. Agents that ask at once,
as DyTopo's do, get nothing from one another.

Some providers put the schema of a reply before the messages as well; the last column counts so. Requests of no
question, such as those that rewrite a prompt by feedback from several tasks, count in neither share.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from pydantic import PrivateAttr

from bench.measuring import Row, make_cells
from selfwire.core.chat import ChatMessage, Reply
from selfwire.core.plugins import own_methods
from selfwire.core.protocols import Schema
from selfwire.core.scope import Scope
from selfwire.core.task import Task
from selfwire.core.trajectory import Trajectory
from selfwire.core.usage import Usage
from selfwire.evals.benchmarks.archive import archive
from selfwire.extras.offline.model import OfflineChat
from selfwire.extras.offline.wire import requested_schema
from selfwire.graphs.method import make_method
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.store.journal import NullRecorder
from selfwire.tools.calculator import CalculatorTool
from selfwire.tools.search import SearchTool

TITLE = "prefixes: prompt tokens that a prompt cache can serve"
LEARNING, ANSWERING = "learning", "answering"
ITERATIONS = {"hiva": 3, "hera": 1}
"""How often methods learn from all questions, where requests about one question go on after its answer."""
FEW_ROUNDS: Mapping[str, Mapping[str, int]] = {
    "tacomas": {"rounds": 3},
    "dytopo": {"rounds": 3},
    "evomas": {"stages": 3},
}
"""Config: the offline model takes as many rounds as it may, and more rounds are served from the cache ever better."""
QUESTIONS, LENGTH = 3, 8_000
"""Number of questions, and characters of each with its passages."""
CHARACTERS, LEAST, STEP = 4, 1024, 128
"""Characters of a token, tokens of the shortest prefix that is cached, and of a step."""
WAIT = 0.01
"""Seconds that an answer takes, in which all that is asked at once is sent."""
PLACE: ContextVar[Scope] = ContextVar("place")
"""Place of the request that is being sent."""


class SentRequest(NamedTuple):
    """A request as it was sent.

    Attributes:
        phase: "learning" or "answering".
        task: the question that it belongs to; "" if none.
        kind: name of the reply's schema, or "agent" where a text is asked for.
        schema: the reply's schema as JSON.
        text: tools and messages in order.
        answered: requests of the same phase and question that were answered before it was sent.
    """

    phase: str
    task: str
    kind: str
    schema: str
    text: str
    answered: int

    @property
    def tokens(self) -> int:
        """Estimated tokens without the schema."""
        return len(self.text) // CHARACTERS


class RequestRecorder(OfflineChat):
    """The offline model, which keeps the requests that it is sent, in the order of its answers."""

    _sent: list[SentRequest] = PrivateAttr(default_factory=list)

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        wanted, place = requested_schema(kwargs), PLACE.get()
        parts = [] if wanted else [json.dumps(tool) for tool in kwargs.get("tools") or ()]
        parts += [f"{message.type}: {message.text}{_write_calls(message)}" for message in messages]
        kind, schema = (wanted.kind, json.dumps(wanted.parameters)) if wanted else ("agent", "")
        phase = ANSWERING if place.phase == "run" else LEARNING
        answered = sum((request.phase, request.task) == (phase, place.task) for request in self._sent)
        await asyncio.sleep(WAIT)
        self._sent.append(SentRequest(phase, place.task, kind, schema, "\n".join(parts), answered))
        return await super()._agenerate(messages, stop, run_manager, **kwargs)


def _write_calls(message: BaseMessage) -> str:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return json.dumps([[call["name"], call["args"]] for call in calls]) if calls else ""


class NamingModel(MeteredModel):
    """Models of a run that say to which question a request belongs."""

    async def generate(self, messages: Sequence[ChatMessage], *, scope: Scope, **options: Any) -> Reply:
        """Ask as `MeteredModel.generate` does."""
        PLACE.set(scope)
        return await super().generate(messages, scope=scope, **options)

    async def generate_structured(
        self, schema: type[Schema], messages: Sequence[ChatMessage], *, scope: Scope, **options: Any
    ) -> tuple[Schema, Usage]:
        """Ask as `MeteredModel.generate_structured` does."""
        PLACE.set(scope)
        return await super().generate_structured(schema, messages, scope=scope, **options)


def count_cached(texts: Sequence[str], answered: Sequence[int]) -> list[int]:
    """Tokens of each request that stood at the beginning of one that was answered before it was sent.

    Args:
        texts: requests in the order of their answers.
        answered: how many of them were answered before each was sent.
    """
    first = dict[str, int]()
    for place, text in enumerate(texts):
        for tokens in range(LEAST, len(text) // CHARACTERS + 1, STEP):
            first.setdefault(text[: tokens * CHARACTERS], place)
    return [
        max(
            (
                tokens
                for tokens in range(LEAST, len(text) // CHARACTERS + 1, STEP)
                if first[text[: tokens * CHARACTERS]] < earlier
            ),
            default=0,
        )
        for text, earlier in zip(texts, answered, strict=True)
    ]


async def make_tasks(number: int = QUESTIONS, *, passages: int = 100, length: int | None = LENGTH) -> list[Task]:
    """Archive questions with the passages found for them; of these as many as make up the length, if there is one."""
    made = archive(size=60)
    search = SearchTool(made.toolbox["search"].documents, k=passages)  # type: ignore[attr-defined]
    found = []
    for task in made.splits(0, train=number, gate=0, test=0).train:
        whole = f"{task.input}\n\nPassages:\n{await search.run({'query': task.input}, scope=Scope())}"
        found.append(task.replace(input=whole if length is None else whole[:length].rpartition("\n")[0]))
    return found


async def record_requests(name: str, tasks: Sequence[Task]) -> list[SentRequest]:
    """All requests of a method that answers the tasks, and may learn from them first, in the order of their answers."""
    chat, environment = RequestRecorder(), archive(size=60).environment
    method, tools = make_method(name, FEW_ROUNDS.get(name, {})), {"calculator": CalculatorTool()}
    ctx = method.make_ctx(NamingModel(chat, journal=NullRecorder()), tools, HashingEmbedder())
    team = method.seed(("calculator",), toolbox=tuple(tools))
    by_id = {task.id: task for task in tasks}

    async def grade(done: Trajectory, at: Scope) -> Trajectory:
        if done.answer is None:
            return done
        return done.with_feedback(await environment.grade(by_id[done.question.id], done.answer, scope=at))

    for iteration in range(ITERATIONS.get(name, 0)):
        rollout, found = ctx.where(phase="rollout", iteration=iteration), list[Trajectory]()
        for task in tasks:
            explored = await method.explore(team, task.question, rollout.where(task=task.id))
            found += [await grade(done, rollout.scope) for done in explored]
        learning = replace(ctx.where(phase="evolve", iteration=iteration), grade_run=grade)
        team = (await method.propose(team, found, learning)).workflow
    for task in tasks:
        await method.answer(team, task.question, ctx.where(phase="run", task=task.id))
    return chat._sent


class CachedRequest(NamedTuple):
    """A request with its tokens that can be served from a cache, also where schemas stand first."""

    sent: SentRequest
    cached: int
    cached_by_schema: int


def match_prefixes(sent: Sequence[SentRequest]) -> list[CachedRequest]:
    """The requests that belong to a question, each compared with the earlier ones of its question."""
    matched = list[CachedRequest]()
    for place in dict.fromkeys((request.phase, request.task) for request in sent if request.task):
        asked = [request for request in sent if (request.phase, request.task) == place]
        answered = [request.answered for request in asked]
        plain = count_cached([request.text for request in asked], answered)
        by_schema = count_cached([request.schema + request.text for request in asked], answered)
        matched += map(CachedRequest, asked, plain, by_schema)
    return matched


def compute_share(requests: Sequence[CachedRequest]) -> float:
    """Share of the prompt tokens that can be served from a cache."""
    return sum(request.cached for request in requests) / sum(request.sent.tokens for request in requests)


def measure() -> list[Row]:
    """Calls, tokens and shares of every method, whole and by kind of request."""
    tasks = asyncio.run(make_tasks())
    return [row for name in own_methods() for row in measure_method(name, asyncio.run(record_requests(name, tasks)))]


def measure_method(name: str, sent: Sequence[SentRequest]) -> Iterator[Row]:
    """The rows of a method by phase: all requests of a question, then each kind, then those of no question."""
    for phase in dict.fromkeys(request.phase for request in sent):
        asked = [request for request in sent if request.phase == phase]
        matched = sorted(match_prefixes(asked), key=lambda request: request.sent.kind)
        yield from _make_rows(f"{name}, {phase}", matched)
        for kind, requests in groupby(matched, key=lambda request: request.sent.kind):
            yield from _make_rows(f"{name}, {phase}: {kind}", [*requests])
        if others := [request for request in asked if not request.task]:
            tokens = _count_tokens(others)
            yield from make_cells(f"{name}, {phase}: of no question", {"calls": len(others), "tokens": tokens})


def _count_tokens(requests: Iterable[SentRequest]) -> int:
    return sum(request.tokens for request in requests)


def _make_rows(what: str, requests: Sequence[CachedRequest]) -> list[Row]:
    tokens = _count_tokens(request.sent for request in requests)
    whole = tokens + sum(len(request.sent.schema) // CHARACTERS for request in requests)
    cells = {
        "calls": len(requests),
        "tokens": tokens,
        "cached, %": 100 * compute_share(requests),
        "cached where schemas stand first, %": 100 * sum(request.cached_by_schema for request in requests) / whole,
    }
    return make_cells(what, cells)

"""Odd replies to every schema of every method: they cost a reply, and never a run or a valid team."""

import asyncio
import json
import resource
import time
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from selfwire.core.chat import Reply
from selfwire.core.errors import SelfwireError
from selfwire.core.plugins import method_names
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.extras.offline.wire import requested_schema
from selfwire.graphs.team import LENIENT
from selfwire.models import metered_chat
from selfwire.models.structured import parse_reply
from tests.chaos import CHAOS, ODD_REPLIES, ODD_RUNS, PARTS
from tests.fuzz.odd import TEXTS, make_odd_reply
from tests.graphs.test_methods import TASKS, Bench, CountingChat

CORPUS: list[str] = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))
FAMILY = (
    "ModelError",
    "ReplyError",
    "BudgetError",
    "TaskBudgetError",
    "OutageError",
    "GradingError",
    "the model",
    "no ",
)
PROFILE = settings(
    deadline=None, derandomize=not CHAOS, database=None, suppress_health_check=list(HealthCheck), print_blob=True
)

LONGEST_PARSING = 10
"""Most processor seconds of one reply: a repair or a pattern without a bound takes minutes."""


class OddChat(CountingChat):
    """The stand-in, which gives odd replies for a share of the asks."""

    rng: Random
    share: float

    def _reply(self, messages: Any, stop: Any, kwargs: Any) -> AIMessage:
        said, wanted = super()._reply(messages, stop, kwargs), requested_schema(kwargs)
        if self.rng.random() >= (self.share if wanted else self.share / 3):
            return said
        if wanted is None:
            return said.model_copy(update={"content": self.rng.choice(TEXTS), "tool_calls": []})
        text = make_odd_reply(wanted.parameters, str(messages[-1].content), self.rng)
        return said.model_copy(update={"content": text, "tool_calls": []})


@cache
def schemas() -> tuple[type[BaseModel], ...]:
    """The schemas that the methods ask for in one iteration."""
    found: dict[str, type[BaseModel]] = {}

    async def parse(schema: type[BaseModel], reply: Reply) -> BaseModel:
        found[schema.__name__] = schema
        return await parse_reply(schema, reply)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metered_chat, "parse_reply", parse)
        for name in method_names():
            asyncio.run(one_iteration(name, seed=0, share=0.0, tasks=len(TASKS)))
    return tuple(found.values())


async def parsed(schema: type[BaseModel], text: str) -> None:
    began = time.process_time()
    try:
        assert isinstance(await parse_reply(schema, Reply(content=text)), schema)
    except ValueError as error:
        assert str(error)  # noqa: PT017
    assert time.process_time() - began < LONGEST_PARSING, text[:200]


@pytest.mark.parametrize("part", range(PARTS))
def test_an_odd_reply_is_an_object_of_its_schema_or_a_fault_of_the_reply(part: int) -> None:
    everything, memory = schemas(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(everything) > 15
    cases = [make_case(schema) for schema in everything]

    @settings(PROFILE, max_examples=ODD_REPLIES // PARTS // 20)
    @given(seed=st.integers(0, 2**48))
    def parse_twenty(seed: int) -> None:
        rng = Random(seed * PARTS + part)

        async def parse() -> None:
            for schema, plain in rng.choices(cases, k=20):
                await parsed(schema, make_odd_reply(plain, "planner solver checker answer", rng))

        asyncio.run(parse())

    parse_twenty()
    for text in CORPUS:
        for schema in everything:
            asyncio.run(parsed(schema, text))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 512 * 1024


def make_case(schema: type[BaseModel]) -> tuple[type[BaseModel], dict[str, Any]]:
    return schema, schema.model_json_schema()


@pytest.mark.parametrize("name", method_names())
def test_odd_replies_end_in_no_other_error_and_in_no_invalid_team(name: str) -> None:
    @settings(PROFILE, max_examples=ODD_RUNS)
    @given(seed=st.integers(0, 2**48), share=st.sampled_from((1.0, 0.5, 0.1)))
    @example(seed=14, share=1.0)
    def iterate(seed: int, share: float) -> None:
        asyncio.run(one_iteration(name, seed, share))

    iterate()


async def one_iteration(name: str, seed: int, share: float, tasks: int = 1) -> None:
    bench = Bench(name, chat=OddChat(rng=Random(seed), share=share), seed_number=seed % 1000)
    began = time.process_time()
    try:
        found = await bench.explored(TASKS[:tasks])
        evolved = (await bench.evolved(found)).workflow
    except SelfwireError as error:
        assert str(error)  # noqa: PT017
        return
    assert evolved.topology.problems(LENIENT) == ()
    assert Team.model_validate_json(evolved.model_dump_json()) == evolved
    for done in found:
        assert Trajectory.model_validate_json(done.model_dump_json()) == done
        kind = (done.error or "").partition(":")[0]
        assert kind in FAMILY or not kind.endswith(("Error", "Exception")), done.error
    assert time.process_time() - began < 5 + bench.asked * 0.25

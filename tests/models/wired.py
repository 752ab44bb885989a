"""A metered model whose client talks to the local server."""

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from selfwire.core.chat import ChatMessage
from selfwire.models.budget import Price, Prices
from selfwire.models.limits import CallSettings
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from tests.wire.server import WireServer

KEY = "sk-secret-0123456789"
PRICES = Prices(table={"openai:local": Price(input=1.0, output=2.0)})
QUICK = CallSettings(timeout=60.0, retries=3, backoff=0.01)
ASKED = [ChatMessage.system("be kind"), ChatMessage.user("hello?")]


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")

    good: bool
    reasons: list[str] = Field(max_length=3)
    note: str = ""


async def until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110 - it happens in the server's thread
        await asyncio.sleep(0.005)


def metered(server: WireServer, policy: CallSettings = QUICK, **options: Any) -> MeteredModel:
    model = make_chat_model("openai:local", base_url=server.url, api_key=KEY, max_tokens=50)
    return MeteredModel(model, policy=policy, **{"prices": PRICES, **options})

"""A process for tests that share a budget: asks until the budget refuses.

Its arguments are ADDRESS URL NAME CALLS, and a limit of tokens with the seconds for which it holds, where there is one.
"""

import asyncio
import json
import sys

from selfwire.core.chat import ChatMessage
from selfwire.core.errors import BudgetError
from selfwire.core.scope import Scope
from selfwire.extras.cluster.shared_ledger import open_ledger
from selfwire.models import limits
from selfwire.models.limits import CallSettings
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from selfwire.store.journal import Journal
from tests.models.wired import KEY, PRICES

AT_ONCE = 4
"""Requests that all processes together may have under way."""


async def ask(address: str, url: str, name: str, calls: int, tokens: int | None) -> dict[str, object]:
    ledger, journal = open_ledger(address), Journal.memory()
    chat = make_chat_model("openai:local", base_url=url, api_key=KEY, max_tokens=50)
    policy = CallSettings(retries=0, timeout=60, concurrency=AT_ONCE, tokens_per_minute=tokens)
    model = MeteredModel(chat, journal=journal, ledger=ledger, policy=policy, prices=PRICES)
    refused: list[str] = []

    async def one(number: int) -> None:
        try:
            await model.generate([ChatMessage.user(f"{name}: {number}")], scope=Scope(task=f"t{number}"))
        except BudgetError as error:
            refused.append(str(error))

    await asyncio.gather(*(one(number) for number in range(calls)))
    ledger.close()
    spent = journal.spend().calls
    journal.close()
    return {"answered": spent, "refused": refused}


def main() -> None:
    address, url, name, calls, *limit = sys.argv[1:]
    tokens = None
    if limit:
        tokens, limits.MINUTE = int(limit[0]), float(limit[1])
    sys.stdout.write(json.dumps(asyncio.run(ask(address, url, name, int(calls), tokens))))

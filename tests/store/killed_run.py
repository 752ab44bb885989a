"""A run for tests that kill it, with arguments JOURNAL URL: 24 calls, 4 at once."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from selfwire.core.chat import ChatMessage
from selfwire.core.scope import Scope
from selfwire.models.budget import Ledger
from selfwire.models.limits import CallSettings
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from selfwire.store.journal import Journal

TASKS, STEPS = 4, 6


def opened(path: Path) -> Journal:
    facts = {"config": "c1"}
    return Journal.open(path, facts) if path.exists() else Journal.create(path, run="r1", facts=facts)


async def answer(path: Path, url: str) -> dict[str, Any]:
    journal = opened(path)
    model = MeteredModel(
        make_chat_model("openai:local", base_url=url), journal=journal, ledger=Ledger(spent=journal.spend()),
        policy=CallSettings(retries=0),
    )  # fmt: skip

    async def task(number: int) -> str:
        said = "start"
        for visit in range(STEPS):
            scope = Scope(run="r1", phase="rollout", task=f"t{number}", visit=visit)
            said = (await model.generate([ChatMessage.user(f"task {number}: {said}")], scope=scope)).content
        return said

    answers = await asyncio.gather(*(task(number) for number in range(TASKS)))
    spend = journal.spend().replace(seconds=0.0).model_dump()
    journal.close()
    return {"answers": answers, "spend": spend, "ledger": model.ledger.spent.calls}


def main() -> None:
    asyncio.run(answer(Path(sys.argv[1]), sys.argv[2]))

"""A run for tests that kill it: `python -m tests.runtime.killed_run JOURNAL URL` makes 24 calls, 4 at once."""

import asyncio
import json
import sys
from pathlib import Path

from selfwire.core.chat import ChatMessage
from selfwire.core.scope import Scope
from selfwire.runtime.journal import Journal
from selfwire.runtime.ledger import Ledger
from selfwire.runtime.metered import CallSettings, MeteredModel
from selfwire.runtime.models import make_chat_model

TASKS, STEPS = 4, 6


def opened(path: Path) -> Journal:
    facts = {"config": "c1"}
    return Journal.open(path, facts) if path.exists() else Journal.create(path, run="r1", facts=facts)


async def main(journal: Journal, url: str) -> None:
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
    sys.stdout.write(json.dumps({"answers": answers, "spend": spend, "ledger": model.ledger.spent.calls}))
    journal.close()


if __name__ == "__main__":
    asyncio.run(main(opened(Path(sys.argv[1])), sys.argv[2]))

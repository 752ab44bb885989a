"""A process that runs TacoMAS on one question and can be killed: `python -m tests.graphs.tacomas_process URL FILE`.

It goes on where the file of checkpoints ends.
"""

import sys
from pathlib import Path
from typing import Any

from selfwire.evolvers.tacomas.config import TacomasConfig
from selfwire.graphs import tacomas
from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.runtime.models import chat_model
from selfwire.runtime.sync import run_sync

ROUNDS = 4
THREAD: Any = {"configurable": {"thread_id": "1"}}


def main(url: str, file: str) -> None:
    model = chat_model("openai:local", base_url=url, api_key="none")
    saver = sqlite_saver(Path(file))
    graph = tacomas.build(model, config=TacomasConfig(rounds=ROUNDS)).compile(checkpointer=saver)

    async def run() -> Any:
        begun = (await graph.aget_state(THREAD)).next
        given: Any = None if begun else {"question": "What am I?"}
        return await graph.ainvoke(given, THREAD, durability="sync")

    result = run_sync(run())
    saver.conn.close()
    sys.stdout.write(f"{len(result['rounds'])} rounds, {result['usage']['calls']} calls\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A process that runs EvoMAS on one question and can be killed: `python -m tests.graphs.evomas_process URL FILE`.

It goes on where the file of checkpoints ends.
"""

import sys
from pathlib import Path
from typing import Any

from selfwire.evolvers.evomas.config import EvomasConfig
from selfwire.graphs import evomas
from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.runtime.models import chat_model
from selfwire.runtime.sync import run_sync
from selfwire.tools.calculator import CalculatorTool

CONFIG = EvomasConfig(adapter="fixed", plan=(("io", "multi_generate"), ("web_search",), ("ensemble",)), stages=3)
THREAD: Any = {"configurable": {"thread_id": "1"}}


def main(url: str, file: str) -> None:
    model = chat_model("openai:local", base_url=url, api_key="none")
    saver = sqlite_saver(Path(file))
    graph = evomas.build(model, config=CONFIG, tools=[CalculatorTool()], embedder="hashing").compile(checkpointer=saver)

    async def run() -> Any:
        begun = (await graph.aget_state(THREAD)).next
        given: Any = None if begun else {"question": "What am I?"}
        return await graph.ainvoke(given, THREAD, durability="sync")

    result = run_sync(run())
    saver.conn.close()
    sys.stdout.write(f"{len(result['stages'])} stages, {result['usage']['calls']} calls, {result['answer']!r}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

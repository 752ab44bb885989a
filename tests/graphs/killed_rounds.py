"""A run for tests that kill it: `python -m tests.graphs.killed_rounds FILE URL` asks once, or goes on."""

import json
import sys
from pathlib import Path
from typing import Any

from selfwire.graphs import dytopo
from selfwire.graphs.checkpoints import sqlite_saver
from selfwire.runtime.models import make_chat_model


def main(path: Path, url: str) -> None:
    saver = sqlite_saver(path)
    model = make_chat_model("openai:local", base_url=url, api_key="none")
    graph = dytopo.build(model, initial="math", embedder="hashing").compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "1"}}
    begun = graph.get_state(config).values
    result = graph.invoke(None if begun else {"question": "What is 3 + 4?"}, config, durability="sync")
    sys.stdout.write(json.dumps({"answer": result["answer"], "rounds": len(result["rounds"])}))
    saver.conn.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

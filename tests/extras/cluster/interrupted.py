"""A graph of one's own that counts its questions, and workers that are interrupted beside it."""

import os
import signal
import time
from collections.abc import Sequence

from selfwire.extras.cluster.jobs import Ended, Event, LocalExecutor

APP = """
from pathlib import Path
from typing import TypedDict

from langchain_core.language_models import FakeListChatModel
from langgraph.graph import START, StateGraph

model = FakeListChatModel(responses=["none"])


class State(TypedDict):
    question: str
    answer: str


def reply(state: State) -> dict:
    with Path(__file__).with_name("asked.txt").open("a") as file:
        file.write(state["question"].replace("\\n", " ") + "\\n")
    return {"answer": model.invoke("Answer in a word: " + state["question"]).text}


graph = StateGraph(State).add_node(reply).add_edge(START, "reply").compile()
"""


class InterruptedExecutor(LocalExecutor):
    """Gets Ctrl-C, or is killed, when its first job is done, so that nobody reads the end."""

    def __init__(self, signal_number: int = signal.SIGINT) -> None:
        super().__init__()
        self.signal_number = signal_number

    def wait(self) -> Sequence[Event | Ended]:
        if self._todo:
            super().wait()
            os.kill(os.getpid(), self.signal_number)
        time.sleep(0.01)
        return ()

"""Selfwire beside other engines: the cost of a call as a multiple of the bare client's, on a canned local server."""

import sys
from collections.abc import Mapping
from statistics import median

import numpy as np

from bench.measuring import Row
from bench.peers.contest import open_contest
from bench.peers.environments import InstallError, make_environment

TITLE = "peers: CPU per call as a multiple of the bare client's, median and quartiles over rounds"
ROUNDS = 11
BARE, OURS, JOURNAL, LANGCHAIN = "openai", "selfwire", "selfwire-journal", "langgraph-chat"
NAMES = {
    BARE: "`openai`'s client alone",
    "langgraph": "LangGraph, this client in its nodes",
    LANGCHAIN: "LangGraph, ChatOpenAI in its nodes",
    OURS: "selfwire",
    JOURNAL: "selfwire with a journal",
    "agentscope-model": "AgentScope's chat model, gathered",
    "agentscope-agents": "AgentScope's agents, gathered",
    "pydantic-graph": "pydantic-graph, this client in its steps",
}
REQUIREMENTS = {
    "agentscope-model": "agentscope==2.0.10",
    "agentscope-agents": "agentscope==2.0.10",
    "pydantic-graph": "pydantic-graph==2.68.0",
}
"""What is installed for an engine; the others run in this environment."""
IN_FLIGHT = "64 calls of 100 ms at once"
REPEATS = {"chain of 4": 25, "fan-out of 8": 10, "8 fan-outs at once": 2, IN_FLIGHT: 1}
"""Runs of each shape in a turn."""
AIMS = {"chain of 4": 1.3, "fan-out of 8": 1.3, "8 fan-outs at once": 1.15, IN_FLIGHT: 1.1}
Ratios = dict[tuple[str, str], list[float]]
"""Ratios to the bare client's turn of the same round, by shape and engine."""


def measure() -> list[Row]:
    """Install the peers and measure all engines; wall time for calls that wait, CPU time for the others."""
    pythons, missing = find_pythons()
    return [*make_rows(collect_ratios(pythons, REPEATS, ROUNDS)), *missing]


def find_pythons() -> tuple[dict[str, str], list[Row]]:
    """The Python of each engine, and rows that say which cannot be installed."""
    pythons: dict[str, str] = {}
    missing: list[Row] = []
    for name in NAMES:
        try:
            pythons[name] = make_environment(REQUIREMENTS[name]) if name in REQUIREMENTS else sys.executable
        except InstallError as failed:
            missing.append(Row(what=_name(name), note=f"cannot be installed here: {failed}"[:200]))
    return pythons, missing


def collect_ratios(pythons: Mapping[str, str], repeats: Mapping[str, int], rounds: int) -> Ratios:
    """Run the contest; the bare client is among the engines, and first."""
    ratios: Ratios = {}
    with open_contest(pythons) as contest:
        bare = 0.0
        for shape, name, turn in contest.take_turns(repeats, rounds):
            taken = turn["wall" if shape == IN_FLIGHT else "cpu"] / turn["calls"]
            bare = taken if name == BARE else bare
            ratios.setdefault((shape, name), []).append(taken / bare)
    return ratios


def make_rows(ratios: Ratios) -> list[Row]:
    """A row per engine and shape, with the aims of selfwire's."""
    rows = []
    for (shape, name), values in ratios.items():
        low, middle, high = map(float, np.quantile(values, (0.25, 0.5, 0.75)))
        aim = AIMS.get(shape) if name == OURS else None
        if name == JOURNAL and (shape, LANGCHAIN) in ratios:
            aim = median(ratios[shape, LANGCHAIN])
        title = f"{shape}, wall" if shape == IN_FLIGHT else shape
        spread = None if name == BARE else (low, high)
        rows.append(Row(what=_name(name), column=title, value=middle, spread=spread, bound=aim))
    return rows


def _name(engine: str) -> str:
    version = REQUIREMENTS.get(engine, "").partition("==")[2]
    return f"{NAMES[engine]} ({version})" if version else NAMES[engine]

"""Tools of the user's that raise: the agent reads the error and goes on, and the command names tool, file and line."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from selfwire.evals.table import read_results
from selfwire.runs.evaluation import RESULTS
from selfwire.runs.record import list_run_names
from tests.commands import call
from tests.wire.server import Body, WireServer

TASKS = "".join(f'{{"input": "What does number {n} cost?", "reference": "{n}"}}\n' for n in range(12))
SOURCE = '''
from langchain_core.tools import tool

PRICES = {"bolt": 2}

def lookup(item: str) -> int:
    """Price of an item."""
    return PRICES[item]

@tool
async def chained(item: str) -> int:
    """Price of an item."""
    return PRICES[item]

class Spec:
    from selfwire.core.chat import ToolSpec
    spec = ToolSpec(name="plain", description="Price of an item.", parameters={"type": "object", "properties": {}})

    async def run(self, arguments, *, scope):
        return str(PRICES[arguments["item"]])

plain = Spec()

def big(item: str) -> int:
    """Price of an item."""
    raise ValueError("too much\\n" * 100_000)
'''
BROKEN = "failed: KeyError: 'nut' (shop_prices.py:"


class Clerk(WireServer):
    """A model that calls the tool with an item in each request without a result, and then answers."""

    item = "nut"

    def __init__(self) -> None:
        self.results: list[str] = []
        super().__init__(self.reply)

    async def reply(self, body: Body) -> AIMessage:
        found = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        self.results += found
        if found or not body.get("tools"):
            return AIMessage("Answer: 3")
        name = body["tools"][0]["function"]["name"]
        return AIMessage("", tool_calls=[{"name": name, "args": {"item": self.item}, "id": "1"}])


@pytest.fixture
def clerk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clerk]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    (tmp_path / "shop_prices.py").write_text(SOURCE)
    (tmp_path / "my.jsonl").write_text(TASKS)
    with Clerk() as server:
        yield server


def reach(server: Clerk) -> tuple[str, ...]:
    return ("--model", "openai:mine", "--base-url", server.url, "--structured", "prompt", "--embedder", "hashing")


@pytest.mark.parametrize(("name", "line"), [("lookup", 8), ("chained", 13), ("plain", 20)])
def test_an_agent_reads_the_error_of_a_tool_that_raises(tmp_path: Path, clerk: Clerk, name: str, line: int) -> None:
    done = call(tmp_path, "run", "single", "What is a nut?", "--tools", f"shop_prices:{name}", *reach(clerk))
    assert done.stdout == "Answer: 3\n"
    assert clerk.results == [f"error: {name} {BROKEN}{line})"]
    assert f"tool '{name}' failed in its only call, such as error: {name} {BROKEN}{line})\n" in done.stderr


def test_a_long_error_is_cut_for_the_agent_and_more_for_the_user(tmp_path: Path, clerk: Clerk) -> None:
    done = call(tmp_path, "run", "single", "What is a nut?", "--tools", "shop_prices:big", *reach(clerk))
    assert [len(result) < 5000 for result in clerk.results] == [True]
    [told] = [line for line in done.stderr.splitlines() if "failed in its only call" in line]
    assert "error: big failed: too much too much" in told
    assert len(told) < 600


def test_a_tool_that_works_is_not_named(tmp_path: Path, clerk: Clerk) -> None:
    clerk.item = "bolt"
    done = call(tmp_path, "run", "single", "What is a bolt?", "--tools", "shop_prices:lookup", *reach(clerk))
    assert clerk.results == ["2"]
    assert "failed" not in done.stderr


def test_an_evaluation_goes_on_and_names_the_tool_at_its_end(tmp_path: Path, clerk: Clerk) -> None:
    own = ("--benchmark", "my.jsonl", "--grader", "numeric", "--tasks", "2", "--tools", "shop_prices:lookup")
    done = call(tmp_path / "home", "eval", "single", *own, *reach(clerk))
    assert f"tool 'lookup' failed in all of its 2 calls, such as error: lookup {BROKEN}8)\n" in done.stdout
    [run] = list_run_names(tmp_path / "home")
    header, rows = read_results(tmp_path / "home" / "runs" / run / RESULTS)
    assert header.complete
    assert [row.error for row in rows] == [None] * 4


def test_an_evolution_goes_on_and_names_the_tool_at_its_end(tmp_path: Path, clerk: Clerk) -> None:
    own = ("--benchmark", "my.jsonl", "--grader", "numeric", "--tools", "shop_prices:lookup", "--gate", "mean")
    sizes = "--batch 1 --gate-tasks 1 --train 4 --gate-size 4 --test 0 --no-baselines --iterations 1".split()
    done = call(tmp_path / "home", "evolve", "hiva", *own, *sizes, *reach(clerk), code=None)
    assert "tool 'lookup' failed in " in done.stdout
    assert f"such as error: lookup {BROKEN}8)" in done.stdout
    assert "ended as errors" not in done.output

"""An exported file sends what `selfwire run` sends for the same question, and gives an equal answer."""

import json
from pathlib import Path

import pytest

from selfwire.core.agent import Agent
from selfwire.core.team import Team
from selfwire.evals.baselines import BASELINES, make_single_team
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.models.sync import run_sync
from selfwire.store.library import open_library
from tests.commands import call
from tests.core.generators import make_tool
from tests.extras.langgraph_file.files import answering, ask, take
from tests.graphs.teams import topology
from tests.wire.server import Body, WireServer

QUESTION = 'What is "6 * 7", in <task>{braces}</task> and\\n backslashes?'
COUNT = '''
import string

LETTERS = string.ascii_letters
NOTE = """two
  lines"""


def tool_function(text: str, letter: str = "a", *, spare: list = None, **more) -> dict:
    # counts a letter
    def count(some):
        return sum(char == letter for char in some)
    if letter not in LETTERS:
        raise ValueError(f"{letter!r} is no letter")
    return {"count": count(text), "note": NOTE}
'''


def make(method: str, edges: str, **tools: tuple[str, ...]) -> Team:
    shape = topology(edges)
    agents = [
        Agent(id=name, role=f'"{name}" works.\nWell', prompt=f"You are {name}.", tools=tools.get(name, ()))
        for name in shape.agents
    ]
    return Team(method=method, agents=tuple(agents), topology=shape)


def save(home: Path, team: Team, name: str = "mine") -> None:
    with open_library(home) as library:
        run_sync(library.save(name, team, run="r", step=0))


def export(home: Path, file: Path, *more: str) -> Path:
    told = call(home, "export", "mine", str(file), *more).output
    assert f"python {file}" in told
    return file


def run(home: Path, server: WireServer, *more: str) -> str:
    said = call(
        home, "run", "mine", QUESTION, "--model", "openai:local", "--base-url", server.url, "--json", *more
    )
    answer: str = json.loads(said.stdout)["answer"]
    return answer


def compute(body: Body) -> list[tuple[str, dict[str, object]]]:
    """A call that works, one that the calculator refuses, and one of a tool that is not there."""
    return [("calculator", {"expression": "6 * 7"}), ("calculator", {"expression": "6 ** 99"}), ("nothing", {})]


@pytest.mark.parametrize(
    "team",
    [
        make_single_team(["calculator"]),
        make("hiva", "s>z"),
        make("hiva", "s>a a>b b>z s>z", a=("calculator",)),
        make("random", "s>a s>b a>c b>z c>z s>z", a=("calculator",), z=("calculator",)),
        make("random", "s>a a>s s>b b>z a>b b>x"),
        *(BASELINES[name]().seed(["calculator"]) for name in ("cot", "self-refine", "independent", "centralised", "hybrid")),
    ],
    ids=lambda team: f"{team.method}-{len(team.topology.nodes)}",
)  # fmt: skip
def test_requests_and_answer_are_those_of_run(team: Team, tmp_path: Path, wire_server: WireServer) -> None:
    wire_server.answer = answering(compute)
    save(tmp_path, team)
    wanted = run(tmp_path, wire_server)
    sent = take(wire_server)
    file = export(tmp_path, tmp_path / "mine.py")
    assert ask(file, wire_server, QUESTION) == wanted
    assert take(wire_server) == sent
    assert len(sent) >= 1


def test_instructions_between_agents_are_written_as_in_a_run(tmp_path: Path, wire_server: WireServer) -> None:
    wire_server.answer = answering(compute)
    team = make("hiva", "s>a s>b a>c a>d b>d c>z d>z s>z", s=("calculator",), a=("calculator",))
    noted = [agent.replace(memory=("Be {brief}.", 'Say "so".')) if agent.id == "b" else agent for agent in team.agents]
    save(tmp_path, team.replace(agents=noted))
    wanted = run(tmp_path, wire_server)
    sent = take(wire_server, without=("TaskProfile",))
    file = export(tmp_path, tmp_path / "mine.py")
    assert ask(file, wire_server, QUESTION) == wanted
    assert take(wire_server) == sent
    assert sum("You hand work over" in str(messages[0]) for messages in sent) == 4

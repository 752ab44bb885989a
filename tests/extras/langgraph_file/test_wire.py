"""An exported file sends what `selfwire run` sends for the same question, and gives an equal answer."""

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage

from selfwire.core.agent import Agent
from selfwire.core.team import Team
from selfwire.evals.baselines import BASELINES, make_baseline
from selfwire.evolvers.hiva.memory import HivaMemory
from selfwire.graphs.hera import Hera
from tests.commands import call
from tests.core.generators import make_tool
from tests.extras.langgraph_file.files import answering, ask, export, load, run, save, take
from tests.graphs.teams import topology
from tests.wire.server import Body, WireServer

QUESTION = 'What is "6 * 7", in <task>{braces}</task> and\\n backslashes?'
COUNT = '''
import string

LETTERS = "abcn"
arguments = 1
NOTE = """two
  lines"""


def tool_function(text: str, letter: str = "a", *, spare: list = None, **more) -> dict:
    # counts a letter
    def count(some):
        return sum(char == letter for char in some)
    if letter not in LETTERS or letter not in string.ascii_letters:
        raise ValueError(f"{letter!r} is no letter")
    return {"count": count(text), "note": NOTE}
'''


UP = "N = 1\ndef tool_function(n: int) -> int:\n    global N\n    N += n\n    return N\n"


FIXED = ("cot", "self-refine", "independent", "centralised", "hybrid")
REWIRED = ("tacomas", "dytopo", "evomas")


def make(method: str, edges: str, **tools: tuple[str, ...]) -> Team:
    shape = topology(edges)
    agents = [
        Agent(id=name, role=f'"{name}" works.\nWell', prompt=f"You are {name}.", tools=tools.get(name, ()))
        for name in shape.agents
    ]
    return Team(method=method, agents=tuple(agents), topology=shape)


def search_and_look(body: Body) -> list[tuple[str, dict[str, Any]]]:
    return [("search", {"query": "a"}), ("look", {"place": "it"}), *compute(body)]


def compute(body: Body) -> list[tuple[str, dict[str, Any]]]:
    """A call that works, one that the calculator refuses, and one of a tool that is not there."""
    return [("calculator", {"expression": "6 * 7"}), ("calculator", {"expression": "6 ** 99"}), ("nothing", {})]


@pytest.mark.parametrize(
    "team",
    [
        make_baseline("single").seed(["calculator"]),
        make("hiva", "s>z"),
        make("hiva", "s>a a>b b>z s>z", a=("calculator",)),
        make("random", "s>a s>b a>c b>z c>z s>z", a=("calculator",), z=("calculator",)),
        make("random", "s>a a>s s>b b>z a>b b>x"),
        *(BASELINES[name]().seed(["calculator"]) for name in FIXED),
    ],
    ids=lambda team: f"{team.method}-{len(team.topology.nodes)}",
)  # fmt: skip
def test_requests_and_answer_are_those_of_run(team: Team, tmp_path: Path, wire_server: WireServer) -> None:
    wire_server.answer = answering(compute)
    save(tmp_path, team)
    wanted = run(tmp_path, wire_server, QUESTION)
    sent = take(wire_server)
    file = export(tmp_path, tmp_path / "mine.py")
    assert ask(file, wire_server, QUESTION) == wanted
    assert take(wire_server) == sent
    assert len(sent) >= 1


@pytest.mark.parametrize(
    ("name", "said", "in_run", "in_file"),
    [("self-refine", "No fault found.", (2, 0), (7, 0)), ("independent", f"- {QUESTION} " * 9, (4, 1), (4, 0))],
)
def test_a_fixed_team_runs_whole_in_a_file_and_repeats_what_several_write(
    name: str,
    said: str,
    in_run: tuple[int, int],
    in_file: tuple[int, int],
    tmp_path: Path,
    wire_server: WireServer,
) -> None:
    async def answer(body: Body) -> AIMessage:
        return AIMessage(said)

    def count() -> tuple[int, int]:
        asked = take(wire_server)
        return len(asked), sum("(the same as that of worker-1)" in str(messages) for messages in asked)

    wire_server.answer = answer
    save(tmp_path, BASELINES[name]().seed([]))
    wanted = run(tmp_path, wire_server, QUESTION)
    assert count() == in_run
    file = export(tmp_path, tmp_path / "mine.py")
    assert ask(file, wire_server, QUESTION) == wanted
    assert count() == in_file


def test_instructions_between_agents_are_written_as_in_a_run(tmp_path: Path, wire_server: WireServer) -> None:
    wire_server.answer = answering(compute)
    team = make("hiva", "s>a s>b a>c a>d b>d c>z d>z s>z", s=("calculator",), a=("calculator",))
    noted = [agent.replace(memory=("Be {brief}.", 'Say "so".')) if agent.id == "b" else agent for agent in team.agents]
    save(tmp_path, team.replace(agents=noted))
    wanted = run(tmp_path, wire_server, QUESTION)
    sent = take(wire_server, without=("TaskProfile",))
    file = export(tmp_path, tmp_path / "mine.py")
    assert ask(file, wire_server, QUESTION) == wanted
    assert take(wire_server) == sent
    assert sum("You hand work over" in str(messages[1]) for messages in sent) == 4


def test_tools_of_the_teams_own_run_as_plain_code(tmp_path: Path, wire_server: WireServer) -> None:
    tools = (make_tool("count", COUNT), make_tool("add-up"))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("count", {"text": "banana"}),
        ("count", {"text": "bänana", "letter": "n"}),
        ("add-up", {"n": 3}),
    ]
    wire_server.answer = answering(lambda body: calls)
    team = make("hiva", "s>a a>z", s=("count",), a=("add-up", "count", "calculator")).replace(tools=tools)
    save(tmp_path, team)
    wanted = run(tmp_path, wire_server, QUESTION)
    sent = take(wire_server)
    file = export(tmp_path, tmp_path / "mine.py")
    assert ask(file, wire_server, QUESTION) == wanted
    assert take(wire_server) == sent
    assert '{"count": 3, "note": "two\\n  lines"}' in [text for messages in sent for _, text, _ in messages]
    assert "A model wrote this code. It ran in a sandbox before" in file.read_text()


def test_a_tools_failure_is_told_to_the_agent(tmp_path: Path, wire_server: WireServer) -> None:
    wire_server.answer = answering(lambda body: [("count", {"text": "banana", "letter": "?"}), ("count", {"text": {}})])
    save(tmp_path, make("hiva", "s>z", s=("count",)).replace(tools=(make_tool("count", COUNT),)))
    ask(export(tmp_path, tmp_path / "mine.py"), wire_server, QUESTION)
    [told] = [messages for messages in take(wire_server) if messages[-1][0] == "tool"]
    assert told[-2][1] == "error: count failed: '?' is no letter"
    assert told[-1][1].startswith("error: count failed: ")


def test_tools_of_a_module_are_imported(
    tmp_path: Path, wire_server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_tools.py").write_text(
        "from langchain_core.tools import tool\n"
        'def search(query: str) -> str:\n    """Search."""\n    return f"found {query}"\n'
        '@tool\ndef look(place: str) -> str:\n    """Look."""\n    raise ValueError(f"{place} is dark")\n'
        "BOTH = [search, look]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = "shop_tools:search,shop_tools:look,calculator"
    wire_server.answer = answering(search_and_look)
    save(tmp_path, make("hiva", "s>a a>z", s=("search", "calculator"), a=("search", "look")))
    wanted = run(tmp_path, wire_server, QUESTION, "--tools", names)
    sent = take(wire_server)
    file = export(tmp_path, tmp_path / "mine.py", "--tools", names)
    assert ask(file, wire_server, QUESTION) == wanted
    assert take(wire_server) == sent
    refused = call(tmp_path, "export", "mine", "two.py", "--tools", "shop_tools:BOTH", code=2).stderr
    assert "'shop_tools:BOTH' is no single function or LangChain tool" in refused
    for wrong in ("benchmark:archive", "algebra", "sql:x.db"):
        assert "as my_tools:search" in call(tmp_path, "export", "mine", "two.py", "--tools", wrong, code=2).stderr


@pytest.mark.parametrize("method", ["hiva", "hera"])
def test_studio_has_a_form_for_the_question(method: str, tmp_path: Path) -> None:
    team = make("hiva", "s>z") if method == "hiva" else Hera().make_seed()
    save(tmp_path, team)
    graph = load(export(tmp_path, tmp_path / "mine.py")).build(FakeListChatModel(responses=["yes"]))
    assert graph.get_input_jsonschema()["properties"].keys() == {"question"}


def test_a_bandits_choice_is_frozen_to_the_best_arms(tmp_path: Path, wire_server: WireServer) -> None:
    wire_server.answer = answering()
    team = make("hiva", "s>a s>b s>c s>z a>z b>z c>d d>z")
    beliefs = {"a": {"alpha": 9, "beta": 1}, "b": {"alpha": 1, "beta": 9}, "c": {"alpha": 8, "beta": 2}}
    learned = HivaMemory.of(team).replace(beliefs=beliefs).save_to(team)
    save(tmp_path, learned)
    file = export(tmp_path, tmp_path / "mine.py")
    assert '"b"' not in file.read_text()
    save(tmp_path / "kept", make("hiva", "s>a s>c s>z a>z c>d d>z"))
    wanted = run(tmp_path / "kept", wire_server, QUESTION)
    sent = take(wire_server, without=("TaskProfile",))
    assert ask(file, wire_server, QUESTION) == wanted
    assert take(wire_server) == sent


@pytest.mark.parametrize(
    ("team", "why"),
    [
        *((make(name, "s>z"), f"a team of {name} is no file of plain Python: ") for name in REWIRED),
        (BASELINES["debate"]().seed(), "agent 'vote' counts votes"),
        (BASELINES["self-consistency"]().seed(), "it asks one agent several times"),
        (make("gepa", "s>z"), "nothing is known of how gepa runs its teams"),
        (make("my_app.graph:graph", "s>z"), "export its new prompts to a .patch file"),
        (make("hiva", "s>z", s=("search",)), "name it by --tools my_tools:search"),
        (make("hiva", "s>z").with_memory(router={"weights": 1}), "trained router chooses by what each question means"),
        (make("hiva", "s>a z>a"), "no path leads from 's' to 'z'"),
        (make("hiva", "s>z", s=("up",)).replace(tools=(make_tool("up", UP),)), "'up' assigns to a global variable"),
    ],
    ids=lambda value: value.method if isinstance(value, Team) else "",
)  # fmt: skip
def test_what_is_no_file_is_refused_with_the_reason(team: Team, why: str, tmp_path: Path) -> None:
    save(tmp_path, team)
    refused = call(tmp_path, "export", "mine", str(tmp_path / "mine.py"), code=2).stderr
    assert why in " ".join(refused.split())
    assert not (tmp_path / "mine.py").exists()


def test_the_form_follows_the_ending_or_is_named(tmp_path: Path) -> None:
    save(tmp_path, make_baseline("single").seed([]))
    file = export(tmp_path, tmp_path / "mine.py")
    refused = call(tmp_path, "export", "mine", str(file), code=2)
    assert "exists already" in refused.stderr
    assert call(tmp_path, "export", "mine", "-", "--as", "langgraph").stdout == file.read_text()
    file.write_text("")
    assert "wrote" in call(tmp_path, "export", "mine", str(file), "--force").output
    spaced = tmp_path / "my team.py"
    assert f"ask it with: python '{spaced}' " in call(tmp_path, "export", "mine", str(spaced)).output
    assert file.read_text() != ""
    assert json.loads(call(tmp_path, "export", "mine", "-").stdout)["method"] == "single"
    for words, why in (
        (("mine.txt",), "ends in .json, .py or .patch, not to mine.txt"),
        (("-", "--as", "yaml"), "--as yaml: a team is exported as json, langgraph, patch, context or pr"),
        (("x.json", "--tools", "a:b"), "--tools names tools for a LangGraph"),
    ):
        assert why in call(tmp_path, "export", "mine", *words, code=2).stderr

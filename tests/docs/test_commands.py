"""Every command and every block of Python on the pages of this repository works."""

import importlib.util
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from bench.__main__ import find_benches, has_word
from selfwire.cli.commands import COMMANDS, FAILED, GROUPS, INTERRUPTED, NO_READER, STOPPED, WRONG, load_command
from selfwire.core.agent import Agent
from selfwire.core.edits import AddEdge, Rewiring
from selfwire.core.scope import Scope
from selfwire.core.task import Question
from selfwire.core.team import Team
from selfwire.extras.lab.worlds.catalogue import list_worlds
from selfwire.graphs.method import FULL, find_method
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.providers import make_chat_model
from selfwire.nodes.agent import make_agent_runner
from selfwire.runs.spec import Sizes
from tests.docs.blocks import BLOCKS, PAGES, ROOT, SHELL, Block, find_spans
from tests.docs.world import World
from tests.graphs.teams import topology
from tests.wire.langsmith_server import LangSmithServer
from tests.wire.server import WireServer, served

RUN_ELSEWHERE = {
    ("docs/evaluation.md", "python"): "tests/evals/langsmith/test_documented.py",
    ("docs/method.md", "python"): "tests/graphs/test_outside_method.py",
    ("docs/method.md", "sh"): "tests/graphs/test_outside_method.py",
    ("docs/first-hour.md", "console"): "tests/docs/test_first_hour.py",
    ("docs/bring.md", "console"): "tests/docs/test_first_hour.py",
    ("docs/bring.md", "python"): "tests/docs/test_first_hour.py",
    ("docs/studio.md", "console"): "tests/docs/test_studio.py",
    ("docs/studio.md", "python"): "tests/docs/test_studio.py",
}
"""Blocks, by page and language, that another test takes from the page and runs."""

NOT_RUN = {
    "source .venv/bin/activate": "changes the reader's shell",
    "pip install": "changes the environment; `make setup` does the same, tests/test_install.py reads the files",
    "docker build": "needs a container runtime; tests/test_install.py reads Dockerfile and compose.yaml",
    "docker compose up": "the same",
    "selfwire eval single --benchmark hf:openai/gsm8k:main": "asks the Hub; tests/evals/test_hub.py has one here",
    "python -m selfwire.extras.demo_server": "serves until it is stopped; tests/extras/test_demo_server.py asks it",
    "make": "installs and runs everything; .ci/run does, and the targets are looked up",
}
"""Beginnings of commands that no test runs, and why."""

MARKUP: Mapping[str, Callable[[str], object]] = {
    "json": json.loads,
    "jsonl": lambda text: [json.loads(line) for line in text.splitlines()],
    "toml": tomllib.loads,
    "mermaid": lambda text: text.split()[0] in {"flowchart", "graph"},
    "markdown": str,
    "text": str,
    "py": lambda text: compile(text, "page", "exec"),
}
"""Languages that are not run, with what can be checked."""


OTHERS = {"--config", "--rooms", "--calls", "--tokens", "--jinja", "--build-arg"}
"""Options in the text that stand before a command, or those of the room `bench`, of `llama-server` and of docker."""


class Ticket(TypedDict, total=False):
    question: str


@tool
def my_langchain_tool(text: str) -> str:
    """Repeats a text."""
    return text


def make_team() -> Team:
    ids = ("plan", "solve", "check", "answer")
    agents = tuple(Agent(id=name, role=name, prompt=name) for name in ids)
    edges = "plan>solve plan>check solve>answer check>answer"
    return Team(method="mine", agents=agents, topology=topology(edges, "plan", "answer"))


def make_desks() -> Any:
    graph = StateGraph(Ticket)
    graph.add_node("triage", lambda state: {})
    graph.add_edge(START, "triage")
    for name in ("billing", "tech"):
        graph.add_node(name, lambda state: {})
        graph.add_edge(name, END)
    return graph


def names_that_pages_presume() -> Mapping[str, Any]:
    """What the reader has already where a page's Python begins."""
    team, model = make_team(), MeteredModel(make_chat_model("offline"))
    return {
        "my_langchain_tool": my_langchain_tool,
        "workflow": team,
        "team": team,
        "another": Rewiring(AddEdge("solve", "check"), why="to be checked"),
        "question": Question(id="q", input="Who am I?"),
        "questions": ["Who am I?", "Who are you?"],
        "score": lambda run: 0.5,
        "scope": Scope(),
        "make_agent_runner": make_agent_runner,
        "model": model,
        "toolbox": {},
        "embedder": HashingEmbedder(),
        "graph": make_desks(),
    }


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with WireServer(served(make_chat_model("offline"))) as server:
        yield World(tmp_path, server, monkeypatch)


def is_run_here(block: Block) -> bool:
    if (block.page, block.language) in RUN_ELSEWHERE or block.file:
        return False
    if block.language == "python":
        return True
    return block.language in SHELL and any(not reason_not_to_run(one.text) for one in block.commands)


def reason_not_to_run(command: str) -> str:
    return next((why for start, why in NOT_RUN.items() if f"{command} ".startswith(f"{start} ")), "")


@pytest.mark.slow
@pytest.mark.parametrize("block", [one for one in BLOCKS if is_run_here(one)], ids=str)
def test_the_commands_of_a_block_work(world: World, block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    began = sum(os.times()[:4])
    world.fill()
    if block.language == "python":
        world.execute(block, names_that_pages_presume())
    with LangSmithServer() as langsmith:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", langsmith.url)
        for command in block.commands if block.language in SHELL else ():
            if not reason_not_to_run(command.text):
                world.run(command)
    sys.stdout.write(f"{sum(os.times()[:4]) - began:.1f} CPU-s\n")


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language not in (*SHELL, "python")], ids=str)
def test_what_is_not_run_is_of_a_known_language_and_well_formed(block: Block) -> None:
    assert MARKUP[block.language](block.text)


@pytest.mark.parametrize(("page", "language"), RUN_ELSEWHERE)
def test_what_is_run_elsewhere_is_there_and_that_test_names_the_page(page: str, language: str) -> None:
    assert any((one.page, one.language) == (page, language) for one in BLOCKS)
    assert Path(page).name in (ROOT / RUN_ELSEWHERE[page, language]).read_text()


def test_what_is_not_run_occurs() -> None:
    lines = [one.text for block in BLOCKS if block.language in SHELL for one in block.commands]
    assert {start for start in NOT_RUN if not any(f"{line} ".startswith(f"{start} ") for line in lines)} == set()


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = [one.text for block in BLOCKS if block.language in SHELL for one in block.commands]
    said = [span for page in PAGES for span in find_spans(page)]
    named = {name for line in said + shown for name in re.findall(r"^make ([\w-]+)", line)}
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_in_the_text_exist(page: Path) -> None:
    for span in find_spans(page):
        options = set(re.findall(r"(?<!\S)--[a-z-]+", span))
        if span.startswith("selfwire ") and not span.startswith("selfwire COMMAND"):
            assert options <= find_options(span.split()[1].strip(",;")), span
        elif span.startswith("--"):
            assert options <= set().union(OTHERS, *map(find_options, COMMANDS)), span
        elif module := re.match(r"python -m ((?:selfwire|tests)[\w.]+)", span):
            assert importlib.util.find_spec(module[1]), span


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_methods_variants_and_worlds_in_the_text_exist(page: Path) -> None:
    for span in find_spans(page):
        words = span.split()
        if words[:2] == ["selfwire", "ablate"] and len(words) > 3 and words[2] != "METHOD":
            given, known = dict(pairwise(words)), find_method(words[2]).variants
            own = {setting.partition(".")[0] for option, setting in pairwise(words) if option == "--set"}
            assert set(given.get("--variants", FULL).split(",")) <= known.keys() | own, span
            assert "--world" not in given or given["--world"] in list_worlds()[words[2]], span


def test_tables_of_bench_in_the_text_exist() -> None:
    said = [span for page in PAGES for span in find_spans(page)]
    found = [re.match(r"""(?:make bench ARGS=|python -m bench )(?:"([^"]*)"|(\S+))""", span) for span in said]
    words = {(match[1] or match[2]).partition(" --")[0] for match in found if match}
    titles = [title for title, _ in find_benches()]
    assert len(words) > 12
    assert {word for word in words if not any(has_word(title, [word]) for title in titles)} == set()


@cache
def find_options(name: str) -> set[str]:
    """The long options of a command, those of the commands in a group among them."""
    if name == "version":
        return set()
    assert name in COMMANDS, f"there is no command {name!r}"
    command = load_command(name)
    parts = command.commands.values() if name in GROUPS else [command]
    return {option for part in parts for one in part.params for option in one.opts}


def test_the_usual_sizes_that_pages_show_are_those_of_the_code() -> None:
    shown = [re.findall(r"--(train|gate-size|test) \d+ \(not (\d+)\)", page.read_text()) for page in PAGES]
    usual = Sizes()
    assert {one for found in shown for one in found} == {
        ("train", str(usual.train)), ("gate-size", str(usual.gate)), ("test", str(usual.test)),
    }  # fmt: skip


def test_the_page_of_commands_names_all() -> None:
    spans = find_spans(ROOT / "docs" / "commands.md")
    named = {span.removeprefix("selfwire ").split()[0] for span in spans}
    assert named >= COMMANDS.keys()


def test_the_page_names_the_commands_that_have_workers_models_and_dry_runs() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    sentences: Mapping[str, tuple[str, set[str]]] = {
        "--workers": (r"^(`evolve`[^.]*?) take `--workers N`", set()),
        "--model": (r"They, ([^.]*) take the options of models", {"--workers"}),
        "--dry-run": (r"^`--dry-run` of ([^.]*) sends nothing", set()),
    }
    for option, (sentence, others) in sentences.items():
        [said] = re.findall(sentence, text, re.MULTILINE)
        named = {*re.findall(r"`([\w-]+)`", said)}
        named |= {name for name in COMMANDS if others & find_options(name)}
        assert named == {name for name in COMMANDS if option in find_options(name)} - {"pull"}, option


def test_the_exit_codes_on_the_page_are_those_of_the_code() -> None:
    table = (ROOT / "docs" / "commands.md").read_text().partition("| exit code |")[2].partition("\n\n")[0]
    said = {int(code): what for code, what in re.findall(r"^\| (\d+) \| (.*)", table, re.MULTILINE)}
    words = {0: "done", FAILED: "--max-errors", WRONG: "cannot be used", STOPPED: "budget"}
    words |= {INTERRUPTED: "Ctrl-C", NO_READER: "reads the output"}
    assert [*said] == sorted(words)
    assert all(word in said[code] for code, word in words.items())

"""The factories that `langgraph dev` calls, by themselves; test_langgraph_dev.py has a real server."""

import json
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.tools import tool
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from selfwire.core.agent import Agent
from selfwire.core.errors import BudgetError, ConfigError, LibraryError
from selfwire.core.plugins import own_methods
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.graphs import dytopo, serve, tacomas
from selfwire.graphs.method import find_method
from selfwire.store.library import LIBRARY_FILE, Library, open_library
from tests.core.generators import make_tool
from tests.graphs.dev_server import ROOT
from tests.graphs.scripted import SOURCE, trio
from tests.sandboxed import needs_sandbox

FACTORIES = {name: import_module(f"selfwire.graphs.{name}").graph for name in own_methods()}
ASKED = {"question": "What am I?"}


@tool
def saw(thing: str) -> str:
    """Saw a thing."""
    return f"two halves of {thing}"


OWN_TOOLS = [saw]
TOOLBOX = SimpleNamespace(tools={"saw": saw})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SELFWIRE_HOME", str(tmp_path / "home"))
    for name in ("SELFWIRE_MODEL", "SELFWIRE_MODELS", "SELFWIRE_TOOLS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def test_every_method_is_served() -> None:
    served = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    methods = {name: f"selfwire.graphs.{name}:graph" for name in own_methods()}
    assert served == {**methods, "evolve": "selfwire.runs.studio:graph"}


def test_the_readme_describes_every_method_as_its_class_does() -> None:
    rows = re.findall(
        r"^\| \[(\w+)\]\(evolvers/\w+\): (.*?) \| (.*?)\[(arXiv (.*?))\]\((.*?)\) \|$",
        (ROOT / "README.md").read_text(),
        re.M,
    )
    known = [find_method(name) for name in own_methods()]
    assert sorted((name, summary, authors + paper) for name, summary, authors, paper, *_ in rows) == [
        (one.name, one.summary, one.paper) for one in known
    ]
    assert all(link == f"https://arxiv.org/abs/{number}" for *_, number, link in rows)


async def served(
    workflow: str | None = None,
    store: BaseStore | None = None,
    method: str = "hiva",
    runs: bool = True,
    **settings: str,
) -> Any:
    run = SimpleNamespace(context={}) if runs else None
    runtime: Any = SimpleNamespace(store=store or InMemoryStore(), execution_runtime=run)
    configurable = {**settings, **({"workflow": workflow} if workflow else {})}
    return await FACTORIES[method]({"configurable": configurable}, runtime)


def drawn(made: Any) -> set[str]:
    return team(made.get_graph(xray=True).nodes)


def team(nodes: Any) -> set[str]:
    """The team's nodes, whatever the node is called in which it runs."""
    return {name.partition(":")[2] for name in nodes if ":" in name and not name.endswith("__")}


def sawing() -> Team:
    return trio().replace(agents=[agent.replace(tools=["saw"]) for agent in trio().agents])


async def test_the_singleton_is_served_where_nothing_is_saved(home: Path) -> None:
    made = await served()
    assert drawn(made) == {"source", "aggregator"}
    assert (await made.ainvoke(ASKED))["answer"]
    assert not list(home.parent.iterdir())


async def test_what_another_process_saves_is_served_next(home: Path) -> None:
    with open_library(home) as library:
        await served()
        await library.save("hiva", trio(), run="elsewhere", step=1)
    made = await served()
    assert drawn(made) == {"source", "checker", "aggregator"}
    assert Team.model_validate((await made.ainvoke(ASKED))["workflow"]) == trio()


async def test_a_team_that_is_saved_in_postgres_is_served(
    home: Path, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFWIRE_LIBRARY", postgres_address)
    with open_library() as library:
        await library.save("hiva", trio(), run="elsewhere", step=1)
    assert drawn(await served()) == {"source", "checker", "aggregator"}
    serve._opened(home / LIBRARY_FILE, postgres_address).close()  # a server keeps it open until its end


async def test_a_team_larger_than_a_fresh_one_may_become_is_served(home: Path) -> None:
    names = [f"n{i}" for i in range(14)]
    large = Team(
        method="hiva", agents=tuple(Agent(id=n, prompt=f"You are {n}.") for n in names), topology=make_chain(*names)
    )
    with open_library(home) as library:
        await library.save("hiva", large, run="r", step=1)
    assert drawn(await served()) == set(names)


@needs_sandbox
async def test_a_team_with_tools_of_its_own_is_served_with_them(home: Path) -> None:
    team = sawing().replace(tools=(make_tool("saw"),))
    with open_library(home) as library:
        await library.save("hiva", team, run="r", step=1)
    with blockbuster_ctx():
        made = await served()
        assert (await made.ainvoke(ASKED))["answer"]


async def test_a_library_that_was_replaced_is_opened_anew(home: Path) -> None:
    for workflow in (trio(), renamed(trio(), "checker", "reader")):
        with open_library(home) as library:
            await library.save("hiva", workflow, run="r", step=1)
        assert Team.model_validate((await (await served()).ainvoke(ASKED))["workflow"]) == workflow
        (home / "library.sqlite").rename(home / f"old-{workflow.fingerprint}.sqlite")
    assert drawn(await served()) == {"source", "aggregator"}


async def test_an_assistant_may_name_a_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_library(home) as library:
        await library.save("hiva", trio(), run="r", step=1)
        await library.save("hiva", sawing(), run="r", step=2)
    monkeypatch.setenv("SELFWIRE_TOOLS", f"{__name__}:OWN_TOOLS")
    for workflow in ("hiva@r.1", "team:hiva@r.1", trio().fingerprint):
        assert Team.model_validate((await (await served(workflow)).ainvoke(ASKED))["workflow"]) == trio()
    with pytest.raises(LibraryError, match="there is no team 'other'"):
        await served("other")
    with pytest.raises(ConfigError, match="saved teams only"):
        await served("/etc/team.json")


@pytest.mark.parametrize("wanted", ["three", "team:three", trio().fingerprint])
async def test_what_is_evolved_is_saved_under_the_name_that_was_served(home: Path, wanted: str) -> None:
    with open_library(home) as library:
        await library.save("three", trio(), run="r", step=1)
        await (await served(wanted)).ainvoke(ASKED, context={"evolve": True})
        names = await library.names()
        grown = {name: len((await library.history(name)).versions) for name in names}
    assert grown == ({"three": 2} if wanted.endswith("three") else {"three": 1, "hiva": 1})


async def test_without_a_library_the_servers_store_is_one(home: Path) -> None:
    store = InMemoryStore()
    result = await (await served(store=store)).ainvoke(ASKED, context={"evolve": True, "iterations": 3})
    evolved = await Library(store).load("hiva")
    assert Team.model_validate(result["workflow"]) == evolved
    assert drawn(await served(store=store)) == set(evolved.topology.agents)
    assert not list(home.parent.iterdir())


async def test_every_agents_prompt_can_be_edited(home: Path) -> None:
    fields = (await served()).get_context_jsonschema()["properties"]
    prompt = fields["prompt_source"]
    assert prompt["default"].startswith(SOURCE)
    assert (prompt["langgraph_type"], prompt["langgraph_nodes"]) == ("prompt", ["source"])
    assert {"evolve", "iterations", "seed", "model", "calls", "tokens", "workflow", "prompt_aggregator"} <= set(fields)


@pytest.mark.parametrize(
    ("held", "facts", "line"),
    [
        ("recipe_search", {"tools": "benchmark:plancraft"}, "benchmark:plancraft"),
        ("algebra", {}, "algebra"),
        ("saw", {"tools": f"{__name__}:OWN_TOOLS"}, f"{__name__}:OWN_TOOLS"),
    ],
)
async def test_a_team_whose_tools_the_server_lacks_is_drawn_and_refused_with_the_line_that_brings_them(
    home: Path, monkeypatch: pytest.MonkeyPatch, held: str, facts: Any, line: str
) -> None:
    monkeypatch.setenv("SELFWIRE_TOOLS", "calculator")
    lacking = trio().replace(agents=[agent.replace(tools=[held]) for agent in trio().agents])
    with open_library(home) as library:
        await library.save("hiva", lacking, run="r", step=1, facts=facts)
    assert drawn(await served(runs=False)) == {"source", "checker", "aggregator"}
    with pytest.raises(ConfigError, match=f"hold {held}, and this server lends calculator; ") as refused:
        await served()
    wanted = str(refused.value).rpartition("SELFWIRE_TOOLS=")[2]
    assert wanted == f"calculator,{line}"
    monkeypatch.setenv("SELFWIRE_TOOLS", wanted)
    assert (await (await served()).ainvoke(ASKED))["answer"]


async def test_what_brings_a_tool_may_be_unknown(home: Path) -> None:
    with open_library(home) as library:
        await library.save("hiva", sawing(), run="r", step=1)
    with pytest.raises(ConfigError, match=r"hold saw, and this server lends no tools; .* that names calc"):
        await served()


async def test_what_is_evolved_stands_beside_a_head_that_is_not_studios(home: Path) -> None:
    config: Any = {"configurable": {"thread_id": "the-thread-3f2a9c"}}
    with open_library(home) as library:
        await library.save("hiva", trio(), run="r", step=1, facts={"accepted": True})
        first = await (await served()).ainvoke(ASKED, config, context={"evolve": True})
        assert first["saved"] == "hiva@studio-3f2a9c.1"
        assert await library.load("hiva") == trio()
        again = await (await served("hiva@studio")).ainvoke({"question": "And I?"}, config, context={"evolve": True})
        assert again["saved"] == "hiva@studio-3f2a9c.2"
        assert again["ran"] == first["workflow"]
        history = await library.history("hiva")
    assert (history.head, history.tags) == ("r.1", {"studio": "studio-3f2a9c.2"})
    facts = history.versions[-1].facts
    assert (facts["origin"], facts["thread"]) == ("studio", "the-thread-3f2a9c")


@pytest.mark.parametrize("name", ["OWN_TOOLS", "TOOLBOX.tools"])
async def test_the_server_is_given_tools_by_name(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("SELFWIRE_TOOLS", f"{__name__}:{name}")
    result = await (await served()).ainvoke(ASKED)
    assert [agent["tools"] for agent in result["workflow"]["agents"]] == [[], ["saw"]]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SELFWIRE_TOOLS", "no.such.module:tools", "SELFWIRE_TOOLS='no.such.module:tools'.*package.module:name"),
        ("SELFWIRE_TOOLS", "json:JSONDecoder", "is type; name calculator"),
        ("SELFWIRE_TOOLS", "calculator,saw", "there is no tool 'saw'; name calculator"),
        ("SELFWIRE_MODEL", "gpt", "unknown model 'gpt'"),
        ("SELFWIRE_MODELS", "cheap", "'cheap' names no model; write NAME=PROVIDER:MODEL"),
    ],
)
async def test_a_setting_that_cannot_be_used_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        await served()


async def test_a_server_asks_the_models_that_it_or_the_run_names_for_agents(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = trio().replace(agents=[agent.replace(model="cheap") for agent in trio().agents])
    with open_library(home) as library:
        await library.save("hiva", named, run="r", step=1)
    with pytest.raises(ConfigError, match="agent 'aggregator' asks model 'cheap', and this run names no such model"):
        await (await served()).ainvoke(ASKED)
    assert (await (await served()).ainvoke(ASKED, context={"models": "cheap=offline:user"}))["answer"]
    monkeypatch.setenv("SELFWIRE_MODELS", "cheap=offline")
    assert (await (await served()).ainvoke(ASKED))["answer"]


def renamed(workflow: Team, old: str, new: str) -> Team:
    body = workflow.model_dump_json().replace(f'"{old}"', f'"{new}"')
    return Team.model_validate_json(body)


SEEDS = {method.name: method().seed() for method in (tacomas.Tacomas, dytopo.Dytopo)}
REWIRING: dict[str, tuple[str, Any]] = {"tacomas": ("searcher", tacomas.build), "dytopo": ("Researcher", dytopo.build)}


@pytest.mark.parametrize("method", REWIRING)
async def test_a_saved_team_is_drawn_and_every_question_starts_with_it(home: Path, method: str) -> None:
    old, _ = REWIRING[method]
    seed = drawn(await served(method=method))
    assert old in seed
    other = renamed(SEEDS[method], old, "librarian")
    with open_library(home) as library:
        await library.save(method, other, run="elsewhere", step=1)
        await library.save("mine", SEEDS[method], run="elsewhere", step=1)
    made = await served(method=method)
    assert drawn(made) == {*seed - {old}, "librarian"}
    with blockbuster_ctx():
        result = await made.ainvoke(ASKED, context={"rounds": 1})
    assert result["answer"]
    assert Team.model_validate(result["workflow"]) == other
    for ref in ("mine", f"{method}@elsewhere.1"):
        assert ("librarian" in drawn(await served(ref, method=method))) == (ref != "mine")


@pytest.mark.parametrize("method", REWIRING)
async def test_prompts_model_and_budget_are_chosen_per_run(home: Path, method: str) -> None:
    made, (worker, _) = await served(method=method), REWIRING[method]
    fields = made.get_context_jsonschema()["properties"]
    assert {"seed", "model", "calls", "tokens", "workflow", "rounds"} <= set(fields)
    assert fields[f"prompt_{worker}"]["langgraph_nodes"] == [worker]
    edits: Any = {"rounds": 1, f"prompt_{worker}": "You brainstorm."}
    result = await made.ainvoke(ASKED, context=edits)
    assert Team.model_validate(result["workflow"]).agents_by_id[worker].prompt == "You brainstorm."
    with pytest.raises(BudgetError, match=r"raise the limit on calls \(calls of the context\)"):
        await made.ainvoke(ASKED, context={"calls": 2})
    with pytest.raises(BudgetError, match=r"raise the limit on tokens \(tokens of the context\)"):
        await made.ainvoke(ASKED, context={"tokens": 5})
    with pytest.raises(ConfigError, match="unknown model 'gpt'"):
        await made.ainvoke(ASKED, context={"model": "gpt"})


async def test_an_assistant_may_choose_a_domain(home: Path) -> None:
    assert "Verifier" in drawn(await served(method="dytopo", domain="math"))
    with open_library(home) as library:
        await library.save("dytopo", SEEDS["dytopo"], run="r", step=1)
    maths = await served(method="dytopo", domain="math")
    assert "Verifier" in drawn(maths)
    assert maths.get_context_jsonschema()["properties"]["prompt_Manager"]["langgraph_nodes"] == ["manager"]
    assert "Writer" in drawn(await served("dytopo", method="dytopo", domain="math"))  # a team goes first
    with pytest.raises(ConfigError, match="unknown domain 'law'"):
        await served(method="dytopo", domain="law")

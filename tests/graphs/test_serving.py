"""HiVA as `langgraph dev` serves it: the factory by itself, and a real server."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from langchain_core.tools import tool
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError, LibraryError
from selfwire.core.topology import chain
from selfwire.core.workflow import Workflow
from selfwire.graphs.hiva import graph
from selfwire.runtime.library import Library, open_library
from selfwire.runtime.sync import run_sync
from tests.graphs.dev_server import ROOT, dev_server
from tests.graphs.scripted import SOURCE, trio

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
    for name in ("SELFWIRE_MODEL", "SELFWIRE_TOOLS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


async def served(workflow: str | None = None, store: BaseStore | None = None) -> Any:
    configurable = {"workflow": workflow} if workflow else {}
    runtime: Any = SimpleNamespace(store=store or InMemoryStore())
    return await graph({"configurable": configurable}, runtime)


def drawn(made: Any) -> set[str]:
    return team(made.get_graph(xray=True).nodes)


def team(nodes: Any) -> set[str]:
    return {name.removeprefix("forward:") for name in nodes if name.startswith("forward:")}


def sawing() -> Workflow:
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
    assert Workflow.model_validate((await made.ainvoke(ASKED))["workflow"]) == trio()


async def test_a_team_larger_than_a_fresh_one_may_become_is_served(home: Path) -> None:
    names = [f"n{i}" for i in range(14)]
    large = Workflow(
        method="hiva", agents=tuple(Agent(id=n, prompt=f"You are {n}.") for n in names), topology=chain(*names)
    )
    with open_library(home) as library:
        await library.save("hiva", large, run="r", step=1)
    assert drawn(await served()) == set(names)


async def test_a_library_that_was_replaced_is_opened_anew(home: Path) -> None:
    for workflow in (trio(), sawing()):
        with open_library(home) as library:
            await library.save("hiva", workflow, run="r", step=1)
        assert Workflow.model_validate((await (await served()).ainvoke(ASKED))["workflow"]) == workflow
        (home / "library.sqlite").rename(home / f"old-{workflow.fingerprint}.sqlite")
    assert drawn(await served()) == {"source", "aggregator"}


async def test_an_assistant_may_name_a_version(home: Path) -> None:
    with open_library(home) as library:
        await library.save("hiva", trio(), run="r", step=1)
        await library.save("hiva", sawing(), run="r", step=2)
    for workflow in ("hiva@r.1", trio().fingerprint):
        assert Workflow.model_validate((await (await served(workflow)).ainvoke(ASKED))["workflow"]) == trio()
    with pytest.raises(LibraryError, match="there is no workflow 'other'"):
        await served("other")
    with pytest.raises(ConfigError, match="saved workflows only"):
        await served("/etc/team.json")


@pytest.mark.parametrize("wanted", ["three", trio().fingerprint])
async def test_what_is_evolved_is_saved_under_the_name_that_was_served(home: Path, wanted: str) -> None:
    with open_library(home) as library:
        await library.save("three", trio(), run="r", step=1)
        await (await served(wanted)).ainvoke(ASKED, context={"evolve": True})
        names = await library.names()
        grown = {name: len((await library.history(name)).versions) for name in names}
    assert grown == ({"three": 2} if wanted == "three" else {"three": 1, "hiva": 1})


async def test_without_a_library_the_servers_store_is_one(home: Path) -> None:
    store = InMemoryStore()
    result = await (await served(store=store)).ainvoke(ASKED, context={"evolve": True, "iterations": 3})
    evolved = await Library(store).load("hiva")
    assert Workflow.model_validate(result["workflow"]) == evolved
    assert drawn(await served(store=store)) == set(evolved.topology.agents)
    assert not list(home.parent.iterdir())


async def test_every_agents_prompt_can_be_edited(home: Path) -> None:
    fields = (await served()).get_context_jsonschema()["properties"]
    prompt = fields["prompt_source"]
    assert prompt["default"].startswith(SOURCE)
    assert (prompt["langgraph_type"], prompt["langgraph_nodes"]) == ("prompt", ["source"])
    assert {"evolve", "iterations", "seed", "model", "calls", "tokens", "workflow", "prompt_aggregator"} <= set(fields)


async def test_a_team_runs_without_the_tools_that_the_server_lacks(home: Path) -> None:
    with open_library(home) as library:
        await library.save("hiva", sawing(), run="r", step=1)
    result = await (await served()).ainvoke(ASKED)
    assert result["answer"]
    assert Workflow.model_validate(result["workflow"]) == sawing()


@pytest.mark.parametrize("name", ["OWN_TOOLS", "TOOLBOX.tools"])
async def test_the_server_is_given_tools_by_name(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("SELFWIRE_TOOLS", f"{__name__}:{name}")
    result = await (await served()).ainvoke(ASKED)
    assert [agent["tools"] for agent in result["workflow"]["agents"]] == [[], ["saw"]]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SELFWIRE_TOOLS", "no.such.module:tools", "SELFWIRE_TOOLS='no.such.module:tools'.*package.module:name"),
        ("SELFWIRE_TOOLS", "json:loads", "name a list"),
        ("SELFWIRE_MODEL", "gpt", "unknown model 'gpt'"),
    ],
)
async def test_a_setting_that_cannot_be_used_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        await served()


def test_langgraph_json_names_the_factory() -> None:
    assert json.loads((ROOT / "langgraph.json").read_text())["graphs"] == {"hiva": "selfwire.graphs.hiva:graph"}


class Server(NamedTuple):
    client: SyncLangGraphClient
    home: Path
    log: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    with dev_server(folder / "cwd", folder / "home") as address, get_sync_client(url=address) as client:
        yield Server(client, folder / "home", folder / "cwd" / "server.log")


def nodes(client: SyncLangGraphClient) -> set[str]:
    found = client.assistants.get_graph("hiva", xray=True)["nodes"]
    return team(str(node["id"]) for node in found)


def streamed(client: SyncLangGraphClient, **context: Any) -> dict[str, Any]:
    """Updates by node, those of the team's nodes among them, or the error; of one run on a new thread."""
    thread = client.threads.create()["thread_id"]
    found: dict[str, Any] = {}
    for part in client.runs.stream(
        thread, "hiva", input=ASKED, context=context, stream_mode="updates", stream_subgraphs=True
    ):
        if part.event.startswith("updates"):
            found |= part.data
        elif part.event == "error":
            found["error"] = part.data
    return found


@pytest.mark.slow
def test_langgraph_dev_draws_streams_and_takes_up_what_is_saved(server: Server) -> None:
    client, home, log = server
    assert nodes(client) == {"source", "aggregator"}
    first = streamed(client)
    assert {"begin", "forward", "source", "aggregator"} == set(first)
    assert first["forward"]["answer"]

    with open_library(home) as library:  # as `selfwire evolve` does in a process of its own
        run_sync(library.save("hiva", trio(), run="elsewhere", step=1))
    assert nodes(client) == {"source", "checker", "aggregator"}
    assert {"source", "checker", "aggregator"} <= set(streamed(client))
    [assistant] = client.assistants.search(metadata={"created_by": "system"})
    schemas = client.assistants.get_schemas(assistant["assistant_id"])
    assert schemas["context_schema"]["properties"]["prompt_checker"]["langgraph_type"] == "prompt"  # type: ignore[index]
    assert list(schemas["input_schema"]["properties"]) == ["question"]  # type: ignore[index]

    evolved = streamed(client, evolve=True, iterations=2)
    assert "update_beliefs" in evolved
    with open_library(home) as library:
        saved = run_sync(library.load("hiva"))
    assert saved == Workflow.model_validate(evolved["update_beliefs"]["workflow"])
    assert nodes(client) == set(saved.topology.agents)

    assert "iterations" in streamed(client, iterations=0)["error"]["message"]
    assert "BlockingError" not in log.read_text()


@pytest.mark.slow
def test_an_assistant_with_an_edited_prompt_runs_with_it(server: Server) -> None:
    client = server.client
    edited = client.assistants.create("hiva", context={"prompt_source": "You brainstorm."}, name="edited")
    thread = client.threads.create()["thread_id"]
    result: Any = client.runs.wait(thread, edited["assistant_id"], input=ASKED)
    assert result["trajectories"][0]["workflow"] != Workflow.model_validate(result["workflow"]).fingerprint
    assert "brainstorm" in result["trajectories"][0]["steps"][0]["skills"]

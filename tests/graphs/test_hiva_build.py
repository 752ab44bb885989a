"""What HiVA's graph can be built with: models, tools, seeds, a library."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from selfwire.core.chat import ToolSpec
from selfwire.core.errors import ConfigError, LibraryError
from selfwire.core.scope import Scope
from selfwire.core.team import Team
from selfwire.core.topology import TopologyLimits
from selfwire.core.usage import Budget
from selfwire.evolvers.hiva.config import HivaConfig
from selfwire.graphs import hiva
from selfwire.store.files import write_team
from selfwire.store.library import Library, open_library
from tests.graphs.scripted import ASKED, EVOLVE, SCRIPT, ScriptedChat, built, on, trio


@tool
def weigh(thing: str) -> str:
    """Weigh a thing."""
    return f"{thing} weighs 3 kg"


class Measure:
    def __init__(self, name: str = "measure") -> None:
        self.spec = ToolSpec(name=name, description="Measure a thing.", parameters={"type": "object"})

    async def run(self, arguments: Mapping[str, Any], *, scope: Scope) -> str:
        return "2 m"


@pytest.fixture
def library() -> Library:
    return open_library(":memory:")


def first_workflow(graph: Any) -> Team:
    return Team.model_validate(graph.compile().invoke(ASKED)["workflow"])


@pytest.mark.parametrize(("name", "arguments", "result"), [
    ("weigh", {"thing": "a cat"}, "a cat weighs 3 kg"),
    ("measure", {}, "2 m"),
])  # fmt: skip
def test_agents_use_tools_of_either_kind(name: str, arguments: dict[str, Any], result: str) -> None:
    model = ScriptedChat(calls_tool=(name, arguments))
    graph = built(model, tools=[weigh, Measure()]).compile()
    done = graph.invoke(ASKED)
    assert model.heard == [result]
    assert done["trajectories"][0]["steps"][0]["tools"][0]["name"] == name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": [weigh, weigh]}, "two tools are called 'weigh'"),
        ({"tools": [len]}, "is no tool"),
        ({"tools": [Measure("a tool")]}, "rename"),
        ({"model": "gpt"}, "unknown model 'gpt'"),
        ({"name": "my team"}, "name 'my team'"),
        ({"initial": "best"}, "seed 'best' cannot be looked up"),
        ({"initial": trio().replace(method="hera")}, "belongs to 'hera'"),
        ({"initial": trio().replace(agents=[a.replace(tools=["saw"]) for a in trio().agents])}, "holds saw.*pass the"),
        ({"model": ScriptedChat(), "budget": Budget(dollars=1)}, "price"),
    ],
)
def test_what_cannot_be_used_is_refused_while_building(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        hiva.build(**options)


def test_a_seed_team_obeys_the_switches_and_caps_of_the_config() -> None:
    holding = trio().replace(agents=[agent.replace(tools=["weigh"]) for agent in trio().agents])
    options: dict[str, Any] = {"initial": holding, "tools": [weigh]}
    model = ScriptedChat(calls_tool=("weigh", {"thing": "a cat"}))
    given = first_workflow(built(model, config=HivaConfig(tools=False, nodes=4, successors=2), **options))
    assert {agent.tools for agent in given.agents} == {()}
    assert given.topology.caps == TopologyLimits(nodes=4, successors=2)
    assert model.heard == []
    with pytest.raises(ConfigError, match=r"3 nodes with up to 1 successors.*nodes=2 and successors=5"):
        built(model, config=HivaConfig(nodes=2), **options)


async def test_a_seed_is_a_workflow_a_file_or_a_reference_in_the_library(library: Library, tmp_path: Path) -> None:
    await library.save("three", trio(), run="r", step=1)
    path = tmp_path / "trio.json"
    write_team(trio(), path)
    for seed in (trio(), path, str(path), "three", "three@r.1", trio().fingerprint):
        assert first_workflow(built(ScriptedChat(), initial=seed, library=library)) == trio()
    with pytest.raises(LibraryError, match="there is no team 'four'"):
        built(ScriptedChat(), initial="four", library=library)


async def test_without_a_seed_it_starts_from_the_head_of_its_name(library: Library) -> None:
    await library.save("three", trio(), run="r", step=1)
    assert first_workflow(built(ScriptedChat(), name="three", library=library)) == trio()
    assert len(first_workflow(built(ScriptedChat(), library=library)).agents) == 2


async def test_a_run_may_choose_a_saved_workflow(library: Library) -> None:
    await library.save("three", trio(), run="r", step=1)
    graph = built(ScriptedChat(), library=library).compile()
    result = await graph.ainvoke(ASKED, context={"workflow": "three@r.1"})
    assert Team.model_validate(result["workflow"]) == trio()
    with pytest.raises(LibraryError, match="there is no team 'four'"):
        await graph.ainvoke(ASKED, context={"workflow": "four"})


async def test_what_a_run_evolves_is_saved_under_its_thread(library: Library) -> None:
    graph = built(ScriptedChat(), name="riddles", library=library).compile(checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, on("mine"))
    assert await library.names() == ()
    results = [await graph.ainvoke(ASKED, on("mine"), context=EVOLVE) for _ in range(2)]
    versions = (await library.history("riddles")).versions
    assert [version.run for version in versions] == ["mine", "mine"]
    assert versions[0].step < versions[1].step
    saved = [await library.load(version.ref) for version in versions]
    assert saved == [Team.model_validate(result["workflow"]) for result in results]
    assert versions[1].lineage.parent == versions[0].fingerprint
    assert versions[0].facts["embedder"] == "hashing-384"


async def test_a_fork_of_a_thread_is_saved_beside_it(library: Library) -> None:
    model = ScriptedChat()
    graph = built(model, library=library).compile(checkpointer=InMemorySaver())
    await graph.ainvoke(ASKED, on("1"), context=EVOLVE)
    loss = next(past for past in graph.get_state_history(on("1")) if past.next == ("loss",))
    model.script = {**SCRIPT, "PromptRewrite": {"prompt": "You work fast."}}
    await graph.ainvoke(None, loss.config, context=EVOLVE)
    versions = (await library.history("hiva")).versions
    assert len({version.fingerprint for version in versions}) == len(versions) == 2


async def test_a_thread_of_any_name_and_a_run_without_thread_are_saved(library: Library) -> None:
    graph = built(ScriptedChat(), library=library)
    await graph.compile(checkpointer=InMemorySaver()).ainvoke(ASKED, on("user: 1/2"), context=EVOLVE)
    await graph.compile().ainvoke(ASKED, context=EVOLVE)
    await graph.compile().ainvoke(ASKED, context=EVOLVE)
    assert len((await library.history("hiva")).versions) == 3

"""A real `langgraph dev` with every method: drawings, schemas, streams, and what another process saves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from selfwire.core.team import Team
from selfwire.evolvers.hera.initial_team import CHAIN
from selfwire.models.sync import run_sync
from selfwire.store.library import open_library
from tests.graphs.dev_server import dev_server
from tests.graphs.scripted import trio
from tests.graphs.test_evomas_served import trained
from tests.graphs.test_serving import ASKED, REWIRING, SEEDS, renamed, sawing, team


class Server(NamedTuple):
    client: SyncLangGraphClient
    home: Path
    log: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    with dev_server(folder / "cwd", folder / "home") as address, get_sync_client(url=address) as client:
        yield Server(client, folder / "home", folder / "cwd" / "server.log")


def nodes(client: SyncLangGraphClient, assistant: str = "hiva") -> set[str]:
    found = client.assistants.get_graph(assistant, xray=True)["nodes"]
    return {name for name in team(str(node["id"]) for node in found) if "@" not in name}  # without relays


def streamed(client: SyncLangGraphClient, assistant: str = "hiva", **context: Any) -> dict[str, Any]:
    """Updates by node, those of the team's nodes among them, or the error; of one run on a new thread."""
    thread = client.threads.create()["thread_id"]
    found: dict[str, Any] = {}
    for part in client.runs.stream(
        thread, assistant, input=ASKED, context=context, stream_mode="updates", stream_subgraphs=True
    ):
        if part.event.startswith("updates"):
            found |= part.data
        elif part.event == "error":
            found["error"] = part.data
    return found


def prompts(client: SyncLangGraphClient, method: str) -> dict[str, Any]:
    [assistant] = client.assistants.search(graph_id=method, metadata={"created_by": "system"})
    schemas: Any = client.assistants.get_schemas(assistant["assistant_id"])
    assert list(schemas["input_schema"]["properties"]) == ["question", "messages"]
    found: dict[str, Any] = schemas["context_schema"]["properties"]
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
    assert prompts(client, "hiva")["prompt_checker"]["langgraph_type"] == "prompt"

    evolved = streamed(client, evolve=True, iterations=2)["repair"]
    with open_library(home) as library:
        assert run_sync(library.load("hiva")) == trio(), "Studio moves no head that something else has saved"
        saved = run_sync(library.load(evolved["saved"]))
    assert saved == Team.model_validate(evolved["workflow"])
    newest = client.assistants.create("hiva", context={"workflow": "hiva@studio"}, name="newest")
    assert nodes(client, newest["assistant_id"]) == set(saved.topology.agents)
    assert nodes(client) == {"source", "checker", "aggregator"}

    assert "iterations" in streamed(client, iterations=0)["error"]["message"]
    assert "BlockingError" not in log.read_text()


@pytest.mark.slow
def test_an_assistant_with_an_edited_prompt_runs_with_it(server: Server) -> None:
    client = server.client
    edited = client.assistants.create("hiva", context={"prompt_source": "You brainstorm."}, name="edited")
    thread = client.threads.create()["thread_id"]
    result: Any = client.runs.wait(thread, edited["assistant_id"], input=ASKED)
    assert result["trajectories"][0]["workflow"] != Team.model_validate(result["workflow"]).fingerprint
    assert "brainstorm" in result["trajectories"][0]["steps"][0]["skills"]


@pytest.mark.slow
@pytest.mark.parametrize("method", REWIRING)
def test_teams_that_rewire_while_they_work_are_drawn_streamed_and_taken_up(server: Server, method: str) -> None:
    client, home, log = server
    seed, (old, _) = SEEDS[method], REWIRING[method]
    members = set(seed.topology.agents)
    assert nodes(client, method) == members
    assert prompts(client, method)[f"prompt_{old}"]["langgraph_nodes"] == [old]
    parts = streamed(client, method, rounds=2)
    assert members <= set(parts)  # inner steps
    assert any(update.get("answer") for name, update in parts.items() if name not in members and update)

    with open_library(home) as library:
        run_sync(library.save(method, renamed(seed, old, "librarian"), run="elsewhere", step=1))
    assert nodes(client, method) == {*members - {old}, "librarian"}
    assert "librarian" in streamed(client, method, rounds=1)
    assert "rounds" in streamed(client, method, rounds=0)["error"]["message"]
    assert "BlockingError" not in log.read_text()


@pytest.mark.slow
def test_hera_is_drawn_with_its_default_chain_and_streams_the_team_that_it_planned(server: Server) -> None:
    client = server.client
    assert nodes(client, "hera") == {*CHAIN} - {"retriever"}, "its server has no tool that searches"
    assert prompts(client, "hera")["prompt_calculator"]["langgraph_nodes"] == ["rollout"]
    parts = streamed(client, "hera")
    assert {"begin", "characterize", "retrieve_insights", "sample_topologies", "rollout"} <= set(parts)
    assert {"answer_generator", "conclude_agent"} & set(parts)  # inner steps
    assert parts["rollout"]["answer"]
    assert "nothing says what its answers are worth" in streamed(client, "hera", evolve=True)["error"]["message"]


@pytest.mark.slow
def test_evomas_is_drawn_and_streams_with_its_trained_weights(server: Server) -> None:
    client, home, log = server
    saved = run_sync(trained())
    with open_library(home) as library:
        run_sync(library.save("evomas", saved, run="elsewhere", step=1))
    found: Any = client.assistants.get_graph("evomas", xray=True)["nodes"]
    assert {"adapt", "layers:L1-io", "layers:outcome"} <= {str(node["id"]) for node in found}
    told = streamed(client, "evomas", stages=1)
    assert {"begin", "plan", "adapt", "task_state", "outcome", "evaluate", "update_state", "conclude"} <= set(told)
    assert told["conclude"]["answer"]
    assert told["begin"]["router"] == saved.fingerprint
    assert told["adapt"]["stage"]["layered"]["probabilities"][0]["multi_generate"] > 0.75
    assert "Blocking call" not in log.read_text()


@pytest.mark.slow
def test_an_assistant_for_a_domain_is_drawn_with_its_team(server: Server) -> None:
    client = server.client
    maths = client.assistants.create("dytopo", context={"domain": "math", "rounds": 1}, name="maths")
    assert nodes(client, maths["assistant_id"]) == {"ProblemParser", "Solver", "Verifier"}
    assert {"ProblemParser", "Solver", "Verifier"} <= set(streamed(client, maths["assistant_id"]))


def ask(client: SyncLangGraphClient, thread: str, given: Any, **options: Any) -> Any:
    """A run's final state, or its error; by default of hiva."""
    assistant = options.pop("assistant", "hiva")
    return client.runs.wait(thread, assistant, input=given, raise_error=False, **options)


@pytest.mark.slow
def test_a_run_that_cannot_be_as_asked_is_refused(server: Server) -> None:
    client, home, _ = server
    thread = client.threads.create()["thread_id"]
    unknown = ask(client, thread, ASKED, context={"iteration": 2})
    assert "context: there is no iteration; choices are seed, " in unknown["__error__"]["message"]
    nobody = ask(client, thread, ASKED, interrupt_before=["nobody"])
    assert "there is no node 'nobody' to interrupt at" in nobody["__error__"]["message"]
    with open_library(home) as library:
        run_sync(library.save("sawing", sawing(), run="r", step=1, facts={"tools": "benchmark:archive"}))
    lacking = client.assistants.create("hiva", context={"workflow": "sawing"}, name="lacking")["assistant_id"]
    assert nodes(client, lacking) == {"source", "checker", "aggregator"}
    refused = ask(client, thread, ASKED, assistant=lacking)
    assert refused["__error__"]["message"].endswith("start it with SELFWIRE_TOOLS=benchmark:archive")


@pytest.mark.slow
def test_a_chat_client_is_answered_and_an_agent_inside_the_team_can_be_waited_for(server: Server) -> None:
    client = server.client
    for assistant in client.assistants.search(metadata={"created_by": "system"}):
        inside = 0 if assistant["graph_id"] == "evolve" else 1  # that one asks a person, and runs no team
        assert len(client.assistants.get_subgraphs(assistant["assistant_id"])) == inside
    thread = client.threads.create()["thread_id"]
    said = {"messages": [{"role": "user", "content": "What am I?"}]}
    assert not ask(client, thread, said, interrupt_before=["aggregator"]).get("answer")
    state: Any = client.threads.get_state(thread, subgraphs=True)
    assert state["next"] == ["forward"]
    assert state["tasks"][0]["state"]["next"] == ["aggregator"]
    result = ask(client, thread, None)
    assert [one["type"] for one in result["messages"]] == ["human", "ai"]
    assert result["messages"][1]["content"] == result["answer"] == ask(client, thread, ASKED)["answer"]

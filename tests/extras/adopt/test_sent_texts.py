"""Programs run as they are, under a layer and patched: what they send to a local server is the same, but for edits."""

import asyncio
import contextvars
import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from selfwire.extras.adopt.layer import list_texts
from selfwire.extras.adopt.patch import make_patch
from selfwire.graphs.own_graph import empty_cache, load_graph
from selfwire.models.text_layer import LayerText, TextLayer
from tests.extras.adopt.corpus import GRAPHS, find_folder
from tests.wire.server import Body, WireServer

INPUTS: dict[str, Any] = {
    "ancestry": {"biography": ""},
    "applicants": {"text": "I bake at night."},
    "archive": {"letter": "Deare Sir"},
    "bakery": {"messages": [HumanMessage("Rye?")]},
    "bakery_orders": {"messages": [HumanMessage("Two rolls.")]},
    "bank": {"messages": [HumanMessage("My balance?")] * 7, "tier": "gold", "summary": "They asked before."},
    "bank_swarm": {"messages": [HumanMessage("I lost my card.")]},
    "bees": "Why do they hum?",
    "bicycles": {"text": "It squeaks.", "kind": "bike"},
    "billing_desk": {"messages": [HumanMessage("Why is it so much?")]},
    "bound_tools": {"messages": [HumanMessage("What is 2 + 2?")]},
    "brewery": {"style": "stout", "strong": True},
    "call_centre": {"said": "Where is my spade?"},
    "callable_nodes": {"genre": "a fable", "story": "", "critique": ""},
    "cartography": {"region": "the fens"},
    "church_clock": {"trouble": "It is late.", "plan": "", "parts": "", "report": ""},
    "clause_review": {"clause": "The tenant pays."},
    "clinic_desk": {"messages": [HumanMessage("I cough.")], "lang": "nl"},
    "clinic_intake": {"complaint": "I cough.", "age": 41.2, "urgency": "high"},
    "complaints": {"messages": [HumanMessage("My lamp is broken.")]},
    "cooking_contest": {"case": "A tart.", "style": "poem"},
    "court_brief": {"facts": "A lease."},
    "debate": {"motion": "Cats are better."},
    "dentist": {"complaint": "It aches."},
    "digest": {"question": "What is new?"},
    "exam": "What is 2 + 2?",
    "ferry_bot": {"messages": [HumanMessage("How many bags?")]},
    "gallery": {"question": "Who painted it?", "place": "the hall"},
    "garden": {"messages": [HumanMessage("The north bed is dry.")]},
    "greenhouse": {"messages": [HumanMessage("Will it grow?")], "season": "May"},
    "incident": {"messages": [HumanMessage("The shop is down.")]},
    "labels": {"object": "vase"},
    "law_desk": {"client": "Ann", "story": "My boss dismissed me."},
    "lease_briefs": {"contract": "The tenant pays."},
    "letters": {"subject": "fees", "people": [{"name": "Ann", "role": "chair"}, {"name": "Bo", "role": "guest"}]},
    "manuals": {"source": "Mutter anziehen."},
    "observatory": {"site": "hill", "targets": [{"name": "M31", "mag": 3}]},
    "patch_review": {"messages": [HumanMessage("Replace pickle.")], "author": "Bo"},
    "phone_orders": {"order": "Two rolls."},
    "planets": {"topic": "Mars"},
    "press": {"facts": "It rained."},
    "pub_quiz": {"topic": "de Hauptstadt", "level": "hard"},
    "recipes": {"wish": "soup"},
    "reviewers": {"diff": "+ x = 1"},
    "school_office": {"mail": "Is there a trip?"},
    "statutes": {"question": "When does a lease end?"},
    "storyteller": {"theme": "frogs"},
    "studio": {"subject": "a lake"},
    "symptom_desk": {"messages": [HumanMessage("I have a fever.")]},
    "tax": {"question": "What do I owe?"},
    "timetable": {"classes": "1a", "teachers": "Bo"},
    "translation": {"text": "A red chair."},
    "travel_agent": {"messages": [HumanMessage("To Rome.")]},
    "vet_flow": {"complaint": "My hen limps."},
    "week_planner": {"messages": [HumanMessage("And on Friday?")]},
}
ADDED = " Truly so."


def fill_schema(schema: Body, defined: Body) -> Any:
    """The shortest JSON that a schema allows, with two items in a list."""
    if "$ref" in schema:
        return fill_schema(defined[schema["$ref"].rpartition("/")[2]], defined)
    if "anyOf" in schema:
        return fill_schema(schema["anyOf"][0], defined)
    if schema.get("type") == "object":
        return {name: fill_schema(part, defined) for name, part in schema["properties"].items()}
    if schema.get("type") == "array":
        return [fill_schema(schema["items"], defined)] * 2
    return schema.get("enum", ["7"])[0]


async def answer(body: Body) -> AIMessage:
    if "response_format" not in body:
        return AIMessage("7")
    schema = body["response_format"]["json_schema"]["schema"]
    return AIMessage(json.dumps(fill_schema(schema, schema.get("$defs", {}))))


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    for name in ("langchain.agents", "langchain_openai", "langgraph.prebuilt"):  # once, not in the first test
        importlib.import_module(name)
    with WireServer(answer) as server:
        yield server


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A copy of a program, in which its modules are imported."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    folder = tmp_path / request.param
    shutil.copytree(find_folder(request.param), folder)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    yield folder
    forget(folder)


def forget(folder: Path) -> None:
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
    importlib.invalidate_caches()


def edit(text: LayerText) -> str:
    return text.shown.replace(text.pieces[0], text.pieces[0] + ADDED, 1)


def show(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what authors still use
@pytest.mark.parametrize("folder", INPUTS, indirect=True)
def test_an_edit_changes_the_requests_that_carry_it_alone(
    folder: Path, server: WireServer, runner: asyncio.Runner
) -> None:
    name = GRAPHS[folder.name]

    def send(layer: TextLayer | None = None) -> list[str]:
        server.asked.clear()
        with layer.active() if layer else nullcontext():
            graph = empty_cache(load_graph(name))
            asked = graph.ainvoke(INPUTS[folder.name], {"configurable": {"thread_id": len(server.asked)}})
            runner.run(asked, context=contextvars.copy_context())
        return sorted(json.dumps(asked.body, sort_keys=True, ensure_ascii=False) for asked in server.asked)

    texts, plain = list_texts(name), send()
    assert send(TextLayer(texts)) == plain
    reached = [text for text in texts if any(all(show(piece) in sent for piece in text.pieces) for sent in plain)]
    for text in (reached[0], reached[-1]):
        sent = send(TextLayer(texts, {text.name: edit(text)}))
        assert sorted(body.replace(ADDED, "") for body in sent) == plain
        carried = [body for body in plain if all(show(piece) in body for piece in text.pieces)]
        assert len([body for body in sent if ADDED in body]) == len(carried)
    changed = {text.name: edit(text) for text in texts}
    by_layer = send(TextLayer(texts, changed))
    Path("new.patch").write_text(make_patch(name, changed, dict.fromkeys(changed, "because")), encoding="utf-8")
    subprocess.run(["git", "apply", "new.patch"], check=True, capture_output=True)
    forget(folder)
    assert send() == by_layer

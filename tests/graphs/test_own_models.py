"""Models of a graph of the user's own: a prompt asks another one, pruning chooses it, and the source takes it home."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END

import selfwire
from selfwire.cli.commands import WRONG
from selfwire.core.agent import Agent
from selfwire.core.edits import AddAgent, AddEdge, AddNode, Rewiring, SetModel
from selfwire.core.errors import ConfigError
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.extras.adopt.patch import make_context, make_patch
from selfwire.graphs.insertions import GraphEdits, Insertion
from selfwire.graphs.own_graph import OwnGraph
from selfwire.graphs.pruning import PruningRecord
from selfwire.models.sync import run_sync
from selfwire.store.library import open_library
from tests.commands import call
from tests.wire.server import Body, WireServer

PRICES = {"openai:strong-1": {"input": 2.0, "output": 8.0}, "openai:cheap-1": {"input": 0.1, "output": 0.4}}
CHEAP = {"cheap": "openai:cheap-1"}
QUESTION = "Which number is 7?"
SHOP = """
import os
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

model = ChatOpenAI(model="strong-1", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0, temperature=0.5)


class Sum(TypedDict):
    question: str
    notes: str
    answer: str


def solve(state: Sum) -> dict:
    return {"notes": model.invoke(f"You work out what is asked.\\n\\n{state['question']}").text}


def tell(state: Sum) -> dict:
    return {"answer": model.invoke(f"You repeat what was worked out.\\n\\n{state['notes']}").text}


builder = StateGraph(Sum)
builder.add_node(solve)
builder.add_node(tell)
builder.add_edge(START, "solve")
builder.add_edge("solve", "tell")
builder.add_edge("tell", END)
graph = builder.compile()
"""
AGENT = '''
import os

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="strong-1", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0, temperature=0.5)


@tool
def look_up(number: str) -> str:
    """Look a number up."""
    return number


graph = create_agent(model, [look_up], system_prompt="You look up the number that is asked.", name="clerk")
'''
RULED = '''from langchain_core.messages import SystemMessage


class Ruled(ChatOpenAI):
    """Begins each request with a rule."""

    def generate(self, messages, *args, **given):
        return super().generate([[SystemMessage("Rule."), *sent] for sent in messages], *args, **given)

    def stream(self, input, config=None, **given):
        sent = self._convert_input(input).to_messages()
        yield from super().stream([("system", "Rule."), *sent], config, **given)


def ask(text):
    return "".join(chunk.text for chunk in model.stream(text)) if "WAY" == "stream" else model.invoke(text).text


'''
TELLER = 'teller = ChatOpenAI(model="strong-1", base_url=os.environ["MY_MODEL"], api_key="k")'
TOLD = SHOP.replace('model.invoke(f"You rep', 'teller.invoke(f"You rep')
TWO = TOLD.replace("\n\nclass Sum", f"{TELLER}\n\n\nclass Sum")
MORE = """import os
from dataclasses import dataclass
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langgraph.graph import END, START, StateGraph, MessagesState
from langgraph.runtime import Runtime


@dataclass
class Settings:
    model: str = "openai:strong-1"
    tone: str = "plain"


helper = create_agent("openai:strong-1", [], system_prompt="You help people with all their sums.", name="helper")


def make_model():
    return init_chat_model('strong-1', model_provider="openai")

bound = make_model().bind(stop=["x"])

def first(state: MessagesState, runtime: Runtime[Settings]) -> dict:
    model = init_chat_model(runtime.context.model)
    return {"messages": [model.invoke([("system", "You are the first to work on this."), *state["messages"]])]}


async def second(state: MessagesState) -> dict:
    return {"messages": [await bound.ainvoke([("system", "You are the second to work on this."), *state["messages"]])]}


def third(state: MessagesState) -> dict:
    return {"messages": helper.invoke({"messages": state["messages"]})["messages"][-1:]}


builder = StateGraph(MessagesState, context_schema=Settings)
builder.add_sequence([first, second, third])
builder.add_edge(START, "first")
graph = builder.compile()
"""


def answer(body: Body) -> AIMessage:
    """Only the strong model works a question out; all can repeat, and look up what they are asked."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return AIMessage(last["content"])
    number = re.findall(r"Which number is (\d+)", last["content"])
    if body.get("tools"):
        return AIMessage("", tool_calls=[{"name": "look_up", "args": {"number": number[0]}, "id": "1"}])
    if "You work out" in last["content"]:
        return AIMessage(number[0] if body["model"] == "strong-1" else "unknown")
    return AIMessage(last["content"].rpartition("\n")[2])


@pytest.fixture
def server(wire_server: WireServer) -> WireServer:
    async def say(body: Body) -> AIMessage:
        return answer(body)

    wire_server.answer = say
    return wire_server


@pytest.fixture
def home(server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of runs, with prices, inside that of the author of both programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_MODEL", server.url)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    Path("shop_app.py").write_text(SHOP, encoding="utf-8")
    Path("agent_app.py").write_text(AGENT, encoding="utf-8")
    (folder := tmp_path / "home").mkdir()
    (folder / "prices.json").write_text(json.dumps(PRICES))
    return folder


def give(target: str, **models: str) -> Team:
    """The team of a graph whose prompts ask some models."""
    team = OwnGraph(f"{target}.py:graph", {}).seed()
    return team.apply(Rewiring(*(SetModel(name, model) for name, model in models.items()), why="it suffices"))


def list_asked(server: WireServer) -> list[tuple[str, str]]:
    """The first words of each request's first message, and its model."""
    return [(asked.body["messages"][0]["content"][:8], asked.body["model"]) for asked in server.asked]


def test_a_prompt_asks_the_model_that_it_was_given_with_all_other_settings_of_the_program(
    home: Path, server: WireServer
) -> None:
    done = selfwire.run(give("shop_app", tell="cheap"), QUESTION, models=CHEAP, model="openai:critic", home=home)
    assert done.answer == "7"
    assert list_asked(server) == [("You work", "strong-1"), ("You repe", "cheap-1")]
    changed, plain = [*map(lambda asked: asked.body, server.asked)], len(server.asked)
    selfwire.run("shop_app.py:graph", QUESTION, home=home)
    own = [asked.body for asked in server.asked[plain:]]
    assert [{**body, "model": ""} for body in changed] == [{**body, "model": ""} for body in own]
    for step, price in zip(done.steps, PRICES.values(), strict=True):
        sent, received = step.usage.input_tokens, step.usage.output_tokens
        assert step.usage.dollars == pytest.approx((price["input"] * sent + price["output"] * received) / 1e6)


def test_an_agent_that_calls_tools_and_streams_asks_the_model_that_it_was_given(home: Path, server: WireServer) -> None:
    team = give("agent_app", clerk="cheap")
    done = selfwire.run(team, QUESTION, models=CHEAP, model="openai:critic", home=home)
    assert done.answer == "7"
    graph = team.graph(models=CHEAP)
    given = {"messages": [("user", QUESTION)]}
    assert graph.invoke(given)["messages"][-1].text == "7"
    parts = [part for part, _ in graph.stream(given, stream_mode="messages") if part.type != "tool"]
    assert "".join(part.text for part in parts) == "7"
    assert [asked.body["model"] for asked in server.asked] == ["cheap-1"] * 6
    assert [bool(asked.body.get("tools")) for asked in server.asked] == [True] * 6
    assert [asked.body.get("stream", False) for asked in server.asked] == [False] * 4 + [True] * 2


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_what_a_class_of_models_adds_to_a_call_is_added_once(way: str, home: Path, server: WireServer) -> None:
    ruled = SHOP.replace("model.invoke(", "ask(").replace('}").text', '}")')
    ruled = ruled.replace("model = ChatOpenAI(", RULED.replace("WAY", way) + "model = Ruled(")
    Path("shop_app.py").write_text(ruled, encoding="utf-8")
    done = selfwire.run(give("shop_app", tell="cheap"), QUESTION, models=CHEAP, model="openai:critic", home=home)
    assert done.answer == "7"
    assert list_asked(server) == [("Rule.", "strong-1"), ("Rule.", "cheap-1")]
    assert [len(asked.body["messages"]) for asked in server.asked] == [2, 2]


@pytest.mark.parametrize(
    ("models", "named", "said"),
    [
        ({"clerk": "cheap"}, {}, "agent 'clerk' asks model 'cheap'"),
        ({"look-up": "cheap"}, CHEAP, "'look-up' has a model, which only prompts may have"),
    ],
)
def test_what_may_not_ask_another_model_is_refused_before_a_call(
    models: Mapping[str, str], named: Mapping[str, str], said: str, home: Path, server: WireServer
) -> None:
    team = give("agent_app", **models)
    with pytest.raises(ConfigError, match=said):
        selfwire.run(team, QUESTION, models=named, model="openai:critic", home=home)
    with pytest.raises(ConfigError, match=said):
        team.graph(models=named)
    assert not server.asked


def prune(home: Path, graph: str = "shop_app.py:graph", **more: Any) -> Any:
    """Prune a graph, with the cheap model as that of the run."""
    tasks = [Task(id=f"t{n}", input=f"Which number is {n}?", reference=str(n)) for n in range(52)]
    options = {"models": CHEAP, "model": "openai:cheap-1", "margin": 0.3, "iterations": 3, "batch": 8, **more}
    return selfwire.prune(
        graph, tasks[:8], valset=tasks[8:48], testset=tasks[48:], name="thin", run_name="thinning", home=home, **options
    )


def test_pruning_gives_the_cheap_model_to_the_prompt_for_which_it_suffices(home: Path, server: WireServer) -> None:
    found = prune(home)
    prunings = [asked.body for asked in server.asked if asked.body["messages"][0]["content"].startswith("You work")]
    assert {body["model"] for body in prunings[-8:]} == {"strong-1"}
    assert {agent.id: agent.model for agent in found.team.agents} == {"solve": "", "tell": "cheap", "graph": ""}
    assert "tell: the program's model -> cheap, $" in found.pruning
    assert found.after is not None
    assert found.after.score == 1.0
    assert found.after.spend.dollars < 0.7 * found.before.spend.dollars
    shown = call(home, "show", "thin").output
    assert "tell  (worker)  model: cheap" in shown
    assert "1 SET_MODEL" in call(home, "history", "thin").output
    assert "model of tell: the program's model -> cheap" in call(home, "diff", found.versions[0].ref, "thin").output
    assert "solve asks the program's model, not cheap" in call(home, "show", "thin", "--worth").output


def test_pruning_needs_no_price_of_a_model_that_the_program_does_not_ask(home: Path, server: WireServer) -> None:
    found = prune(home, model="openai:critic")
    assert {agent.id: agent.model for agent in found.team.agents} == {"solve": "", "tell": "cheap", "graph": ""}
    assert not any("no agent is given a cheaper model" in said for said in (*found.notices, found.pruning))


def test_pruning_says_that_the_price_of_what_the_program_asks_is_not_known(home: Path, server: WireServer) -> None:
    (home / "prices.json").write_text(json.dumps({"openai:cheap-1": PRICES["openai:cheap-1"]}))
    found = prune(home, model="openai:critic")
    assert not any(agent.model for agent in found.team.agents)
    said = (
        "no agent is given a cheaper model, as dollars cannot be compared: the price of strong-1 is not known; give it"
    )
    assert said in found.pruning


@pytest.mark.parametrize("freeze", [("models",), ("agent:tell",)])
def test_frozen_models_stay(freeze: tuple[str, ...], home: Path, server: WireServer) -> None:
    found = prune(home, freeze=freeze)
    assert not any(agent.model for agent in found.team.agents)


def test_pruning_leaves_models_of_another_provider_than_that_of_the_program(home: Path, server: WireServer) -> None:
    (home / "prices.json").write_text(json.dumps({**PRICES, "offline": {"input": 0.0, "output": 0.0}}))
    found = prune(home, models={"cheap": "offline"})
    assert not any(agent.model for agent in found.team.agents)
    assert not [part for part in PruningRecord.of(found.team).parts if part.kind == "model"]


def test_a_model_of_another_provider_is_refused_by_name(home: Path, server: WireServer) -> None:
    done = selfwire.run(give("shop_app", tell="cheap"), QUESTION, models={"cheap": "offline"}, home=home)
    assert "the program asks openai:strong-1, and a copy of its ChatOpenAI cannot ask offline" in (done.error or "")
    assert [asked.body["model"] for asked in server.asked] == ["strong-1"]


def apply_patch(home: Path, app: str, name: str) -> str:
    """Apply the exported patch of a team to a program; the name of the mended one."""
    call(home, "export", name, "mine.patch", "--models", "cheap=openai:cheap-1", "--force")
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    mended = f"mended_{app}"  # a name that this process has not imported
    Path(f"{mended}.py").write_text(Path(f"{app}.py").read_text(encoding="utf-8"), encoding="utf-8")
    return mended


def save(home: Path, team: Team) -> None:
    with open_library(home) as library:
        run_sync(library.save("mine", team, run="r", step=0))


@pytest.mark.parametrize(("app", "prompt"), [("agent_app", "clerk"), ("two_app", "tell"), ("shop_app", "tell")])
def test_a_patched_program_sends_the_requests_that_were_measured(
    app: str, prompt: str, home: Path, server: WireServer
) -> None:
    Path("two_app.py").write_text(TWO, encoding="utf-8")
    team = give(app, **{prompt: "cheap"})
    selfwire.run(team, QUESTION, models=CHEAP, model="openai:critic", home=home)
    measured = [asked.body for asked in server.asked]
    save(home, team)
    mended = apply_patch(home, app, "mine")
    assert f"model of {prompt}: " in Path("mine.patch").read_text(encoding="utf-8").splitlines()[0]
    selfwire.run(f"{mended}.py:graph", QUESTION, home=home)
    assert [asked.body for asked in server.asked[len(measured) :]] == measured
    assert "cheap-1" in {body["model"] for body in measured}


def test_a_model_that_two_prompts_ask_is_written_where_both_ask_the_other_one(home: Path, server: WireServer) -> None:
    save(home, give("shop_app", tell="cheap", solve="cheap"))
    unnamed = call(home, "export", "mine", "mine.patch", code=WRONG).stderr
    assert "--models cheap=PROVIDER:MODEL" in " ".join(unnamed.split())
    mended = apply_patch(home, "shop_app", "mine")
    assert Path(f"{mended}.py").read_text(encoding="utf-8") == SHOP.replace("strong-1", "cheap-1")


def test_a_copy_of_a_model_is_made_for_a_prompt_where_the_program_asks_it_elsewhere(home: Path) -> None:
    Path("two_app.py").write_text(TWO.replace("builder = ", "print(teller.invoke('Hi'))\nbuilder = ", 1))
    patch = make_patch("two_app.py:graph", {}, {}, models={"tell": "openai:cheap-1"})
    assert f"\n+tell_{TELLER.replace('strong-1', 'cheap-1')}\n" in patch
    assert '+    return {"answer": tell_teller.invoke(' in patch
    assert "-teller" not in patch


def test_a_model_that_two_prompts_ask_by_one_function_is_refused_with_what_to_write(home: Path) -> None:
    asking = "def ask(text: str) -> str:\n    return model.invoke(text).text\n\n\ndef solve"
    program = re.sub(r"model\.invoke\((f.*)\)\.text", r"ask(\1)", SHOP).replace("def solve", asking, 1)
    Path("shop_app.py").write_text(program, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        make_patch("shop_app.py:graph", {}, {}, models={"tell": "openai:cheap-1"})
    assert "shop_app.py:8 makes the model that 'tell' asks, and prompt 'solve' asks it too" in str(refused.value)
    assert "one of its own: ChatOpenAI(model='cheap-1', base_url=os.environ['MY_MODEL']" in str(refused.value)


@pytest.mark.parametrize("made", ["ChatOpenAI(model=name, api_key='k')", "init_chat_model(name)", "ChatOpenAI(**SET)"])
def test_what_to_write_names_the_other_model_where_the_program_has_no_literal(made: str, home: Path) -> None:
    program = SHOP.replace("model = ChatOpenAI(", "other = ChatOpenAI(").replace("model.invoke(", "get().invoke(")
    maker = f"SET = {{}}\n\n\ndef get(name='strong-1'):\n    return {made}\n\n\nclass Sum"
    program = program.replace("class Sum", maker).replace("import os", "import os\nfrom langchain.chat_models import *")
    Path("shop_app.py").write_text(program, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        make_patch("shop_app.py:graph", {}, {}, models={"tell": "openai:cheap-1"})
    assert "prompt 'solve' asks it too; give 'tell' one of its own: " in str(refused.value)
    written = str(refused.value).rpartition("one of its own: ")[2]
    assert "cheap-1" in written
    assert "**SET" not in written or "ChatOpenAI(**{**SET, 'model': 'cheap-1'})" in written


@pytest.mark.parametrize(("app", "written"), [("two_app", 1), ("shop_app", 0)])
def test_an_agent_behind_a_prompt_asks_its_model_or_the_patch_is_refused(
    app: str, written: int, home: Path, server: WireServer
) -> None:
    Path("two_app.py").write_text(TWO, encoding="utf-8")
    inserted = Insertion(agent="checker", after="tell", before=(END,), field="answer", question="question")
    checker = Agent(id="checker", role="checker", prompt="You check what is told.")
    edits = (AddAgent(checker), AddNode("checker", "checker"), AddEdge("tell", "checker"), AddEdge("checker", "graph"))
    team = give(app, tell="cheap").apply(Rewiring(*edits, why="it checks"))
    team = team.with_memory(inserted=[inserted.model_dump(mode="json")])
    selfwire.run(team, QUESTION, models=CHEAP, model="openai:critic", home=home)
    assert [asked.body["model"] for asked in server.asked] == ["strong-1", "cheap-1", "cheap-1"]
    edges = GraphEdits(inserted=((inserted, checker.prompt),))
    if written:
        patch = make_patch(f"{app}.py:graph", {}, {}, edges, {"tell": "openai:cheap-1"})
        assert [line for line in patch.splitlines() if "teller" in line][-1].startswith("+    reply = teller.invoke(")
        assert f"+{TELLER.replace('strong-1', 'cheap-1')}" in patch
    else:
        with pytest.raises(ConfigError, match="give 'tell' one of its own: ChatOpenAI"):
            make_patch(f"{app}.py:graph", {}, {}, edges, {"tell": "openai:cheap-1"})


@pytest.mark.parametrize(
    ("prompt", "line", "before", "after"),
    [
        ("first", 11, 'model: str = "openai:strong-1"', 'model: str = "openai:cheap-1"'),
        ("second", 19, "init_chat_model('strong-1', model", "init_chat_model('cheap-1', model"),
        ("third", 15, 'create_agent("openai:strong-1"', 'create_agent("openai:cheap-1"'),
    ],
)
def test_the_name_of_a_model_is_written_in_the_form_that_stands_there(
    prompt: str, line: int, before: str, after: str, home: Path
) -> None:
    Path("more_app.py").write_text(MORE, encoding="utf-8")
    models = {prompt: "openai:cheap-1"}
    patch = make_patch("more_app.py:graph", {}, {f"model of {prompt}": "it suffices"}, models=models)
    assert patch.splitlines()[0] == f"more_app.py:{line} model of {prompt}: it suffices"
    changed = [part[1:].strip() for part in patch.splitlines() if re.match(r"[+-](?![+-])", part)]
    assert [part for part in changed if before in part or after in part] == changed
    assert len(changed) == 2
    if prompt == "first":
        assert make_context("more_app.py:graph", {}, models) == {"model": "openai:cheap-1"}
    else:
        with pytest.raises(ConfigError, match="is the default of no field of the graph's context"):
            make_context("more_app.py:graph", {}, models)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("teller.invoke(f", "(teller if state else model).invoke(f"), "does not show by one literal"),
        (('model="strong-1"', 'model=os.environ["NAME"]'), "its name is no literal; write 'cheap-1'"),
    ],
)
def test_what_no_literal_shows_is_refused_with_its_line(change: tuple[str, str], said: str, home: Path) -> None:
    program = TWO.rpartition("teller = ")
    Path("two_app.py").write_text("".join([*program[:2], program[2].replace(*change, 1)]), encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        make_patch("two_app.py:graph", {}, {}, models={"tell": "openai:cheap-1"})


def test_a_branch_has_a_commit_for_a_model(home: Path, server: WireServer) -> None:
    Path("two_app.py").write_text(TWO, encoding="utf-8")
    found = prune(home, "two_app.py:graph")
    for words in (("init", "-q"), ("add", "two_app.py"), ("commit", "-qm", "begin")):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True)
    done = call(home, "export", found.name, "models", "--as", "pr")
    assert (
        "Have tell ask openai:cheap-1"
        in subprocess.run(
            ["git", "log", "-1", "--format=%B", "models"], check=True, capture_output=True, text=True
        ).stdout
    )
    assert "a cheaper model does no worse" in done.output


@pytest.mark.parametrize(
    ("tell", "subjects"),
    [
        ("cheap", ["Have solve and tell ask openai:cheap-1"]),
        ("other", ["Have solve ask openai:cheap-1", "Have tell ask openai:other-1"]),
    ],
)
def test_prompts_that_get_a_model_at_once_share_a_commit(tell: str, subjects: list[str], home: Path) -> None:
    for words in (("init", "-q"), ("add", "shop_app.py"), ("commit", "-qm", "begin")):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], check=True)
    save(home, give("shop_app", solve="cheap", tell=tell))
    call(home, "export", "mine", "models", "--as", "pr", "--models", "cheap=openai:cheap-1,other=openai:other-1")
    shown = ["git", "log", "--reverse", "--format=%n%s", "--shortstat", "HEAD..models"]
    lines = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.splitlines()
    assert [line for line in lines if line.startswith("Have")] == subjects
    assert sum(line.startswith(" 1 file changed") for line in lines) == len(subjects)  # none is empty

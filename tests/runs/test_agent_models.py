"""A model per agent, over HTTP: who asks which model, what each costs, and what a run refuses before a call."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI

import selfwire
from selfwire.cli.commands import STOPPED, WRONG
from selfwire.core.agent import Agent
from selfwire.core.edits import Rewiring, SetModel
from selfwire.core.errors import ConfigError
from selfwire.core.plugins import import_user_file
from selfwire.core.task import Task
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.models.providers import make_chat_model, parse_models
from selfwire.models.sync import run_sync
from selfwire.runs.spec import Models
from selfwire.store.library import open_library
from tests.commands import call
from tests.wire.server import Body, WireServer

PRICES = {"openai:strong-1": {"input": 2.0, "output": 8.0}, "openai:cheap-1": {"input": 0.1, "output": 0.4}}
QUESTION = "Which number is 7?"
SOLVE, TELL = "Work it out.", "Say what was worked out."
NAMED = "cheap=openai:cheap-1,strong=openai:strong-1"


def make_team(**models: str) -> Team:
    """An agent that works a question out, and one that says what was worked out."""
    agents = (
        Agent(id="solve", prompt=SOLVE, model=models.get("solve", "")),
        Agent(id="tell", prompt=TELL, kind="aggregator", model=models.get("tell", "")),
    )
    return Team(method="hiva", agents=agents, topology=make_chain("solve", "tell"))


def needs_strong(body: Body) -> str:
    """Only the strong model works a question out; both can repeat what was said."""
    text = body["messages"][-1]["content"]
    if said := re.search(r"From solve:\n(\w+)", text):
        return said[1]
    return re.findall(r"Which number is (\d+)", text)[0] if body["model"] == "strong-1" else "unknown"


@pytest.fixture
def server(wire_server: WireServer) -> WireServer:
    async def answer(body: Body) -> AIMessage:
        return AIMessage(needs_strong(body))

    wire_server.answer = answer
    return wire_server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "prices.json").write_text(json.dumps(PRICES))
    return tmp_path


def list_asked(server: WireServer) -> list[tuple[str, str]]:
    """The agent and the model of each request, by the agent's prompt."""
    agents = {SOLVE: "solve", TELL: "tell"}
    found = []
    for asked in server.asked:
        text = asked.body["messages"][-1]["content"]
        found += [(name, asked.body["model"]) for prompt, name in agents.items() if f"\n\n{prompt}" in text]
    return found


def serve(server: WireServer, name: str) -> BaseChatModel:
    return make_chat_model(f"openai:{name}", base_url=server.url)


def save(home: Path, team: Team) -> None:
    with open_library(home) as library:
        run_sync(library.save("mine", team, run="r", step=0))


def write_tasks(home: Path, count: int) -> None:
    tasks = [{"input": f"Which number is {number}?", "reference": str(number)} for number in range(count)]
    (home / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in tasks))


def test_each_agent_sends_the_name_of_its_own_model_and_is_paid_at_its_price(home: Path, server: WireServer) -> None:
    models = {"cheap": serve(server, "cheap-1")}
    options: dict[str, Any] = {"model": serve(server, "strong-1"), "home": home}
    done = selfwire.run(make_team(tell="cheap"), QUESTION, models=models, **options)
    assert done.answer == "7"
    assert list_asked(server) == [("solve", "strong-1"), ("tell", "cheap-1")]
    for step, price in zip(done.steps, PRICES.values(), strict=True):
        sent, received = step.usage.input_tokens, step.usage.output_tokens
        assert step.usage.dollars == pytest.approx((price["input"] * sent + price["output"] * received) / 1e6)


@pytest.mark.parametrize(
    ("model", "named", "said"),
    [
        ("cheap", "", "agent 'tell' asks model 'cheap', and this run names no such model, but none"),
        ("cheap", "strong=openai:strong-1", "but strong (openai:strong-1); name it with --models cheap=PROVIDER:MODEL"),
        ("openai:dear-9", NAMED, "agent 'tell' asks model 'openai:dear-9'"),
    ],
)
def test_a_model_that_the_user_has_not_named_is_refused_before_a_call(
    model: str, named: str, said: str, home: Path, server: WireServer
) -> None:
    save(home, make_team(tell=model))
    write_tasks(home, 12)
    given = ("--model", "openai:strong-1", "--base-url", server.url, *(("--models", named) if named else ()))
    tasks = ("--benchmark", str(home / "tasks.jsonl"))
    commands = [
        ("run", "mine", QUESTION),
        ("eval", "mine", *tasks),
        ("evolve", "hiva", *tasks, "--team", "mine", "--iterations", "1", "--gate", "mean"),
    ]
    for command in commands if model == "openai:dear-9" else commands[:1]:
        assert said in " ".join(call(home, *command, *given, code=WRONG).stderr.split())
    assert not server.asked


def test_a_model_may_be_named_as_the_provider_calls_it_where_the_run_asks_it_anyway(
    home: Path, server: WireServer
) -> None:
    given = ("--model", "strong", "--models", NAMED, "--base-url", server.url)
    save(home, make_team(solve="openai:strong-1", tell="openai:cheap-1"))
    done = call(home, "run", "mine", QUESTION, *given)
    assert done.stdout.strip() == "7"
    assert re.search(
        r"\n    openai:strong-1 \(strong-1\): 1 call, .*\n    openai:cheap-1 \(cheap-1\): 1 call,", done.stderr
    )
    assert list_asked(server) == [("solve", "strong-1"), ("tell", "cheap-1")]


def test_a_graph_asks_the_models_that_its_context_names(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    graph = make_team(tell="cheap").graph("openai:strong-1")
    with pytest.raises(ConfigError, match="agent 'tell' asks model 'cheap'"):
        graph.invoke({"question": QUESTION})
    assert not server.asked
    context = {"models": "cheap=openai:cheap-1"}
    assert graph.invoke({"question": QUESTION}, context=context)["answer"] == "7"
    named = make_team(tell="cheap").graph("openai:strong-1", models={"cheap": "openai:cheap-1"})
    assert named.invoke({"question": QUESTION})["answer"] == "7"
    assert list_asked(server) == [("solve", "strong-1"), ("tell", "cheap-1")] * 2


def test_a_budget_counts_dollars_at_the_price_of_each_model_and_a_resumed_run_asks_the_same_models(
    home: Path, server: WireServer
) -> None:
    save(home, make_team(tell="cheap"))
    write_tasks(home, 6)
    given = ("--model", "openai:strong-1", "--models", "cheap=openai:cheap-1", "--base-url", server.url)
    asked = ("eval", "mine", "--benchmark", str(home / "tasks.jsonl"), "--concurrency", "1", "--embedder", "hashing")
    stopped = call(home, *asked, *given, "--budget-calls", "7", code=STOPPED)
    run = re.search(r"--resume (\S+)", stopped.output)
    assert run is not None
    done = call(home, "eval", "--resume", run[1], "--budget-calls", "50")
    assert list_asked(server) == [("solve", "strong-1"), ("tell", "cheap-1")] * 6
    spent = {
        label: (int(calls), dollars)
        for label, calls, dollars in re.findall(r"^ +(\S+(?: \(\S+\))?): (\d+) calls, .*?, (.+)$", done.stdout, re.M)
    }
    assert spent == {"strong-1": (6, "under $0.01"), "cheap (cheap-1)": (6, "under $0.01")}
    page = home / "page.html"
    call(home, "report", run[1], "--out", str(page))
    assert "spent on cheap (cheap-1)" in page.read_text()
    refused = call(home, *asked, "--model", "openai:strong-1", "--models", "cheap=openai:nobody-knows", "--base-url",
                   server.url, "--budget-usd", "1", code=WRONG)  # fmt: skip
    assert "the price of openai:nobody-knows is not known" in " ".join(refused.stderr.split())


def evolve(home: Path, server: WireServer, **more: Any) -> Any:
    tasks = [Task(id=f"t{n}", input=f"Which number is {n}?", reference=str(n)) for n in range(52)]
    options = {"margin": 0.3, "iterations": 3, "batch": 8, "name": "thin", "run_name": "thinning", **more}
    team = options.pop("team", make_team())
    return selfwire.prune(
        team, tasks[:8], valset=tasks[8:48], testset=tasks[48:], model=serve(server, "strong-1"),
        models={"cheap": serve(server, "cheap-1")}, freeze=options.pop("freeze", ()), home=home, **options,
    )  # fmt: skip


def test_what_python_prunes_is_the_next_version_of_the_saved_team(home: Path, server: WireServer) -> None:
    selfwire.save(make_team(), "thick", home=home)
    found = evolve(home, server, team="thick", name=None)
    assert {version.name for version in found.versions} == {"thick"}
    assert selfwire.load("thick", home=home) == found.team != make_team()


def test_pruning_gives_the_cheap_model_where_it_suffices_and_leaves_the_strong_one_where_it_does_not(
    home: Path, server: WireServer
) -> None:
    found = evolve(home, server)
    assert {agent.id: agent.model for agent in found.team.agents} == {"solve": "", "tell": "cheap"}
    assert "tell: the run's model -> cheap, $" in found.pruning
    assert found.after is not None
    assert found.after.score == 1.0
    assert found.after.spend.dollars < 0.7 * found.before.spend.dollars
    changed = next(version for version in found.versions if version.facts.get("gate", {}).get("accepted"))
    assert "a loss of at most 0.3" in changed.facts["gate"]["why"]
    assert re.search(r"at \+0\.00 calls and -0\.0\d+ dollars per task", changed.facts["gate"]["why"])
    assert (changed.facts["model"], changed.facts["models"]) == ("openai:strong-1", "cheap=openai:cheap-1")
    outcomes = call(home, "history", "thin").output
    assert "1 SET_MODEL" in outcomes
    assert outcomes.count("models=cheap=openai:cheap-1") == 1
    shown = call(home, "show", changed.ref).output
    assert "tell  (aggregator)  model: cheap" in shown
    assert "SET_MODEL SetModel(tell, cheap): a cheaper model does no worse on the train tasks" in shown
    worth = call(home, "show", "thin", "--worth").output
    assert "solve asks the run's model, not cheap" in worth
    first = found.versions[0].ref
    assert "model of tell: the run's model -> cheap" in call(home, "diff", first, "thin").output


@pytest.mark.parametrize(
    ("freeze", "prices"),
    [(("models",), PRICES), (("agent:tell",), PRICES), ((), {"openai:strong-1": PRICES["openai:strong-1"]})],
)
def test_frozen_models_and_models_without_a_price_stay(
    freeze: tuple[str, ...], prices: Mapping[str, Any], home: Path, server: WireServer
) -> None:
    (home / "prices.json").write_text(json.dumps(prices))
    found = evolve(home, server, freeze=freeze)
    assert not any(agent.model for agent in found.team.agents)
    notice = "no agent is given a cheaper model, as dollars cannot be compared: the price of openai:cheap-1"
    assert any(notice in said for said in found.notices) == (prices != PRICES)


def test_an_exported_file_asks_the_models_of_its_agents(
    home: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    save(home, make_team(tell="cheap"))
    file = home / "mine.py"
    refused = call(home, "export", "mine", str(file), code=WRONG).stderr
    assert "--models cheap=PROVIDER:MODEL" in " ".join(refused.split())
    foreign = call(home, "export", "mine", str(file), "--models", "strong=openai:strong-1", code=WRONG).stderr
    assert "agent 'tell' asks model 'cheap', which nobody has named here" in " ".join(foreign.split())
    call(home, "export", "mine", str(file), "--models", "cheap=openai:cheap-1")
    module = import_user_file(file)
    monkeypatch.setenv("MODEL", "openai:strong-1")
    assert module.graph().invoke({"question": QUESTION})["answer"] == "7"
    models = [ChatOpenAI(model=name) for name in ("strong-1", "cheap-1")]
    assert module.build(models[0], {"cheap": models[1]}).invoke({"question": QUESTION})["answer"] == "7"
    assert list_asked(server) == [("solve", "strong-1"), ("tell", "cheap-1")] * 2


def test_a_request_has_the_names_of_its_models_only_if_there_are_any() -> None:
    assert "named" not in Models(agent="openai:strong-1").model_dump(mode="json")
    named = Models(agent="strong", judge="cheap", named=parse_models(NAMED))
    assert named.roles == {"agent": "openai:strong-1", "meta": "openai:strong-1", "judge": "openai:cheap-1"}
    assert hash(named) == hash(Models.model_validate_json(named.model_dump_json()))
    for wrong, said in (
        ({"named": {"cheap": "openai:cheap-1"}}, "would ask the offline model beside openai:cheap-1"),
        ({"named": {"judge": "offline"}}, "no model of an agent can have the name 'judge'"),
    ):
        with pytest.raises(ValueError, match=said):
            Models.model_validate(wrong)


@pytest.mark.parametrize(
    "text", ["cheap", "cheap=", "cheap=gpt", "a b=openai:x", "offline=openai:x", "a=offline,a=offline"]
)
def test_what_names_no_model_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"NAME=PROVIDER:MODEL|unknown model"):
        parse_models(text)


def test_a_person_gives_an_agent_a_model_by_an_edit(home: Path) -> None:
    before = make_team()
    edit = SetModel("tell", "cheap")
    after = before.apply(Rewiring(edit, why="it only repeats"))
    assert after.agents_by_id["tell"].model == "cheap"
    assert after.fingerprint != before.fingerprint
    assert after.apply(Rewiring(SetModel("tell", ""), why="back")).fingerprint == before.fingerprint
    assert Team.model_validate_json(after.model_dump_json()) == after
    assert "model" not in before.model_dump_json()

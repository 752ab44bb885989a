"""Prompts of saved teams go to LangSmith's prompt hub and come back, through its own client."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.prompts import ChatPromptTemplate
from langsmith import Client

import selfwire
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.evals.baselines import make_baseline
from selfwire.evals.prompt_hub import HubPrompt, list_prompts
from selfwire.graphs.method import make_method
from selfwire.models.text_layer import LayerText
from selfwire.runs.systems import make_seed_team
from tests.commands import call
from tests.graphs.test_own_evolution import APP, GOOD
from tests.wire.langsmith_server import LangSmithServer

PROMPT = 'Answer as JSON: {"answer": "..."}.'


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LangSmithServer]:
    with LangSmithServer(key="secret") as found:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", found.url)
        monkeypatch.setenv("LANGSMITH_API_KEY", "secret")
        yield found


@pytest.fixture
def team(tmp_path: Path) -> Team:
    """A saved team of one agent, `single`, as `Mine`."""
    seed = make_baseline("single").seed([])
    team = seed.replace(agents=[agent.replace(prompt=PROMPT) for agent in seed.agents])
    selfwire.save(team, "Mine", home=tmp_path)
    return team


def edit(name: str, *messages: tuple[str, str]) -> None:
    """Change a prompt as a person does in LangSmith."""
    Client().push_prompt(name, object=ChatPromptTemplate(list(messages)))


def test_a_team_is_pushed_with_a_description_and_edits_come_back(
    tmp_path: Path, server: LangSmithServer, team: Team
) -> None:
    told = call(tmp_path, "push", "Mine").stdout
    assert told.startswith("mine-single: http")
    [commit] = server.commits["mine-single"]
    assert f"/prompts/mine-single/{commit['commit_hash'][:8]}" in told
    assert server.prompts["mine-single"]["description"] == (
        "Prompt of agent single of the team Mine of selfwire, method single"
    )
    assert commit["description"].startswith("Mine@saved-")
    assert team.fingerprint in commit["description"]
    assert Client().pull_prompt("mine-single").format_messages()[0].text == PROMPT
    assert "mine-single: is there already" in call(tmp_path, "push", "Mine").stdout
    assert "nothing is changed" in call(tmp_path, "pull", "Mine").stdout

    edit("mine-single", ("system", 'Be brief. Answer as JSON: {{"answer": "..."}}.'))
    dry = call(tmp_path, "pull", "Mine", "--dry-run")
    assert '+ Be brief. Answer as JSON: {"answer": "..."}.' in dry.stdout
    assert selfwire.load("Mine", home=tmp_path) == team
    done = json.loads(call(tmp_path, "pull", "Mine", "--json").stdout)
    assert (done["changed"], done["saved"][:10]) == (["single"], "Mine@pull-")
    after = selfwire.load("Mine", home=tmp_path)
    assert after.agents[0].prompt == 'Be brief. Answer as JSON: {"answer": "..."}.'
    assert after.agents[0].replace(prompt=PROMPT) == team.agents[0]
    assert after.lineage.parent == team.fingerprint
    assert "edited in LangSmith" in call(tmp_path, "history", "Mine").stdout
    assert not server.unknown


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([("system", "Be {mood}.")], "{mood} is no hole of it, it has no holes; write {{...}} for braces in the text"),
        ([("system", "Be brief."), ("human", "{question}")], "it must be one system message, without others"),
        ([("human", "Be brief.")], "it must be one system message of text"),
        ([("system", "  ")], "the new prompt is blank"),
    ],
    ids=["hole", "messages", "role", "blank"],
)
def test_a_prompt_that_does_not_fit_is_refused(
    tmp_path: Path, server: LangSmithServer, team: Team, messages: list[tuple[str, str]], told: str
) -> None:
    call(tmp_path, "push", "Mine")
    edit("mine-single", *messages)
    assert told in call(tmp_path, "pull", "Mine", code=2).stderr
    assert selfwire.load("Mine", home=tmp_path) == team


def test_a_prompt_that_is_nested_without_end_is_an_error_in_words(
    tmp_path: Path, server: LangSmithServer, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nest(*_: object, **__: object) -> object:
        raise RecursionError("maximum recursion depth exceeded")

    call(tmp_path, "push", "Mine")
    monkeypatch.setattr(Client, "pull_prompt_commit", nest)
    assert "prompt 'mine-single' of LangSmith" in call(tmp_path, "pull", "Mine", code=2).stderr


def test_a_prompt_that_a_page_of_langsmith_has_saved_is_pulled(
    tmp_path: Path, server: LangSmithServer, team: Team
) -> None:
    """Its classes have the paths of LangChain for JavaScript."""
    call(tmp_path, "push", "Mine")
    edit("mine-single", ("system", "Be brief."))
    [commit, _] = server.commits["mine-single"]
    saved = json.dumps(commit["manifest"]).replace('"langchain", "prompts"', '"langchain_core", "prompts"')
    assert saved.count("langchain_core") == 3
    commit["manifest"] = json.loads(saved)
    assert json.loads(call(tmp_path, "pull", "Mine", "--json").stdout)["changed"] == ["single"]


def test_of_what_the_hub_sends_only_prompts_are_made(tmp_path: Path, server: LangSmithServer, team: Team) -> None:
    call(tmp_path, "push", "Mine")
    [commit] = server.commits["mine-single"]
    [message] = commit["manifest"]["kwargs"]["messages"]
    made = {"lc": 1, "type": "constructor", "id": ["langchain_core", "documents", "base", "Document"]}
    message["kwargs"]["prompt"] = {**made, "kwargs": {"page_content": "Be brief."}}
    told = call(tmp_path, "pull", "Mine", code=2).stderr
    assert "prompt 'mine-single' of LangSmith" in told
    assert "'Document') is not allowed" in told


def test_nothing_is_applied_where_one_prompt_of_several_does_not_fit(tmp_path: Path, server: LangSmithServer) -> None:
    team = make_seed_team("hiva")
    selfwire.save(team, "mine", home=tmp_path)
    call(tmp_path, "push", "mine")
    assert sorted(server.commits) == sorted(f"mine-{agent.id}" for agent in team.agents)
    first, *_, last = sorted(server.commits)
    edit(first, ("system", "Be brief."))
    edit(last, ("system", "Be {mood}."))
    assert f"prompt {last!r} of LangSmith does not fit" in call(tmp_path, "pull", "mine", code=2).stderr
    assert selfwire.load("mine", home=tmp_path) == team
    del server.prompts[last], server.commits[last]
    assert f"has no prompt {last!r}; `selfwire push` makes it" in call(tmp_path, "pull", "mine", code=2).stderr


def test_texts_of_a_graph_of_ones_own_keep_their_holes(
    tmp_path: Path, server: LangSmithServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hub_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_MODEL", "http://127.0.0.1:9/v1")
    selfwire.save(make_method("hub_app.py:graph", {}).seed(), "desk", home=tmp_path)
    call(tmp_path, "push", "desk")
    assert Client().pull_prompt("desk-decide").input_variables == ["question", "wish"]
    edit("desk-decide", ("system", GOOD))
    assert "prompt of decide:" in call(tmp_path, "pull", "desk").stdout
    assert selfwire.load("desk", home=tmp_path).agents_by_id["decide"].prompt == GOOD
    edit("desk-decide", ("system", "You sort messages of a shop.\n\n{question}"))
    refused = call(tmp_path, "pull", "desk", code=2).stderr
    assert "it must end with '{wish}\\n\\n{question}', which the program fills" in refused


def test_without_a_key_or_with_a_wrong_one_nothing_is_sent(
    tmp_path: Path, server: LangSmithServer, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_API_KEY", "wrong")
    assert "check LANGSMITH_API_KEY and LANGSMITH_ENDPOINT\n" in call(tmp_path, "push", "Mine", code=2).stderr
    for name in ("LANGSMITH_API_KEY", "LANGSMITH_ENDPOINT"):
        monkeypatch.delenv(name)
    for command in ("push", "pull"):
        assert "no LangSmith is named: set LANGSMITH_API_KEY" in call(tmp_path, command, "Mine", code=2).stderr
    assert server.prompts == {}


@settings(max_examples=40)
@given(st.text().filter(str.strip))
def test_any_prompt_comes_back_as_it_was(text: str) -> None:
    prompt = HubPrompt("mine-a", "a", text, {})
    assert prompt.read_template(prompt.to_template()) == text.strip()


@pytest.mark.parametrize(
    "pieces", [("You {sort} messages of ", ".\n\nAnswer: "), ("Sort {x} this", " and that {{}} too")]
)
def test_holes_are_variables_whatever_the_program_calls_them(pieces: tuple[str, ...]) -> None:
    layer = LayerText.of("a", pieces, ["state['x'].y"])
    assert layer is not None
    team = make_baseline("single").seed([])
    team = team.replace(agents=[team.agents[0].replace(prompt=layer.shown)])
    [prompt] = list_prompts("mine", team, {team.agents[0].id: layer})
    assert prompt.to_template().input_variables == ["state_x_y"]
    assert prompt.read_template(prompt.to_template()) == layer.shown


def test_agents_whose_names_differ_in_capitals_alone_are_refused() -> None:
    team = make_seed_team("hiva")
    names = {agent.id: name for agent, name in zip(team.agents, ("A", "a"), strict=False)}
    renamed = [agent.replace(id=names.get(agent.id, agent.id)) for agent in team.agents]
    nodes = [node.replace(agent=names.get(node.agent, node.agent)) for node in team.topology.nodes]
    team = team.replace(agents=renamed, topology=team.topology.replace(nodes=nodes))
    with pytest.raises(ConfigError, match="agents 'A' and 'a' would both be 'mine-a' in LangSmith"):
        list_prompts("mine", team, {})

"""A graph of the user's own is evolved: its prompts change in what is sent, and nothing else does."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

import selfwire
from selfwire.cli.commands import STOPPED
from selfwire.core.errors import ConfigError
from selfwire.core.scope import Scope
from selfwire.core.task import Feedback
from selfwire.evolvers.hiva.schemas import AgentGradient, GlobalGradient
from selfwire.extras.adopt.patch import make_patch
from selfwire.graphs.own_graph import UNSEEN, OwnGraph, compute_gradients
from selfwire.runs.record import list_run_names
from tests.commands import call
from tests.evolvers.hiva.doubles import LINE, meta_model, run
from tests.graphs.desk import DESKS, make_gradient, open_shop, score
from tests.graphs.desk import evolve as evolve_once
from tests.kills import run_of, start
from tests.processes import kill_when
from tests.scripted import ScriptedModel, section

APP = '''
import os
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)
DECIDE = """You sort messages of a shop.

What the customer wants: {wish}

{question}"""


class Desk(TypedDict):
    question: str
    wish: str
    answer: str


def read(state: Desk) -> dict:
    return {"wish": model.invoke(f"Say in a few words what this customer wants: {state['question']}").text}


def decide(state: Desk) -> dict:
    asked = DECIDE.format(wish=state["wish"], question=state["question"])
    return {"answer": model.invoke(asked).text}


builder = StateGraph(Desk)
builder.add_node(read)
builder.add_node(decide)
builder.add_edge(START, "read")
builder.add_edge("read", "decide")
builder.add_edge("decide", END)
graph = builder.compile()
'''
evolve = partial(evolve_once, model="mine", iterations=2)
RULE = "Write the name of the desk and nothing else."
GOOD = "You sort messages of a shop. " + RULE + "\n\nWhat the customer wants: {wish}\n\n{question}"


MARKED = """
import os
from typing import TypedDict

import openai
import selfwire
from langgraph.graph import START, StateGraph

client = openai.OpenAI(base_url=os.environ["MY_MODEL"], api_key="k")


class Desk(TypedDict):
    question: str
    answer: str


def decide(state: Desk) -> dict:
    rules = {"short": selfwire.text("sort it", "You sort messages of a shop."), "long": "Say all."}
    messages = [{"role": "user", "content": f"{rules[os.environ.get('RULE', 'short')]} {state['question']}"}]
    return {"answer": client.chat.completions.create(model="mine", messages=messages).choices[0].message.content}


builder = StateGraph(Desk)
builder.add_node(decide)
builder.add_edge(START, "decide")
graph = builder.compile()
"""


class Shop:
    """The model behind everything: it names the desk alone if it is told to, and mends the prompt that decides."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.rewrites = ["Write the name of the desk and nothing else.", GOOD]
        self.breaks_at = ""

    def __call__(self, kind: str, body: dict[str, Any]) -> dict[str, Any] | str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        self.asked.append({"kind": kind, "text": said})
        if kind == "GlobalGradient":
            return {"feedback": "The desk stands in a sentence.", "own_feedback": "", "sentiment": "neutral"}
        if kind == "AgentGradient":
            mine = "You sort messages" in said.partition("<role>")[2].partition("</role>")[0]
            return make_gradient("Write the desk alone.", concerns="semantics") if mine else make_gradient(praises=True)
        if kind == "PromptRewrite":
            return {"prompt": self.rewrites.pop(0) if len(self.rewrites) > 1 else self.rewrites[0]}
        if self.breaks_at and self.breaks_at in said:
            raise RuntimeError("the server breaks")
        desk = next(name for name in DESKS if f"about {name}" in said)
        if said.startswith("Say in a few words"):
            return f"help with something, {desk}"
        return desk if RULE in said else f"I think that {desk} is the desk."


ROWS = [{"input": f"Message {n} is about {DESKS[n % 3]}. Which desk?", "reference": DESKS[n % 3]} for n in range(90)]


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def home(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with open_shop(APP, {"desk.jsonl": ROWS}, shop, tmp_path, monkeypatch) as folder:
        yield folder


SHARE = AgentGradient(
    system_prompt_feedback="", tool_feedback="", overall_feedback="", concerns="none", sentiment="neutral"
)


async def test_what_is_said_of_the_program_itself_is_heard_by_the_texts_whose_replies_it_returns() -> None:
    diagnosis = GlobalGradient(feedback="The year is right.", own_feedback="Give the year alone.", sentiment="critical")
    model = ScriptedModel(GlobalGradient=diagnosis, AgentGradient=SHARE)
    failed = run(LINE).with_feedback(Feedback(score=0.0, solved=False, text="No."))
    found = await compute_gradients(failed, LINE, meta_model(model), Scope(), {})
    assert found.gradients[0].text == "team: The year is right.\nGive the year alone."
    last = model.shown("AgentGradient")[0]
    assert section(last, "successor_feedback") == "[end] The year is right.\nGive the year alone."


async def test_replies_that_nobody_has_seen_are_not_told_as_the_same() -> None:
    diagnosis = GlobalGradient(feedback="", own_feedback="", sentiment="neutral")
    failed = run(LINE).with_feedback(Feedback(score=0.0, solved=False, text="No."))
    for output, told in (("Ends with the year.", 1), (UNSEEN, 0)):
        model = ScriptedModel(GlobalGradient=diagnosis, AgentGradient=SHARE)
        steps = (*(step.replace(output=output) for step in failed.steps[:-1]), failed.steps[-1])
        await compute_gradients(failed.replace(steps=steps), LINE, meta_model(model), Scope(), {})
        assert section(model.shown("GlobalGradient")[0], "trace").count("(the same as [s])") == told


def test_a_prompt_is_mended_and_taken_home(home: Path, shop: Shop) -> None:
    done = evolve(home)
    assert "evolved - seed, paired over 30 tasks: +1.00" in done.output
    assert "models of its own, its critics' model openai:mine" in " ".join(done.output.split())
    assert "trivial baseline" not in done.output  # nor is a line of the table
    assert "it must end with '{wish}\\n\\n{question}', which the program fills" in done.output  # the first rewriting
    changes = call(home, "diff", "desk@0", "desk").output
    assert RULE in changes
    before = len(shop.asked)
    assert score(home, "desk") == 1
    assert all(RULE in asked["text"] for asked in shop.asked[before:] if asked["text"].startswith("You sort"))
    measured = call(home, "eval", "desk", "--benchmark", "desk.jsonl", "--grader", "contains").stdout
    assert "tasks, seed 0, models of its own" in measured  # the offline model has no part in it
    assert "offline" not in measured
    asked = call(home, "run", "desk", "Message 1 is about tech. Which desk?")
    assert asked.stdout == "tech\n"
    assert "offline" not in asked.stderr
    refused = call(home, "export", "desk", "none/mine.patch", code=2).stderr
    assert "the patch cannot be written to none/mine.patch" in refused
    patch = call(home, "export", "desk", "mine.patch")
    assert "git apply mine.patch" in patch.output
    written = Path("mine.patch").read_text(encoding="utf-8")
    reason = written.splitlines()[0]
    assert reason.startswith("shop_app.py:9 decide: Write the desk alone.")
    assert "(a gain above 0 is proved: mean difference +1.000" in reason
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    patched = Path("shop_app.py").read_text(encoding="utf-8")
    assert patched == APP.replace("You sort messages of a shop.", f"You sort messages of a shop. {RULE}")
    Path("mended_app.py").write_text(patched, encoding="utf-8")  # a name that this process has not imported
    assert score(home, "mended_app.py:graph") == 1
    taken = call(home, "export", "desk", "again.patch", code=2)
    assert "the source of 'shop_app.py:graph'" in taken.stderr or "nothing to write" in taken.stderr


def test_a_critic_reads_what_the_program_put_into_a_prompt_and_no_name_of_a_file_as_a_prompt(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = APP.replace('{"wish": model', '{"wish": os.environ["RULES"] + model')
    monkeypatch.setenv("RULES", "[rule 7] Bolts go to sales. ")
    with open_shop(looked, {"desk.jsonl": ROWS}, shop, tmp_path, monkeypatch) as home:
        evolve(home, "--iterations", "1")
    asked = [said["text"] for said in shop.asked if said["kind"] == "AgentGradient"]
    handed = [text.partition("<input>")[2].partition("</input>")[0] for text in asked]
    assert "\nFrom the program:\n[rule 7] Bolts go to sales. help with something, " in "\n".join(handed)
    assert "(nothing but the task)" in "\n".join(handed)  # to the first, which gets the question
    critics = [said["text"] for said in shop.asked if said["kind"]]
    assert not [text for text in critics if "shop_app" in text]
    assert [text for text in critics if "<role>\nThe program around the others; it has no prompt" in text]


def test_two_prompts_of_one_request_are_told_as_one_and_their_reply_stands_once_in_the_trace(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = '[("system", "Be brief, as a clerk of the shop would."), ("human", asked)]'
    app = APP.replace("model.invoke(asked)", f"model.invoke({both})")
    with open_shop(app, {"desk.jsonl": ROWS}, shop, tmp_path, monkeypatch) as home:
        evolve(home, "--iterations", "1")
    handed = [section(said["text"], "input") for said in shop.asked if said["kind"] == "AgentGradient"]
    told = [text for text in handed if text.endswith(" as one request, which has one reply.")]
    assert {text.rpartition("\n")[2].split()[5] for text in told} == {"decide", "decide-2"}
    assert len(handed) == len(told) + len(told) // 2  # the first step sends one prompt
    traces = [section(said["text"], "trace") for said in shop.asked if said["kind"] == "GlobalGradient"]
    assert traces
    assert all(trace.count("(the same as [decide") == 1 for trace in traces)


def test_an_evolution_stops_at_once_where_the_graphs_server_cannot_be_reached(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_MODEL", "http://127.0.0.1:9/v1")
    stopped = evolve(home, code=STOPPED).stderr
    assert "stopped: http://127.0.0.1:9 does not answer: no connection (openai:mine, OpenAIConnection" in stopped


def test_an_unedited_graph_is_saved_as_a_team_of_which_all_commands_know(home: Path, shop: Shop) -> None:
    saved = call(home, "adopt", "shop_app.py:graph", "--name", "mine")
    assert "selfwire evolve mine --name mine --benchmark TASKS.jsonl" in saved.output
    assert shop.asked == []
    shown = call(home, "show", "mine").output
    assert "What the customer wants: {wish}" in shown
    assert "its nodes and edges: selfwire adopt shop_app.py:graph" in shown  # which the drawing leaves out
    assert score(home, "mine", tasks=3) == 0
    texts = {asked["text"] for asked in shop.asked}
    shop.asked.clear()
    assert score(home, "shop_app.py:graph", tasks=3) == 0
    assert {asked["text"] for asked in shop.asked} == texts
    again = call(home, "adopt", "shop_app.py:graph", "--name", "mine", code=2)
    assert "there is a team 'mine' already (selfwire history mine)" in " ".join(again.stderr.split())
    assert "'hiva' is a method" in call(home, "adopt", "shop_app.py:graph", "--name", "hiva", code=2).stderr
    sizes = ("--train", "3", "--gate-size", "3", "--test", "3", "--anyway")
    more = ("--benchmark", "desk.jsonl", "--iterations", "0", *sizes)
    gone_on = call(home, "evolve", "mine", "--name", "mine", *more, "--without", "tev", code=2).stderr
    assert "shop_app.py:graph has no part 'tev'" in gone_on
    assert "run shop-app-desk" in call(home, "evolve", "mine@0", "--name", "mine", *more).output
    assert len(selfwire.load("mine", home=home).agents) == 3
    twice = call(home, "evolve", "mine", "--team", "mine@0", *more, code=2).stderr
    assert "'mine' names a saved team, and --team mine@0 another; leave one out" in " ".join(twice.split())


def test_until_a_prompt_changes_all_requests_are_the_same(home: Path, shop: Shop) -> None:
    score(home, "shop_app.py:graph", tasks=90)
    alone = {asked["text"] for asked in shop.asked}
    shop.asked.clear()
    evolve(home, "--iterations", "0")
    assert {asked["text"] for asked in shop.asked} <= alone
    assert len(shop.asked) == 2 * 30  # of a team that did not change, tested once


def test_a_frozen_prompt_stays_and_its_rewriting_is_not_asked_for(home: Path, shop: Shop) -> None:
    evolve(home, "--freeze", "agent:decide", "--guide", "keep the tone formal")
    learning = [asked["text"] for asked in shop.asked if asked["kind"]]
    assert learning
    assert not [asked for asked in shop.asked if asked["kind"] == "PromptRewrite"]
    assert all("keep the tone formal" in text and "fixed" in text and "the agent decide" in text for text in learning)
    assert RULE not in call(home, "diff", "desk@0", "desk").output
    refused = evolve(home, "--freeze", "agent:decide", "--freeze", "agent:read", "--freeze", "edges", code=2)
    told = "only prompts, descriptions of tools, settings and edges of its builder are evolved, and all are frozen"
    assert told in " ".join(refused.stderr.split())
    refused = evolve(home, "--freeze", "agent:decider", code=2)
    told = "it has edges, prompts, tools, models, agent:decide, agent:graph, agent:read"
    assert told in " ".join(refused.stderr.split())


def test_a_graph_whose_prompts_are_not_known_is_refused_before_a_call(home: Path, shop: Shop) -> None:
    source = APP.replace("model.invoke(asked)", "model.invoke(state['wish'])").replace("asked = ", "unused = ")
    bare = source.replace("f\"Say in a few words what this customer wants: {state['question']}\"", "state['question']")
    Path("bare_app.py").write_text(bare, encoding="utf-8")
    refused = call(home, "evolve", "bare_app.py:graph", "--benchmark", "desk.jsonl", code=2)
    assert "graph 'bare_app.py:graph' cannot be evolved: no prompt was found in its source" in refused.stderr
    assert "selfwire adopt bare_app.py:graph" in refused.stderr
    assert shop.asked == []


def test_a_changed_source_is_noticed(home: Path) -> None:
    evolve(home)
    Path("shop_app.py").write_text(APP.replace("def decide(", "def settle(").replace("node(decide)", "node(settle)"))
    with pytest.raises(ConfigError, match="has no text 'decide' any more; evolve the graph anew"):
        make_patch("shop_app.py:graph", {"decide": GOOD}, {})


def test_from_python_a_graph_of_your_own_is_saved_under_the_name_of_its_file(home: Path) -> None:
    model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key=SecretStr("k"))
    found = selfwire.evolve(
        "shop_app.py:graph", "desk.jsonl", model=model, iterations=1, batch=3, gate="mean", limit=9, home=home
    )
    assert found.name == "shop-app-desk"
    assert selfwire.load("shop-app-desk", home=home).fingerprint == found.team.fingerprint


def test_a_marked_text_is_mended_where_only_another_client_sends_it(home: Path, shop: Shop) -> None:
    Path("marked_app.py").write_text(MARKED, encoding="utf-8")
    shop.rewrites = [f"You sort messages of a shop. {RULE}"]
    model = ("--model", "openai:mine", "--base-url", os.environ["MY_MODEL"], "--retries", "0", "--gate-size", "12")
    tasks = ("--benchmark", "desk.jsonl", "--iterations", "1", "--batch", "1", "--name", "desk", "--test", "0")
    call(home, "evolve", "marked_app.py:graph", *tasks, *model)
    call(home, "export", "desk", "mine.patch")
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    patched = MARKED.replace("You sort messages of a shop.", shop.rewrites[0])
    assert Path("marked_app.py").read_text(encoding="utf-8") == patched
    assert selfwire.text("sort it", "You sort messages of a shop.") == "You sort messages of a shop."


@pytest.mark.parametrize("method", ["tacomas", "dytopo", "evomas"])
def test_a_method_that_wires_its_teams_says_why_it_evolves_no_graph_of_your_own(home: Path, method: str) -> None:
    told = f"{method} cannot evolve shop_app.py:graph: it .*, and the nodes and edges of your graph are its own code"
    with pytest.raises(ConfigError, match=told):
        selfwire.evolve("shop_app.py:graph", "desk.jsonl", method=method, home=home)
    refused = call(home, "evolve", "shop_app.py:graph", "--method", method, "--benchmark", "desk.jsonl", code=2).stderr
    assert re.search(told, " ".join(refused.split()))
    selfwire.save(OwnGraph("shop_app.py:graph", {}).seed(), "kept", home=home)
    for team in ("shop_app.py:graph", *(["kept"] if method == "evomas" else [])):
        refused = call(home, "evolve", method, "--team", team, "--benchmark", "desk.jsonl", code=2).stderr
        assert re.search(told, " ".join(refused.split()))


def test_what_a_graph_of_your_own_is_not(home: Path) -> None:
    evolve(home)
    call(
        home,
        "evolve",
        "hiva",
        "--benchmark",
        "archive",
        "--iterations",
        "0",
        "--gate",
        "mean",
        "--name",
        "h",
        "--test",
        "0",
    )
    assert "not a graph of your own" in call(home, "export", "h", "h.patch", code=2).stderr


RAISES = """    if "the desk." not in said:
        raise ValueError(f"no sentence: {said}")
    return {"answer": said}
"""


@pytest.fixture
def strict(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    app = APP.replace(
        '    return {"answer": model.invoke(asked).text}\n', f"    said = model.invoke(asked).text\n{RAISES}"
    )
    with open_shop(app, {"desk.jsonl": ROWS}, shop, tmp_path, monkeypatch) as folder:
        shop.rewrites = [GOOD]
        yield folder


@pytest.mark.parametrize("gate", [("--gate", "mean"), ("--gate", "better", "--anyway"), ("--gate", "no-worse")])
def test_a_candidate_that_makes_the_program_raise_is_rejected_with_the_reason(
    strict: Path, shop: Shop, gate: tuple[str, ...]
) -> None:
    done = evolve(strict, *gate, "--gate-size", "30", "--gate-tasks", "6", "--test", "0", "--iterations", "3")
    told = " ".join(call(strict, "history", "desk").output.split())
    assert re.search(r"in (\d) of \1 runs of the candidate the graph raised an error", told)
    assert "which counts as 0 as it ran without before: ValueError: no sentence: " in told
    assert "resume" not in done.output
    assert call(strict, "diff", "desk@0", "desk").output.count(RULE) == 0
    sent = [said for said in shop.asked if not said["kind"] and RULE in said["text"]]
    assert 0 < len(sent) <= (9 if "better" in gate else 6)  # the same candidate is not compared again


def test_a_provider_that_fails_under_a_candidate_is_an_error_and_no_zero(home: Path, shop: Shop) -> None:
    app = Path("shop_app.py").read_text(encoding="utf-8")
    asks = 'return {"answer": model.invoke(asked).text}'
    guarded = f"try:\n        {asks}\n    except Exception:\n        raise ValueError('lost')"
    Path("shop_app.py").write_text(app.replace(asks, guarded), encoding="utf-8")
    shop.rewrites, shop.breaks_at = [GOOD], RULE
    stopped = evolve(home, "--gate", "mean", "--gate-size", "12", "--test", "0", code=STOPPED)
    assert "of phase 'gate' ended as errors" in " ".join(stopped.output.split())
    shop.breaks_at = ""
    [run_name] = list_run_names(home)
    resumed = call(home, "evolve", "--resume", run_name)
    assert "1.00" in resumed.output


def list_steps(shop: Shop, phrase: str) -> Counter[str]:
    """Count the requests of the program that have a phrase, by their text."""
    return Counter(asked["text"] for asked in shop.asked if not asked["kind"] and phrase in asked["text"])


@pytest.mark.slow
def test_an_evolution_that_is_killed_sends_no_step_again_that_was_answered(home: Path, shop: Shop) -> None:
    few = ("--gate", "mean", "--gate-size", "12", "--test", "0", "--batch", "3", "--concurrency", "1", "--name", "desk")
    model = ("--model", "openai:mine", "--base-url", os.environ["MY_MODEL"], "--retries", "0")
    given = ("evolve", "shop_app.py:graph", "--benchmark", "desk.jsonl", "--iterations", "2", *few, *model)
    call(home / "whole", *given)
    read, decided = list_steps(shop, "Say in a few words"), list_steps(shop, "You sort messages")
    shop.asked.clear()
    shop.rewrites[:0] = ["Write the name of the desk and nothing else."]
    kills = (4, 30, 50)
    for number, point in enumerate(kills):
        words = ("evolve", "--resume", run_of(home)) if number else given

        def is_at_the_second_step(point: int = point) -> bool:
            return len(shop.asked) >= point and bool(list_steps(shop, "You sort") & Counter([shop.asked[-1]["text"]]))

        kill_when(start(home, *words), is_at_the_second_step)
    call(home, "evolve", "--resume", run_of(home))
    assert RULE in selfwire.load("desk", home=home).agents_by_id["decide"].prompt
    steps, more = list_steps(shop, "Say in a few words"), list_steps(shop, "You sort messages") - decided
    assert {*steps} == {*read}
    assert (steps - read + more).total() <= len(kills)  # those that were under way

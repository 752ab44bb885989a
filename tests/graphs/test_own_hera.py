"""HERA evolves a graph of the user's own: groups of its runs are compared, and RoPE mends its prompts."""

import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_openai import ChatOpenAI

import selfwire
from selfwire.cli import options
from selfwire.core.agent import Agent
from selfwire.core.errors import ConfigError
from selfwire.core.team import Team
from selfwire.core.topology import make_chain
from selfwire.evolvers.hera.failures import Blame
from selfwire.evolvers.hera.library import get_library
from selfwire.evolvers.hera.rope import Rope, count_recalls
from selfwire.evolvers.hera.rules import Prompt
from selfwire.graphs.hera import Hera
from selfwire.graphs.hiva import Hiva
from selfwire.graphs.own_graph import OwnGraph
from selfwire.graphs.own_hera import show_texts, write_text
from selfwire.models.text_layer import LayerText
from tests.commands import call
from tests.graphs.desk import DESKS, score
from tests.graphs.test_own_evolution import APP, RULE, Shop, home
from tests.kills import run_of, start
from tests.processes import kill_when

INSIGHT = "Let decide write the name of the desk alone."
EVOLVE = (
    "evolve", "shop_app.py:graph", "--method", "hera", "--benchmark", "desk.jsonl", "--batch", "3", "--name", "desk",
)  # fmt: skip
FEW = ("--iterations", "1", "--test", "0", "--gate", "mean", "--gate-size", "6")
__all__ = ["home"]


class HeraShop(Shop):
    """The shop with HERA's critics; without the rule, of four equal requests the second is answered well."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()
        self.blamed, self.instruction = "decide", RULE

    def __call__(self, kind: str, body: dict[str, Any]) -> dict[str, Any] | str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        if not kind and said.startswith("You sort") and RULE not in said:
            self.counts[said] += 1
            if self.counts[said] == 2:
                self.asked.append({"kind": kind, "text": said})
                return next(name for name in DESKS if f"about {name}" in said)
        replies: dict[str, Any] = {
            "QueryProfile": {"query_type": "other", "difficulty": "easy", "summary": "Sort a message."},
            "Reflection": {"insights": [{"query_type": "other", "insight": INSIGHT}]},
            "LibraryOperations": {"operations": []},
            "FailedAgent": {"agent": self.blamed, "cause": "It wrote a sentence."},
            "PromptVariant": {"instructions": [self.instruction]},
            "Contrast": {"operational_rules": [{"rule": self.instruction, "derived_from": "the variants"}]},
            "PromptDiff": {"added_rules": [self.instruction]},
        }
        if kind not in replies:
            return super().__call__(kind, body)
        self.asked.append({"kind": kind, "text": said})
        return dict(replies[kind])

    def list_asked(self, kind: str) -> list[str]:
        return [asked["text"] for asked in self.asked if asked["kind"] == kind]


@pytest.fixture
def shop() -> HeraShop:
    return HeraShop()


def name_test_model() -> tuple[str, ...]:
    model = ("--model", "openai:mine", "--base-url", os.environ["MY_MODEL"], "--retries", "0")
    return (*model, "--embedder", "hashing")


def evolve(home: Path, *more: str, code: int = 0, stdin: str = "") -> Any:
    return call(home, *EVOLVE, *name_test_model(), *more, code=code, stdin=stdin)


@pytest.mark.slow
def test_a_vague_prompt_is_mended_and_taken_home(home: Path, shop: HeraShop) -> None:
    assert score(home, "shop_app.py:graph", tasks=9) == 0
    shop.counts.clear()
    shop.asked.clear()
    evolve(home, *FEW)
    team = selfwire.load("desk", home=home)
    assert [(insight.text, insight.uses, insight.successes) for insight in get_library(team)] == [(INSIGHT, 3, 3)]
    [blamed, *_] = shop.list_asked("FailedAgent")
    assert "<agents>\nread: Say in a few words what this customer wants:" in blamed
    assert "decide: You sort messages of a shop. What the customer wants: {wish} {question}\n</agents>" in blamed
    [varied, *_] = shop.list_asked("PromptVariant")
    assert f"<insights>\n{INSIGHT}\n</insights>" in varied
    assert "From read:\nhelp with something" in varied
    [compared, *_] = shop.list_asked("Reflection")
    assert "trajectory 4" in compared
    assert "plan" not in compared.partition("What sort of question it is")[0]
    assert RULE in call(home, "diff", "desk@0", "desk").output
    assert "ROPE" in call(home, "show", "desk").output
    assert "1 ROPE" in call(home, "history", "desk").output
    assert INSIGHT in call(home, "insights", "list", "desk").output
    assert score(home, "desk", tasks=9) == 1
    call(home, "export", "desk", "mine.patch")
    assert Path("mine.patch").read_text(encoding="utf-8").startswith("shop_app.py:9 decide: + Write the name")
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    patched = Path("shop_app.py").read_text(encoding="utf-8")
    learned = f"Rules learned from failures:\n- {RULE}\n\nYou sort messages of a shop."
    assert patched == APP.replace("You sort messages of a shop.", learned)
    Path("mended_by_hera_app.py").write_text(patched, encoding="utf-8")  # a name that this process has not imported
    assert score(home, "mended_by_hera_app.py:graph", tasks=9) == 1


def test_until_a_prompt_changes_all_requests_of_the_graph_are_the_same(home: Path, shop: HeraShop) -> None:
    shop.instruction = ""  # so that there is no variant
    assert "agents, tools and topology are as they were" in evolve(home, *FEW).output
    asked = Counter(shop.list_asked(""))
    questions = [text.partition("wants: ")[2] for text in asked if text.startswith("Say")]
    desks = [next(name for name in DESKS if f"about {name}" in question) for question in questions]
    decided = "You sort messages of a shop.\n\nWhat the customer wants: help with something, {}\n\n{}"
    texts = [
        *(f"Say in a few words what this customer wants: {question}" for question in questions),
        *(decided.format(desk, question) for desk, question in zip(desks, questions, strict=True)),
    ]
    assert asked == dict.fromkeys(texts, 4)  # a group for each of three train tasks
    assert len(texts) == 6


def test_a_team_that_has_learned_insights_alone_is_tested_once(home: Path, shop: HeraShop) -> None:
    shop.instruction = ""  # so that there is no variant
    done = evolve(home, "--iterations", "1", "--test", "6", "--gate", "mean", "--gate-size", "6")
    assert get_library(selfwire.load("desk", home=home))
    assert "evolved - seed, paired over 6 tasks: +0.00" in done.output
    assert len(shop.list_asked("")) == 2 * (3 * 4 + 6)  # groups of train tasks, and one test


def test_a_variant_that_doubles_what_the_program_fills_is_not_sent(home: Path, shop: HeraShop) -> None:
    shop.blamed, shop.instruction = "read", "Repeat {state['question']} first."
    done = evolve(home, *FEW)
    told = "prompt of 'read': \"{state['question']}\", which the program fills, stands in it too often"
    assert f"1 proposal did not fit or was refused, such as: {told}" in done.output
    assert not [text for text in shop.list_asked("") if "Repeat" in text]


def test_frozen_prompts_and_the_guide(home: Path, shop: HeraShop) -> None:
    evolve(home, *FEW, "--freeze", "agent:decide", "--guide", "keep the tone formal")
    assert not shop.list_asked("PromptVariant")
    assert all("keep the tone formal" in text for text in shop.list_asked("FailedAgent"))
    refused = evolve(home, *FEW, "--freeze", "agent:decide", "--freeze", "agent:read", code=2)
    assert "HERA evolves the prompts of graph 'shop_app.py:graph' alone, and all are frozen" in " ".join(
        refused.stderr.split()
    )


def test_a_person_is_asked_before_a_prompt_is_kept(home: Path, shop: HeraShop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "has_terminal", lambda: True)
    done = evolve(home, *FEW, "--approve", "edits", stdin="r\nno rule\n")
    assert RULE in done.output
    assert "rejected by" in done.output
    assert RULE not in selfwire.load("desk", home=home).agents_by_id["decide"].prompt


def test_a_run_that_its_budget_stops_goes_on_by_the_same_method(home: Path, shop: HeraShop) -> None:
    assert "budget exhausted" in evolve(home, *FEW, "--budget-calls", "20", "--calls-per-task", "2", code=3).output
    resume = ("evolve", "--resume", run_of(home))
    assert "cannot be given beside it" in call(home, *resume, "--method", "hiva", code=2).stderr
    assert "accepted" in call(home, *resume, "--budget-calls", "200").output
    assert RULE in selfwire.load("desk", home=home).agents_by_id["decide"].prompt


@pytest.mark.slow
def test_a_run_that_is_killed_as_it_learns_asks_nothing_twice_that_was_answered(home: Path, shop: HeraShop) -> None:
    kill_when(start(home, *EVOLVE, *name_test_model(), *FEW), lambda: bool(shop.list_asked("PromptVariant")))
    before = Counter(shop.list_asked(""))
    call(home, "evolve", "--resume", run_of(home))
    assert RULE in selfwire.load("desk", home=home).agents_by_id["decide"].prompt
    for kind in ("FailedAgent", "Reflection", "QueryProfile"):
        asked = Counter(shop.list_asked(kind))
        assert set(asked.values()) == {1}, kind
    after = Counter(shop.list_asked(""))
    assert sum(after[text] == 4 for text in before) >= 4  # replays are of one task


def test_from_python_the_method_is_a_name_or_has_options(home: Path, shop: HeraShop) -> None:
    model: Any = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k")
    given: Any = {"model": model, "iterations": 1, "batch": 3, "gate": "mean", "limit": 9, "home": home}
    found = selfwire.evolve("shop_app.py:graph", "desk.jsonl", method=Hera(group=2, library=False), **given)
    assert RULE in found.team.agents_by_id["decide"].prompt
    assert not shop.list_asked("Reflection")
    with pytest.raises(ConfigError, match="tacomas cannot evolve shop_app"):
        selfwire.evolve(found.team, "desk.jsonl", method="tacomas", **given)
    with pytest.raises(ConfigError, match="which answers by itself; leave method='hera' out"):
        selfwire.evaluate("shop_app.py:graph", "desk.jsonl", method="hera", home=home)
    with pytest.raises(ConfigError, match="hiva has no options for a graph of your own"):
        selfwire.evolve("shop_app.py:graph", "desk.jsonl", method=Hiva(topology_evolution=False), **given)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("hera", "--method", "hera"), "--method says how a graph of your own evolves, and hera is none"),
        (("shop_app.py:graph", "--method", "her"), "leave method='her' out (it evolves by hiva, hera or router)"),
        (("hera", "--team", "shop_app.py:graph"), "`selfwire evolve shop_app.py:graph --method hera` evolves it"),
        (("shop_app.py:graph", "--method", "hera", "--set", "hera.mutation=true"), "hera.mutation is about planning"),
        (
            ("shop_app.py:graph", "--method", "hera", "--set", "hera=2"),
            "hera takes fields by name, as in --set hera.group=2",
        ),
        (("shop_app.py:graph", "--set", "hera.group=2"), "the fields of hera need --method hera"),
    ],
)
def test_what_does_nothing_is_refused(home: Path, shop: HeraShop, words: tuple[str, ...], told: str) -> None:
    assert told in " ".join(call(home, "evolve", *words, "--benchmark", "desk.jsonl", code=2).stderr.split())
    assert not shop.asked


@pytest.mark.parametrize(
    ("pieces", "holes", "written"),
    [
        (("You sort messages.",), (), "You sort messages.\n\n{learned}"),
        (("You sort messages.\n\n", ""), ("question",), "{learned}\n\nYou sort messages.\n\n{question}"),
        (("", "\nYou sort."), ("wish",), "{wish}\nYou sort.\n\n{learned}"),
        (("", "\nYou sort: ", ""), ("wish", "question"), "{wish}\nYou sort:\n\n{learned}\n\n{question}"),
    ],
)
def test_what_is_learned_leaves_holes_at_their_edges_and_is_read_again(
    pieces: tuple[str, ...], holes: tuple[str, ...], written: str
) -> None:
    text = LayerText.of("a", pieces, holes)
    assert text is not None
    learned = Prompt(core=text.shown, principles=("Be brief.",), rules=("Name one.",))
    lists = "Principles:\n- Be brief.\n\nRules learned from failures:\n- Name one."
    made = write_text(learned.text, text)
    assert made == written.replace("{learned}", lists)
    text.parse(made)
    team = Team(method="x", agents=(Agent(id="a", prompt=made),), topology=make_chain("a"))
    [read] = show_texts(team, {"a": text}).agents
    assert (Prompt.of(read.prompt).principles, Prompt.of(read.prompt).rules) == (learned.principles, learned.rules)
    assert write_text(read.prompt, text) == made


def test_the_estimate_has_the_runs_of_a_group(home: Path) -> None:
    graph = OwnGraph("shop_app.py:graph", {"method": "hera", "hera": {"group": 3}})
    found = graph.estimate_calls(graph.config, graph.seed(), 4, 0)
    assert (found.question, found.samples, graph.samples) == ({"agent": 2.0}, 3, 3)
    assert found.learning["agent"] == 2 * 4 * 3  # two prompts, the control and three variants, three steps of a run


def test_an_insight_is_used_by_each_graded_replay_of_a_variant_that_it_worded() -> None:
    blame = Blame(agent="decide", place=0)
    ropes = [
        Rope(blame=blame, failures=(), scores=(1.0, None, 0.5), insights=("a", "b")),
        Rope(blame=blame, failures=(), scores=(0.6,), insights=("a",)),
    ]
    assert count_recalls(ropes, 0.6) == {"a": (3, 2), "b": (2, 1)}

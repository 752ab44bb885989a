"""Settings of a graph of the user's own get other values where its schema allows them, and go home in each form."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import selfwire
from selfwire.core.errors import ConfigError
from selfwire.extras.adopt.layer import list_texts
from selfwire.extras.adopt.patch import make_context, make_patch
from selfwire.graphs.own_graph import OwnGraph
from tests.commands import call
from tests.graphs.desk import DESKS, FEW, evolve, make_gradient, open_shop, score

APP = """
import os
from enum import Enum
from typing import Literal, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

model = ChatOpenAI(model="mine", base_url=os.environ["MY_MODEL"], api_key="k", max_retries=0)
LIMIT = 7


class Tone(Enum):
    PLAIN = "plain"
    WARM = "warm"


class Limits(BaseModel):
    sentences: int = Field(default=1, ge=1, le=3)
    tone: Tone = Tone.PLAIN
    order: Literal["first", "last"] = "first"
    shouts: bool = False
    share: float = 0.5
    model_tier: Literal["small", "large"] = "small"
    elsewhere: int = LIMIT
    unread: int = 4


class Desk(TypedDict):
    question: str
    answer: str


def decide(state: Desk, runtime: Runtime[Limits]) -> dict:
    limits = runtime.context
    said = (limits.order, limits.tone.value, limits.shouts, limits.share, limits.model_tier, limits.elsewhere)
    read = ". ".join(state["question"].split(". ")[: limits.sentences])
    return {"answer": model.invoke(f"You sort messages of a shop. {said}\\n\\n{read}").text}


builder = StateGraph(Desk, context_schema=Limits)
builder.add_node(decide)
builder.add_edge(START, "decide")
builder.add_edge("decide", END)
graph = builder.compile()
"""
SETTINGS = {"sentences": "1", "tone": "plain", "order": "first", "shouts": "False", "share": "0.5"}
CHANGED = {"sentences": "2", "tone": "warm", "order": "last", "shouts": "True", "share": "0.25"}


class Shop:
    """The model behind everything, which finds the desk where it is told of it; as a critic it wishes for settings."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.wishes = [("set sentences", "9"), ("set sentences", "2")]

    def __call__(self, kind: str, body: dict[str, Any]) -> dict[str, Any] | str:
        said = "\n".join(str(message["content"]) for message in body["messages"])
        self.asked.append((kind, said))
        if kind == "GlobalGradient":
            return {"feedback": "Only the first sentence was read.", "own_feedback": "", "sentiment": "neutral"}
        if kind == "AgentGradient":
            return make_gradient(overall="It reads too few sentences.")
        if kind == "ProgramEdit":
            place, value = self.wishes.pop(0) if self.wishes else ("", "")
            return {"place": place, "value": value, "reason": "The desk stands in the second sentence."}
        return next((name for name in DESKS if f"about {name}" in said), "none")

    def list_asked(self, kind: str) -> list[str]:
        return [text for asked, text in self.asked if asked == kind]


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def home(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    rows = [
        {"input": f"Hello, I am customer {n}. This is about {DESKS[n % 3]}.", "reference": DESKS[n % 3]}
        for n in range(72)
    ]
    with open_shop(APP, {"desk.jsonl": rows[:60], "fresh.jsonl": rows[60:]}, shop, tmp_path, monkeypatch) as folder:
        yield folder


def test_a_setting_is_changed_within_its_schema_and_taken_home(home: Path, shop: Shop) -> None:
    done = evolve(home, *FEW)
    first, *_ = shop.list_asked("ProgramEdit")
    listed = first.partition("<settings>\n")[2].partition("\n</settings>")[0].splitlines()
    assert listed == [
        "set sentences: type integer, minimum 1, maximum 3, now 1",
        "set tone: one of plain, warm, now plain",
        "set order: one of first, last, now first",
        "set shouts: one of True, False, now False",
        "set share: type number, now 0.5",
    ]
    assert "accepted" in done.output
    told = "Your last choice was refused: prompt of 'sentences': '9' is no value of sentences, which is type integer, "
    assert told in shop.list_asked("ProgramEdit")[1]
    assert score(home, "shop_app.py:graph", tasks=12, file="fresh.jsonl") == 0
    assert score(home, "desk", tasks=12, file="fresh.jsonl") == 1
    assert "1 SET_VALUE" in call(home, "history", "desk").output
    call(home, "export", "desk", "context.json", "--as", "context")
    assert json.loads(Path("context.json").read_text(encoding="utf-8")) == {"sentences": 2}
    call(home, "export", "desk", "mine.patch")
    assert "sentences: The desk stands in the second sentence. (" in Path("mine.patch").read_text(encoding="utf-8")
    subprocess.run(["git", "apply", "mine.patch"], check=True)
    patched = Path("shop_app.py").read_text(encoding="utf-8")
    assert patched == APP.replace("default=1", "default=2")
    Path("mended_app.py").write_text(patched, encoding="utf-8")
    assert score(home, "mended_app.py:graph", tasks=12, file="fresh.jsonl") == 1


def test_a_frozen_setting_is_not_offered(home: Path, shop: Shop) -> None:
    evolve(home, *FEW, "--freeze", "agent:sentences")
    asked, *_ = shop.list_asked("ProgramEdit")
    assert "set sentences" not in asked
    assert "set tone" in asked


def test_values_are_written_as_the_source_writes_them(home: Path) -> None:
    texts = {text.name: text for text in list_texts("shop_app.py:graph")}
    assert {name: text.shown for name, text in texts.items() if text.setting} == SETTINGS
    patch = make_patch("shop_app.py:graph", CHANGED, {})
    assert [line[1:].strip() for line in patch.splitlines() if line.startswith("+ ")] == [
        "sentences: int = Field(default=2, ge=1, le=3)",
        "tone: Tone = Tone.WARM",
        'order: Literal["first", "last"] = \'last\'',
        "shouts: bool = True",
        "share: float = 0.25",
    ]
    found = make_context("shop_app.py:graph", CHANGED)
    assert found == {"sentences": 2, "tone": "warm", "order": "last", "shouts": True, "share": 0.25}


@pytest.mark.parametrize(
    "wrong", [("sentences", "4"), ("sentences", "1.5"), ("tone", "cold"), ("share", "a lot"), ("share", "1e999")]
)
def test_a_value_that_the_schema_forbids_is_refused(home: Path, wrong: tuple[str, str]) -> None:
    graph = OwnGraph("shop_app.py:graph", {})
    seed, (name, value) = graph.seed(), wrong
    agents = [agent.replace(prompt=value) if agent.id == name else agent for agent in seed.agents]
    with pytest.raises(ConfigError, match=f"prompt of '{name}': '{value}' is no value of {name}, which is"):
        graph.adapt(seed.replace(agents=tuple(agents)))


JOINT = """

    @model_validator(mode="after")
    def check(self):
        if self.sentences > 1 and self.shouts:
            raise ValueError("who shouts says one sentence")
        return self
"""


def test_values_that_the_schema_forbids_together_are_refused(home: Path, shop: Shop) -> None:
    app = APP.replace("    unread: int = 4\n", f"    unread: int = 4\n{JOINT}")
    Path("shop_app.py").write_text(app.replace("import BaseModel", "import BaseModel, model_validator"))
    graph = OwnGraph("shop_app.py:graph", {})
    seed, wanted = graph.seed(), {"sentences": "2", "shouts": "True"}
    agents = [agent.replace(prompt=wanted.get(agent.id, agent.prompt)) for agent in seed.agents]
    with pytest.raises(ConfigError, match=r"does not allow sentences=2, shouts=True together: .*who shouts"):
        graph.adapt(seed.replace(agents=tuple(agents)))
    shop.wishes = [("set sentences", "2")]
    evolve(home, *FEW)
    Path("desk.jsonl").write_text(Path("desk.jsonl").read_text().replace('"reference": "', '"reference": "none of '))
    shop.wishes = [("set shouts", "True")]
    evolve(home, *FEW, "--team", "desk")
    told = "refused: Limits does not allow sentences=2, shouts=True together: "
    assert told in shop.list_asked("ProgramEdit")[-1]


def test_a_setting_is_the_field_that_the_context_has(home: Path) -> None:
    """A base class's field that is overridden is none, nor one that the schema itself changes."""
    base = "class Base(BaseModel):\n    sentences: int = 3\n    share: float = 0.5\n\n\nclass Limits(Base):"
    change = "\n\n    def model_post_init(self, _):\n        self.shouts = True\n"
    app = APP.replace("class Limits(BaseModel):", base).replace(
        "    unread: int = 4\n", f"    unread: int = 4\n{change}"
    )
    Path("shop_app.py").write_text(app, encoding="utf-8")
    texts = OwnGraph("shop_app.py:graph", {}).texts
    found = {name: text.shown for name, text in texts.items() if text.setting}
    patch = make_patch("shop_app.py:graph", {"share": "0.25"}, {})
    assert "     shouts: bool = False\n-    share: float = 0.5\n+    share: float = 0.25\n" in patch
    assert found == {name: value for name, value in SETTINGS.items() if name != "shouts"}


@pytest.mark.parametrize(("said", "written"), [("2  # two, as asked", "2"), (" 2\n# x", "2")])
def test_a_number_is_taken_over_without_what_stands_beside_it(home: Path, shop: Shop, said: str, written: str) -> None:
    shop.wishes = [("set sentences", said)]
    evolve(home, *FEW)
    assert selfwire.load("desk", home=home).agents_by_id["sentences"].prompt == written
    assert f"default={written}," in make_patch("shop_app.py:graph", {"sentences": said}, {})


def test_where_the_context_says_who_asks_its_fields_are_facts(home: Path) -> None:
    Path("known_app.py").write_text(APP.replace("    unread:", "    user_id: str = ''\n    unread:"), encoding="utf-8")
    assert not [text for text in list_texts("known_app.py:graph") if text.setting]


def test_the_inventory_shows_which_settings_are_evolved(home: Path) -> None:
    shown = call(home, "adopt", "shop_app.py:graph").output
    assert "Limits.sentences = 1  evolved\n" in shown
    assert "Limits.tone = Tone.PLAIN  choices: Tone.PLAIN, Tone.WARM  evolved\n" in shown
    assert "Limits.model_tier = 'small'  choices: 'small', 'large'\n" in shown
    assert "Limits.elsewhere = 7\n" in shown
    assert "Limits.unread = 4\n" in shown

"""The method of docs/method.md, as a package of somebody else's, and packages that are not so well made."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import wraps
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langgraph_sdk import get_sync_client

import selfwire
from selfwire.core import plugins
from selfwire.core.errors import ConfigError, TaskError
from selfwire.core.task import Question, Task
from selfwire.core.team import Team
from selfwire.core.trajectory import Trajectory
from selfwire.core.values import FrozenModel
from selfwire.evolvers.dytopo.config import DytopoConfig
from selfwire.extras.contestants.aflow.method import Aflow
from selfwire.extras.offline.model import OfflineChat
from selfwire.extras.pages.page import write_report
from selfwire.graphs import method
from selfwire.graphs.build import build_graph
from selfwire.graphs.dytopo import Dytopo
from selfwire.graphs.hiva import Hiva
from selfwire.graphs.machine import Ctx
from selfwire.graphs.method import EvolveResult, Method
from selfwire.models.embeddings import HashingEmbedder
from selfwire.models.metered_chat import MeteredModel
from selfwire.models.sync import run_sync
from selfwire.runs.inputs import find_team
from selfwire.store.library import open_library
from tests.graphs.dev_server import ROOT, dev_server
from tests.processes import start, start_selfwire, wait_for

PAGE = (ROOT / "docs" / "method.md").read_text()
FILE = re.compile(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = [line for line in PAGE.splitlines() if line.startswith("selfwire ")]
PYTHON = re.compile(r"options in its parentheses:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = {
    "run": "hands on to checker, searcher, writer (every successor)",
    "evolve": "selfwire show sparsify-archive",
    "compare": "sparsify         ",
    "ablate": "| a random edge |",
}
"""What a command prints when it has worked."""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    for name, text in FILE.findall(PAGE):
        (folder / name).write_text(text)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    installed = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    [(group, points)] = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    return folder


def run_python(package: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=package,
        env=environment(package),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment(package: Path) -> dict[str, str]:
    return {**os.environ, **search_path(package), "SELFWIRE_HOME": str(package / "home")}


def search_path(package: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])}


def run_command(package: Path, line: str) -> str:
    printed, errors = wait_for(start_selfwire(*shlex.split(line)[1:], cwd=package, env=environment(package)))
    assert "RuntimeWarning" not in errors
    return printed


def test_the_page_is_short() -> None:
    assert sum(len(block.strip().splitlines()) for block in BLOCK.findall(PAGE)) < 270
    method = next(block for block in BLOCK.findall(PAGE) if "(Method[" in block)
    assert len(re.findall(r"^(?:from|import) selfwire", method, re.MULTILINE)) < 8


def test_its_name_is_listed_without_importing_it(package: Path) -> None:
    code = "import sys; from selfwire.core.plugins import method_names; print(method_names(), *sys.modules)"
    printed = run_python(package, code)
    assert "'gepa', 'sparsify')" in printed
    assert "sparsify_method" not in printed
    assert "langgraph" not in printed


def test_an_instance_is_evolved_run_and_evaluated_without_an_entry_point(package: Path, tmp_path: Path) -> None:
    [code] = PYTHON.findall(PAGE)
    (tmp_path / "from_python.py").write_text(code)
    shutil.copy(package / "sparsify_method.py", tmp_path)
    process = start("tests.processes:run_python", "from_python.py", cwd=tmp_path, env=environment(tmp_path))
    assert "edge" in wait_for(process)[0]
    with open_library(tmp_path / "home") as library:
        assert run_sync(library.load("thin")).method == "sparsify"


class Thrice(Dytopo):
    """Asks a train question three times, and says no more of it than how often."""

    @property
    def samples(self) -> int:
        return 3

    async def answer(self, team: Team, question: Question, ctx: Ctx[DytopoConfig]) -> Trajectory:
        return Trajectory(question=question, workflow=team.fingerprint, sample=ctx.scope.sample)


async def test_a_train_question_is_asked_as_often_as_samples_says() -> None:
    method, question = Thrice(), Question(id="q", input="1 + 1?")
    ctx = method.make_ctx(MeteredModel(OfflineChat()), {}, HashingEmbedder())
    found = await method.ask_samples(method.seed(), question, ctx)
    assert [done.sample for done in found] == [0, 1, 2]


def test_the_tests_of_the_page_pass(package: Path) -> None:
    options = ("--disable-plugin-autoload", "-q", "-p", "no:cacheprovider", "test_sparsify.py")
    process = start("tests.processes:run_python", "-m", "pytest", *options, cwd=package, env=environment(package))
    assert "4 passed" in wait_for(process)[0]


def test_a_team_that_is_run_twice_has_the_steps_and_the_cost_of_both(package: Path) -> None:
    [second_try] = [block for block in BLOCK.findall(PAGE) if block.startswith("class SecondTry(")]
    code = f"""
import selfwire
from selfwire.core.chat import Prompts
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evolvers.prompted_model import PromptedModel
from sparsify_method import PICK, Sparsify


class Doubt(FrozenModel):
    doubt: bool


{second_try}
    prompts = Prompts(texts={{"pick": PICK, "doubt": "You doubt.\\n---\\nIs it in doubt?\\n$text"}})


async def doubt(self, *args, **options):
    return Doubt(doubt=True), Usage(calls=1)


PromptedModel.ask_or = doubt
run = selfwire.run(SecondTry(), "What is 2 plus 2?", model="offline")
spent = sum(step.usage.calls for step in run.steps)
print(len(run.steps), run.notes["tries"], run.usage.calls - spent, run.question.input)
"""
    assert run_python(package, code) == "8 2 1 What is 2 plus 2?\n"


def test_another_step_takes_the_place_of_an_equation_in_runs_and_in_the_served_graph(package: Path) -> None:
    [rising] = [block for block in BLOCK.findall(PAGE) if "class RisingTau(" in block]
    code = f"""
import selfwire
{rising}

for method in (Dytopo(halting=False, rounds=3), RisingTau(halting=False, rounds=3)):
    found = [selfwire.run(method, "Who founded it?", model="offline").notes]
    found.append(selfwire.load(method.name).graph("offline", method=method).invoke({{"question": "Who founded it?"}}))
    print(method.name, [[round_["graph"]["threshold"] for round_ in notes["rounds"]] for notes in found])
try:
    RisingTau.figure.add_edge("begin", "deliver")  # of the variant alone
    print(Dytopo.figure.compile("dytopo").get_graph().edges == Dytopo().compiled.get_graph().edges)
    Dytopo.figure.with_steps(induce=raise_threshold)
except ValueError as error:
    print(error)
"""
    assert run_python(package, code).splitlines() == [
        "dytopo [[0.3, 0.3, 0.3], [0.3, 0.3, 0.3]]",
        "rising-tau [[0.3, 0.4, 0.5], [0.3, 0.4, 0.5]]",
        "True",
        "the figure has no step 'induce'; its steps are begin, workers, induce_topology, deliver, manager, conclude",
    ]


def test_a_step_behind_the_team_decides_in_runs_and_in_the_served_graph(package: Path) -> None:
    [judged] = [block for block in BLOCK.findall(PAGE) if "class Judged(" in block]
    code = f"""
import selfwire
from selfwire.core.chat import Prompts
from selfwire.core.usage import Usage
from selfwire.core.values import FrozenModel
from selfwire.evolvers.prompted_model import PromptedModel
from selfwire.graphs.machine import State
from sparsify_method import Sparsify
{judged}

async def take_the_planner(self, *args, **options):
    return Best(agent="planner"), Usage(calls=1)


class Bare(State):
    pass


class Lost(Judged):
    name = "lost"
    figure = MethodGraph(Bare, first="forget", team="forget")

    async def forget(state, ctx):
        return {{}}

    figure.add_node(forget)
    figure.add_edge(START, "forget")


PromptedModel.ask_or = take_the_planner
question = "What is 2 plus 2?"
run = selfwire.run(Judged(), question, model="offline")
said = next(step.output for step in run.steps if step.agent == "planner")
served = selfwire.load("judged").graph("offline", method=Judged()).invoke({{"question": question}})
print(run.answer == said == served["answer"], run.overhead.calls)
try:
    selfwire.run(Lost(), question, model="offline")
except Exception as error:
    print(error)
"""
    assert run_python(package, code).splitlines() == [
        "True 1",
        "class Lost of method 'lost': answer must return an object of Trajectory, not None",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_takes_it(package: Path, line: str) -> None:
    shown = "dry run of sparsify on archive" if "--dry-run" in line else SHOWN[line.split()[1]]
    assert shown in run_command(package, line)


@pytest.mark.slow
def test_it_evolves(package: Path) -> None:
    [line] = [one for one in COMMANDS if one.startswith("selfwire evolve") and "--dry-run" not in one]
    printed = run_command(package, f"{line.replace('--gate mean --gate-tasks 2', '--gate off')} --name thinner")
    assert 'graph = team.graph("offline"' in printed
    with open_library(package / "home") as library:
        evolved = run_sync(library.load("thinner"))
    assert evolved.method == "sparsify"
    assert len(evolved.topology.edges) == 6 - 2
    with open_library(package / "home") as library:
        history = run_sync(library.history("thinner"))
    assert len(history.versions) == 3


@pytest.mark.slow
def test_it_is_served(package: Path, tmp_path: Path) -> None:
    served = package / "langgraph.json"
    with (
        dev_server(tmp_path / "cwd", tmp_path / "home", served, **search_path(package)) as address,
        get_sync_client(url=address) as client,
    ):
        drawn = client.assistants.get_graph("sparsify", xray=True)["nodes"]
        assert {"team:planner", "team:searcher", "team:checker", "team:writer"} <= {str(node["id"]) for node in drawn}
        context = {"prompt_writer": "Say nothing but the answer."}
        state: Any = client.runs.wait(None, "sparsify", input={"question": "What am I?"}, context=context)
        assert state["answer"]
        ran = Team.model_validate(state["workflow"])
        assert ran.agents_by_id["writer"].prompt == context["prompt_writer"]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:

    def forget() -> None:
        plugins.GIVEN.clear()
        plugins.outside_methods.cache_clear()
        method.installed_methods.cache_clear()
        method._load_outside.cache_clear()

    def installed(*points: tuple[str, str]) -> None:
        found = [EntryPoint(name, value, plugins.GROUP) for name, value in points]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found if group == plugins.GROUP else [])
        forget()

    yield installed
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        ([("other", "nowhere_at_all:X")], "method 'other' .* cannot be imported: ModuleNotFoundError"),
        ([("other", "json:nothing")], "cannot be imported: AttributeError"),
        ([("other", "json:dumps")], "is a function, no class of a method; name a subclass of selfwire.Method in group"),
        ([("other", "json")], "is a module, no class of a method"),
        (
            [("other", "json:dumps"), ("other", "csv:reader")],
            "csv:reader and json:dumps are both called method 'other'",
        ),
        ([("an other", "json:dumps")], "a method's name has up to 64 letters"),
    ],
)
def test_a_package_that_cannot_be_used(install: Any, points: list[tuple[str, str]], complaint: str) -> None:
    install(*points)
    name = points[0][0]
    assert name in plugins.method_names()
    with pytest.raises(ConfigError, match=complaint):
        method.find_method(name)
    with pytest.warns(RuntimeWarning, match=complaint):
        installed = method.installed_methods()
    assert [known.name for known in installed] == [*plugins.own_methods(), *plugins.CONTESTANTS]


TASKS = [{"input": f"What is {n} plus {n}?", "reference": str(2 * n)} for n in range(1, 13)]


class Unset(FrozenModel):
    """A config that cannot be made without a value."""

    width: int


class Wide(FrozenModel):
    """A config with an option."""

    width: int = 2


class Bare(Method[FrozenModel]):
    """A method that does nothing."""

    name = "bare"

    def seed(self, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> Team:
        return Team.model_validate({"method": self.name, **TEAM})


TEAM = {
    "agents": [{"id": "a", "role": "a", "prompt": "Answer."}],
    "topology": {"nodes": [{"id": "a", "agent": "a"}], "edges": [], "entry": "a", "sink": "a"},
}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    found: Any = ModuleType("bare_method")
    monkeypatch.setitem(sys.modules, "bare_method", found)
    return found


@pytest.mark.parametrize("value", ["bare_method:Bare", "bare_method"])
def test_an_entry_point_names_a_class_or_its_module(
    install: Any, module: Any, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    module.Bare = Bare
    monkeypatch.setattr(Bare, "__module__", "bare_method")
    install(("bare", value), ("bald", value))
    assert method.find_method("bare") is Bare
    with pytest.raises(ConfigError, match="calls itself 'bare'; give entry point and class the same name"):
        method.find_method("bald")


def test_an_instance_makes_its_class_known_until_another_of_its_name_is_given(install: Any) -> None:
    class Balder(Bare):
        config_type = Wide

    install()
    assert "bare" not in plugins.method_names()
    for given in (Bare(), Balder(width=3)):
        found = find_team(given, None)
        assert (found.method, method.find_method("bare")) == ("bare", type(given))
        assert "bare" in [known.name for known in method.installed_methods()]
    assert found.config == {"width": 3}
    assert find_team(given.seed().replace(method="hiva"), None, method=Bare()).team == given.seed()


def test_an_instance_cannot_replace_a_method_of_selfwire(install: Any) -> None:
    class Hiva(Bare):
        name = "hiva"

    class Nameless(Bare):
        name = ""

    install()
    with pytest.raises(ConfigError, match="selfwire has a method 'hiva'; give class Hiva another name"):
        method.add_method(Hiva())
    with pytest.raises(ConfigError, match=r"Nameless\.name is a text of up to 64 letters"):
        method.add_method(Nameless())
    method.add_method(Aflow())
    assert plugins.GIVEN == {}


def seed_text(self: object, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> str:
    return "a team"


async def seed_later(self: object, tools: Sequence[str] = (), *, toolbox: Collection[str] = ()) -> None:
    pass


def seed_alone(self: object) -> None:
    pass


def propose_now(self: object, team: Team, runs: object, ctx: object) -> EvolveResult:
    return EvolveResult.of(team)


async def propose_nothing(self: object, team: Team, runs: object, ctx: object) -> None:
    pass


async def answer_text(self: object, team: Team, question: Question, ctx: object) -> str:
    return "4"


def prepare_nothing(self: object) -> None:
    pass


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"seed": Method.seed}, "^class Bare of method 'bare' has no seed; write `def seed.*`, which returns a Team$"),
        ({"seed": seed_text}, "^class Bare of method 'bare': seed must return an object of Team, not 'a team'$"),
        ({"seed": seed_later}, r"seed is written as `def seed\(self, tools=\(\), \*, toolbox=\(\)\)`$"),
        ({"seed": seed_alone}, r"seed is called as in `def seed\(self, tools.*`: too many positional arguments$"),
        ({"propose": Method.propose}, "has no propose; write `async def propose.*`, which returns an EvolveResult"),
        ({"propose": propose_now}, r"propose is written as `async def propose\(self, team, runs, ctx\)`"),
        ({"propose": propose_nothing}, "propose must return an object of EvolveResult, not None"),
        ({"answer": answer_text}, "answer must return an object of Trajectory, not '4'"),
        ({"__init__": prepare_nothing}, r"its __init__ must call super\(\).__init__\(\), which makes its config$"),
    ],
)
def test_a_mistake_in_a_class_is_named_with_what_is_wanted(
    install: Any, tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    install()
    small: Any = {"iterations": 1, "batch": 2, "limit": 4, "gate": "off", "home": tmp_path}
    with pytest.raises(ConfigError, match=complaint):
        selfwire.evolve(type("Bare", (Bare,), changes)(), TASKS, "contains", **small)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    return call


def with_asked(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(self: Method[Any], team: Team, asked: Any, ctx: Any) -> Any:
        return function(self, team, asked, ctx, "note")

    return call


class Delegating(Bare):
    """A method whose functions hand on what is to be awaited."""

    def answer(self, team: Team, question: Question, ctx: Any) -> Awaitable[Trajectory]:  # type: ignore[override]
        return super().answer(team, question, ctx)

    @logged
    async def propose(self, team: Team, runs: object, ctx: object) -> EvolveResult:
        return EvolveResult.of(team)

    @with_asked
    async def explore(self, team: Team, question: Question, ctx: Any, note: str) -> Sequence[Trajectory]:
        return [await self.answer(team, question, ctx)]

    @logged
    async def fit(self, team: Team, runs: object, ctx: object) -> Team:
        return team


def test_functions_that_hand_on_what_is_to_be_awaited_are_called(install: Any, tmp_path: Path) -> None:
    install()
    assert selfwire.run(Delegating(), "What is 2 plus 2?", home=tmp_path).answer
    small: Any = {"iterations": 1, "batch": 2, "gate": "mean", "home": tmp_path}
    assert selfwire.evolve(Delegating(), TASKS, "contains", **small).versions
    assert selfwire.evaluate(Delegating(), TASKS, "contains", limit=1, home=tmp_path).rows


def answer_now(self: object, team: Team, question: Question, ctx: object) -> Trajectory:
    return Trajectory(question=question, workflow=team.fingerprint, answer="4")


def test_an_answer_that_cannot_be_awaited_is_refused_with_how_it_is_written(install: Any, tmp_path: Path) -> None:
    install()
    plain = type("Bare", (Bare,), {"answer": answer_now})
    written = r"Bare of method 'bare': answer is written as `async def answer\(self, team, question, ctx\)`"
    with pytest.raises(ConfigError, match=written):
        selfwire.run(plain(), "What is 2 plus 2?")
    with pytest.raises(ConfigError, match=written):
        selfwire.evaluate(plain(), TASKS, "contains", limit=1, home=tmp_path)
    small: Any = {"iterations": 1, "batch": 2, "limit": 4, "gate": "off", "home": tmp_path}
    with pytest.raises(ConfigError, match=written):
        selfwire.evolve(plain(), TASKS, "contains", **small)


async def answer_nothing(self: Any, team: Team, question: Question, ctx: object) -> None:
    return None


async def explore_texts(self: Any, team: Team, question: Question, ctx: object) -> list[str]:
    return ["4"]


@pytest.mark.parametrize(
    ("explore", "complaint"),
    [
        (answer_now, r"explore is written as `async def explore\(self, team, question, ctx\)`"),
        (answer_text, "explore must return a list of Trajectory, not '4'"),
        (answer_nothing, "explore must return a list of Trajectory, not None"),
        (explore_texts, r"explore must return a list of Trajectory, not '4' in it"),
    ],
)
def test_an_explore_that_cannot_be_used_is_called_by_its_name(
    install: Any, tmp_path: Path, explore: Any, complaint: str
) -> None:
    install()
    explorer = type("Bare", (Bare,), {"explore": explore})()
    small: Any = {"iterations": 1, "batch": 2, "limit": 4, "gate": "off", "home": tmp_path}
    with pytest.raises(ConfigError, match=f"class Bare of method 'bare': {complaint}"):
        selfwire.evolve(explorer, TASKS, "contains", **small)


def test_an_answer_of_another_kind_is_no_answer_of_a_single_question(install: Any) -> None:
    install()
    with pytest.raises(ConfigError, match="Bare of method 'bare': answer must return an object of Trajectory, not '4'"):
        selfwire.run(type("Bare", (Bare,), {"answer": answer_text})(), "What is 2 plus 2?")


class Careful(Hiva):
    """HiVA with an answer of its own, and with HiVA's seed."""

    name = "careful"

    async def answer(self, team: Team, question: Question, ctx: Any) -> Trajectory:
        return Trajectory(question=question, workflow=team.fingerprint, answer="as class Careful has it")


def grade_careful(task: Task, answer: str) -> bool:
    return answer == "as class Careful has it"


MANY = [{"input": f"What is {n} plus {n}?", "reference": str(2 * n)} for n in range(1, 91)]


@pytest.mark.parametrize("verb", ["run", "evaluate", "compare", "evolve", "prune"])
def test_a_class_that_inherits_a_seed_gives_the_answers_itself(install: Any, tmp_path: Path, verb: str) -> None:
    install()
    if verb == "run":
        assert selfwire.run(Careful(), "What is 2 plus 2?", home=tmp_path).answer == "as class Careful has it"
    elif verb == "evaluate":
        measured = selfwire.evaluate(Careful(), TASKS, grade_careful, limit=2, home=tmp_path)
        assert [*measured.scores.values()] == [1, 1]
    elif verb == "compare":
        both: Any = {"mine": Careful(), "theirs": "hiva"}
        compared = selfwire.compare(both, TASKS, grade_careful, limit=2, home=tmp_path)
        assert {name: score and score.value for name, score in compared.scores.items()} == {
            "trivial": 0,
            "mine": 1,
            "theirs": 0,
        }
    else:
        change: Any = selfwire.evolve if verb == "evolve" else selfwire.prune
        options = {"gate": "mean", "limit": 4} if verb == "evolve" else {"margin": 0.5, "limit": 30}
        done = change(Careful(), MANY, grade_careful, iterations=1, batch=2, home=tmp_path, name="mine", **options)
        assert (done.seed.method, done.team.method, done.score and done.score.value) == ("careful", "careful", 1)


def test_a_graph_of_a_class_that_inherits_a_seed_runs_its_teams(install: Any, tmp_path: Path) -> None:
    install()
    kinds: list[type[Method[Any]]] = [Careful, type("Coder", (Dytopo,), {"name": "coder"})]
    for given in kinds:
        named: Any = {"initial": "math"} if given.seeds else {}
        done = build_graph(given, **named).compile().invoke({"question": "What is 2 plus 2?"})
        assert Team.model_validate(done["workflow"]).method == given.name


def test_a_saved_team_of_a_method_that_is_not_here_names_the_way_out(install: Any, tmp_path: Path) -> None:
    install()
    selfwire.save(Bare().seed(), "mine", home=tmp_path)
    with pytest.raises(ConfigError, match=r"unknown method 'bare'; .* as an instance of its class \(method=MINE\(\)\)"):
        selfwire.run("mine", "What is 2 plus 2?", home=tmp_path)
    assert selfwire.run("mine", "What is 2 plus 2?", home=tmp_path, method=Bare()).answer


def test_what_a_method_has_left_is_shown_by_a_process_that_does_not_have_it(install: Any, tmp_path: Path) -> None:
    install()
    small: Any = {"iterations": 1, "batch": 2, "limit": 4, "gate": "off", "home": tmp_path}
    selfwire.evolve(Careful(), TASKS, grade_careful, name="mine", run_name="first", **small)
    install()
    assert selfwire.load("mine", home=tmp_path).method == "careful"
    page = write_report(tmp_path, "first", tmp_path / "page.html")
    assert "careful" in page.read_text()


async def test_a_served_team_without_an_answer_says_how_to_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> Trajectory:
        return Trajectory(question=Question(id="q", input="What am I?"), workflow="w", error="the provider is down")

    monkeypatch.setattr(method, "run_team", fail)
    graph = build_graph(Bare).compile()
    with pytest.raises(TaskError, match="the provider is down; invoke the thread again with None to retry"):
        await graph.ainvoke({"question": "What am I?"})


def test_own_methods_cannot_be_replaced(install: Any) -> None:
    install(("hiva", "json:dumps"), ("gepa", "json:dumps"))
    assert plugins.method_names() == (*plugins.own_methods(), *plugins.CONTESTANTS)
    assert method.find_method("hiva").name == "hiva"
    assert method.find_method("gepa").name == "gepa"


def test_an_unknown_method_is_told_the_others(install: Any) -> None:
    install(("other", "json:dumps"))
    told = r"unknown method 'hivva'; did you mean hiva\? methods are dytopo, .*, aflow, gepa, other"
    with pytest.raises(ConfigError, match=told):
        method.find_method("hivva")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"variants": {}}, "method bare: variants need 'full'"),
        ({"build_options": frozenset({"bread"})}, "build_options are of corpus, embedder, grader, judge"),
        ({"config_type": dict}, "method bare: config_type is a subclass of FrozenModel, choices one of RunContext"),
        ({"config_type": Unset}, "method bare: its config needs defaults for width"),
        ({"rounds": "laps"}, "method bare: rounds names no field of its config: laps"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_refused(
    install: Any, module: Any, changes: dict[str, Any], complaint: str
) -> None:
    module.Bare = type("Bare", (Bare,), {**changes, "__module__": "bare_method"})
    install(("bare", "bare_method:Bare"))
    with pytest.raises(ConfigError, match=complaint):
        method.find_method("bare")


def test_a_declaration_that_cannot_be_used_is_refused_where_the_method_is_made() -> None:
    with pytest.raises(ConfigError, match="method bare: config_type is a subclass of FrozenModel"):
        type("Bare", (Bare,), {"config_type": dict})()


@pytest.mark.parametrize("name", [*plugins.own_methods(), *plugins.CONTESTANTS])
def test_the_declaration_of_every_method_of_selfwire_can_be_used(name: str) -> None:
    found = method.find_method(name)
    assert method.check_declaration(found) is found
